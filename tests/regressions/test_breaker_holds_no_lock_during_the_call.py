"""A breaker held its lock during the call: five calls of 0.1 s took 0.5 s.

Stormproof: calls meet inside, which they could not with a lock around them.
"""

from __future__ import annotations

import threading

import pytest

import stormproof as sp


@pytest.mark.usefixtures("watchdog")
def test_five_calls_are_inside_together() -> None:
    meeting = threading.Barrier(5)
    met: list[int] = []

    @sp.Policy(sp.Breaker())
    def call() -> None:
        met.append(meeting.wait(10))

    threads = [threading.Thread(target=call, daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(met) == [0, 1, 2, 3, 4]
