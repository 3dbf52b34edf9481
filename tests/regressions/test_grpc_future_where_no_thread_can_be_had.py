"""The first future of a process that could not start a thread just then: every later one waited for ever.

Stormproof: that one call fails, and the next one tries again.
"""

from __future__ import annotations

import threading

import pytest

from stormproof.grpc import background


async def answer() -> int:
    return 42


def test_next_future_finds_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = set(threading.enumerate())
    monkeypatch.setattr(background, "_loop", None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            background.submit(answer())
    assert background.submit(answer()).result(10) == 42
    loop = background._loop
    assert loop is not None
    (ours,) = set(threading.enumerate()) - before
    loop.call_soon_threadsafe(loop.stop)
    ours.join(10)
    loop.close()
