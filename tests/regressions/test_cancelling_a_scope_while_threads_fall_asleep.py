"""``scope.cancel()`` wakes sleeping threads, also when others fall asleep or wake up at that very moment.

It raised ``RuntimeError: dictionary changed size during iteration`` when the garbage collector ran in the
middle of it, and gave another thread the time to begin or end a wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import holdfast as hf
from holdfast._drive import interrupt


@pytest.fixture
def restless() -> Iterator[list[interrupt.Sleeper]]:
    """At every collection, and there are many, a thread seems to fall asleep."""
    before = dict(interrupt._sleepers)
    added: list[interrupt.Sleeper] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and len(added) < 10_000:
            sleeper = interrupt.Sleeper()
            added.append(sleeper)
            interrupt._sleepers[sleeper] = None

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    yield added
    gc.set_threshold(*threshold)
    gc.callbacks.remove(collected)
    interrupt._sleepers.clear()
    interrupt._sleepers.update(before)


def test_it_does_not_raise(restless: list[interrupt.Sleeper]) -> None:
    for _ in range(40):
        with hf.deadline(None) as scope:
            interrupt._sleepers[interrupt.Sleeper()] = None
            scope.cancel()
    assert restless
