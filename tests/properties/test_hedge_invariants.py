"""Hedging, at the stated bars: at most ``max`` at once, exactly one result, losers cancelled and awaited,
every response closed once, and no second call of what was not declared idempotent.
"""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.http.server import Server, answer, chunked, late
from tests.support.loops import Loop, each_loop, watchdog
from tests.support.scripted import Bang, Boom, BudgetSpy

import stormproof as sp
import stormproof.httpx

__all__ = ["watchdog"]

Measured = Callable[[str], None]


class Response:
    """An answer that can be closed, and says how often it was."""

    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


class Call:
    """One hedged call in a random world: attempts take their time, answer, fail, or refuse to be hurried."""

    def __init__(self, loop: Loop, seed: int) -> None:
        self.loop = loop
        self.rng = random.Random(seed)
        self.max = self.rng.randint(2, 5)
        # Whole seconds: answers, failures and launches meet at the very same moments.
        self.after = self.rng.choice([0, 1, 2])
        self.inside = self.most = self.began = self.ended = self.cancelled = 0
        self.made: list[Response] = []
        self.errors: list[Exception] = []

    async def attempt(self) -> Response:
        seconds = self.rng.randint(0, 6)
        outcome = self.rng.choices(["answer", "fails", "fatal", "stubborn"], [6, 3, 1, 2])[0]
        self.began += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        done = False
        try:
            await self.loop.sleep(seconds)
            done = True
        except BaseException:
            if outcome != "stubborn":
                raise
            # It answers although it was cancelled: that response has to be closed.
            done = True
        finally:
            self.inside -= 1
            self.ended += done
            self.cancelled += not done
        if outcome in ("fails", "fatal"):
            self.errors.append(Boom(str(self.began)) if outcome == "fails" else Bang())
            raise self.errors[-1]
        self.made.append(Response())
        return self.made[-1]

    async def play(self, cut_after: float | None) -> Any:
        hedge = sp.Hedge(after=self.after, max=self.max, idempotent=True, on=Boom, budget=BudgetSpy())
        function = sp.Policy(hedge)(self.attempt)
        results: list[Any] = []

        async def call() -> None:
            try:
                results.append(await function())
            except (Boom, Bang) as error:
                results.append(error)

        if cut_after is None:
            await call()
        else:
            await self.loop.cut(cut_after, call)
        # At this moment, not some time later: the losers have been awaited.
        assert self.inside == 0
        assert self.began == self.ended + self.cancelled
        return results


@pytest.mark.proves("invariant 16")
@each_loop
def test_thousand_random_hedged_calls_have_one_result_each(loop: Loop, measured: Measured) -> None:
    most = launched = cancelled = closed = called_off = 0
    for seed in range(1000):
        call = Call(loop, seed)
        cut_after = call.rng.choice([None, None, None, 0, 1, 2.5])
        results = loop.run(call.play, cut_after)
        assert 1 <= call.began <= call.max, seed
        assert call.most <= call.max, seed
        if results:
            assert len(results) == 1, seed
            (result,) = results
            assert result in call.made or result in call.errors, seed
        else:
            assert cut_after is not None, seed
            result = None
            called_off += 1
        for response in call.made:
            assert response.closed == (response is not result), seed
        most = max(most, call.most)
        launched += call.began
        cancelled += call.cancelled
        closed += sum(response.closed for response in call.made)
    assert most == 5
    assert min(cancelled, closed, called_off) > 50
    measured(
        f"1,000 calls under {loop}, {launched:,} attempts, {most} at once at most (max 5), {cancelled} "
        f"losers cancelled and awaited, {closed} late answers closed once each, {called_off} called off"
    )


@pytest.mark.proves("invariant 16")
@pytest.mark.usefixtures("watchdog")
def test_threads_are_at_most_max_and_give_one_result(measured: Measured) -> None:
    """All attempts of a call meet inside, then answer at once: one wins, the others are closed once."""
    tried = attempts = 0
    for most in (2, 3, 5):
        for _ in range(20):
            lock, inside, peak = threading.Lock(), 0, 0
            meeting = threading.Barrier(most)
            made: list[Late] = []
            all_closed = threading.Semaphore(0)

            class Late:
                closed = 0

                def close(self, bell: threading.Semaphore = all_closed) -> None:
                    self.closed += 1
                    bell.release()

            def attempt(
                lock: threading.Lock = lock, meeting: threading.Barrier = meeting, made: list[Any] = made
            ) -> Any:
                nonlocal inside, peak
                with lock:
                    inside += 1
                    peak = max(peak, inside)
                meeting.wait(15)
                with lock:
                    inside -= 1
                    made.append(Late())
                    return made[-1]

            hedge = sp.Hedge(after=0, max=most, idempotent=True, budget=BudgetSpy())
            won = sp.Policy(hedge).call(attempt)
            for _ in range(most - 1):
                assert all_closed.acquire(timeout=15), "a late answer was not closed"
            assert peak == most
            assert len(made) == most
            assert sorted(late.closed for late in made) == [0] + [1] * (most - 1)
            assert won.closed == 0
            tried += 1
            attempts += most
    measured(f"{tried} calls in threads, {attempts} attempts, never above max, one result each")


# Responses of httpx, from a real server: closed once, winners and losers.


class Counted(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A response's body that counts how often it is closed."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        yield from self.inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.inner:
            yield chunk

    def close(self) -> None:
        self.closed += 1
        self.inner.close()

    async def aclose(self) -> None:
        self.closed += 1
        await self.inner.aclose()


class Watching(httpx.AsyncHTTPTransport):
    """The real transport; every response it gave is in ``given``, and ``most`` were out at once."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Counted] = []
        self.out = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.out += 1
        self.most = max(self.most, self.out)
        try:
            response = await super().handle_async_request(request)
        finally:
            self.out -= 1
        self.given.append(Counted(response.stream))
        response.stream = self.given[-1]
        return response


async def _ask(client: httpx.AsyncClient, url: str, streamed: bool) -> bytes:
    if not streamed:
        return (await client.get(url)).content
    async with client.stream("GET", url) as response:
        return b"".join([chunk async for chunk in response.aiter_bytes()])


@pytest.mark.proves("invariant 16")
@pytest.mark.parametrize("streamed", [False, True], ids=["read", "streamed"])
@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_httpx_closes_every_response_once(library: str, streamed: bool, measured: Measured) -> None:
    """Answers that come at the same moment, one after the other, whole, chunked, and refusals among them."""
    import asyncio

    import trio

    transport: Watching | None = None
    calls = 0
    worlds = {
        "same": [late(0.01, answer(200, b"x" * 10))],
        "chunked": [late(0.01, chunked(b"a" * 70_000, b"b")), late(0.0, chunked(b"a" * 70_000, b"b"))],
        "large": [answer(200, b"y" * 300_000)],
        "slow first": [late(60, answer(200, b"slow")), answer(200, b"fast")],
        "refused first": [answer(503, b"down"), late(0.005, answer(503, b"down")), answer(200, b"up")],
        "all refused": [answer(503, b"down")],
    }

    async def main(server: Server) -> None:
        nonlocal transport, calls
        transport = Watching()
        policy = sp.Policy(sp.Hedge(after=0.004, max=3, budget=sp.Budget(burst=1000)))
        async with httpx.AsyncClient(
            transport=stormproof.httpx.AsyncTransport(policy, transport), trust_env=False
        ) as client:
            for name, steps in worlds.items():
                for turn in range(5):
                    path = f"/{name.replace(' ', '-')}-{turn}"
                    server.on(path, *steps)
                    before = len(transport.given)
                    body = await _ask(client, server.url(path), streamed)
                    calls += 1
                    assert body in (b"x" * 10, b"y" * 300_000, b"a" * 70_000 + b"b", b"fast", b"up", b"down")
                    assert transport.out == 0, "a loser was not awaited"
                    assert 1 <= len(transport.given) - before <= 3
                    assert [stream.closed for stream in transport.given[before:]] == [1] * (
                        len(transport.given) - before
                    ), name
                    assert len(server.requests(path)) <= 3

    with Server() as server:
        if library == "asyncio":
            asyncio.run(main(server))
        else:
            trio.run(main, server)
        server.no_connection_is_open()
    assert transport is not None
    assert transport.most <= 3
    assert len(transport.given) > calls
    measured(
        f"httpx under {library}: {calls} calls, {len(transport.given)} responses, each closed once, "
        f"{transport.most} at once at most (max 3)"
    )


@pytest.mark.proves("invariant 16")
@each_loop
def test_call_not_declared_idempotent_is_not_hedged(loop: Loop, measured: Measured) -> None:
    """Refused when the function is wrapped or called: not even the first attempt is made."""
    calls: list[int] = []

    async def call() -> None:
        calls.append(1)
        await loop.sleep(100)

    async def main() -> int:
        refused = 0
        for hedge in (sp.Hedge(0), sp.Hedge(0.1, max=5), sp.Hedge("p95"), sp.Hedge(0, idempotent=False)):
            for policy in (sp.Policy(hedge), sp.Policy(sp.Retry(attempts=3), hedge)):
                for use in (lambda p: p(call), lambda p: p(lambda: None), lambda p: p.call(lambda: None)):
                    with pytest.raises(ValueError, match="Hedge: idempotent"):
                        use(policy)
                    refused += 1
                with pytest.raises(ValueError, match="Hedge: idempotent"):
                    await policy.acall(call)
                refused += 1
        return refused

    refused = loop.run(main)
    assert calls == []
    measured(f"{refused} uses without idempotent=True, all refused, 0 calls made")
