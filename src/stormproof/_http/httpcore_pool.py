"""Repair of a connection pool of httpcore's after a request on it was cut off or its body left unread.

A request that its client's own timeout ends leaves the pool in order. One that is cancelled does not always:
httpcore may keep a connection that no request owns (a slot is lost), or forget an HTTP/2 stream without
closing it (a stream is lost at both ends, and the connection's window with what comes on it late). Both are
found by what the pool and its connections hold now, so that it does not matter where in httpcore the cut
fell.
"""

from __future__ import annotations

from contextlib import suppress
from sys import modules

from .._runtime.interrupts import library
from .._runtime.shielded_close import (
    await_cancel_at_suspension,
    await_cancel_at_suspension_in_trio,
    await_shielded,
    shield,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

#: RFC 9113: the stream is no longer needed.
_CANCEL = 0x8
#: A connection that does not take a few bytes within this time is not worth keeping.
_WRITE_S = 1.0


class _Goodbye:
    """Stands for a request where httpcore wants to know how long a write may take."""

    extensions = {"timeout": {"write": _WRITE_S}}  # noqa: RUF012 - never written to


def is_multiplexed(transport: Any) -> bool:
    """Return True if requests by ``transport`` may share a connection, as they do on HTTP/2."""
    return bool(getattr(getattr(transport, "_pool", None), "_http2", False))


def await_on_shared_connection(work: Awaitable[Any], undo: Callable[[Any], Awaitable[Any]]) -> Awaitable[Any]:
    """Await ``work`` on a connection that others use: one that is cut off leaves it to them in order."""
    running = library()
    if running is not None and running.__name__ == "trio":
        return await_cancel_at_suspension_in_trio(running, work, _stop_writes)
    return await_cancel_at_suspension(work, undo)


async def repair(transport: Any, error: BaseException | None = None) -> None:
    """Give back every slot and stream of ``transport``'s pool that no request owns any more.

    ``error`` is what cut the last request off.
    """
    try:
        unused = [] if error is None else _retire_interrupted(error)
        closing, talking = _losses(transport)
        if unused or closing or talking:
            with shield(library()):
                await await_shielded(_say_goodbye([*unused, *closing], talking))
    except Exception:
        # What is private to httpcore may change; a request must not fail over it.
        pass


def _frames(error: BaseException) -> Iterator[tuple[Any, dict[str, Any], bool]]:
    """Return the frames of ``error``: each ``self``, its local names, and whether it writes to HTTP/2."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        names = frame.f_locals
        writes = frame.f_code.co_name == "_write_outgoing_data" and "data_to_send" in names
        yield names.get("self"), names, writes
        trace = trace.tb_next


def _stop_writes(error: BaseException) -> None:
    """Let nothing follow a write that ``error`` cut off half way, as httpcore does when one times out."""
    with suppress(Exception):
        for owner, _, writes in _frames(error):
            if writes:
                owner._connection_error = True
                owner._write_exception = modules[owner.__module__.partition(".")[0]].WriteTimeout()


def _retire_interrupted(error: BaseException) -> list[Any]:
    """Give up HTTP/2 connections that ``error`` met in the middle of a write or of their set-up.

    What was to be sent is lost, and with it what both ends agree on. Returns the network streams that it met
    before a connection had them, as in a TLS handshake: they are to be closed.
    """
    unused = []
    for owner, names, writes in _frames(error):
        if hasattr(owner, "_h2_state"):
            if writes or ("local_settings_max_streams" in names and "stream_id" not in names):
                owner._connection_error = True
        elif hasattr(owner, "_connect_failed") and owner._connection is None and "stream" in names:
            unused.append(names["stream"])
    return unused


def repair_sync(transport: Any) -> None:
    """`repair` for a sync transport. There, a wait for a slot may end just as it is given one."""
    try:
        with transport._pool._optional_thread_lock:
            closing, talking = _losses(transport)
        for connection in closing:
            connection.close()
        for talks in talking:
            talks._write_outgoing_data(_Goodbye)
    except Exception:
        pass


def _losses(transport: Any) -> tuple[list[Any], list[Any]]:
    """Take lost connections out of the pool; the ones to close, and the HTTP/2 ones with data to send."""
    pool = getattr(transport, "_pool", None)
    connections: list[Any] | None = getattr(pool, "_connections", None)
    if pool is None or connections is None:
        return [], []
    _take_back(pool._requests, connections)
    owned = {id(request.connection) for request in pool._requests}
    lost, talking = [], []
    for connection in connections:
        # One that is broken may be idle, and yet never be used or closed (httpcore2).
        if id(connection) not in owned and not (connection.is_available() or connection.is_closed()):
            lost.append(connection)
        elif (talks := _http2(connection)) is not None and _reset_forgotten(talks):
            talking.append(talks)
    if not lost:
        return [], talking
    pool._connections = [each for each in connections if each not in lost]
    # Requests that waited for a slot have one now.
    return [*lost, *pool._assign_requests_to_connections()], talking


def _take_back(requests: list[Any], connections: list[Any]) -> None:
    """Add the connections to the pool's ``connections`` that it has forgotten and that a request still owns.

    One that is cut off as it connects, or as it waits for another one that does, marks the connection as
    failed for all of them. The next one connects it nevertheless, and then no pool would ever close it.
    """
    for request in requests:
        connection = request.connection
        if connection is not None and connection not in connections:
            for layer in _layers(connection):
                if hasattr(layer, "_connect_failed"):
                    layer._connect_failed = False
            if not connection.is_closed():
                connections.append(connection)


def _layers(connection: Any) -> Iterator[Any]:
    """``connection`` (perhaps a proxy tunnel), then each connection under it."""
    while connection is not None:
        yield connection
        connection = getattr(connection, "_connection", None)


def _http2(connection: Any) -> Any:
    """The HTTP/2 connection under what the pool holds; ``None`` if there is none."""
    return next((layer for layer in _layers(connection) if hasattr(layer, "_h2_state")), None)


def _reset_forgotten(talks: Any) -> bool:
    """Reset the streams that h2 holds open and httpcore has forgotten: True if there were any."""
    if talks.is_closed() or talks._connection_error:
        return False
    state = talks._h2_state
    forgotten = [number for number, stream in state.streams.items() if not stream.closed]
    forgotten = [number for number in forgotten if number not in talks._events]
    for number in forgotten:
        window = state.streams[number]._inbound_window_manager
        unread = window.max_window_size - window.current_window_size - window._bytes_processed
        if unread > 0:
            # Otherwise its unread data would be missing from the window of the connection for good.
            state.acknowledge_received_data(unread, number)
        state.reset_stream(number, _CANCEL)
    return bool(forgotten)


async def _say_goodbye(closing: list[Any], talking: list[Any]) -> None:
    for connection in closing:
        try:
            await connection.aclose()
        except Exception:
            # h2 may refuse to say goodbye on a connection that was cut off in its set-up.
            stream = getattr(_http2(connection), "_network_stream", None)
            if stream is not None:
                await stream.aclose()
    for talks in talking:
        if _is_written_to(talks):
            # Goes out with the next write; waiting for this one could take longer than the caller has.
            continue
        try:
            await talks._write_outgoing_data(_Goodbye)
        except Exception:
            # The connection has noted that it is broken.
            pass


def _is_written_to(talks: Any) -> bool:
    lock = talks._write_lock
    own = getattr(lock, "_anyio_lock", None) or getattr(lock, "_trio_lock", None)
    return own is not None and bool(own.locked())
