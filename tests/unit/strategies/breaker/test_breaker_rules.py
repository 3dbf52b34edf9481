"""The breaker's state machine by itself, with the time given."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stormproof._strategies.breaker.rules.circuit import Circuit, Counts, Window, default_trip


def make_circuit(
    window_s: float | None = None,
    bucket_s: float | None = None,
    open_s: Any = 10.0,
    probes: int = 1,
    probe_timeout_s: float | None = 5.0,
    now: float = 0.0,
) -> Circuit:
    open_for = open_s if callable(open_s) else lambda reopenings: open_s
    return Circuit(now, window_s, bucket_s, open_for, probes, probe_timeout_s)


def bucket(of: Circuit, now: float) -> Any:
    bucket = of.roll(now)
    assert bucket is not None
    return bucket


def call(of: Circuit, now: float, outcome: str = "failure") -> bool:
    """A call that begins and ends at once: whether the circuit is to be judged for it."""
    began = bucket(of, now)
    began.started()
    return of.settle(began, outcome, False, now)


def half_open(**options: Any) -> Circuit:
    """A circuit that opened at 0 for 10 s, at 11 s."""
    circuit = make_circuit(**options)
    assert circuit.trip(circuit.generation, 0.0)
    assert circuit.roll(11.0) is None
    assert circuit.state == "half_open"
    return circuit


# Counts.


def test_counts_begin_at_zero_and_a_copy_is_a_snapshot() -> None:
    counts = Counts()
    assert set(counts.as_dict().values()) == {0}
    for place, name in enumerate(Counts.__slots__, 1):
        setattr(counts, name, place)
    copy = counts.copy()
    assert copy == counts
    assert copy.as_dict() == {name: place for place, name in enumerate(Counts.__slots__, 1)}
    counts.failures += 1
    assert copy != counts
    assert counts != counts.as_dict()


# The window.


def test_repr_of_counts_shows_its_fields() -> None:
    counts = Counts()
    counts.failures = 3
    shown = repr(counts)
    assert shown.startswith("Counts(") and "failures=3" in shown and "successes=0" in shown


def test_window_without_a_length_never_moves_on() -> None:
    window = Window(None, None, 0.0)
    first = window.current
    assert first.end == math.inf
    assert window.roll(1e12) is first


def test_window_without_a_bucket_length_has_ten_buckets() -> None:
    window = Window(10.0, None, 0.0)
    first = window.current
    assert first.end == 1.0
    assert window.roll(1.0) is first
    second = window.roll(1.5)
    assert (second is first, second.end) == (False, 2.0)
    assert window.roll(9.5).end == 10.0
    assert window.holds(first) and window.holds(second)
    assert window.roll(10.5).end == 11.0
    assert not window.holds(first) and window.holds(second)


@pytest.mark.parametrize(
    ("window_s", "bucket_s", "size"), [(10, 2, 5), (10, 3, 4), (1, 10, 1), (0.3, 0.1, 3), (10, 10, 1)]
)
def test_window_has_enough_buckets_to_cover_its_length(window_s: float, bucket_s: float, size: int) -> None:
    window = Window(window_s, bucket_s, 0.0)
    first = window.current
    assert first.end == bucket_s
    # Half a bucket before the first one is out, and half a bucket after.
    window.roll((size - 0.5) * bucket_s)
    assert window.holds(first)
    window.roll((size + 0.5) * bucket_s)
    assert not window.holds(first)


def test_fixed_window_restarts_at_the_next_reading() -> None:
    window = Window(10.0, 10.0, 0.0)
    assert window.roll(10.0) is window.current
    again = window.roll(17.0)
    assert again.end == 27.0
    assert window.counts() == Counts()


def test_rolling_window_skips_idle_slices() -> None:
    window = Window(5.0, 1.0, 0.0)
    first = window.current
    far = window.roll(3.5)
    assert far.end == 4.0
    assert window.holds(first)
    further = window.roll(8.5)
    assert further.end == 9.0
    assert not window.holds(first) and not window.holds(far)
    # Time set back rolls nothing.
    assert window.roll(2.0) is further


def test_buckets_edge_belongs_to_the_bucket() -> None:
    window = Window(3.0, 1.0, 0.0)
    window.roll(1.5)
    assert window.roll(2.0).end == 2.0
    assert window.roll(3.0).end == 3.0


def settle(window: Window, row: Any, successes: int = 0, failures: int = 0) -> None:
    for _ in range(successes):
        row.started()
        row.succeeded()
    for _ in range(failures):
        row.started()
        window.fail(row)


def test_sums_are_over_the_window_and_totals_over_all() -> None:
    window = Window(2.0, 1.0, 0.0)
    settle(window, window.current, successes=3, failures=2)
    window.note(window.current, excluded=1, slow=2, stalled=1)
    settle(window, window.roll(1.5), successes=4, failures=1)
    window.note(window.current, excluded=1, slow=1, stalled=2)
    counts = window.counts()
    assert (counts.requests, counts.successes, counts.failures) == (10, 7, 3)
    assert (counts.excluded, counts.slow, counts.stalled) == (2, 3, 3)
    assert (counts.consecutive_failures, counts.consecutive_successes) == (1, 0)
    window.roll(2.5)
    counts = window.counts()
    assert (counts.requests, counts.successes, counts.failures) == (5, 4, 1)
    assert (counts.excluded, counts.slow, counts.stalled) == (1, 1, 2)
    assert window.totals() == (7, 3)


def test_streak_outlives_its_bucket_in_a_rolling_window() -> None:
    window = Window(2.0, 1.0, 0.0)
    settle(window, window.current, failures=2)
    settle(window, window.roll(1.5), failures=1)
    window.roll(2.5)
    assert window.counts().consecutive_failures == 3
    settle(window, window.current, successes=2)
    counts = window.counts()
    assert (counts.consecutive_failures, counts.consecutive_successes) == (0, 2)
    settle(window, window.current, successes=1)
    assert window.counts().consecutive_successes == 3
    settle(window, window.current, failures=1)
    counts = window.counts()
    assert (counts.consecutive_failures, counts.consecutive_successes) == (1, 0)


def test_streak_ends_with_its_fixed_window() -> None:
    window = Window(10.0, 10.0, 0.0)
    settle(window, window.current, failures=2)
    window.roll(11.0)
    counts = window.counts()
    assert (counts.consecutive_failures, counts.consecutive_successes) == (0, 0)
    settle(window, window.current, successes=2)
    window.roll(22.0)
    assert window.counts().consecutive_successes == 0
    assert window.totals() == (2, 2)


def test_successes_of_a_bucket_that_leaves_are_in_the_totals() -> None:
    window = Window(2.0, 1.0, 0.0)
    settle(window, window.current, successes=5)
    window.roll(10.0)
    assert window.totals() == (5, 0)
    assert window.counts().consecutive_successes == 5


def test_window_moves_with_its_clock() -> None:
    window = Window(2.0, 1.0, 0.0)
    first = window.current
    second = window.roll(1.5)
    window.move(100.0)
    assert (first.end, second.end) == (101.0, 102.0)


# Closed.


def test_circuit_starts_closed_with_empty_counts() -> None:
    circuit = make_circuit(now=7.0)
    assert (circuit.state, circuit.generation, circuit.reopenings, circuit.closed_at) == (
        "closed",
        0,
        0,
        -math.inf,
    )
    assert circuit.counts() == Counts()
    assert circuit.current is circuit.roll(7.0)
    assert circuit.open_s == math.inf


def test_only_a_failure_is_judged() -> None:
    circuit = make_circuit()
    assert call(circuit, 1.0, "failure") is True
    assert call(circuit, 1.0, "success") is False
    assert call(circuit, 1.0, "excluded") is False
    assert call(circuit, 1.0, "excluded") is False
    counts = circuit.counts()
    assert (counts.requests, counts.failures, counts.successes, counts.excluded) == (4, 1, 1, 2)


def test_late_result_counts_nowhere() -> None:
    circuit = make_circuit(window_s=10.0, bucket_s=10.0)
    old = bucket(circuit, 1.0)
    old.started()
    assert circuit.settle(old, "failure", False, 11.0) is False
    assert circuit.counts() == Counts()
    began = bucket(circuit, 12.0)
    assert circuit.trip(circuit.generation, 12.0)
    assert circuit.settle(began, "failure", False, 13.0) is False
    assert circuit.counts() == Counts()


def test_new_fixed_window_is_a_new_generation_and_a_rolling_one_is_not() -> None:
    fixed, rolling = make_circuit(window_s=10.0, bucket_s=10.0), make_circuit(window_s=10.0, bucket_s=1.0)
    for each in (fixed, rolling):
        before = each.generation
        each.roll(9.0)
        assert each.generation == before
        each.roll(11.0)
        each.roll(22.0)
    assert fixed.generation == 2
    assert rolling.generation == 0


def test_slow_call_is_counted_while_it_runs() -> None:
    circuit = make_circuit()
    began = bucket(circuit, 0.0)
    began.started()
    assert circuit.slow(began, 1.0) is True
    assert (circuit.counts().slow, circuit.counts().stalled) == (1, 1)
    circuit.settle(began, "success", True, 2.0)
    counts = circuit.counts()
    assert (counts.slow, counts.stalled, counts.successes) == (1, 0, 1)


def test_slow_call_of_an_earlier_generation_is_not_counted() -> None:
    circuit = make_circuit(window_s=10.0, bucket_s=10.0)
    old = bucket(circuit, 0.0)
    assert circuit.slow(old, 11.0) is False
    assert circuit.trip(circuit.generation, 11.0)
    assert circuit.slow(old, 12.0) is False


# Open.


def test_circuit_trips_once_and_only_for_its_current_generation() -> None:
    circuit = make_circuit()
    seen = circuit.generation
    assert circuit.trip(seen - 1, 3.0) is False
    assert circuit.state == "closed"
    assert circuit.trip(seen, 3.0) is True
    assert (circuit.state, circuit.generation, circuit.until, circuit.open_s) == (
        "open",
        seen + 1,
        13.0,
        10.0,
    )
    assert circuit.trip(circuit.generation, 3.0) is False
    assert circuit.current is None
    assert circuit.roll(4.0) is None


def test_circuit_stays_open_to_the_last_moment() -> None:
    circuit = make_circuit()
    circuit.trip(circuit.generation, 0.0)
    assert circuit.wait_for(0.0) == 10.0
    assert circuit.wait_for(4.0) == 6.0
    assert circuit.wait_for(12.0) == 0.0
    circuit.roll(10.0)
    assert circuit.state == "open"
    circuit.roll(10.1)
    assert (circuit.state, circuit.generation) == ("half_open", 2)


def test_clock_set_back_does_not_lengthen_the_open_time() -> None:
    circuit = make_circuit(now=1000.0)
    circuit.trip(circuit.generation, 1000.0)
    assert circuit.wait_for(0.0) == 10.0
    circuit.roll(0.0)
    assert circuit.until == 10.0
    circuit.roll(5.0)
    assert circuit.until == 10.0


# Half open.


def test_half_open_admits_at_most_probes() -> None:
    circuit = half_open(probes=2)
    first, second = circuit.admit_probe(11.0), circuit.admit_probe(12.0)
    assert first is not None and second is not None
    assert (first.lease, second.lease) == (16.0, 17.0)
    assert circuit.admit_probe(12.0) is None
    assert circuit.counts().requests == 2
    assert circuit.wait_for(13.0) == 3.0


def test_circuit_closes_after_all_probes_succeed() -> None:
    circuit = half_open(probes=3)
    for place in (1, 2):
        probe = circuit.admit_probe(11.0)
        assert probe is not None
        assert circuit.settle_probe(probe, "success", 12.0) is True
        assert circuit.state == "half_open"
        counts = circuit.counts()
        assert (counts.successes, counts.consecutive_successes) == (place, place)
        assert counts.consecutive_failures == 0
    last = circuit.admit_probe(13.0)
    assert last is not None
    assert circuit.settle_probe(last, "success", 13.0) is True
    assert (circuit.state, circuit.closed_at, circuit.reopenings, circuit.generation) == (
        "closed",
        13.0,
        0,
        3,
    )
    assert circuit.counts() == Counts()


def test_failed_probe_reopens_the_circuit_for_the_next_open_time() -> None:
    asked: list[int] = []

    def longer(reopenings: int) -> float:
        asked.append(reopenings)
        return 10.0 * (reopenings + 1)

    circuit = half_open(open_s=longer, probes=2)
    first, second = circuit.admit_probe(11.0), circuit.admit_probe(11.0)
    assert first is not None and second is not None
    assert circuit.settle_probe(first, "failure", 12.0) is True
    assert (circuit.state, circuit.reopenings, circuit.until, circuit.open_s) == ("open", 1, 32.0, 20.0)
    # The other probe belongs to the past.
    assert circuit.settle_probe(second, "success", 12.0) is False
    assert circuit.roll(33.0) is None
    third = circuit.admit_probe(33.0)
    assert third is not None
    circuit.settle_probe(third, "failure", 33.0)
    assert (circuit.reopenings, circuit.until) == (2, 63.0)
    assert asked == [0, 1, 2]


def test_closing_resets_the_number_of_reopenings() -> None:
    circuit = half_open()
    probe = circuit.admit_probe(11.0)
    assert probe is not None
    circuit.settle_probe(probe, "failure", 11.0)
    circuit.roll(22.0)
    probe = circuit.admit_probe(22.0)
    assert probe is not None
    circuit.settle_probe(probe, "success", 22.0)
    assert (circuit.state, circuit.reopenings) == ("closed", 0)


def test_excluded_probe_makes_room_for_another() -> None:
    circuit = half_open()
    probe = circuit.admit_probe(11.0)
    assert probe is not None
    assert circuit.settle_probe(probe, "excluded", 12.0) is True
    assert circuit.settle_probe(probe, "success", 12.0) is False
    assert (circuit.state, circuit.counts().excluded) == ("half_open", 1)
    again = circuit.admit_probe(12.0)
    assert again is not None
    assert circuit.admit_probe(12.0) is None
    circuit.settle_probe(again, "excluded", 12.0)
    assert circuit.counts().excluded == 2
    assert circuit.admit_probe(12.0) is not None


def test_lost_probe_frees_its_place_when_its_lease_has_run_out() -> None:
    circuit = half_open()
    lost = circuit.admit_probe(11.0)
    assert lost is not None
    assert circuit.admit_probe(16.0) is None
    assert circuit.wait_for(16.0) == 0.0
    again = circuit.admit_probe(16.1)
    assert again is not None
    assert circuit.settle_probe(lost, "failure", 16.2) is False
    assert circuit.state == "half_open"
    # Its result comes a moment too late: the lease ends first.
    assert circuit.settle_probe(again, "success", 30.0) is False
    assert circuit.state == "half_open"


def test_probe_without_a_timeout_keeps_its_place() -> None:
    circuit = half_open(probe_timeout_s=None)
    probe = circuit.admit_probe(11.0)
    assert probe is not None
    assert probe.lease == math.inf
    assert circuit.admit_probe(1e9) is None


def test_oldest_lease_gives_the_time_until_a_probe_is_free() -> None:
    circuit = half_open(probes=2)
    assert circuit.wait_for(11.0) == 0.0
    circuit.admit_probe(14.0)
    circuit.admit_probe(11.0)
    assert circuit.wait_for(12.0) == 4.0
    assert circuit.wait_for(99.0) == 0.0


# By hand, and by another clock.


def test_close_resets_the_circuit() -> None:
    circuit = half_open()
    probe = circuit.admit_probe(11.0)
    assert probe is not None
    circuit.settle_probe(probe, "failure", 11.0)
    circuit.close(12.0)
    assert (circuit.state, circuit.reopenings, circuit.until) == ("closed", 0, math.inf)


def test_circuit_moves_with_its_clock() -> None:
    circuit = half_open(probes=2)
    probe = circuit.admit_probe(11.0)
    assert probe is not None
    circuit.move(100.0)
    assert probe.lease == 116.0
    other = make_circuit(window_s=10.0, bucket_s=10.0)
    other.trip(other.generation, 0.0)
    other.closed_at = 3.0
    other.move(100.0)
    assert (other.until, other.closed_at) == (110.0, 103.0)
    third = make_circuit(window_s=10.0, bucket_s=10.0)
    third.move(100.0)
    assert third.roll(110.0) is third.current
    assert third.current is not None and third.current.end == 110.0


# When it trips.


def counts(**given: int) -> Counts:
    counts = Counts()
    for name, value in given.items():
        setattr(counts, name, value)
    return counts


@pytest.mark.parametrize(
    ("seen", "trips"),
    [
        (counts(failures=5, successes=5), True),
        (counts(failures=4, successes=6), False),
        (counts(failures=5, successes=4), False),
        (counts(failures=10), True),
        (counts(successes=10), False),
        (counts(failures=5, successes=4, excluded=1), False),
    ],
)
def test_ratio_of_failures_trips(seen: Counts, trips: bool) -> None:
    assert default_trip(0.5, 10, None, None)(seen) is trips
    assert default_trip(None, 10, None, None)(seen) is False


def test_default_trip_trips_on_consecutive_failures() -> None:
    trip = default_trip(None, 100, 3, None)
    assert not trip(counts(consecutive_failures=2))
    assert trip(counts(consecutive_failures=3))
    assert not default_trip(0.5, 100, None, None)(counts(consecutive_failures=50))


@pytest.mark.parametrize(
    ("seen", "trips"),
    [
        (counts(slow=5, successes=10), True),
        (counts(slow=4, successes=10), False),
        (counts(slow=5, successes=5, stalled=5), True),
        (counts(slow=5, successes=4, stalled=5), False),
        (counts(slow=5, successes=5, failures=5), True),
        (counts(slow=9, successes=9), False),
    ],
)
def test_default_trip_compares_the_ratio_of_slow_calls(seen: Counts, trips: bool) -> None:
    assert bool(default_trip(None, 10, None, 0.5)(seen)) is trips
    assert not default_trip(None, 10, None, None)(seen)


def test_slow_half_of_the_calls_trips() -> None:
    assert default_trip(None, 2, None, 0.5)(counts(slow=1, successes=2))
    assert default_trip(None, 1, None, 1.0)(counts(slow=1, successes=1))


def test_default_trip_without_calls_is_not_tripped_by_slowness() -> None:
    assert not default_trip(None, 0, None, 0.0)(counts())


def test_clock_set_back_by_more_than_a_bucket_continues_from_the_new_time() -> None:
    window = Window(10.0, 1.0, 100.0)
    first = window.current
    second = window.roll(101.5)
    assert (first.end, second.end) == (101.0, 102.0)
    assert window.roll(100.0) is second
    assert second.end == 102.0
    assert window.roll(99.5) is second
    assert (first.end, second.end) == (99.5, 100.5)
