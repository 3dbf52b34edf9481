"""The interceptors of a grpc.aio channel: the rules of `client`, awaited."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from .._context.deadlines import ambient
from .._primitives.errors import Permanent
from .aio_calls import END, AioFallbackCall, AioResponseStream, AioRpc, OpenStream, Written, retrieve
from .compiled import Compiled, CompiledPolicies
from .routes import ByMethod, Routes
from .rpc import Answer, Begun, CallScope, Rpc, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rpc import CallDetails, Start


def _details(
    before: str | None, left: float | None, given: CallDetails, wire: Wire
) -> grpc.aio.ClientCallDetails:
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


async def _opened(rpc: AioRpc) -> Answer:
    """A stream whose first message is here, or whose headers are, if its caller waits for those."""
    call: Any = None
    waits: list[asyncio.Future[Any]] = []
    try:
        call = await rpc.attempt()
        items = call.__aiter__()
        first = asyncio.ensure_future(anext(items, END))
        waits += first, asyncio.ensure_future(_headers(rpc, call))
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if call.done():
            # Headers without a message may be those of a refusal.
            await asyncio.wait((first,))
        stream = OpenStream(call, items, first)
        if not first.done():
            first.add_done_callback(retrieve)
            return Begun(stream)
        item = first.result()
        return Answer(stream, None if item is END else item, ended=item is END)
    except grpc.RpcError as error:
        raise rpc.failed(error) from None
    except BaseException:
        if call is not None:
            call.cancel()
        for wait in waits:
            wait.cancel()
        raise
    finally:
        for wait in waits[1:]:
            wait.cancel()


async def _headers(rpc: AioRpc, call: grpc.aio.Call) -> None:
    """Wait until the caller has asked for the headers of ``call``, and they are here."""
    await rpc.wants_headers.wait()
    await call.initial_metadata()


async def _written(rpc: AioRpc) -> Answer:
    """A call whose caller writes the requests by hand, and so must have it before it ends."""
    call: Any = None
    try:
        call = await rpc.attempt()
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
        if isinstance(rpc.request, Written):
            rpc.request.end()


async def _cut_off(call: grpc.aio.Call) -> None:
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


class _Interceptor:
    """Every call under the policy of its method."""

    def __init__(self, policies: CompiledPolicies, wire: Wire) -> None:
        self._wire = wire
        self._policies = policies

    async def response(
        self, continuation: Start, details: CallDetails, request: object, streaming: bool
    ) -> Any:
        answer = await self._run(continuation, details, request, streaming, _one)
        if isinstance(answer, Answer):
            return answer.items
        return answer if isinstance(answer, grpc.aio.Call) else AioFallbackCall(answer)

    async def stream(
        self, continuation: Start, details: CallDetails, request: object, streaming: bool
    ) -> Any:
        return await self._run(continuation, details, request, streaming, _opened)

    async def _run(
        self,
        continuation: Start,
        details: CallDetails,
        request: Any,
        streaming: bool,
        run: Callable[[AioRpc], Any],
    ) -> Any:
        """An `Answer`, what a fallback gave, or a call: a stream's, or that of a method without a policy."""
        by_hand = streaming and _writes_by_hand(request)
        given = Written(request) if by_hand else request
        rpc = AioRpc(details, given, streaming, self._wire, _details, continuation)
        rpc.streams = run is _opened
        compiled = self._policies.get(rpc, _written if by_hand else run, True)
        if compiled is None:
            return await rpc.attempt()
        scope = CallScope(rpc.timeout)
        if not by_hand and not rpc.streams:
            return await finish(compiled, rpc, scope)
        task = asyncio.ensure_future(finish(compiled, rpc, scope))
        task.add_done_callback(retrieve)
        if by_hand and (call := await _begun(task, rpc)) is not None:
            return call
        return AioResponseStream(rpc, scope, task) if rpc.streams else await task


#: A channel takes an interceptor for one kind of call, the first that it is an instance of: its base, the
#: name of its method, whether that is given a stream, and whether it answers with one.
_KINDS: tuple[tuple[Any, str, bool, bool], ...] = (
    (grpc.aio.UnaryUnaryClientInterceptor, "intercept_unary_unary", False, False),
    (grpc.aio.UnaryStreamClientInterceptor, "intercept_unary_stream", False, True),
    (grpc.aio.StreamUnaryClientInterceptor, "intercept_stream_unary", True, False),
    (grpc.aio.StreamStreamClientInterceptor, "intercept_stream_stream", True, True),
)


def _of_kind(base: Any, name: str, streaming: bool, answers_with_stream: bool) -> type[_Interceptor]:
    async def intercept(
        self: _Interceptor, continuation: Start, client_call_details: CallDetails, request: object
    ) -> Any:
        respond = self.stream if answers_with_stream else self.response
        return await respond(continuation, client_call_details, request, streaming)

    return type(base.__name__, (_Interceptor, base), {name: intercept})


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


async def _begun(task: asyncio.Task[Any], rpc: AioRpc) -> Any:
    """The call as soon as it has begun, while ``task`` goes on around it; ``None`` if it will not begin."""
    _following.add(task)
    task.add_done_callback(_following.discard)
    try:
        await asyncio.wait((rpc.opened, task), return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        task.cancel()
        raise
    return rpc.opened.result() if rpc.opened.done() else None


_GRPC = os.path.dirname(grpc.__file__) + os.sep


def _writes_by_hand(request: object) -> bool:
    """Return True if ``request`` is grpc's own stream of what the caller will ``write()``.

    That one waits for the interceptor to return before it gives its first message.
    """
    code = getattr(request, "ag_code", None)
    return code is not None and code.co_filename.startswith(_GRPC)


def make(policies: ByMethod, wire: Wire) -> list[Any]:
    """One interceptor for each kind of call, which share what they have compiled."""
    shared = CompiledPolicies(Routes(policies, "aio_interceptors"), wire)
    return [_of_kind(*kind)(shared, wire) for kind in _KINDS]
