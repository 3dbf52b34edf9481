"""A transport's plain ``TimeoutError``, as our own time ran out: "TypeError: Cannot create a consistent MRO".

aiohttp's total timeout is one, and so may be what a user's own transport raises. Stormproof: the caller gets
a
timeout that is ours too, where a class can be both, and never an error about classes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import stormproof as sp
import stormproof.httpx
from stormproof._http.timeouts import timed_out
from stormproof.testing import FakeClock

POLICIES = [
    ([sp.Deadline(1)], sp.DeadlineExceeded),
    ([sp.Timeout(1)], sp.AttemptTimeout),
    ([sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None), sp.Timeout(1)], sp.AttemptTimeout),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("strategies", "ours"), POLICIES)
def test_plain_timeout_past_the_deadline_is_deadline_exceeded(
    strategies: list[Any], ours: type[Exception], is_async: bool
) -> None:
    clock = FakeClock()
    policy = sp.Policy(*strategies, clock=clock)
    theirs: list[TimeoutError] = []

    def slow(request: httpx.Request) -> httpx.Response:
        clock.advance(1.5)
        theirs.append(TimeoutError("took too long"))
        raise theirs[-1]

    async def ask() -> None:
        transport = stormproof.httpx.AsyncTransport(policy, httpx.MockTransport(slow))
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get("http://a.example/")

    with pytest.raises(ours) as caught:
        if is_async:
            asyncio.run(ask())
        else:
            with httpx.Client(
                transport=stormproof.httpx.Transport(policy, httpx.MockTransport(slow))
            ) as client:
                client.get("http://a.example/")
    assert caught.value.__cause__ is theirs[-1]
    assert len(theirs) == (2 if len(strategies) == 2 else 1)


def test_error_that_cannot_be_a_timeout_keeps_its_type() -> None:
    class Odd(ImportError):
        """Laid out in memory as no ``TimeoutError`` can be."""

    own, refusal = Odd("slow"), sp.DeadlineExceeded("over")
    assert timed_out(own, refusal) is own
    assert own.__cause__ is refusal
    first = Odd("slow")
    first.__cause__ = reason = KeyError()
    assert timed_out(first, refusal).__cause__ is reason


def test_error_that_can_be_a_timeout_is_both() -> None:
    made = timed_out(httpx.ReadTimeout("slow"), sp.DeadlineExceeded("over"))
    assert isinstance(made, httpx.ReadTimeout)
    assert isinstance(made, sp.DeadlineExceeded)
    assert str(made) == "slow"
