"""A wait that did not fit into one attempt's Timeout was refused as if the whole call's time were over.

Stormproof: that is an AttemptTimeout, which passes, so the outer Retry goes on; a deadline is named.
"""

from __future__ import annotations

import asyncio

import pytest
import trio
from tests.support.scripted import Boom, retry

import stormproof as sp


@pytest.fixture
def clock():
    return sp.testing.FakeClock()


@pytest.fixture
def outer(clock):
    return sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0)), sp.Timeout(1), clock=clock)


def test_inner_retry_may_wait_longer_than_an_attempts_timeout(clock, outer):
    calls = []

    @retry(attempts=5, backoff=sp.Constant(2), clock=clock)
    def inner():
        calls.append(None)
        raise Boom

    with pytest.raises(sp.AttemptTimeout) as caught:
        outer.call(inner)
    assert len(calls) == 3
    assert isinstance(caught.value.__cause__, Boom)


@pytest.mark.parametrize("run", [asyncio.run, trio.run], ids=["asyncio", "trio"])
def test_inner_async_retry_may_wait_longer_than_an_attempts_timeout(run, clock, outer):
    calls = []

    @retry(attempts=5, backoff=sp.Constant(2), clock=clock)
    async def inner():
        calls.append(None)
        raise Boom

    async def scenario():
        with pytest.raises(sp.AttemptTimeout):
            await outer.acall(inner)

    run(scenario() if run is asyncio.run else scenario)
    assert len(calls) == 3


def test_limiter_wait_longer_than_an_attempts_timeout_is_retried(clock, outer):
    limiter, calls = sp.Limiter(0.1, 1, clock=clock), []
    limiter.wait()

    def fetch():
        calls.append(None)
        limiter.wait()

    with pytest.raises(sp.AttemptTimeout):
        outer.call(fetch)
    assert len(calls) == 3


@pytest.mark.parametrize("run", [asyncio.run, trio.run], ids=["asyncio", "trio"])
def test_async_limiter_wait_longer_than_an_attempts_timeout_is_retried(run, clock, outer):
    limiter, calls = sp.Limiter(0.1, 1, clock=clock), []
    limiter.wait()

    async def fetch():
        calls.append(None)
        await limiter.wait_async()

    async def scenario():
        with pytest.raises(sp.AttemptTimeout):
            await outer.acall(fetch)

    run(scenario() if run is asyncio.run else scenario)
    assert len(calls) == 3


def test_limiter_names_the_deadline():
    limiter = sp.Limiter(1, 1)
    limiter.wait()
    with pytest.raises(sp.DeadlineExceeded) as caught, sp.deadline(0.1, "outer"):
        limiter.wait()
    assert type(caught.value) is sp.DeadlineExceeded
    assert caught.value.scope == "outer"
