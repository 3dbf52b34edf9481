"""Body streams with the two faces of httpx's: sync and async iteration, ``close`` and ``aclose``.

Its client takes only what is a subclass of its own stream classes, so that the port derives from both.
"""

from __future__ import annotations

from .._runtime.shielded_close import await_cancel_at_suspension, await_shielded
from .httpcore_pool import await_on_shared_connection, repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator
    from typing import Any

    from .body import OneShot


class Watched:
    """A request stream that records that reading has begun."""

    inner: Any
    once: OneShot

    def __iter__(self) -> Iterator[bytes]:
        self.once.touched = True
        yield from self.inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.once.touched = True
        async for chunk in self.inner:
            yield chunk

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()


async def _let_go(chunk: bytes) -> None:
    """Drop a chunk that arrived with a cancellation: a cancelled caller reads no more."""


class Steps:
    """A stream chunk by chunk. A read that fails closes the stream, and is not cut short in that."""

    __slots__ = ("_inner", "_wait")

    def __init__(self, stream: Any, wait: Any) -> None:
        self._inner = stream.__aiter__()
        #: `await_cancel_at_suspension`, or the variant of it for a connection that others use.
        self._wait = wait

    def __aiter__(self) -> Steps:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        step: Awaitable[bytes] = self._wait(self._inner.__anext__(), _let_go)
        return step

    def aclose(self) -> Awaitable[None]:
        return await_shielded(self._inner.aclose())


class Guarded:
    """A response stream whose closing is not cut short: a connection would be lost to the pool."""

    inner: Any
    #: The transport that it came by if it is a stream of HTTP/2, which closing it may leave open.
    transport: Any
    is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        # A generator of another transport's may keep a scope of trio's open from one chunk to the next.
        return Steps(
            self.inner, await_cancel_at_suspension if self.transport is None else await_on_shared_connection
        )

    async def aclose(self) -> None:
        if self.is_closed:
            return
        # A shielded close runs to its end, even if this one is cancelled meanwhile.
        self.is_closed = True
        try:
            await await_shielded(self.inner.aclose())
        finally:
            if self.transport is not None:
                await repair(self.transport)


class Rest:
    """A response stream of which the first chunks have been read already."""

    chunks: list[bytes]
    iterator: Any
    inner: Any
    #: True if the iterator ends once the stream under it is closed.
    ends: bool

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks
        yield from self.iterator

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        async for chunk in self.iterator:
            yield chunk

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await await_shielded(self.inner.aclose())
        # Left in the middle, generators would be reported by trio; those in other generators must be run
        # to their end for that.
        try:
            if not self.ends:
                await self.iterator.aclose()
            async for _ in self.iterator:
                pass
        except Exception:
            pass


class Broken:
    """A response stream that broke off and has been closed: a reader gets the same chunks and the error."""

    chunks: list[bytes]
    error: Exception

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks
        raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        raise self.error
