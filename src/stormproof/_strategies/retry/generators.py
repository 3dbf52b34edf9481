"""Generators under a policy: what comes before the commit is retried, what comes after passes through.

A stream is committed at its first item, or with ``commit`` at the first item for which that is true. Once an
item is out, starting again would hand it out twice; until then items are held back, and dropped on a retry.
"""

from __future__ import annotations

from contextvars import ContextVar

from ..._classify.on_clause import judge_answer
from ..._drivers import aio, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from typing import Any

#: The next held item after these many, or these many bytes of them, commit by themselves.
_MAX_HELD_ITEMS = 64
_MAX_HELD_BYTES = 1 << 20


class Opened:
    """Stream as a policy sees it: its last item before the commit, or its end. Rules judge ``item``."""

    __slots__ = ("ended", "item", "items")

    def __init__(self, items: Any, item: Any = None, ended: bool = False) -> None:
        self.items = items
        self.item = item
        self.ended = ended


class HeldBack(Opened):
    """A generator on its way to its commit, with the items that came before that."""

    __slots__ = ("_held_bytes", "answer", "held")

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.held: list[Any] = []
        self._held_bytes = 0
        #: What ``on_result`` answered about the last item.
        self.answer: Any = None

    def hold(self, item: Any) -> None:
        """Keep ``item`` until the commit."""
        self.item = item
        self.held.append(item)
        if isinstance(item, (bytes, bytearray, str)):
            self._held_bytes += len(item)
        elif isinstance(item, memoryview):
            self._held_bytes += item.nbytes

    def end(self, returned: Any = None) -> None:
        """There are no more items; ``returned`` is the generator's return value."""
        self.ended = True
        self.item = returned

    @property
    def is_judged(self) -> bool:
        """True if ``on_result`` has nothing new to judge: a return value is judged in place of items."""
        return self.ended and bool(self.held)

    @property
    def is_ready(self) -> bool:
        """True if it is over, if no more may be held back, or if ``on_result`` refuses the last item."""
        is_full = len(self.held) > _MAX_HELD_ITEMS or self._held_bytes >= _MAX_HELD_BYTES
        return self.ended or is_full or judge_answer(self.answer, self.item).retry


class Tried:
    """The generators that the attempts of one call have opened; all but the chosen one are closed again."""

    __slots__ = ("items", "over")

    def __init__(self) -> None:
        self.items: list[Any] = []
        #: True if the call has its answer: an attempt that opens one after that closes it.
        self.over = False


_tried: ContextVar[Tried | None] = ContextVar("stormproof_streams", default=None)


def _remember(items: Any) -> Tried:
    tried = _tried.get() or Tried()
    tried.items.append(items)
    return tried


def stream(
    fn: Callable[..., Any],
    compile: Callable[[Any], Any],
    commit: Callable[[Any], Any] | None = None,
    on_result: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """``fn``, a generator function, opened under the policy that ``compile`` applies."""

    def begin(*args: Any, **kwargs: Any) -> HeldBack:
        items = fn(*args, **kwargs)
        tried = _remember(items)
        opened = HeldBack(items)
        try:
            while True:
                try:
                    opened.hold(next(items))
                except StopIteration as stop:
                    opened.end(stop.value)
                if on_result is not None and not opened.is_judged:
                    opened.answer = sync.call_hook("on_result", on_result, None, opened.item)
                if opened.is_ready or commit is None or sync.call_hook("commit", commit, None, opened.item):
                    return opened
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
                if (not isinstance(first, HeldBack) or items is not first.items) and not items.gi_running:
                    items.close()
        if not isinstance(first, HeldBack):
            # A fallback's answer: something to iterate in place of the stream.
            return (yield from first)
        try:
            while len(first.held) > 1 or (first.ended and first.held):
                _refuse_sent((yield first.held.pop(0)))
        except BaseException:
            first.items.close()
            raise
        if first.ended:
            return first.item
        return (yield from _resume(first.items, first.held.pop()))

    return streamed


def _refuse_sent(value: Any) -> None:
    if value is not None:
        raise TypeError(f"a stream takes no values before the item that commits it, got {value!r}")


def _resume(items: Generator[Any, Any, Any], item: Any) -> Generator[Any, Any, Any]:
    """Do what ``yield from items`` does, for a generator whose last item is not out yet."""
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


def stream_async(
    fn: Callable[..., Any],
    compile: Callable[[Any], Any],
    commit: Callable[[Any], Any] | None = None,
    on_result: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """``fn``, an async generator function, opened under the policy that ``compile`` applies."""

    async def begin(*args: Any, **kwargs: Any) -> HeldBack:
        items = fn(*args, **kwargs)
        _remember(items)
        opened = HeldBack(items)
        while True:
            try:
                opened.hold(await anext(items))
            except StopAsyncIteration:
                opened.end()
            if on_result is not None and not opened.is_judged:
                opened.answer = await aio.call_hook("on_result", on_result, None, opened.item)
            if opened.is_ready or commit is None or await aio.call_hook("commit", commit, None, opened.item):
                return opened

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
                if not isinstance(first, HeldBack) or items is not first.items:
                    await items.aclose()
        if not isinstance(first, HeldBack):
            async for item in first:
                yield item
            return
        items = first.items
        try:
            while len(first.held) > 1 or (first.ended and first.held):
                _refuse_sent((yield first.held.pop(0)))
            if first.ended:
                return
            item = first.held.pop()
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
