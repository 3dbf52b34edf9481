"""A `memoryview` held back did not count towards the 1 MiB after which a stream commits by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stormproof as sp

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_stream_commits_when_a_mebibyte_is_held_whatever_holds_it(kind: type) -> None:
    starts: list[int] = []

    @sp.retry(on=ConnectionError, backoff=sp.Constant(0), commit=lambda item: False)
    def chunks() -> Iterator[object]:
        starts.append(1)
        yield memoryview(bytes(MEBIBYTE)).cast("I") if kind is memoryview else kind(MEBIBYTE)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        list(chunks())
    assert len(starts) == 1
