"""The interceptor of a sync server: the caller's deadline, shedding, and the answer for exhausted retries."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import copy_context

import grpc

from .._context.deadlines import Scope, check
from . import answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .answers import Door, ServerAnswer

#: Functions that make a handler, by (streams requests, streams responses).
SHAPES: dict[tuple[bool, bool], tuple[str, Callable[..., Any]]] = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}


def rebuilt(
    handler: grpc.RpcMethodHandler[Any, Any], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Any:
    """``handler`` with its function wrapped; its serializers stay."""
    name, make = SHAPES[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(wrap(getattr(handler, name)), handler.request_deserializer, handler.response_serializer)


def answer(context: grpc.ServicerContext, given: ServerAnswer) -> None:
    """End the call with ``given``, beside whatever trailers the handler has set."""
    own: Iterable[tuple[str, str | bytes]] | None = getattr(context, "trailing_metadata", tuple)()
    context.set_trailing_metadata(given.trailers_with(own))
    context.abort(given.code, given.details)


class ServerInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]
    """Every handler behind the door."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def intercept_service(
        self, continuation: Callable[..., Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        retry = answers.is_retry(handler_call_details.invocation_metadata)
        stream = handler.response_streaming
        return rebuilt(handler, lambda fn: sync_behaviour(fn, self._door, retry, stream))


def sync_behaviour(fn: Callable[..., Any], door: Door, retry: bool, stream: bool) -> Callable[..., Any]:
    """``fn(request, context)``, with the caller's time around it."""

    def answered(request: object, context: grpc.ServicerContext) -> Any:
        with _guard(context, door, retry):
            return fn(request, context)

    def streamed(request: object, context: grpc.ServicerContext) -> Iterator[Any]:
        # In a context of its own: the thread goes on to other calls, perhaps without closing this one.
        own = copy_context()
        guard = _guard(context, door, retry)
        own.run(guard.__enter__)
        error: BaseException | None = None
        try:
            items = own.run(lambda: iter(fn(request, context)))
            try:
                while (item := own.run(next, items, _END)) is not _END:
                    yield item
            finally:
                # Not left to the collector: the rest of the handler must run within the caller's time.
                own.run(getattr(items, "close", _nothing))
        except BaseException as raised:
            error = raised
            raise
        finally:
            # The answer to an error of the handler is given in here, and takes the error's place.
            own.run(guard.__exit__, None if error is None else type(error), error, None)

    return streamed if stream else answered


_END = object()


def _nothing() -> None:
    """Close an iterator without ``close``: nothing to do."""


@contextmanager
def _guard(context: grpc.ServicerContext, door: Door, retry: bool) -> Iterator[None]:
    left = answers.time_left(context.time_remaining())
    if door.is_late(left):
        answer(context, answers.LATE)
    try:
        with Scope(left, "the caller's deadline"), door.enter(retry):
            check()
            yield
        return
    except Exception as error:
        given = door.answer_to(error)
        if given is None:
            raise
    answer(context, given)
