"""All attempts shared one generator, so a loser still running in its thread spoilt the winner's items.

Stormproof: every attempt has a generator of its own; the caller reads the one that answered.
"""

from __future__ import annotations

import threading

import pytest

import stormproof as sp

POLICIES = {
    "hedge": sp.Policy(sp.Hedge(after=0.02, idempotent=True)),
    "timeout": sp.Policy(
        sp.Retry(attempts=2, backoff=sp.Constant(0)),
        sp.Timeout(0.05, thread=True),
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_first_attempt_is_still_running(name):
    calls, release = [], threading.Event()

    @POLICIES[name]
    def items():
        calls.append(None)
        number = len(calls)
        if number == 1:
            release.wait(10)
        yield number, "first"
        yield number, "second"

    try:
        assert list(items()) == [(2, "first"), (2, "second")]
        assert not release.is_set()
    finally:
        release.set()
