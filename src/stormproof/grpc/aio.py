"""The interceptors of a grpc.aio channel: the rules of `client`, awaited."""

from __future__ import annotations

import asyncio
import os

import grpc
import grpc.aio

from .._context.deadlines import ambient
from .._primitives.errors import Permanent
from .aio_calls import Given, Stream, Written
from .compiled import Compiled, Policies
from .routes import Routes
from .rpc import Answer, CallScope, Rpc, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any

    from .routes import ByMethod


def _details(before: str | None, left: float | None, given: Any, wire: Wire) -> Any:
    metadata = given.metadata
    if before is not None and wire.attempt_metadata:
        metadata = grpc.aio.Metadata(*(metadata or ()), *((name, before) for name in wire.attempt_metadata))
    return grpc.aio.ClientCallDetails(given.method, left, metadata, given.credentials, given.wait_for_ready)


# How an attempt is made, by what is waited for.


async def _one(rpc: Rpc) -> Answer:
    """One response. A task that is cancelled here cancels the call."""
    try:
        call = await rpc.attempt()
        return Answer(call, await call)
    except grpc.RpcError as error:
        raise rpc.failed(error) from None


async def _opened(rpc: Rpc) -> Answer:
    """A stream whose first message is here."""
    call: Any = None
    try:
        call = await rpc.attempt()
        items = call.__aiter__()
        first = await anext(items, _END)
        return Answer(_Open(call, items), None if first is _END else first, ended=first is _END)
    except grpc.RpcError as error:
        raise rpc.failed(error) from None
    except BaseException:
        if call is not None:
            call.cancel()
        raise


async def _written(rpc: Rpc) -> Answer:
    """A call whose caller writes the requests by hand, and so must have it before it ends."""
    call: Any = None
    try:
        call = await rpc.attempt()
        rpc.opened.set_result(call)
        code = await call.code()
        if call.cancelled():
            raise asyncio.CancelledError
        if code is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                code,
                await call.initial_metadata(),
                await call.trailing_metadata(),
                await call.details(),
                None,
            )
        return Answer(call, None, ended=True)
    except grpc.RpcError as error:
        rpc.failed(error)
        raise Permanent(error) from None
    finally:
        if call is not None and not call.done():
            await _cut_off(call)
        rpc.request.end()


async def _cut_off(call: Any) -> None:
    """End ``call``, which its scope has left; one whose time is over as well says so itself."""
    scope = ambient()
    ended = None if scope is None else scope.ended()
    if ended is None or ended.cancelled:
        call.cancel()
        return
    try:
        await call.code()
    except BaseException:
        call.cancel()
        raise


_END = object()


class _Open:
    """A stream that has begun: the call, and what of it is still to be read."""

    __slots__ = ("call", "items")

    def __init__(self, call: Any, items: AsyncIterator[Any]) -> None:
        self.call = call
        self.items = items

    def cancel(self) -> None:
        self.call.cancel()

    def done(self) -> bool:
        return bool(self.call.done())


class _Interceptor:
    """Every call under the policy of its method."""

    def __init__(self, policies: Policies, wire: Wire) -> None:
        self._wire = wire
        self._policies = policies

    async def _response(self, continuation: Any, details: Any, request: Any, streaming: bool) -> Any:
        answer = await self._run(continuation, details, request, streaming, _one)
        if isinstance(answer, Answer):
            return answer.items
        return answer if isinstance(answer, grpc.aio.Call) else Given(answer)

    async def _stream(self, continuation: Any, details: Any, request: Any, streaming: bool) -> Any:
        answer = await self._run(continuation, details, request, streaming, _opened)
        if isinstance(answer, Answer):
            return Stream(answer.items.call, _items(answer))
        return answer if isinstance(answer, grpc.aio.Call) else Stream(Given(None), aiter(answer))

    async def _run(
        self, continuation: Any, details: Any, request: Any, streaming: bool, run: Callable[[Rpc], Any]
    ) -> Any:
        """An `Answer`, what a fallback gave, or the plain call of a method without a policy."""
        by_hand = streaming and _writes_by_hand(request)
        given = Written(request) if by_hand else request
        rpc = Rpc(details, given, streaming, self._wire, _details, continuation)
        rpc.streams = run is _opened
        compiled = self._policies.get(rpc, _written if by_hand else run, True)
        if compiled is None:
            return await rpc.attempt()
        return await (_begin(compiled, rpc) if by_hand else finish(compiled, rpc, CallScope(rpc.timeout)))


# A channel takes an interceptor for one kind of call, the first that it is an instance of.


class UnaryUnary(_Interceptor, grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
    """One message, one response."""

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self._response(continuation, client_call_details, request, False)


class StreamUnary(_Interceptor, grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[type-arg]
    """Many messages, one response."""

    async def intercept_stream_unary(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._response(continuation, client_call_details, request_iterator, True)


class UnaryStream(_Interceptor, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[type-arg]
    """One message, many responses."""

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self._stream(continuation, client_call_details, request, False)


class StreamStream(_Interceptor, grpc.aio.StreamStreamClientInterceptor):  # type: ignore[type-arg]
    """Many messages, many responses."""

    async def intercept_stream_stream(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._stream(continuation, client_call_details, request_iterator, True)


async def finish(compiled: Compiled, rpc: Rpc, scope: CallScope) -> Any:
    """The whole call in this task: an `Answer`, or what a fallback gave."""
    try:
        with scope:
            return await compiled.call(rpc)
    except Exception as error:
        failure = rpc.surface(error, compiled.owner)
    try:
        # Outside the handler: the refusal that led here is in a note, not a cause of its own cause.
        raise failure
    finally:
        del failure


#: The policies at work around calls that are written by hand; a loop holds tasks only weakly.
_following: set[asyncio.Task[Any]] = set()


async def _begin(compiled: Compiled, rpc: Rpc) -> Any:
    """The call as soon as it has begun, while the policy goes on around it."""
    rpc.opened = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(finish(compiled, rpc, CallScope(rpc.timeout)))
    _following.add(task)
    task.add_done_callback(_forget)
    try:
        await asyncio.wait((rpc.opened, task), return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        task.cancel()
        raise
    return rpc.opened.result() if rpc.opened.done() else await task


def _forget(task: asyncio.Task[Any]) -> None:
    _following.discard(task)
    if not task.cancelled():
        # The caller sees the error at the call itself.
        task.exception()


_GRPC = os.path.dirname(grpc.__file__) + os.sep


def _writes_by_hand(request: Any) -> bool:
    """Return True if ``request`` is grpc's own stream of what the caller will ``write()``.

    That one waits for the interceptor to return before it gives its first message.
    """
    code = getattr(request, "ag_code", None)
    return code is not None and code.co_filename.startswith(_GRPC)


async def _items(answer: Answer) -> AsyncIterator[Any]:
    if answer.ended:
        return
    first, answer.item = answer.item, None
    yield first
    async for item in answer.items.items:
        yield item


def make(policies: ByMethod, wire: Wire) -> list[Any]:
    """One interceptor for each kind of call, which share what they have compiled."""
    shared = Policies(Routes(policies, "aio_interceptors"), wire)
    return [kind(shared, wire) for kind in (UnaryUnary, UnaryStream, StreamUnary, StreamStream)]
