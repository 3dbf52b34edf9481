"""Generators under a policy: the way to the first item is retried, what comes after passes through.

Once an item is out, starting again would hand it out twice.
"""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any


class Opened:
    """What a policy sees of a generator: its first item, or its end. Result rules judge ``item``."""

    __slots__ = ("ended", "item", "items")

    def __init__(self, items: Any, item: Any, ended: bool = False) -> None:
        self.items = items
        self.item = item
        self.ended = ended


class Tried:
    """The generators that the attempts of one call have opened; all but the chosen one are closed again."""

    __slots__ = ("items", "over")

    def __init__(self) -> None:
        self.items: list[Any] = []
        #: Whether the call has its answer: who opens one after that closes it himself.
        self.over = False


_tried: ContextVar[Tried | None] = ContextVar("stormproof_streams", default=None)


def _remember(items: Any) -> Tried:
    tried = _tried.get() or Tried()
    tried.items.append(items)
    return tried


def stream(fn: Callable[..., Any], compile: Callable[[Any], Any]) -> Callable[..., Any]:
    """``fn``, a generator function, opened under the policy that ``compile`` applies."""

    def begin(*args: Any, **kwargs: Any) -> Opened:
        items = fn(*args, **kwargs)
        tried = _remember(items)
        try:
            return Opened(items, next(items))
        except StopIteration as stop:
            return Opened(items, stop.value, ended=True)
        finally:
            if tried.over:
                items.close()

    opened = compile(begin)

    def streamed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        tried = Tried()
        token = _tried.set(tried)
        first: Any = None
        try:
            first = opened(*args, **kwargs)
        finally:
            _tried.reset(token)
            tried.over = True
            for items in tried.items:
                # One that another thread is still opening closes itself.
                if (not isinstance(first, Opened) or items is not first.items) and not items.gi_running:
                    items.close()
        if not isinstance(first, Opened):
            # A fallback's answer: something to iterate in place of the stream.
            return (yield from first)
        if first.ended:
            return first.item
        return (yield from _resume(first.items, first.item))

    return streamed


def _resume(items: Generator[Any, Any, Any], item: Any) -> Generator[Any, Any, Any]:
    """What ``yield from items`` does, for a generator whose first item is out already."""
    while True:
        try:
            sent = yield item
        except GeneratorExit:
            items.close()
            raise
        except BaseException as error:
            step: Callable[[Any], Any] = items.throw
            argument: Any = error
        else:
            if sent is None:
                return (yield from items)
            step, argument = items.send, sent
        try:
            item = step(argument)
        except StopIteration as stop:
            return stop.value


def stream_async(fn: Callable[..., Any], compile: Callable[[Any], Any]) -> Callable[..., Any]:
    """``fn``, an async generator function, opened under the policy that ``compile`` applies."""

    async def begin(*args: Any, **kwargs: Any) -> Opened:
        items = fn(*args, **kwargs)
        _remember(items)
        try:
            return Opened(items, await anext(items))
        except StopAsyncIteration:
            return Opened(items, None, ended=True)

    opened = compile(begin)

    async def streamed(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        tried = Tried()
        token = _tried.set(tried)
        first: Any = None
        try:
            first = await opened(*args, **kwargs)
        finally:
            _tried.reset(token)
            for items in tried.items:
                if not isinstance(first, Opened) or items is not first.items:
                    await items.aclose()
        if not isinstance(first, Opened):
            async for item in first:
                yield item
            return
        if first.ended:
            return
        items, item = first.items, first.item
        try:
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:
                    item = await items.athrow(error)
                else:
                    item = await items.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await items.aclose()

    return streamed
