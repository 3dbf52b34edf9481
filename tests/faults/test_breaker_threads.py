"""Many threads and tasks on one breaker: the probes stay few, the counts exact, no call waits for a lock."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import stormproof as sp

pytestmark = [pytest.mark.usefixtures("watchdog"), pytest.mark.proves("fault thread-races")]


@pytest.fixture
def tiny_turns() -> Iterator[None]:
    """Threads change places as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Callable[[], Any]) -> None:
    """Run ``work`` in ``count`` threads that start together; an error in one fails the test."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def half_open(probes: int) -> sp.Breaker:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, probes=probes, clock=clock)
    breaker.admit().failure()
    clock.advance(2)
    return breaker


@pytest.mark.proves("invariant 10")
@pytest.mark.usefixtures("tiny_turns")
@pytest.mark.parametrize("probes", [1, 3])
def test_64_threads_get_at_most_the_configured_probes(probes: int, measured: Callable[[str], None]) -> None:
    """Every probe stays inside until all others have been refused."""
    breaker = half_open(probes)
    all_refused = threading.Event()
    inside: list[int] = []
    refused: list[int] = []

    @sp.Policy(breaker)
    def call() -> None:
        inside.append(1)
        assert all_refused.wait(10)

    def work() -> None:
        try:
            call()
        except sp.CircuitOpen:
            refused.append(1)
            if len(refused) == 64 - probes:
                all_refused.set()

    in_threads(64, work)
    assert len(inside) == probes
    assert breaker.state == "closed"
    measured(f"64 threads: {len(inside)} inside at once (probes={probes}), {len(refused)} refused")


@pytest.mark.proves("invariant 10")
@pytest.mark.usefixtures("tiny_turns")
def test_probes_given_back_by_64_threads_are_never_doubled() -> None:
    breaker = half_open(2)
    lock = threading.Lock()
    inside = most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            try:
                ticket = breaker.admit()
            except sp.CircuitOpen:
                continue
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1
            ticket.cancel()

    in_threads(64, work)
    assert 1 <= most <= 2
    assert breaker.state == "half_open"
    assert [breaker.admit(), breaker.admit()]


@pytest.mark.proves("invariant 10")
@pytest.mark.parametrize("probes", [1, 5])
def test_1000_tasks_get_at_most_the_configured_probes(probes: int, measured: Callable[[str], None]) -> None:
    breaker = half_open(probes)
    inside = most = 0

    @sp.Policy(breaker)
    async def call() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(1)
        inside -= 1

    async def main(clock: Any) -> list[Any]:
        return await asyncio.gather(*(call() for _ in range(1000)), return_exceptions=True)

    outcomes = sp.testing.run(main)
    assert most == probes
    assert sum(outcome is None for outcome in outcomes) == probes
    assert sum(isinstance(outcome, sp.CircuitOpen) for outcome in outcomes) == 1000 - probes
    assert breaker.state == "closed"
    measured(f"1,000 tasks: {most} inside at once at most (probes={probes})")


@pytest.mark.proves("invariant 13")
def test_10_calls_are_inside_at_the_same_time() -> None:
    """They meet at a barrier inside the call: with a lock held there, it would never fill."""
    meeting = threading.Barrier(10)
    call = sp.Policy(sp.Breaker())(lambda: meeting.wait(10))
    in_threads(10, call)


@pytest.mark.proves("invariant 13")
def test_10_probes_are_inside_at_the_same_time() -> None:
    breaker = half_open(10)
    meeting = threading.Barrier(10)
    in_threads(10, sp.Policy(breaker)(lambda: meeting.wait(10)))
    assert breaker.state == "closed"


@pytest.mark.usefixtures("tiny_turns")
def test_breaker_counts_of_many_threads_are_exact() -> None:
    breaker = sp.Breaker(trip=lambda counts: False, window=None)

    @sp.Policy(breaker)
    def call(error: Exception | None) -> None:
        if error is not None:
            raise error

    def work() -> None:
        for place in range(200):
            try:
                call(KeyError() if place % 4 == 0 else None)
            except KeyError:
                pass

    in_threads(16, work)
    counts = breaker.counts
    assert (counts.requests, counts.successes, counts.failures) == (3200, 2400, 800)


@pytest.mark.usefixtures("tiny_turns")
def test_breaker_opens_once_under_parallel_failures() -> None:
    """Sixteen calls fail at once; one change of state is emitted."""
    changes: list[Any] = []
    breaker = sp.Breaker(consecutive=4)
    meeting = threading.Barrier(16)

    @sp.Policy(breaker)
    def call() -> None:
        meeting.wait(10)
        raise ConnectionError

    def work() -> None:
        with pytest.raises(ConnectionError):
            call()

    stop = sp.subscribe(changes.append)
    try:
        in_threads(16, work)
    finally:
        stop()
    assert [(event.before, event.after) for event in changes] == [("closed", "open")]


@pytest.mark.proves("invariant 11")
def test_thread_that_hangs_inside_a_probe_is_given_up() -> None:
    """The lease frees the place; the result that comes after all changes nothing."""
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, probe_timeout=5, clock=clock)
    breaker.admit().failure()
    clock.advance(2)
    inside, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        go_on.wait()
        raise ConnectionError

    def work() -> None:
        with pytest.raises(ConnectionError):
            sp.Policy(breaker).call(hang)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert inside.wait(10)
        clock.advance(5.1)
        breaker.admit().success()
        assert breaker.state == "closed"
    finally:
        go_on.set()
        thread.join()
    assert breaker.state == "closed"
    assert breaker.counts.failures == 0
