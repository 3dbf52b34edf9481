"""Which request bodies can be sent again, and the reasons why others cannot."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from stormproof._http.body import WHOLE, AsyncBody, Body, Files, OneShot, place, replay_of


@pytest.mark.parametrize(
    "content", [None, b"x", bytearray(b"x"), memoryview(b"x"), "x", [b"a", b"b"], (b"a",)]
)
def test_body_in_memory_is_repeatable(content: Any) -> None:
    assert replay_of(content, None, 100) is WHOLE
    assert WHOLE.refusal() is None
    assert WHOLE.shared


def test_file_body_is_sent_again_from_its_first_position() -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(4)
    replay = replay_of(file, None, 100)
    assert isinstance(replay, Files) and replay.refusal() is None and not replay.shared
    file.read()
    replay.rewind()
    assert file.read() == b"456789"


def test_closed_file_is_refused() -> None:
    file = io.BytesIO(b"0")
    replay = replay_of(file, None, 100)
    file.close()
    assert replay.refusal() == "its body cannot be sent again: the file has been closed"


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False


class AsyncFile:
    async def read(self, size: int = -1) -> bytes:
        return b""

    async def seek(self, place: int) -> int:
        return place

    async def tell(self) -> int:
        return 0


class RaisesOnTell(io.BytesIO):
    def tell(self) -> int:
        raise OSError("no")


@pytest.mark.parametrize(
    "make", [lambda: iter([b"a"]), lambda: (b for b in [b"a"]), Unseekable, AsyncFile, RaisesOnTell, object]
)
def test_one_shot_body_is_refused_once_touched(make: Any) -> None:
    replay = replay_of(make(), None, 100)
    assert isinstance(replay, OneShot) and not replay.shared
    # Nothing has been read of it yet: a connection that was refused did no harm.
    assert replay.refusal() is None
    replay.touched = True
    assert str(replay.refusal()).startswith("its body cannot be sent again: a stream is read only once")


def test_pipe_has_no_position() -> None:
    reading, writing = os.pipe()
    try:
        with open(reading, "rb", closefd=False) as pipe:
            assert place(pipe) is None
    finally:
        os.close(reading)
        os.close(writing)


def test_replay_is_bounded_in_size() -> None:
    assert replay_of(b"x" * 10, None, 10) is WHOLE
    assert (
        replay_of(b"x" * 11, None, 10).refusal()
        == "its body cannot be sent again: 11 bytes are more than 10 (replay=)"
    )
    assert replay_of(memoryview(b"x" * 8).cast("i"), None, 7).refusal() is not None
    assert replay_of(memoryview(b"x" * 8).cast("i"), None, 8) is WHOLE
    assert replay_of(io.BytesIO(), 11, 10).refusal() is not None
    assert replay_of(b"x" * 11, None, None) is WHOLE
    assert replay_of(b"x", None, 0).refusal() is not None
    assert replay_of(b"", None, 0) is WHOLE
    assert str(replay_of(Body(bytes), None, 0).refusal()).endswith("replay=0")


# Bodies made anew.


def test_body_is_made_for_each_reading_and_closed_after(tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"x" * 100_000)
    opened: list[Any] = []

    def make() -> Any:
        opened.append(path.open("rb"))
        return opened[-1]

    body = Body(make)
    assert replay_of(body, None, 100) is WHOLE
    assert b"".join(body) == b"".join(body) == b"x" * 100_000
    assert [file.closed for file in opened] == [True, True]


def test_body_that_is_not_read_to_its_end_is_closed() -> None:
    file = io.BytesIO(b"x" * 200_000)
    parts = iter(Body(lambda: file))
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    assert file.closed


def _generate() -> Iterator[bytes]:
    yield b"a"
    yield b"b"


async def _agenerate() -> AsyncIterator[bytes]:
    yield b"a"
    yield b"b"


@pytest.mark.parametrize(
    "make", [lambda: b"ab", lambda: "ab", lambda: [b"a", b"b"], _generate, lambda: io.BytesIO(b"ab")]
)
def test_body_accepts_any_result_of_make(make: Any) -> None:
    assert b"".join(Body(make)) == b"ab"
    assert asyncio.run(_joined(AsyncBody(make))) == b"ab"


async def _joined(body: AsyncBody) -> bytes:
    return b"".join([chunk async for chunk in body])


def test_async_body_accepts_async_iterables() -> None:
    async def twice() -> tuple[bytes, bytes]:
        body = AsyncBody(_agenerate)
        return await _joined(body), await _joined(body)

    assert asyncio.run(twice()) == (b"ab", b"ab")


@pytest.mark.parametrize("kind", [Body, AsyncBody])
def test_make_must_be_callable_and_give_bytes(kind: Any) -> None:
    with pytest.raises(
        TypeError, match=f"{kind.__name__}: make must be a callable that gives the body, got b'x'"
    ):
        kind(b"x")
    with pytest.raises(TypeError, match="make must give bytes, a file or an iterable of bytes, got a int"):
        b"".join(Body(lambda: 5))


def test_sync_and_async_body_are_not_interchangeable() -> None:
    # httpx takes what can be iterated for the body of a sync client.
    assert not hasattr(AsyncBody, "__iter__") and not hasattr(Body, "__aiter__")


def test_body_repr_shows_its_factory() -> None:
    assert repr(Body(bytes)) == "Body(<class 'bytes'>)"
    assert repr(AsyncBody(bytes)) == "AsyncBody(<class 'bytes'>)"
