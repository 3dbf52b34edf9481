"""Request bodies: which can be sent again, and why another cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from .._runtime.function_kind import function_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any

_CHUNK = 65536


class Made:
    """A request body made anew for every attempt by ``make()``, which gives bytes, a file, or an iterable."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        if not callable(make):
            raise TypeError(
                f"{type(self).__name__}: make must be a callable that gives the body, got {make!r}"
            )
        self.make = make

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.make!r})"


class Body(Made):
    """A body that is made anew for every attempt: ``content=Body(lambda: open(path, "rb"))``.

    ``make()`` gives bytes, a file, or an iterable of bytes. What it opened is closed when it has been
    sent, or when the attempt ends before that.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        content = self.make()
        try:
            yield from _chunks(content)
        finally:
            close = getattr(content, "close", None)
            if close is not None:
                close()


class AsyncBody(Made):
    """`Body` for async clients: ``make()`` may also give an async iterable of bytes."""

    __slots__ = ()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self.make()
        try:
            if hasattr(content, "__aiter__"):
                async for chunk in content:
                    yield chunk
            else:
                for chunk in _chunks(content):
                    yield chunk
        finally:
            close = getattr(content, "aclose", None) or getattr(content, "close", None)
            pending = None if close is None else close()
            if isinstance(pending, Awaitable):
                await pending


def _chunks(content: object) -> Iterator[bytes]:
    if isinstance(content, str):
        yield content.encode()
    elif isinstance(content, (bytes, bytearray, memoryview)):
        yield bytes(content)
    elif (read := getattr(content, "read", None)) is not None:
        while chunk := read(_CHUNK):
            yield chunk
    elif isinstance(content, Iterable):
        yield from content
    else:
        raise TypeError(
            f"Body: make must give bytes, a file or an iterable of bytes, got a {type(content).__name__}"
        )


class Replay:
    """Rule for sending one request's body again. This one: the body is whole, in memory, or absent.

    ``shared``: two attempts may send it at the same time.
    """

    __slots__ = ()
    shared = True

    def refusal(self) -> str | None:
        """Why it cannot be sent again; ``None`` if it can."""
        return None

    def rewind(self) -> None:
        """Get ready for being sent again. What this raises is the error of the attempt."""


WHOLE = Replay()


class NotRepeatable(Replay):
    """Not to be sent again, whatever happens."""

    __slots__ = ("why",)
    shared = False

    def __init__(self, why: str) -> None:
        self.why = why

    def refusal(self) -> str | None:
        return self.why


class Files(Replay):
    """Files that go back to where they stood before the first attempt."""

    __slots__ = ("_starts",)
    shared = False

    def __init__(self, starts: list[tuple[Any, int]]) -> None:
        self._starts = starts

    def refusal(self) -> str | None:
        closed = any(getattr(file, "closed", False) for file, _ in self._starts)
        return "its body cannot be sent again: the file has been closed" if closed else None

    def rewind(self) -> None:
        for file, start in self._starts:
            file.seek(start)


class OneShot(Replay):
    """A stream that can be read once. ``touched`` is set when reading begins."""

    __slots__ = ("touched",)
    shared = False

    def __init__(self) -> None:
        self.touched = False

    def refusal(self) -> str | None:
        if not self.touched:
            return None
        why = "a stream is read only once; give bytes, a file that seeks, or a Body"
        return f"its body cannot be sent again: {why}"


def replay_of(content: object, length: int | None, limit: int | None) -> Replay:
    """Return the rule for sending ``content``, as the user gave it, again.

    ``length``: its size in bytes where that is known; ``limit``: the most to be sent more than once.
    """
    if content is None:
        return WHOLE
    if length is None and isinstance(content, (bytes, bytearray, memoryview, str)):
        length = content.nbytes if isinstance(content, memoryview) else len(content)
    if limit is not None and (length or 0) > limit:
        return NotRepeatable(f"its body cannot be sent again: {length} bytes are more than {limit} (replay=)")
    if limit == 0 and length != 0:
        return NotRepeatable("its body cannot be sent again: replay=0")
    if isinstance(content, (bytes, bytearray, memoryview, str, Made)):
        return WHOLE
    if isinstance(content, (list, tuple)) and all(isinstance(part, (bytes, str)) for part in content):
        return WHOLE
    start = place(content)
    return OneShot() if start is None else Files([(content, start)])


def place(file: object) -> int | None:
    """Return the present position of a file that seeks; ``None`` for anything else."""
    tell, seekable = getattr(file, "tell", None), getattr(file, "seekable", None)
    if tell is None or not (hasattr(file, "read") and hasattr(file, "seek")):
        return None
    if function_kind(tell) != "sync":
        return None
    try:
        if seekable is not None and not seekable():
            return None
        at = tell()
    except Exception:
        # Pipes, sockets and unusual wrappers raise many kinds of error.
        return None
    return at if isinstance(at, int) else None
