"""A deadline does not lift the limits on sync endpoints: a thread and a place are free when the work ends.

The end of the time went through anyio's shield around the worker thread: the endpoint's place in the thread
pool and in the shedding middleware was free again while its thread ran on, and overload started ever more of
them.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import stormproof as sp
from stormproof.asgi import DeadlineMiddleware, SheddingMiddleware


class Endpoint:
    """A sync endpoint that blocks until it is let go, and counts how many of it run at once."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.lock = threading.Lock()
        self.running = self.most = self.begun = 0

    def work(self, request: Request) -> PlainTextResponse:
        with self.lock:
            self.running += 1
            self.begun += 1
            self.most = max(self.most, self.running)
        self.gate.wait(10)
        with self.lock:
            self.running -= 1
        return PlainTextResponse("done")


async def storm(app: Any, endpoint: Endpoint, requests: int, waves: int) -> list[Any]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:

        async def one() -> Any:
            return (await client.get("/", headers={"X-Request-Timeout-Ms": "20"})).status_code

        tasks = []
        for _ in range(waves):
            tasks += [asyncio.ensure_future(one()) for _ in range(requests)]
            await asyncio.sleep(0.1)
        endpoint.gate.set()
        return await asyncio.gather(*tasks)


def test_thread_limit_holds_when_deadlines_end() -> None:
    endpoint = Endpoint()
    app = Starlette(routes=[Route("/", endpoint.work)], middleware=[Middleware(DeadlineMiddleware)])

    async def main() -> float:
        from anyio.to_thread import current_default_thread_limiter

        limiter = current_default_thread_limiter()
        limiter.total_tokens = 4
        await storm(app, endpoint, 10, 3)
        return limiter.borrowed_tokens

    assert asyncio.run(main()) == 0
    assert endpoint.most <= 4


def test_shedding_limit_holds_when_deadlines_end() -> None:
    endpoint = Endpoint()
    shedding = Middleware(SheddingMiddleware, limit=3)
    app = Starlette(routes=[Route("/", endpoint.work)], middleware=[Middleware(DeadlineMiddleware), shedding])
    statuses = asyncio.run(storm(app, endpoint, 10, 3))
    assert endpoint.most <= 3
    assert statuses.count(503) == 27


def test_async_endpoint_is_still_cut_off_in_time() -> None:
    async def forever(request: Request) -> PlainTextResponse:
        await asyncio.sleep(3600)
        raise AssertionError

    app = Starlette(routes=[Route("/", forever)], middleware=[Middleware(DeadlineMiddleware)])
    endpoint = Endpoint()
    assert asyncio.run(storm(app, endpoint, 3, 1)) == [504] * 3


@pytest.mark.parametrize("policy", [sp.Policy(sp.Timeout(0.02)), sp.Policy(sp.Deadline(0.02))], ids=repr)
def test_policy_around_a_worker_thread_keeps_its_place(policy: sp.Policy) -> None:
    """The same for a policy inside a handler, or anywhere else."""
    import anyio.to_thread

    gate = threading.Event()

    async def main() -> tuple[int, int]:
        limiter = anyio.CapacityLimiter(1)

        async def work() -> None:
            await anyio.to_thread.run_sync(gate.wait, 10, limiter=limiter)

        call = asyncio.ensure_future(policy.acall(work))
        await asyncio.sleep(0.1)
        during = int(limiter.borrowed_tokens)
        gate.set()
        await asyncio.wait([call])
        if not call.cancelled():
            call.exception()
        return during, int(limiter.borrowed_tokens)

    assert asyncio.run(main()) == (1, 0)
