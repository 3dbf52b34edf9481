"""Call objects for callers of aio calls, where they do not get the native call itself.

grpc wraps each in its own call object, which asks it everything.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

from .._primitives.errors import Cancelled
from .refusals import EndedCall, as_rpc_error
from .rpc import Answer, Rpc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any

    from .._context.deadlines import Scope

_EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]


class AioRpc(Rpc):
    """A call of an aio channel."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        #: The call of the first attempt, as soon as that has begun.
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        #: Set once the caller asks a stream of responses for its headers, which then commit the call.
        self.wants_headers = asyncio.Event()

    async def attempt(self) -> Any:
        call = await super().attempt()
        if not self.opened.done():
            self.opened.set_result(call)
        return call


class AioFallbackCall(EndedCall, grpc.aio.UnaryUnaryCall, grpc.aio.StreamUnaryCall):  # type: ignore[type-arg]
    """A call that has ended with a value which no server gave: a fallback's."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __await__(self) -> Any:
        return self._value
        yield

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

    async def write(self, request: object) -> None:
        raise asyncio.InvalidStateError("the call has ended")

    async def done_writing(self) -> None:
        return None


END = object()


class OpenStream:
    """A stream that has begun: the call, and the messages still to be read, ``first`` before ``items``."""

    __slots__ = ("call", "first", "items")

    def __init__(self, call: grpc.aio.Call, items: AsyncIterator[Any], first: asyncio.Future[Any]) -> None:
        self.call = call
        self.items = items
        self.first = first

    def cancel(self) -> None:
        self.call.cancel()

    def done(self) -> bool:
        return bool(self.call.done())


class AioResponseStream(grpc.aio.UnaryStreamCall, grpc.aio.StreamStreamCall):  # type: ignore[type-arg]
    """A stream of responses, while its policy is at work in ``task``.

    It is retried until the first message is there; if it is asked for the initial metadata, until that is
    there, which commits the call.
    """

    def __init__(self, rpc: AioRpc, scope: Scope, task: asyncio.Task[Any]) -> None:
        self._rpc = rpc
        self._scope = scope
        self._task = task
        self._items: AsyncIterator[Any] | None = None

    def _outcome(self) -> Any:
        """The native call of a task that is done, a fallback's, or the error that there is instead."""
        if self._task.cancelled():
            return as_rpc_error(Cancelled("cancelled by its caller"))
        outcome = self._task.exception() or self._task.result()
        if isinstance(outcome, Answer):
            return outcome.items.call
        return outcome if isinstance(outcome, BaseException) else AioFallbackCall(outcome)

    async def _ask(self, name: str) -> Any:
        """Return ``name()`` of the outcome. A caller that stops waiting does not cancel the call."""
        await asyncio.wait((self._task,))
        outcome = self._outcome()
        if isinstance(outcome, grpc.aio.AioRpcError):
            return getattr(outcome, name)()
        if isinstance(outcome, BaseException):
            raise outcome
        return await getattr(outcome, name)()

    async def _messages(self) -> AsyncIterator[Any]:
        outcome = await self._task
        if not isinstance(outcome, Answer):
            async for item in outcome:
                yield item
            return
        stream: OpenStream = outcome.items
        first = await stream.first
        # A long stream does not keep its first message.
        del stream.first, outcome.item
        if first is END:
            return
        yield first
        async for item in stream.items:
            yield item

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._items is None:
            self._items = self._messages()
        return self._items

    async def read(self) -> Any:
        return await anext(aiter(self), _EOF)

    def cancel(self) -> bool:
        if not self._task.done():
            return self._task.cancel()
        outcome = self._outcome()
        return not isinstance(outcome, BaseException) and bool(outcome.cancel())

    def cancelled(self) -> bool:
        return self._task.done() and _is_cancelled(self._outcome())

    def done(self) -> bool:
        if not self._task.done():
            return False
        outcome = self._outcome()
        return isinstance(outcome, BaseException) or bool(outcome.done())

    def time_remaining(self) -> float | None:
        return self._scope.remaining()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        def follow(_: object) -> None:
            outcome = self._outcome()
            if isinstance(outcome, BaseException):
                callback(self)
            else:
                outcome.add_done_callback(lambda _: callback(self))

        self._task.add_done_callback(follow)

    async def initial_metadata(self) -> Any:
        self._rpc.wants_headers.set()
        return await self._ask("initial_metadata")

    async def trailing_metadata(self) -> Any:
        return await self._ask("trailing_metadata")

    async def code(self) -> Any:
        return await self._ask("code")

    async def details(self) -> Any:
        return await self._ask("details")

    async def debug_error_string(self) -> Any:
        return await self._ask("debug_error_string")

    async def wait_for_connection(self) -> None:
        await asyncio.wait((self._rpc.opened, self._task), return_when=asyncio.FIRST_COMPLETED)
        try:
            await self._rpc.opened.result().wait_for_connection()
        except (grpc.RpcError, asyncio.InvalidStateError):
            # The first attempt failed, or there was none: what counts is the end of the last one.
            await asyncio.wait((self._task,))
            if isinstance(outcome := self._outcome(), BaseException):
                raise outcome from None

    async def write(self, request: object) -> None:
        raise asyncio.InvalidStateError("the call has a request stream of its own")

    async def done_writing(self) -> None:
        raise asyncio.InvalidStateError("the call has a request stream of its own")


def _is_cancelled(outcome: Any) -> bool:
    if isinstance(outcome, grpc.aio.AioRpcError):
        return outcome.code() is grpc.StatusCode.CANCELLED
    return not isinstance(outcome, BaseException) and bool(outcome.cancelled())


def retrieve(task: asyncio.Future[Any]) -> None:
    """Take note of the error of ``task``, which its caller sees at the call itself, if at all."""
    if not task.cancelled():
        task.exception()


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
                waits[1:] = [asyncio.ensure_future(anext(self._source, END))]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if not waits[1].done() or (item := waits[1].result()) is END:
                    return
                yield item
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
