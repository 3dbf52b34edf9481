"""The client: one policy, and what it makes of a service that is not always at its best."""

from __future__ import annotations

import asyncio

import httpx

import stormproof.httpx
from stormproof import (
    Budget,
    DeadlineExceeded,
    Exponential,
    Policy,
    Retry,
    deadline,
    disabled,
    events,
    subscribe,
    transient,
)

from .app import Shop

POLICY = Policy(
    Retry(
        on=transient,
        attempts=8,
        backoff=Exponential(base=0.05, cap=0.5),
        budget=Budget(ratio=0.1, burst=200),
    ),
    name="shop",
)


class LosesTheFirstAnswer(httpx.AsyncBaseTransport):
    """A network that delivers the first request, and not its answer."""

    def __init__(self) -> None:
        self.inner = httpx.AsyncHTTPTransport()
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        response = await self.inner.handle_async_request(request)
        if self.requests == 1:
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("connection reset", request=request)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


def make_client(address: str, network: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    transport = stormproof.httpx.AsyncTransport(POLICY, network, idempotency_key="auto")
    return httpx.AsyncClient(base_url=address, transport=transport)


async def replay(address: str, shop: Shop) -> None:
    print("An answer gets lost on the way")
    network = LosesTheFirstAnswer()
    async with make_client(address, network) as client:
        answer = await client.post("/charge", json={"amount": 100})
    replayed = answer.headers.get("idempotency-replayed", "false")
    print(f"  {network.requests} requests with one key -> {answer.status_code} {answer.json()}")
    print(f"  replayed: {replayed}; charged {shop.calls['charge']} time(s)")


async def shed(address: str, shop: Shop) -> None:
    print("More callers than places")
    turned_away = 0

    def count(event: events.Event) -> None:
        nonlocal turned_away
        turned_away += isinstance(event, events.Shed)

    unsubscribe = subscribe(count)
    async with make_client(address) as client:
        answers = await asyncio.gather(*(client.get("/search") for _ in range(24)))
    unsubscribe()
    served = sum(answer.status_code == 200 for answer in answers)
    print(f"  24 callers, {turned_away} times asked to come back later, {served} served in the end")


async def time_left(address: str, shop: Shop) -> None:
    print("The caller's deadline goes with the request")
    async with make_client(address) as client:
        with deadline(5):
            answer = await client.get("/report", params={"takes": 0})
        print(f"  5 s here, {answer.json()['milliseconds_left_at_start']} ms left at the handler's start")
        try:
            with deadline(1):
                answer = await client.get("/report", params={"takes": 30})
            print(f"  1 s here for 30 s of work: {answer.status_code}, given up in time by the server")
        except DeadlineExceeded:
            print("  1 s here for 30 s of work: given up in time")
        late = await client.get("/report", params={"takes": 0}, headers={"X-Request-Timeout-Ms": "0"})
        print(f"  already late: {late.status_code}, x-should-retry: {late.headers['x-should-retry']}")
    print(f"  reports begun {shop.calls['report begun']}, done {shop.calls['report done']}")


async def refusal(address: str, shop: Shop) -> None:
    print("A handler gives up, and its caller does not multiply that")
    async with make_client(address) as client:
        with disabled():
            await client.put("/refund")
        answer = await client.put("/refund")
    word = answer.headers["x-should-retry"]
    print(f"  {answer.status_code} {answer.json()['code']}, x-should-retry: {word}")
    print(f"  the bank was called {shop.calls['bank']} time(s), the service {shop.calls['refund']} times")


SCENES = (replay, shed, time_left, refusal)
