"""The breaker: when it opens, what it lets through, how it closes, and what never counts."""

from __future__ import annotations

import asyncio
import collections.abc
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Bang, Boom, Play, each_way

import stormproof as sp


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock()


@pytest.fixture
def changes() -> Iterator[list[tuple[str, str]]]:
    """The changes of state that were emitted, as (before, after)."""
    transitions: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        if type(event).__name__ == "BreakerChanged":
            transitions.append((event.before, event.after))

    stop = sp.subscribe(note)
    yield transitions
    stop()


def fail(breaker: sp.Breaker, times: int = 1, error: BaseException | None = None) -> None:
    for _ in range(times):
        breaker.admit().failure(error)


def succeed(breaker: sp.Breaker, times: int = 1) -> None:
    for _ in range(times):
        breaker.admit().success()


def opened(clock: sp.testing.FakeClock, **options: Any) -> sp.Breaker:
    """A breaker that one failure has just opened, for 30 s by default."""
    breaker = sp.Breaker(consecutive=1, clock=clock, **options)
    fail(breaker)
    assert breaker.state == "open"
    return breaker


def half_open(clock: sp.testing.FakeClock, **options: Any) -> sp.Breaker:
    breaker = opened(clock, open_for=30, **options)
    clock.advance(31)
    assert breaker.state == "half_open"
    return breaker


def refused(breaker: sp.Breaker) -> sp.CircuitOpen:
    with pytest.raises(sp.CircuitOpen) as caught:
        breaker.admit()
    return caught.value


# Opening.


def test_breaker_opens_by_default_at_half_of_twenty_calls(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(clock=clock)
    fail(breaker, 19)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


def test_breaker_opens_at_exactly_the_failure_ratio(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(failure_ratio=0.5, min_calls=4, clock=clock)
    succeed(breaker, 3)
    fail(breaker, 2)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


def test_calls_that_do_not_count_are_not_among_the_calls(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(failure_ratio=0.5, min_calls=4, clock=clock)
    for _ in range(10):
        breaker.admit().cancel()
    fail(breaker, 3)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


def test_success_never_opens_the_breaker(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(failure_ratio=0.1, min_calls=4, clock=clock)
    fail(breaker, 3)
    succeed(breaker, 5)
    assert breaker.state == "closed"


def test_consecutive_failures_open_the_breaker(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(consecutive=3, clock=clock)
    fail(breaker, 2)
    succeed(breaker)
    fail(breaker, 2)
    assert breaker.state == "closed"
    breaker.admit().cancel()
    fail(breaker)
    assert breaker.state == "open"


def test_failures_outside_the_window_are_forgotten(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(min_calls=4, window=60, clock=clock)
    fail(breaker, 3)
    clock.advance(61)
    fail(breaker)
    assert (breaker.state, breaker.counts.failures) == ("closed", 1)
    clock.advance(20)
    fail(breaker, 3)
    assert breaker.state == "open"


def test_without_a_window_nothing_is_forgotten(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(min_calls=4, window=None, clock=clock)
    fail(breaker, 3)
    clock.advance(1e9)
    fail(breaker)
    assert breaker.state == "open"


def test_trip_replaces_the_built_in_rules(clock: sp.testing.FakeClock) -> None:
    seen: list[tuple[int, int]] = []

    def trip(counts: Any) -> bool:
        seen.append((counts.requests, counts.failures))
        return bool(counts.failures == 3)

    breaker = sp.Breaker(min_calls=1, consecutive=1, trip=trip, clock=clock)
    fail(breaker, 2)
    succeed(breaker)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"
    assert seen == [(1, 1), (2, 2), (4, 3)]


def test_rule_may_use_the_breaker(clock: sp.testing.FakeClock) -> None:
    """It is called without the lock: this would hang otherwise."""
    looks: list[str] = []
    breaker = sp.Breaker(trip=lambda counts: bool(looks.append(breaker.state)), clock=clock)
    fail(breaker)
    assert looks == ["closed"]


def test_slow_calls_open_the_breaker(clock: sp.testing.FakeClock) -> None:
    """The slow call that makes it four calls, half of them slow, is the one that opens it."""
    breaker = sp.Breaker(slow_call=2, slow_ratio=0.5, min_calls=4, clock=clock)
    succeed(breaker, 2)
    for _ in range(2):
        assert breaker.state == "closed"
        ticket = breaker.admit()
        clock.advance(2)
        ticket.success()
    assert breaker.state == "open"


def test_call_that_is_still_running_counts_as_slow(clock: sp.testing.FakeClock) -> None:
    """A backend that never answers is noticed before the first timeout."""
    breaker = sp.Breaker(slow_call=2, slow_ratio=1, min_calls=3, clock=clock)
    hung = [breaker.admit() for _ in range(3)]
    clock.advance(1.9)
    breaker.admit().cancel()
    assert breaker.state == "closed"
    clock.advance(0.1)
    breaker.admit().cancel()
    assert breaker.state == "open"
    for ticket in hung:
        ticket.success()
    assert breaker.state == "open"


# Open.


def test_error_of_an_open_circuit_has_time_and_reason(clock: sp.testing.FakeClock) -> None:
    error = Boom("no route")
    breaker = sp.Breaker(consecutive=1, open_for=30, clock=clock, name="payments")
    fail(breaker, error=error)
    clock.advance(12)
    refusal = refused(breaker)
    assert refusal.retry_after == 18
    assert refusal.last_failure is refusal.__cause__ is breaker.last_failure is error
    assert "payments" in str(refusal)


def test_breaker_is_open_until_strictly_after_open_for(clock: sp.testing.FakeClock) -> None:
    breaker = opened(clock, open_for=30)
    clock.advance(30)
    assert breaker.state == "open"
    refused(breaker)
    clock.advance(0.001)
    assert breaker.state == "half_open"


def test_call_goes_through_an_open_time_that_has_passed(clock: sp.testing.FakeClock) -> None:
    """The state need not have been read in between."""
    breaker = opened(clock, open_for=30)
    clock.advance(31)
    succeed(breaker)
    assert breaker.state == "closed"


def test_open_time_may_grow_with_each_reopening(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=10, open_growth=2, open_max=35, clock=clock)
    for expected in (10, 20, 35, 35):
        fail(breaker)
        assert refused(breaker).retry_after == expected
        clock.advance(expected + 1)
    succeed(breaker)
    assert breaker.state == "closed"
    fail(breaker)
    assert refused(breaker).retry_after == 10


def test_thousand_reopenings_do_not_overflow(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=1, open_growth=10, open_max=60, clock=clock)
    for _ in range(1100):
        fail(breaker)
        clock.advance(61)
    assert breaker.state == "half_open"


def test_results_that_come_while_open_change_nothing(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=30, clock=clock)
    late = [breaker.admit() for _ in range(3)]
    fail(breaker)
    clock.advance(10)
    late[0].failure()
    late[1].success()
    late[2].cancel()
    assert refused(breaker).retry_after == 20
    assert breaker.counts.requests == breaker.counts.failures == breaker.counts.successes == 0


# Half-open.


@pytest.mark.parametrize("probes", [1, 2, 5])
def test_half_open_admits_probes_calls_and_closes_after_as_many_successes(
    clock: sp.testing.FakeClock, probes: int
) -> None:
    breaker = half_open(clock, probes=probes)
    tickets = [breaker.admit() for _ in range(probes)]
    refused(breaker)
    for ticket in tickets:
        assert breaker.state == "half_open"
        ticket.success()
    assert breaker.state == "closed"
    assert breaker.counts.requests == 0


def test_finished_probe_does_not_make_room_for_another(clock: sp.testing.FakeClock) -> None:
    breaker = half_open(clock, probes=2)
    breaker.admit().success()
    breaker.admit()
    refused(breaker)


def test_any_failed_probe_reopens_the_breaker(clock: sp.testing.FakeClock) -> None:
    breaker = half_open(clock, probes=3)
    first, second, third = (breaker.admit() for _ in range(3))
    first.success()
    second.failure()
    assert breaker.state == "open"
    third.success()
    assert breaker.state == "open"
    assert refused(breaker).retry_after == 30


def test_cancelled_probe_gives_its_place_back(clock: sp.testing.FakeClock) -> None:
    breaker = half_open(clock)
    ticket = breaker.admit()
    refused(breaker)
    ticket.cancel()
    assert breaker.state == "half_open"
    breaker.admit()
    refused(breaker)


def test_lost_probe_gives_its_place_back_in_time(clock: sp.testing.FakeClock) -> None:
    breaker = half_open(clock, probe_timeout=5)
    lost = breaker.admit()
    clock.advance(3)
    assert refused(breaker).retry_after == 2
    clock.advance(2.001)
    again = breaker.admit()
    lost.failure()
    assert breaker.state == "half_open", "a probe whose place was given away does not count"
    lost.success()
    again.success()
    assert breaker.state == "closed"


def test_probe_may_be_leased_for_ever(clock: sp.testing.FakeClock) -> None:
    breaker = half_open(clock, probe_timeout=None)
    probe = breaker.admit()
    clock.advance(1e9)
    refused(breaker)
    probe.success()
    assert breaker.state == "closed"


def test_result_of_an_earlier_half_open_time_changes_nothing(clock: sp.testing.FakeClock) -> None:
    breaker = half_open(clock, probes=2, probe_timeout=None)
    old = breaker.admit()
    breaker.admit().failure()
    clock.advance(31)
    assert breaker.state == "half_open"
    old.failure()
    assert breaker.state == "half_open"
    assert breaker.counts.failures == 0


def test_after_closing_a_growing_share_is_admitted(clock: sp.testing.FakeClock) -> None:
    draw = 0.5
    breaker = half_open(clock, ramp=10, rng=lambda: draw)
    succeed(breaker)
    assert breaker.state == "closed"
    clock.advance(4.9)
    refused(breaker)
    clock.advance(0.2)
    succeed(breaker)
    draw = 0.999
    refused(breaker)
    clock.advance(5)
    succeed(breaker)


def test_new_breaker_does_not_ramp(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(ramp=10, rng=lambda: 0.999, clock=clock)
    succeed(breaker, 3)


# Tickets.


def test_ticket_counts_once(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(clock=clock)
    ticket = breaker.admit()
    ticket.failure()
    ticket.failure()
    ticket.success()
    ticket.cancel()
    ticket.end(Boom())
    counts = breaker.counts
    assert (counts.requests, counts.failures, counts.successes, counts.excluded) == (1, 1, 0, 0)


def test_ticket_as_a_context_manager_settles_itself(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(exclude=KeyError, clock=clock)
    with breaker.admit():
        pass
    for error in (Boom, KeyError, KeyboardInterrupt):
        with pytest.raises(error), breaker.admit():
            raise error
    counts = breaker.counts
    assert (counts.requests, counts.failures, counts.successes, counts.excluded) == (4, 1, 1, 2)


# What counts.


@each_way
def test_call_that_opens_the_breaker_gets_its_own_error(play: Play) -> None:
    breaker = sp.Breaker(consecutive=1)
    play(sp.Policy(breaker), Boom).raised_the_last_error().made(1)
    play(sp.Policy(breaker)).raised(sp.CircuitOpen).made(0)


@each_way
def test_breaker_as_a_strategy_refuses_with_the_last_failure(play: Play) -> None:
    breaker = sp.Breaker(min_calls=3)
    policy = sp.Policy(breaker)
    with sp.testing.instant():
        play(policy, "ok").returned("ok")
        play(policy, Boom).raised(Boom)
        counts = breaker.counts
        assert (counts.requests, counts.successes, counts.failures) == (2, 1, 1)
        play(policy, Boom).raised(Boom)
        assert breaker.state == "open"
        refusal = play(policy).raised(sp.CircuitOpen).error
        assert isinstance(refusal, sp.CircuitOpen)
        assert isinstance(refusal.last_failure, Boom)


@pytest.mark.parametrize(
    ("options", "failures", "successes", "excluded"),
    [
        ({}, [Boom(), Bang()], [], [KeyboardInterrupt(), SystemExit(), GeneratorExit()]),
        ({"on": Boom}, [Boom()], [Bang()], [asyncio.CancelledError()]),
        ({"on": (Boom, KeyError)}, [Boom(), KeyError()], [Bang()], []),
        ({"on": lambda error: "slow" in str(error)}, [Bang("slow")], [Bang("odd")], []),
        ({"exclude": Bang}, [Boom()], [], [Bang()]),
        ({"exclude": (Bang, KeyError)}, [Boom()], [], [Bang(), KeyError()]),
        ({"exclude": lambda error: "404" in str(error)}, [Bang("500")], [], [Bang("404")]),
        ({"on": Exception, "exclude": Boom}, [Bang()], [], [Boom()]),
        # A hint or a mark counts as what it is about.
        ({"on": Boom}, [sp.RetryAfter(1, Boom())], [sp.RetryAfter(1, Bang())], []),
        ({"exclude": Bang}, [sp.Permanent(Boom())], [], [sp.Permanent(Bang())]),
    ],
)
def test_on_and_exclude_decide_how_an_error_counts(
    options: dict[str, Any],
    failures: list[BaseException],
    successes: list[BaseException],
    excluded: list[BaseException],
) -> None:
    breaker = sp.Breaker(min_calls=100, **options)

    @sp.Policy(breaker)
    def call(error: BaseException) -> None:
        raise error

    for error in [*failures, *successes, *excluded]:
        with pytest.raises(BaseException):  # noqa: B017
            call(error)
    counts = breaker.counts
    assert (counts.failures, counts.successes, counts.excluded) == (
        len(failures),
        len(successes),
        len(excluded),
    )


def test_abstract_class_excludes_its_own_subclasses_only() -> None:
    class Odd(Exception, collections.abc.Sized):
        def __len__(self) -> int:
            return 0

    breaker = sp.Breaker(exclude=Odd, consecutive=1)
    with pytest.raises(Boom):
        sp.Policy(breaker).call(_raise, Boom())
    assert breaker.state == "open"


def _raise(error: BaseException) -> None:
    raise error


@each_loop
def test_cancelled_call_is_neutral(loop: Loop) -> None:
    breaker = sp.Breaker(consecutive=1)

    @sp.Policy(breaker)
    async def call() -> None:
        await loop.sleep(100)

    assert loop.run(loop.cut, 1, call)
    assert breaker.state == "closed"
    assert (breaker.counts.failures, breaker.counts.successes, breaker.counts.excluded) == (0, 0, 1)


@each_loop
def test_cancelled_probe_closes_nothing(loop: Loop) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=1, clock=(clock := sp.testing.FakeClock()))
    fail(breaker)
    clock.advance(2)

    @sp.Policy(breaker)
    async def call() -> None:
        await loop.sleep(100)

    assert loop.run(loop.cut, 1, call)
    assert breaker.state == "half_open"
    assert breaker.admit()


def test_judge_that_raises_leaves_the_place_free(clock: sp.testing.FakeClock) -> None:
    def broken(error: BaseException) -> bool:
        raise ZeroDivisionError

    breaker = half_open(clock, on=broken)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            sp.Policy(breaker).call(_raise, Boom())
    assert breaker.state == "half_open"


# By hand.


def test_forced_open_breaker_refuses_until_released(
    clock: sp.testing.FakeClock, changes: list[tuple[str, str]]
) -> None:
    breaker = sp.Breaker(clock=clock)
    breaker.force_open()
    assert breaker.state == "open"
    clock.advance(1e6)
    refusal = refused(breaker)
    assert refusal.retry_after is None
    assert breaker.state == "open"
    breaker.reset()
    assert breaker.state == "closed"
    succeed(breaker)
    assert changes == [("closed", "open"), ("open", "closed")]


def test_forced_closed_breaker_admits_until_released(clock: sp.testing.FakeClock) -> None:
    breaker = opened(clock)
    breaker.force_closed()
    assert breaker.state == "closed"
    fail(breaker, 50)
    assert breaker.state == "closed"
    breaker.reset()
    assert breaker.counts.failures == 0
    fail(breaker)
    assert breaker.state == "open"


def test_observing_emits_but_never_refuses(clock: sp.testing.FakeClock) -> None:
    events: list[Any] = []
    breaker = sp.Breaker(consecutive=2, clock=clock, name="b")
    breaker.observe_only()
    stop = sp.subscribe(events.append)
    try:
        fail(breaker, 2)
    finally:
        stop()
    assert [(e.before, e.after, e.observed, e.operation) for e in events] == [("closed", "open", True, "b")]
    assert breaker.state == "closed"
    assert breaker.counts.failures == 2
    succeed(breaker)


def test_reset_forgets_earlier_failures(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(consecutive=2, clock=clock)
    old = breaker.admit()
    fail(breaker)
    breaker.reset()
    assert breaker.counts.requests == 0
    assert breaker.last_failure is None
    old.failure()
    fail(breaker)
    assert breaker.state == "closed", "one failure before the reset and one late do not count"


@pytest.mark.parametrize("by_hand", ["force_open", "force_closed", "observe_only"])
def test_manual_controls_act_on_a_decorated_function(by_hand: str) -> None:
    breaker = sp.Breaker(consecutive=1)
    policy = sp.Policy(breaker)

    @policy
    def call(error: Exception | None = None) -> str:
        if error is not None:
            raise error
        return "ok"

    call()
    getattr(breaker, by_hand)()
    if by_hand == "force_open":
        with pytest.raises(sp.CircuitOpen):
            call()
    else:
        for _ in range(3):
            with pytest.raises(Boom):
                call(Boom())
    breaker.reset()
    assert call() == "ok"


def test_changes_are_emitted_once_each(clock: sp.testing.FakeClock, changes: list[tuple[str, str]]) -> None:
    breaker = opened(clock, open_for=1)
    clock.advance(2)
    fail(breaker)
    clock.advance(2)
    succeed(breaker)
    assert changes == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ]


# Options.


@pytest.mark.parametrize(
    "options",
    [
        {"failure_ratio": 0},
        {"failure_ratio": 1.01},
        {"failure_ratio": float("nan")},
        {"failure_ratio": True},
        {"min_calls": 0},
        {"min_calls": 2.5},
        {"window": 0},
        {"window": -1},
        {"open_for": 0},
        {"open_for": float("inf")},
        {"open_for": None},
        {"probes": 0},
        {"probes": True},
        {"probe_timeout": 0},
        {"consecutive": 0},
        {"slow_call": 0},
        {"slow_ratio": 0},
        {"slow_ratio": 2},
        {"trip": 3},
        {"bucket": 0},
        {"bucket": 61},
        {"bucket": 1, "window": None},
        {"open_growth": 0.5},
        {"open_max": 0},
        {"ramp": -1},
        {"clock": 3},
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(options: dict[str, Any]) -> None:
    field, value = next(iter(options.items()))
    with pytest.raises((ValueError, TypeError)) as caught:
        sp.Breaker(**options)
    assert "Breaker" in str(caught.value)
    assert field in str(caught.value)
    assert repr(value) in str(caught.value)


def test_durations_may_be_timedeltas() -> None:
    breaker = sp.Breaker(window=timedelta(minutes=1), open_for=timedelta(days=1, seconds=1))
    assert (breaker.window, breaker.open_for) == (60, 86401)


def test_repr_rebuilds_the_breaker() -> None:
    breaker = sp.Breaker(0.25, min_calls=7, window=None, open_for=3, exclude=KeyError, name="b", ramp=2)
    again = eval(repr(breaker), {"sp": sp, "Breaker": sp.Breaker, "KeyError": KeyError})
    assert repr(again) == repr(breaker)
    assert again != breaker, "each has a state of its own"


def test_breaker_option_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        sp.Breaker().probes = 3


@pytest.mark.parametrize("copy", [lambda b: b.fresh(), lambda b: pickle.loads(pickle.dumps(b))])
def test_copy_has_the_options_and_its_own_state(copy: Callable[[sp.Breaker], sp.Breaker]) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=7)
    fail(breaker)
    again = copy(breaker)
    assert repr(again) == repr(breaker)
    assert (breaker.state, again.state) == ("open", "closed")


def test_policies_with_the_same_breaker_object_share_its_state() -> None:
    breaker = sp.Breaker(consecutive=1)
    one, other = sp.Policy(breaker), sp.Policy(sp.Timeout(5), breaker)
    with pytest.raises(Boom):
        one.call(_raise, Boom())
    with pytest.raises(sp.CircuitOpen):
        other.call(_raise, Boom())
    with pytest.raises(sp.CircuitOpen):
        other.with_(sp.Timeout(3)).call(_raise, Boom())


def test_describe_shows_state_and_counts(clock: sp.testing.FakeClock) -> None:
    breaker = opened(clock, open_for=30, name="b")
    described = breaker.describe()
    assert (described["state"], described["open_for"], described["name"]) == ("open", 30, "b")
    assert described["counts"]["requests"] == 0


def test_success_while_closed_keeps_no_record(clock: sp.testing.FakeClock) -> None:
    """Counts, not calls: a hundred thousand calls take the room of one."""
    import tracemalloc

    breaker = sp.Breaker(clock=clock)
    call = sp.Policy(breaker)(lambda: None)
    call()
    tracemalloc.start()
    try:
        for _ in range(20_000):
            call()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert breaker.counts.requests == 20_001
    assert grown < 20_000
