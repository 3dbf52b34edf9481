"""A foreign record in the store, nested without end: it is unreadable, and nothing worse happens."""

from __future__ import annotations

import pytest

from stormproof._server.replay import replay, unpack


@pytest.mark.parametrize("head", [b"[" * 100_000, b'{"a":' * 100_000, b"[200," + b"[" * 100_000])
def test_foreign_record_is_not_an_answer(head: bytes) -> None:
    assert unpack(head + b"\n") is None
    assert replay(head + b"\n") is None
