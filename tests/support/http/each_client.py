"""Runner of a contract test, once for every client.

``@each_client`` turns ``async def test(http)`` into one test per client. On asyncio or trio for the
async ones; for the others nothing in the test may suspend, and it runs without any event loop.
After each, every connection must be closed.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from tests.support.http.clients import CLIENTS, Client
from tests.support.http.server import Server

import stormproof as sp


@dataclass
class Http:
    """The argument of a contract test: the server, a maker of clients, and a way to cancel."""

    kind: type[Client]
    server: Server
    clients: list[Client] = field(default_factory=list)

    def client(self, policy: sp.Policy | None = None, *, connections: int = 10, **options: Any) -> Client:
        made = self.kind(self.server, policy, connections, options)
        self.clients.append(made)
        return made

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    async def cancelled(self, call: Callable[[], Awaitable[Any]], when: Callable[[], bool]) -> bool:
        """Cancel ``call`` as soon as ``when()``; whether the cancellation came out. Async clients only."""
        if self.kind.loop == "trio":
            return await self._cancelled_in_trio(call, when)
        task = asyncio.ensure_future(call())
        while not when():
            assert not task.done(), f"ended too early: {task!r}"
            await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def _cancelled_in_trio(self, call: Callable[[], Awaitable[Any]], when: Callable[[], bool]) -> bool:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await call()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not when():  # noqa: ASYNC110 - what it waits for happens in the server's thread
                await trio.sleep(0.002)
            scope.cancel()
        return scope.cancelled_caught


def run(kind: type[Client], test: Callable[..., Awaitable[None]], **given: Any) -> None:
    """Run one contract test for one client."""
    with Server() as server:
        http = Http(kind, server)

        async def main() -> None:
            try:
                await test(http, **given)
            finally:
                await http.close()

        if kind.loop == "asyncio":
            asyncio.run(main())
        elif kind.loop == "trio":
            trio.run(main)
        else:
            _run_to_the_end(main())
        # A hedge that lost may still hold its pool, in a thread that is not joined.
        for seconds in (0.02, 0.1, 0.3, 1.0) if kind.closed_by_collector else ():
            if server.is_quiet(seconds):
                break
            gc.collect()
        server.no_connection_is_open()


def _run_to_the_end(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise AssertionError("the test suspended, although its client is not an async one")


def _for(names: Iterable[str]) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(test)
        def each(client: str, **given: Any) -> None:
            run(CLIENTS[client], test, **given)

        shape = inspect.signature(test)
        own = [inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY)]
        rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in list(shape.parameters.values())[1:]]
        each.__signature__ = shape.replace(parameters=own + rest)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("client", list(names))(each)

    return decorate


each_client = _for(CLIENTS)
each_async_client = _for([name for name, kind in CLIENTS.items() if kind.is_async])
each_sync_client = _for([name for name, kind in CLIENTS.items() if not kind.is_async])
each_client_that_takes_files = _for([name for name, kind in CLIENTS.items() if kind.takes_files])


def retry(attempts: int | None = 4, **options: Any) -> sp.Policy:
    """A policy for scripts: no wait, no budget, so that the script alone says what happens."""
    given: dict[str, Any] = {"backoff": sp.Constant(0), "budget": None, **options}
    return sp.Policy(sp.Retry(attempts=attempts, **given))
