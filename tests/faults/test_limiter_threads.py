"""Many threads on one limiter, switching as often as the interpreter can: not a token too many, none lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

import stormproof as sp
from stormproof._strategies.limiter.rules.bucket import Bucket

pytestmark = pytest.mark.proves("fault thread-races")

THREADS = 64


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def race(work: object) -> None:
    start = threading.Barrier(THREADS)

    def run(place: int) -> None:
        start.wait()
        work(place)  # type: ignore[operator]

    threads = [threading.Thread(target=run, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_allow_in_many_threads_grants_every_token_once() -> None:
    limiter = sp.Limiter(0, 10_000)
    granted = [0] * THREADS

    def work(place: int) -> None:
        for _ in range(300):
            granted[place] += limiter.allow()

    race(work)
    assert sum(granted) == 10_000
    assert limiter.tokens() == 0


def test_allow_beside_all_other_methods_loses_no_token() -> None:
    """Reservations, refunds, weighted calls and readings beside the short way of `allow`."""
    # A reservation can be given back only until its time has come, so time stands still.
    limiter = sp.Limiter(0, 20_000, clock=sp.testing.FakeClock())
    taken = [0] * THREADS

    def work(place: int) -> None:
        for turn in range(200):
            if place % 4 == 0:
                taken[place] += limiter.allow(2) * 2
            elif place % 4 == 1:
                reservation = limiter.reserve()
                if turn % 2:
                    reservation.cancel()
                else:
                    taken[place] += reservation.ok
            elif place % 4 == 2 and turn % 10 == 0:
                limiter.charge(1)
                taken[place] += 1
                limiter.tokens()
            else:
                taken[place] += limiter.allow()

    race(work)
    assert limiter.tokens() == 20_000 - sum(taken)


class Paused(Bucket):
    """Stops between looking and taking, the first time."""

    def tokens(self, now: float) -> float:
        found = super().tokens(now)
        if not self.looked.is_set():
            self.looked.set()
            self.go_on.wait(10)
        return found


def test_allow_waits_while_another_thread_reserves() -> None:
    """A token that `allow` took between another's look and its taking would be lost, and given twice."""
    limiter = sp.Limiter(0, 10)
    bucket = Paused(0.0, 10, 0.0)
    bucket.looked, bucket.go_on = threading.Event(), threading.Event()
    limiter._bucket = bucket
    slow = threading.Thread(target=limiter.reserve)
    quick = threading.Thread(target=limiter.allow)
    slow.start()
    assert bucket.looked.wait(10)
    quick.start()
    quick.join(0.1)
    bucket.go_on.set()
    slow.join()
    quick.join()
    assert limiter.tokens() == 8
