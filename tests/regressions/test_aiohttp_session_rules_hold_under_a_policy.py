"""aiohttp's own rules hold under a policy: its total time, and its resend on a stale connection.

``ClientTimeout(total=0.3)`` was retried past, though it covers all attempts; and aiohttp's replacement of a
stale connection was switched off even by policies that do not retry, so that a `Timeout` broke calls that
worked.
"""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest
from tests.support.http.server import Server, answer, closing, hang

import stormproof as sp
import stormproof.aiohttp

PATIENT = sp.Retry(attempts=10, backoff=sp.Constant(0.2), budget=None)


def test_total_time_covers_all_attempts_and_waits() -> None:
    async def main(server: Server, policy: sp.Policy) -> None:
        layers = [stormproof.aiohttp.middleware(policy)]
        timeout = aiohttp.ClientTimeout(total=0.5)
        async with aiohttp.ClientSession(middlewares=layers, timeout=timeout) as session:
            with pytest.raises(TimeoutError):
                await session.get(server.url("/"))

    with Server() as server:
        server.on("/", hang())
        asyncio.run(main(server, sp.Policy(PATIENT)))
        assert len(server.seen) == 1, "the attempt that used up the time is the last one"
        server.on("/", answer(503))
        began = time.monotonic()
        asyncio.run(main(server, sp.Policy(PATIENT.replace(backoff=sp.Constant(30)))))
        assert time.monotonic() - began < 25, "nor is the time slept past"


@pytest.mark.parametrize("policy", [sp.Policy(sp.Timeout(5)), sp.Policy(sp.Retry(attempts=1)), sp.Policy()])
def test_stale_connection_is_replaced_under_a_policy_that_does_not_retry(policy: sp.Policy) -> None:
    async def main(server: Server) -> list[int]:
        layers = [stormproof.aiohttp.middleware(policy)]
        async with aiohttp.ClientSession(middlewares=layers) as session:
            statuses = []
            for _ in range(2):
                async with session.get(server.url("/")) as response:
                    statuses.append(response.status)
                    await response.read()
            return statuses

    with Server() as server:
        # It closes without a word: the session takes the connection for one that can be used again.
        server.on("/", closing(answer(200, b"ok")))
        assert asyncio.run(main(server)) == [200, 200]


def test_policy_that_retries_is_not_doubled_by_the_resend() -> None:
    from tests.support.http.server import reset

    async def main(server: Server) -> None:
        layers = [stormproof.aiohttp.middleware(sp.Policy(PATIENT.replace(attempts=2)))]
        async with aiohttp.ClientSession(middlewares=layers) as session:
            await (await session.get(server.url("/warm"))).read()
            with pytest.raises(aiohttp.ClientError):
                await session.get(server.url("/"))

    with Server() as server:
        server.on("/warm", answer(200, b"ok"))
        server.on("/", reset())
        asyncio.run(main(server))
        assert len(server.requests("/")) == 2
