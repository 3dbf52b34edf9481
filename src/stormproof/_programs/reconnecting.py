"""Live connections, one after the other. When to connect again is in `reconnect_loop`."""

from __future__ import annotations

import weakref
from contextlib import AbstractAsyncContextManager, contextmanager

from .._classify.classifier import transient
from .._context.attempts import Attempt
from .._drivers import aio as _aio
from .._drivers import sync as _sync
from .._policy.policy import Policy
from .._primitives.generic import Generic
from .._primitives.options import Seconds, hook, seconds
from .._strategies.keyed import Keyed
from .._strategies.protocol import Env
from .._strategies.retry import aio_loop, sync_loop
from .._strategies.retry.backoff import Exponential
from .._strategies.retry.retry import Retry
from . import connections as _connections
from .reconnect_loop import ReconnectLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
    from typing import Any, Self, TypeVar, overload

    from .connections import OpenConnection

    C = TypeVar("C")
else:
    C = None


class Reconnecting(Generic[C]):
    """The iterable of `reconnecting`. One loop at a time; each starts anew."""

    def __init__(
        self,
        connect: Callable[[], Any],
        policy: Policy | Retry | None,
        stable: Seconds,
        close: Callable[[C], Any] | None,
    ) -> None:
        if not callable(connect):
            raise TypeError(
                f"reconnecting: connect must be a function that connects (it is called for every "
                f"connection), got {connect!r}"
            )
        hook("reconnecting", "close", close)
        self._retry, inner, base = _parts(policy)
        self.stable = seconds("reconnecting", "stable", stable, infinite=True)
        self._env = Env(base, connect)
        self._reconnects: ReconnectLoop | None = None
        self._loop: Callable[[], Any] = _nothing
        self._entered = False

        def sync() -> OpenConnection:
            return _connections.opened(connect, close)

        async def aio() -> OpenConnection:
            return await _connections.opened_async(connect, close)

        self._open: dict[bool, Callable[[], OpenConnection]] = {True: sync, False: sync}
        self._aopen: dict[bool, Callable[[], Awaitable[OpenConnection]]] = {True: aio, False: aio}
        for strategy in reversed(inner):
            self._open[False] = strategy.sync(self._open[False], self._env, sync)
            self._aopen[False] = strategy.aio(self._aopen[False], self._env, aio)

    # Looping.

    def __aiter__(self) -> AsyncGenerator[C, None]:
        connections = self._live_async()
        self._hold(connections)
        return connections

    async def _live_async(self) -> AsyncGenerator[C, None]:
        reconnects = self._reconnects = ReconnectLoop(self._retry, self._env, self.stable)
        while True:
            step = reconnects.step()
            if not isinstance(step, Attempt):
                if (due := reconnects.retried(step)) is not None:
                    await _aio.call_hook(*due)
                await _aio.sleep(step, self._env.clock)
                continue
            opened, error = await aio_loop.make_attempt(
                step, self._aopen[reconnects.off], (), {}, self._retry.before_attempt
            )
            if error is not None:
                reconnects.failed(error)
                continue
            reconnects.connected()
            try:
                yield opened.connection
            finally:
                await opened.aclose()
            del opened
            reconnects.ended()

    def __iter__(self) -> Generator[C, None, None]:
        connections = self._live()
        self._hold(connections)
        return connections

    def _live(self) -> Generator[C, None, None]:
        reconnects = self._reconnects = ReconnectLoop(self._retry, self._env, self.stable)
        while True:
            step = reconnects.step()
            if not isinstance(step, Attempt):
                if (due := reconnects.retried(step)) is not None:
                    _sync.call_hook(*due)
                _sync.sleep(step, self._env.clock)
                continue
            opened, error = sync_loop.make_attempt(
                step, self._open[reconnects.off], (), {}, self._retry.before_attempt
            )
            if error is not None:
                reconnects.failed(error)
                continue
            reconnects.connected()
            try:
                yield opened.connection
            finally:
                opened.close()
            del opened
            reconnects.ended()

    # Reports about the connection.

    def lost(self, error: Exception) -> None:
        """Say what ended the current connection, before asking for the next one.

        It is then judged like an error of ``connect``: what no new connection cures is raised out of
        the loop, a server's hint is a floor of the wait, and events and the final error name it.
        """
        if not isinstance(error, Exception):
            raise TypeError(f"reconnecting: lost() takes an exception, got {error!r}")
        self._running().reported = error

    @contextmanager
    def guard(self) -> Iterator[None]:
        """``with connections.guard():`` ends quietly, and marks the connection lost, on an error that a new
        connection may cure (the policy's ``on`` decides); any other error passes through."""
        reconnects = self._running()
        try:
            yield
        except Exception as error:
            if not reconnects.is_tolerable(error):
                raise
            reconnects.reported = error

    def _running(self) -> ReconnectLoop:
        if self._reconnects is None:
            raise RuntimeError("reconnecting: no connection has been asked for yet")
        return self._reconnects

    # Leaving a loop early closes its connection: `with` does that at once and in order. Without it
    # the interpreter does, as soon as nothing refers to the loop; so there must be no reference here.

    def _hold(self, connections: object) -> None:
        self._loop = (lambda: connections) if self._entered else weakref.ref(connections)

    def _let_go(self) -> Any:
        connections, self._loop, self._entered = self._loop(), _nothing, False
        return connections

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        if (connections := self._let_go()) is not None:
            connections.close()

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        if (connections := self._let_go()) is not None:
            await connections.aclose()

    def __repr__(self) -> str:
        return f"<reconnecting {self._env.operation()}>"


def _nothing() -> None:
    """No loop is in progress."""


def _parts(policy: Policy | Retry | None) -> tuple[Retry, tuple[Any, ...], Policy]:
    """Return the retry, the strategies around each connect, and the policy with name, clock and draws."""
    if policy is None:
        policy = Retry(transient, attempts=None, backoff=Exponential(5.0, cap=60.0), within=None, budget=None)
    if isinstance(policy, Retry):
        pipeline: tuple[Any, ...] = (policy,)
        base = Policy()
    elif isinstance(policy, Policy):
        pipeline, base = policy.strategies, policy
    else:
        raise TypeError(f"reconnecting: policy must be a Policy, a Retry or None, got {policy!r}")
    if not pipeline or not isinstance(pipeline[0], Retry):
        raise TypeError(
            "reconnecting: the policy's first strategy must be a Retry; those inside it apply to each "
            f"connect, and a `with deadline(...)` around the loop bounds everything; got {policy!r}"
        )
    retry = pipeline[0]
    if isinstance(retry.budget, Keyed):
        raise TypeError("reconnecting: a loop has no arguments to find the key of a keyed budget by")
    if retry.on_result is not None:
        raise TypeError("reconnecting: on_result has no result to judge; raise from connect instead")
    return retry, pipeline[1:], base


if TYPE_CHECKING:

    @overload
    def reconnecting(
        connect: Callable[[], AbstractAsyncContextManager[C]],
        policy: Policy | Retry | None = None,
        *,
        stable: Seconds = 30.0,
        close: Callable[[C], Any] | None = None,
    ) -> Reconnecting[C]: ...
    @overload
    def reconnecting(
        connect: Callable[[], Awaitable[C]],
        policy: Policy | Retry | None = None,
        *,
        stable: Seconds = 30.0,
        close: Callable[[C], Any] | None = None,
    ) -> Reconnecting[C]: ...
    @overload
    def reconnecting(
        connect: Callable[[], Any],
        policy: Policy | Retry | None = None,
        *,
        stable: Seconds = 30.0,
        close: Callable[[Any], Any] | None = None,
    ) -> Reconnecting[Any]: ...


def reconnecting(
    connect: Callable[[], Any],
    policy: Policy | Retry | None = None,
    *,
    stable: Seconds = 30.0,
    close: Callable[[Any], Any] | None = None,
) -> Reconnecting[Any]:
    """Live connections, one after the other: ``async for ws in reconnecting(lambda: connect(url)): ...``

    ``connect`` is called for every connection and gives an async context manager, an awaitable, or
    the connection itself (for ``for``: a connection or a context manager). Asking for the next one
    says that the last one is over; it is closed (``close(connection)``, the context manager's exit,
    ``aclose()`` or ``close()``) before the next is made.

    Waits: none before the first connect. After a connection was lost, u * (the longest wait of the
    policy's backoff), whatever its jitter: a server that restarts drops all clients at once. After a
    failed connect the backoff's own. A connection alive for ``stable`` seconds ends the streak, and
    the backoff starts anew; one that ends sooner counts as a failed attempt. 0 forgives every loss,
    inf none.

    ``policy`` is a `Retry`, or a `Policy` that begins with one: its ``attempts``, ``within`` and budget
    count within a streak; the strategies inside it apply to each connect. ``None`` tries for ever:
    ``Retry(transient, attempts=None, within=None, backoff=Exponential(5, cap=60), budget=None)``.
    """
    return Reconnecting(connect, policy, stable, close)
