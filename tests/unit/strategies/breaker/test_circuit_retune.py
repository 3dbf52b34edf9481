"""The circuit under options that change while it is in use, and buckets that calls settle late."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stormproof._strategies.breaker.rules.circuit import Circuit, Window


def circuit(**changed: Any) -> Circuit:
    given = {"now": 0.0, "window_s": 10.0, "bucket_s": 1.0, "probes": 1, "probe_timeout_s": 60.0}
    return Circuit(**{"open_for": lambda reopenings: 30.0, **given, **changed})


def retune(one: Circuit, now: float, **changed: Any) -> None:
    given = {"window_s": 10.0, "bucket_s": 1.0, "probes": 1, "probe_timeout_s": 60.0}
    one.retune(now, **{**given, **changed})


def fail_at(window: Window, now: float) -> None:
    bucket = window.roll(now)
    bucket.started()
    window.fail(bucket)


def seen(window: Window) -> tuple[int, int]:
    counts = window.counts()
    return counts.requests, counts.failures


def test_shorter_window_forgets_what_is_older_and_keeps_the_rest() -> None:
    window = Window(10.0, 1.0, 0.0)
    for now in (0.5, 7.5, 8.5, 9.5):
        fail_at(window, now)
    window.resize(2.0, 1.0, 9.5)
    # The buckets end at 1, 8, 9 and 10: those of the last two seconds stay.
    assert seen(window) == (2, 2)
    assert window.totals() == (0, 4), "what has left the window still counts in the sum of all"


def test_longer_window_keeps_what_there_is_for_longer() -> None:
    window = Window(2.0, 1.0, 0.0)
    fail_at(window, 0.5)
    window.resize(10.0, 1.0, 0.5)
    window.roll(9.5)
    assert seen(window) == (1, 1)
    window.roll(11.5)
    assert seen(window) == (0, 0)


def test_narrower_buckets_begin_with_the_current_one() -> None:
    window = Window(100.0, 50.0, 0.0)
    fail_at(window, 1.0)
    window.resize(10.0, 5.0, 1.0)
    # The current bucket ends five seconds from now, not at 50.
    assert window.roll(6.0) is window.current and seen(window) == (1, 1)
    window.roll(16.5)
    assert seen(window) == (0, 0)


def test_window_without_an_end_forgets_nothing() -> None:
    window = Window(10.0, 1.0, 0.0)
    fail_at(window, 0.5)
    window.resize(None, None, 0.5)
    window.roll(1e9)
    assert seen(window) == (1, 1)


def test_endless_window_may_be_given_an_end() -> None:
    window = Window(None, None, 0.0)
    fail_at(window, 5.0)
    window.resize(10.0, 1.0, 5.0)
    assert seen(window) == (1, 1)
    window.roll(100.0)
    assert seen(window) == (0, 0)


def test_call_that_begins_in_a_bucket_just_left_is_counted() -> None:
    window = Window(10.0, 1.0, 0.0)
    bucket = window.current
    window.roll(1.5)
    # Its thread was given the bucket before the window rolled on, and counts in it only now.
    bucket.started()
    window.fail(bucket)
    assert seen(window) == (1, 1)


def test_slow_call_is_not_excluded() -> None:
    one = circuit()
    bucket = one.roll(0.0)
    assert bucket is not None
    bucket.started()
    assert one.slow(bucket, 0.5)
    counts = one.counts()
    assert (counts.slow, counts.stalled, counts.excluded) == (1, 1, 0)


def test_retune_applies_the_window() -> None:
    one = circuit()
    assert one.window is not None
    for now in (0.5, 9.5):
        fail_at(one.window, now)
    retune(one, 9.5)
    assert one.counts().failures == 2
    retune(one, 9.5, window_s=2.0)
    assert one.counts().failures == 1
    one.roll(20.0)
    assert one.counts().failures == 0
    # A circuit that closes again has the new one, too.
    one.close(20.0)
    assert (one.window.size, one.window.width) == (2, 1.0)


def test_retune_applies_the_buckets() -> None:
    one = circuit()
    assert one.window is not None
    for now in (7.9, 9.5):
        fail_at(one.window, now)
    retune(one, 9.5, window_s=2.0, bucket_s=0.5)
    assert (one.window.size, one.window.width) == (4, 0.5)
    assert one.counts().failures == 1


def test_retune_of_an_open_circuit_makes_the_open_time_shorter_never_longer() -> None:
    open_s = [30.0]
    one = circuit(open_for=lambda reopenings: open_s[0] * (reopenings + 1))
    assert one.trip(one.generation, 0.0)
    open_s[0] = 600.0
    retune(one, 5.0, window_s=5.0)
    assert one.wait_for(5.0) == 25.0
    open_s[0] = 10.0
    retune(one, 5.0, window_s=5.0)
    assert one.wait_for(5.0) == 10.0
    one.roll(16.0)
    assert one.state == "half_open"


def test_retune_of_a_closed_circuit_does_not_ask_how_long_to_be_open() -> None:
    asked: list[int] = []
    one = circuit(open_for=lambda reopenings: asked.append(reopenings) or 30.0)
    retune(one, 5.0)
    assert asked == []
    # Nor does a closed one have an end.
    assert one.until == math.inf


@pytest.mark.parametrize(("probes", "timeout_s"), [(2, 60.0), (1, 5.0)])
def test_retune_applies_the_probes(probes: int, timeout_s: float) -> None:
    one = circuit()
    one.trip(one.generation, 0.0)
    one.roll(31.0)
    retune(one, 31.0, probes=probes, probe_timeout_s=timeout_s)
    admitted = [one.admit_probe(31.0) for _ in range(3)]
    assert sum(probe is not None for probe in admitted) == probes
    assert admitted[0] is not None and admitted[0].lease == 31.0 + timeout_s
