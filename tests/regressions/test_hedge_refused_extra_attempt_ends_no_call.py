"""A hedge that a limit further in refused ended the call, and with it the first attempt, which would answer.

Stormproof: it reached nothing, so it decides nothing; a failure that reached the function surfaces.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom

import stormproof as sp

each_limit = pytest.mark.parametrize(
    "limit",
    [lambda: sp.Bulkhead(1), lambda: sp.RateLimit(sp.Limiter(0, 1))],
    ids=["bulkhead", "limiter"],
)


def hedged(*inside: Any, after: float = 0) -> sp.Policy:
    return sp.Policy(sp.Hedge(after=after, max=3, idempotent=True), *inside)


@each_limit
def test_sync_first_attempt_answers_after_a_refused_hedge(limit: Any) -> None:
    refused = threading.Event()

    def answer() -> str:
        assert refused.wait(10)
        return "first"

    unsubscribe = sp.subscribe(lambda event: refused.set() if type(event).__name__ == "Refused" else None)
    try:
        assert hedged(limit()).call(answer) == "first"
    finally:
        unsubscribe()


@each_limit
@each_loop
def test_async_first_attempt_answers_after_a_refused_hedge(loop: Any, limit: Any) -> None:
    async def answer() -> str:
        await loop.sleep(1)
        return "first"

    assert loop.run(hedged(limit()).acall, answer) == "first"


def test_failure_surfaces_when_a_breaker_refuses_the_hedge() -> None:
    def fail() -> None:
        raise Boom

    with pytest.raises(Boom):
        hedged(sp.Breaker(consecutive=1), after=60).call(fail)


def test_refused_first_attempt_raises_the_refusal() -> None:
    breaker = sp.Breaker()
    breaker.force_open()
    with pytest.raises(sp.CircuitOpen):
        hedged(breaker, after=60).call(lambda: "never")
