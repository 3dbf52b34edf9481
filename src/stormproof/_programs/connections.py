"""Opening and closing connections of any kind."""

from __future__ import annotations

from .._context.deadlines import Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True

#: Closing a broken connection may hang; the next one waits no longer than this for it.
CLOSING_S = 10.0


class OpenConnection:
    """A connection and how to close it. An error on closing a broken one is ignored."""

    def __init__(self, connection: object, close: Callable[[], Any] | None) -> None:
        self.connection = connection
        self._close = close

    def close(self) -> None:
        try:
            if self._close is not None:
                self._close()
        except Exception:
            pass

    async def aclose(self) -> None:
        try:
            with Scope(CLOSING_S, "closing a connection"):
                if self._close is not None and hasattr(pending := self._close(), "__await__"):
                    await pending
        except Exception:
            pass


def _closer(connection: object, close: Callable[[Any], Any] | None) -> Callable[[], Any] | None:
    if close is not None:
        return lambda: close(connection)
    if isinstance(connection, tuple):
        return _closer_of_parts(connection)
    for name in ("aclose", "close"):
        if callable(method := getattr(connection, name, None)):
            closing: Callable[[], Any] = method
            return closing
    return None


def _closer_of_parts(parts: tuple[Any, ...]) -> Callable[[], Any] | None:
    """Close each part that can be: `asyncio.open_connection` gives a reader and a writer."""
    closers = [closer for part in parts if (closer := _closer(part, None)) is not None]
    if not closers:
        return None

    def close() -> Any:
        pending = [closing for closer in closers if hasattr(closing := closer(), "__await__")]
        return _all_of(pending) if pending else None

    return close


async def _all_of(pending: list[Any]) -> None:
    for closing in pending:
        await closing


def opened(connect: Callable[[], Any], close: Callable[[Any], Any] | None) -> OpenConnection:
    """Connect: ``connect()`` gives a connection, or a context manager that does."""
    result = connect()
    if hasattr(result, "__await__"):
        if hasattr(result, "close"):
            result.close()
        raise TypeError(f"reconnecting: {connect!r} is async; use `async for`")
    if not hasattr(result, "__enter__"):
        return OpenConnection(result, _closer(result, close))
    connection = result.__enter__()
    # Many connections are their own context managers, whose exit may mean something else (a commit).
    closer = _closer(connection, close) if connection is result or close is not None else None
    return OpenConnection(connection, closer or (lambda: result.__exit__(None, None, None)))


async def opened_async(connect: Callable[[], Any], close: Callable[[Any], Any] | None) -> OpenConnection:
    """Connect: ``connect()`` gives an async context manager, an awaitable, or the connection itself."""
    result = connect()
    if hasattr(result, "__await__") and not hasattr(result, "__aenter__"):
        result = await result
        if (closer := _closer(result, close)) is not None:
            return OpenConnection(result, closer)
    if not hasattr(result, "__aenter__"):
        return OpenConnection(result, _closer(result, close))
    connection = await result.__aenter__()
    closer = _closer(connection, close) if connection is result or close is not None else None
    return OpenConnection(connection, closer or (lambda: result.__aexit__(None, None, None)))
