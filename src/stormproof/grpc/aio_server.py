"""The interceptor of a grpc.aio server: the rules of `server`, awaited."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager

import grpc

from .._context.deadlines import Scope, check
from . import answers
from .server import rebuilt, sync_behaviour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any

    from grpc.aio import ServicerContext

    from .answers import Door, ServerAnswer

    Context = ServicerContext[Any, Any]


class AioServerInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Every handler behind the door, async ones and those that the server runs in threads."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def intercept_service(
        self, continuation: Callable[..., Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        retry = answers.is_retry(handler_call_details.invocation_metadata)
        return rebuilt(handler, lambda fn: self._behaviour(fn, retry, handler.response_streaming))

    def _behaviour(self, fn: Callable[..., Any], retry: bool, stream: bool) -> Callable[..., Any]:
        door = self._door
        if inspect.isasyncgenfunction(fn):

            async def streamed(request: object, context: Context) -> AsyncIterator[Any]:
                async with _guard(context, door, retry):
                    async for item in fn(request, context):
                        yield item

            return streamed
        if inspect.iscoroutinefunction(fn):

            async def answered(request: object, context: Context) -> Any:
                async with _guard(context, door, retry):
                    return await fn(request, context)

            return answered
        return sync_behaviour(fn, door, retry, stream)


async def _answer(context: Context, given: ServerAnswer) -> None:
    await context.abort(given.code, given.details, given.trailers_with(context.trailing_metadata()))


@asynccontextmanager
async def _guard(context: Context, door: Door, retry: bool) -> AsyncIterator[None]:
    left = answers.time_left(context.time_remaining())
    if door.is_late(left):
        await _answer(context, answers.LATE)
    try:
        with Scope(left, "the caller's deadline"), await door.enter_async(retry):
            check()
            yield
        return
    except Exception as error:
        given = door.answer_to(error)
        if given is None:
            raise
    await _answer(context, given)
