"""``scope.cancel()`` wakes sleeping threads, also when others fall asleep or wake up at that very moment.

It raised ``RuntimeError: dictionary changed size during iteration`` when the garbage collector ran in the
middle of it, and gave another thread the time to begin or end a wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import stormproof as sp
from stormproof._runtime import interrupts


@pytest.fixture
def restless() -> Iterator[list[interrupts.Sleeper]]:
    """At every collection, and there are many, a thread seems to fall asleep."""
    before = dict(interrupts._sleepers)
    added: list[interrupts.Sleeper] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and len(added) < 10_000:
            sleeper = interrupts.Sleeper()
            added.append(sleeper)
            interrupts._sleepers[sleeper] = None

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    yield added
    gc.set_threshold(*threshold)
    gc.callbacks.remove(collected)
    interrupts._sleepers.clear()
    interrupts._sleepers.update(before)


def test_cancel_while_threads_fall_asleep_does_not_raise(restless: list[interrupts.Sleeper]) -> None:
    for _ in range(40):
        with sp.deadline(None) as scope:
            interrupts._sleepers[interrupts.Sleeper()] = None
            scope.cancel()
    assert restless
