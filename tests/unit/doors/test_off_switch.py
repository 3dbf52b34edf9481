"""`testing.off()` and STORMPROOF_OFF: every policy of the process is a plain call."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def fail(self) -> None:
        self.calls += 1
        raise Boom

    async def afail(self) -> None:
        self.fail()

    def items(self) -> Iterator[Any]:
        self.fail()
        yield


def policies() -> list[Any]:
    retry = sp.Retry(Boom, backoff=sp.Constant(0))
    return [
        sp.Policy(retry),
        sp.Policy(sp.Deadline(5), retry),
        sp.Policy(sp.Timeout(5)),
        sp.Policy(sp.Fallback(None, on=Boom), retry),
        sp.Policy(sp.Retry(Boom, before_attempt=lambda attempt: None)),
    ]


@pytest.mark.parametrize("policy", policies(), ids=["retry", "deadline", "timeout", "fallback", "hooks"])
def test_policy_is_a_plain_call_while_off(policy: sp.Policy) -> None:
    counter = Counter()
    with sp.testing.off():
        for call in (
            lambda: policy.call(counter.fail),
            policy(counter.fail),
            lambda: asyncio.run(policy.acall(counter.afail)),
            lambda: list(policy(counter.items)()),
        ):
            with pytest.raises(Boom):
                call()
    assert counter.calls == 4


def test_off_holds_in_every_thread_until_the_block_ends() -> None:
    counter = Counter()
    fail = sp.retry(on=Boom, backoff=sp.Constant(0), attempts=3)(counter.fail)

    def work() -> None:
        with pytest.raises(Boom):
            fail()

    with sp.testing.off():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert counter.calls == 1
    work()
    assert counter.calls == 4


def test_open_breaker_and_block_are_plain_while_off() -> None:
    breaker, counter = sp.Breaker(), Counter()
    breaker.force_open()
    with sp.testing.off():
        assert sp.Policy(breaker).call(lambda: 1) == 1
        with pytest.raises(Boom):
            for attempt in sp.retrying(on=Boom):
                with attempt:
                    counter.fail()
    assert counter.calls == 1


def test_switches_do_not_undo_each_other() -> None:
    first, second = sp.testing.off(), sp.testing.off()
    counter = Counter()
    policy = sp.retry(on=Boom, backoff=sp.Constant(0), attempts=2)
    try:
        first.restore()
        first.restore()
        with pytest.raises(Boom):
            policy.call(counter.fail)
        assert counter.calls == 1
    finally:
        second.restore()
    with pytest.raises(Boom):
        policy.call(counter.fail)
    assert counter.calls == 3


_SCRIPT = """
import stormproof as sp
calls = []
def fail():
    calls.append(1)
    raise ConnectionError
try:
    sp.retry(on=ConnectionError, backoff=sp.Constant(0), attempts=3).call(fail)
except ConnectionError:
    print(len(calls))
"""


@pytest.mark.parametrize(("value", "calls"), [("1", "1"), ("true", "1"), ("0", "3"), ("", "3"), (None, "3")])
def test_environment_switches_a_whole_run_off(value: str | None, calls: str) -> None:
    env = {key: text for key, text in os.environ.items() if key != "STORMPROOF_OFF"}
    if value is not None:
        env["STORMPROOF_OFF"] = value
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == calls
