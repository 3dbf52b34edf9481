"""A waiter polled: it woke up again and again, and burnt a core, until its token was there.

Stormproof: one sleep per wait, of exactly the right length, however many wait.
"""

from __future__ import annotations

import pytest
from tests.support.loops import Loop, each_loop

import stormproof as sp


def test_one_sleep_per_wait() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(10, 1, clock=clock)
    for _ in range(51):
        limiter.wait()
    assert clock.sleeps == pytest.approx([0.1] * 50)


@each_loop
def test_one_sleep_per_waiting_task(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    async def scenario() -> None:
        from stormproof._runtime import interrupts

        library = interrupts.library()
        assert library is not None
        sleep = library.sleep

        async def counted(seconds: float) -> None:
            asked.append(seconds)
            await sleep(seconds)

        monkeypatch.setattr(library, "sleep", counted)
        limiter = sp.Limiter(10, 1)
        await loop.together(*[limiter.wait_async for _ in range(21)])

    loop.run(scenario)
    assert len(asked) == 20
    assert sorted(asked) == pytest.approx([n / 10 for n in range(1, 21)], abs=0.05)
