"""Call objects for callers of aio calls, where they do not get the native call itself.

grpc wraps each in its own call object, which asks it everything.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]


class Given(grpc.aio.UnaryUnaryCall, grpc.aio.StreamUnaryCall):  # type: ignore[type-arg]
    """A call that has ended with a value which no server gave: a fallback's."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Any:
        return self._value
        yield

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False

    def done(self) -> bool:
        return True

    def time_remaining(self) -> float | None:
        return None

    def add_done_callback(self, callback: Any) -> None:
        callback(self)

    async def initial_metadata(self) -> Any:
        return grpc.aio.Metadata()

    async def trailing_metadata(self) -> Any:
        return grpc.aio.Metadata()

    async def code(self) -> Any:
        return grpc.StatusCode.OK

    async def details(self) -> str:
        return ""

    async def debug_error_string(self) -> str:
        return ""

    async def wait_for_connection(self) -> None:
        return None

    async def write(self, request: Any) -> None:
        raise asyncio.InvalidStateError("the call has ended")

    async def done_writing(self) -> None:
        return None


class Stream(grpc.aio.UnaryStreamCall, grpc.aio.StreamStreamCall):  # type: ignore[type-arg]
    """A call that has begun, with its first message put back in front."""

    def __init__(self, call: Any, items: AsyncIterator[Any]) -> None:
        self._call = call
        self._items = items

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._items

    async def read(self) -> Any:
        return await anext(self._items, _EOF)

    def cancel(self) -> bool:
        return bool(self._call.cancel())

    def cancelled(self) -> bool:
        return bool(self._call.cancelled())

    def done(self) -> bool:
        return bool(self._call.done())

    def time_remaining(self) -> float | None:
        left: float | None = self._call.time_remaining()
        return left

    def add_done_callback(self, callback: Any) -> None:
        self._call.add_done_callback(lambda _: callback(self))

    async def initial_metadata(self) -> Any:
        return await self._call.initial_metadata()

    async def trailing_metadata(self) -> Any:
        return await self._call.trailing_metadata()

    async def code(self) -> Any:
        return await self._call.code()

    async def details(self) -> Any:
        return await self._call.details()

    async def debug_error_string(self) -> Any:
        return await self._call.debug_error_string()

    async def wait_for_connection(self) -> None:
        await self._call.wait_for_connection()

    async def write(self, request: Any) -> None:
        await self._call.write(request)

    async def done_writing(self) -> None:
        await self._call.done_writing()


_END = object()


class Written:
    """grpc's stream of what the caller writes by hand, made to end with the call.

    By itself it would wait for the next ``write()`` for ever, and with it a task of grpc's.
    """

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self._source = source
        self._over = asyncio.Event()

    def end(self) -> None:
        """The call has ended: nothing more is wanted."""
        self._over.set()

    async def __aiter__(self) -> AsyncIterator[Any]:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._over.wait())]
        try:
            while True:
                waits[1:] = [asyncio.ensure_future(anext(self._source, _END))]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if not waits[1].done() or (item := waits[1].result()) is _END:
                    return
                yield item
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
