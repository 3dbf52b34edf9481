"""The interceptors of a sync channel: here calls are begun, waited for and called off."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc

from . import background
from .aio import finish
from .calls import Pending, ResponseStream, fallback_call
from .compiled import Compiled, CompiledPolicies
from .native import startable, wants_future
from .routes import ByMethod, Routes
from .rpc import Answer, Begun, CallScope, Rpc, Wire, attempt_scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from .rpc import CallDetails, Cancellable, Start


class AttemptDetails(grpc.ClientCallDetails):
    """Call details of one attempt: the caller's own, with this attempt's time and metadata."""

    __slots__ = ("compression", "credentials", "metadata", "method", "timeout", "wait_for_ready")

    def __init__(self, given: CallDetails, timeout: float | None, metadata: Any) -> None:
        self.method = given.method
        self.timeout = timeout
        self.metadata = metadata
        self.credentials = given.credentials
        self.wait_for_ready = given.wait_for_ready
        self.compression = getattr(given, "compression", None)


def _details(before: str | None, left: float | None, given: CallDetails, wire: Wire) -> AttemptDetails:
    metadata = given.metadata
    if before is not None and wire.attempt_metadata:
        metadata = (*(metadata or ()), *((name, before) for name in wire.attempt_metadata))
    return AttemptDetails(given, left, metadata)


# How an attempt is made, by what is waited for.


def _answered(rpc: Rpc) -> Answer:
    """One response, waited for in this thread; another one may cancel a call that can be cancelled."""
    call = rpc.keep(rpc.attempt())
    try:
        return Answer(call, call.result())
    except grpc.RpcError as error:
        raise rpc.failed(error) from None


async def _awaited(rpc: Rpc) -> Answer:
    """One response, from a call with a callback for its end."""
    call = rpc.attempt()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def notify(_: object) -> None:
        try:
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:
            # The loop is gone with the process that is ending.
            pass

    call.add_done_callback(notify)
    try:
        await ended.wait()
    except BaseException:
        call.cancel()
        raise
    try:
        return Answer(call, call.result())
    except grpc.RpcError as error:
        raise rpc.failed(error) from None


def _opened(rpc: Rpc) -> Answer:
    """A stream whose first message is here."""
    call = rpc.keep(rpc.attempt())
    with _AttemptLimit(call) as limit:
        try:
            return Answer(call, next(call))
        except StopIteration:
            return Answer(call, None, ended=True)
        except grpc.RpcError as error:
            raise limit.failed(rpc, error) from None
        except BaseException:
            call.cancel()
            raise


def _begun(rpc: Rpc) -> Answer:
    """A stream whose headers are here: they commit the call, and its messages are the reader's."""
    call = rpc.keep(rpc.attempt())
    with _AttemptLimit(call) as limit:
        try:
            call.initial_metadata()
            if not call.is_active() and call.code() is not grpc.StatusCode.OK:
                raise limit.failed(rpc, call.exception())
            return Begun(call)
        except BaseException:
            call.cancel()
            raise


class _AttemptLimit:
    """Ends ``call`` with the time of its attempt, which is not the deadline that the server was given."""

    __slots__ = ("_call", "_call_off", "_scope", "is_over")

    def __init__(self, call: Cancellable) -> None:
        self._call = call
        self._scope = attempt_scope()
        self.is_over = False
        self._call_off: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        left = None if self._scope is None else self._scope.own_remaining()
        if left is not None:
            self._call_off = background.later(left, self._end)
        return self

    def _end(self) -> None:
        self.is_over = True
        self._call.cancel()

    def failed(self, rpc: Rpc, error: BaseException) -> BaseException:
        """``error`` of the call as the policy is to see it."""
        if self.is_over and self._scope is not None:
            return self._scope.refusal()
        return rpc.failed(error)

    def __exit__(self, *exc: object) -> None:
        if self._call_off is not None:
            self._call_off()


class ClientInterceptor(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[type-arg]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[type-arg]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[type-arg]
    grpc.StreamStreamClientInterceptor,  # type: ignore[type-arg]
):
    """Every call of a channel under the policy of its method."""

    def __init__(self, policies: ByMethod, wire: Wire) -> None:
        self._wire = wire
        self._policies = CompiledPolicies(Routes(policies), wire)

    def intercept_unary_unary(
        self, continuation: Start, client_call_details: CallDetails, request: object
    ) -> Any:
        return self._one(continuation, client_call_details, request, False)

    def intercept_stream_unary(
        self, continuation: Start, client_call_details: CallDetails, request_iterator: object
    ) -> Any:
        return self._one(continuation, client_call_details, request_iterator, True)

    def intercept_unary_stream(
        self, continuation: Start, client_call_details: CallDetails, request: object
    ) -> Any:
        return self._many(continuation, client_call_details, request, False)

    def intercept_stream_stream(
        self, continuation: Start, client_call_details: CallDetails, request_iterator: object
    ) -> Any:
        return self._many(continuation, client_call_details, request_iterator, True)

    def _one(self, continuation: Start, details: CallDetails, request: object, streaming: bool) -> Any:
        """One response: waited for, or as a future."""
        rpc = Rpc(details, request, streaming, self._wire, _details, continuation)
        if wants_future(continuation):
            return self._future(rpc)
        compiled = self._policies.get(rpc, _answered, False)
        if compiled is None:
            return rpc.attempt()
        if compiled.hedges:
            rpc.start = startable(continuation)
        answer = _run(compiled, rpc, CallScope(rpc.timeout))
        return answer.items if isinstance(answer, Answer) else fallback_call(answer)

    def _future(self, rpc: Rpc) -> Any:
        compiled = self._policies.get(rpc, _awaited, True)
        if compiled is None:
            return rpc.attempt()
        scope = CallScope(rpc.timeout)
        return Pending(background.submit(finish(compiled, rpc, scope)), scope)

    def _many(self, continuation: Start, details: CallDetails, request: object, streaming: bool) -> Any:
        """A stream of responses."""
        rpc = Rpc(details, request, streaming, self._wire, _details, continuation)
        rpc.streams = True
        read, begun = (self._policies.get(rpc, how, False) for how in (_opened, _begun))
        if read is None or begun is None:
            return rpc.attempt()
        scope = CallScope(rpc.timeout)
        return ResponseStream(rpc, scope, partial(_run, read, rpc, scope), partial(_run, begun, rpc, scope))


def _run(compiled: Compiled, rpc: Rpc, scope: CallScope) -> Any:
    """The whole call in this thread: an `Answer`, or what a fallback gave."""
    winner: object = None
    try:
        with scope:
            winner = compiled.call(rpc)
        return winner
    except Exception as error:
        failure = rpc.surface(error, compiled.owner)
    finally:
        rpc.settle(winner.items if isinstance(winner, Answer) else None)
    try:
        # Outside the handler: the refusal that led here is in a note, not a cause of its own cause.
        raise failure
    finally:
        del failure
