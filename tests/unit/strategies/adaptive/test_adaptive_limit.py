"""The adaptive limit: three rules, checked by hand-made numbers, and the strategy that obeys them."""

from __future__ import annotations

import asyncio
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.loops import Loop, each_loop
from tests.support.scripted import ASYNCIO, SYNC, Bang, Boom, each_way, takes

import stormproof as sp
from stormproof._strategies.adaptive.rules.limits import Aimd, Gradient2, Vegas


def feed(rule: Any, *samples: tuple[float, int, bool]) -> list[float]:
    """The limits after each (rtt, inflight, dropped)."""
    limits = []
    for rtt, inflight, dropped in samples:
        rule.update(rtt, inflight, dropped, 0.0)
        limits.append(rule.limit)
    return limits


# AIMD: +1, * 0.9.


def test_aimd_adds_one_while_the_limit_is_used() -> None:
    assert feed(Aimd(20, 1, 200), (1, 20, False), (1, 20, False)) == [21, 22]


def test_aimd_does_not_grow_while_less_than_half_is_used() -> None:
    assert feed(Aimd(20, 1, 200), (1, 9, False), (1, 10, False), (1, 10, False)) == [20, 21, 21]


def test_aimd_shrinks_by_a_tenth_on_a_drop_at_any_use() -> None:
    assert feed(Aimd(20, 1, 200), (1, 1, True), (0, 20, True)) == pytest.approx([18, 16.2])


def test_aimd_takes_a_long_call_for_a_drop() -> None:
    rule = Aimd(20, 1, 200, timeout_s=2)
    assert feed(rule, (2, 20, False), (2.1, 20, False)) == pytest.approx([21, 18.9])


def test_aimd_stays_within_its_bounds() -> None:
    assert feed(Aimd(4, 3, 5, decrease=0.5), *[(1, 5, False)] * 3) == [5, 5, 5]
    assert feed(Aimd(4, 3, 5, decrease=0.5), *[(1, 5, True)] * 3) == [3, 3, 3]


# Vegas: queue = ceil(L (1 - rtt0/rtt)); <= log -> + 6 log; < 3 log -> + log; > 6 log or a drop -> - log.


def vegas(limit: float, **options: Any) -> Vegas:
    rule = Vegas(limit, 1, 1000, probe=10**6, **options)
    # The first call sets the shortest latency, 1 s, and moves nothing.
    assert feed(rule, (1.0, int(limit), False)) == [limit]
    return rule


@pytest.mark.parametrize(
    ("limit", "rtt", "after"),
    [
        (20, 1.0, 26),  # queue 0 <= 1
        (20, 1.05, 26),  # 20 * 0.0476 -> 1
        (20, 1.1, 21),  # 20 * 0.0909 -> 2 < 3
        (20, 1.15, 20),  # 20 * 0.1304 -> 3: from 3 to 6
        (20, 1.2, 20),  # 20 * 0.1667 -> 4
        (20, 1.4, 20),  # 20 * 0.2857 -> 6
        (20, 1.5, 19),  # 20 * 0.3333 -> 7 > 6
        (20, 60.0, 19),
        (200, 1.0, 212),  # log10(200) = 2.3 -> 2
        (200, 1.02, 202),  # 200 * 0.0196 -> 4 < 6
        (200, 1.05, 200),  # 200 * 0.0476 -> 10
        (200, 1.1, 198),  # 200 * 0.0909 -> 19 > 12
        (5, 1.0, 11),  # log10(5) = 0.7 -> 1 at least
    ],
)
def test_vegas_steps_by_the_estimated_queue(limit: float, rtt: float, after: float) -> None:
    assert feed(vegas(limit), (rtt, int(limit), False)) == [after]


def test_vegas_does_not_move_while_less_than_half_is_used() -> None:
    assert feed(vegas(20), (1.0, 9, False), (60.0, 9, False), (1.0, 10, False)) == [20, 20, 26]


def test_vegas_shrinks_on_a_drop_at_any_latency() -> None:
    """Even on a fast one, which must not become the latency that others are measured by either."""
    assert feed(vegas(20), (0.001, 1, True), (1.0, 19, False)) == [19, 25]


def test_vegas_first_learns_then_judges() -> None:
    rule = Vegas(20, 1, 1000, probe=10**6)
    assert feed(rule, (4.0, 20, False), (2.0, 20, False), (2.0, 20, False)) == [20, 20, 26]


def test_vegas_smooths_its_steps() -> None:
    assert feed(vegas(20, smoothing=0.5), (1.0, 20, False)) == [23]


def test_vegas_stays_within_its_bounds() -> None:
    rule = Vegas(8, 7, 9, probe=10**6)
    assert feed(rule, *[(1.0, 9, False)] * 3) == [8, 9, 9]
    assert feed(rule, *[(1.0, 9, True)] * 4) == [8, 7, 7, 7]


@pytest.mark.parametrize(("draw", "calls"), [(0.0, 5), (0.5, 8)])
def test_vegas_measures_the_shortest_latency_again(draw: float, calls: int) -> None:
    """After draw-spread [0.5, 1) * probe * limit calls a backend that has become slower is not overloaded."""
    rule = Vegas(10, 1, 10, probe=1, draw=lambda: draw)
    feed(rule, *[(1.0, 1, False)] * (calls - 1))
    # The next one is the probe: 3 s is the normal latency from here on.
    assert feed(rule, (3.0, 10, False), (3.0, 10, False)) == [10, 10]
    assert rule.rtt0 == 3.0


# Gradient2: gradient in [0.5, 1] of tolerance * long / short; L * 0.8 + 0.2 * (L * gradient + 4).


def test_gradient2_grows_by_the_queue_while_latency_is_level() -> None:
    assert feed(Gradient2(20, 1, 200), (1, 20, False), (1, 20, False)) == pytest.approx([20.8, 21.6])


def test_gradient2_shrinks_with_latency() -> None:
    rule = Gradient2(100, 1, 200)
    feed(rule, *[(1.0, 1, False)] * 9)
    # The tenth is 6 s: the mean is 1.5 s, so the gradient is max(0.5, 1.5 * 1.5 / 6) = 0.5.
    assert feed(rule, (6.0, 100, False)) == pytest.approx([100 * 0.8 + 0.2 * (50 + 4)])


def test_gradient2_follows_its_formula_between_the_bounds() -> None:
    rule = Gradient2(100, 1, 200)
    feed(rule, *[(1.0, 1, False)] * 9)
    # 3 s: the mean is 1.2 s, so the gradient is 1.5 * 1.2 / 3 = 0.6.
    assert feed(rule, (3.0, 100, False)) == pytest.approx([100 * 0.8 + 0.2 * (60 + 4)])


def test_gradient2_averages_over_a_long_time() -> None:
    rule = Gradient2(100, 1, 200, long_window=9, tolerance=1)
    feed(rule, *[(1.0, 1, False)] * 10)
    # From here on exponential, with factor 2 / (9 + 1): 1 + 0.2 * (2 - 1) = 1.2, and 1.2 / 2 = 0.6.
    assert feed(rule, (2.0, 100, False)) == pytest.approx([100 * 0.8 + 0.2 * (60 + 4)])


def test_gradient2_forgets_a_slow_time_faster_than_its_average() -> None:
    rule = Gradient2(100, 1, 200)
    feed(rule, *[(10.0, 1, False)] * 10)
    feed(rule, (1.0, 1, False))
    # 10 + 2 / 601 * (1 - 10), more than twice 1 s, and so 5 % less.
    assert rule.long == pytest.approx((10 - 9 * 2 / 601) * 0.95)


def test_gradient2_shrinks_on_a_drop_and_learns_no_latency_from_it() -> None:
    rule = Gradient2(100, 1, 200)
    assert feed(rule, (0.001, 1, True)) == [90]
    assert feed(rule, (1.0, 90, False)) == pytest.approx([90 + 0.8])


def test_gradient2_does_not_move_while_less_than_half_is_used() -> None:
    assert feed(Gradient2(20, 1, 200), (1, 9, False), (60, 9, False), (1, 10, False))[:2] == [20, 20]


def test_gradient2_stays_within_its_bounds() -> None:
    assert feed(Gradient2(20, 20, 21), *[(1, 21, False)] * 3) == pytest.approx([20.8, 21, 21])
    assert feed(Gradient2(20, 19, 21), *[(1, 21, True)] * 3) == [19, 19, 19]


KINDS = {"aimd": Aimd, "vegas": Vegas, "gradient2": Gradient2}
SAMPLES = st.lists(
    st.tuples(st.floats(0, 1e6, allow_nan=False), st.integers(1, 500), st.booleans()), max_size=60
)


@pytest.mark.parametrize("kind", sorted(KINDS))
@given(samples=SAMPLES, bounds=st.tuples(st.integers(1, 50), st.integers(0, 100), st.integers(0, 100)))
def test_rule_stays_within_its_bounds_and_grows_only_while_in_use(
    kind: str, samples: list[Any], bounds: tuple[int, int, int]
) -> None:
    least, initial = bounds[0], bounds[0] + bounds[1]
    rule = KINDS[kind](initial, least, initial + bounds[2])
    for rtt, inflight, dropped in samples:
        before = rule.limit
        rule.update(rtt, inflight, dropped, 0.0)
        assert math.isfinite(rule.limit) and least <= rule.limit <= initial + bounds[2]
        if dropped:
            assert rule.limit < before or rule.limit == least
        elif 2 * inflight < before:
            assert rule.limit == before


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_any_rule_finds_the_capacity_of_the_backend(kind: str) -> None:
    """A backend with 40 places: more calls than that share them, and beyond 80 it drops."""
    limit = sp.AdaptiveLimit(kind, rng=1)  # type: ignore[arg-type]
    rule = limit.rule
    seen = []
    for _ in range(3000):
        inflight = limit.limit
        rule.update(max(1.0, inflight / 40), inflight, inflight > 80, 0.0)
        seen.append(limit.limit)
    settled = seen[1000:]
    assert 30 <= sum(settled) / len(settled) <= 90


# The strategy.


@each_way
def test_admitted_calls_are_measured(play: Any) -> None:
    limit = sp.AdaptiveLimit("aimd", initial=1, max=2, timeout=1)
    policy = sp.Policy(limit)
    play(policy, "fine").returned("fine").made(1)
    assert (limit.limit, limit.in_use) == (2, 0)
    play(policy, takes(1.5, "slow")).returned("slow")
    assert limit.rule.limit == pytest.approx(1.8)
    assert limit.limit == 1, "rounded down"


@each_way
def test_failure_that_on_matches_is_a_drop(play: Any) -> None:
    limit = sp.AdaptiveLimit("aimd", initial=10, on=Boom)
    play(sp.Policy(limit), Boom).raised(Boom)
    assert (limit.limit, limit.in_use) == (9, 0)


@each_way
@pytest.mark.parametrize("error", [Bang, sp.CircuitOpen, sp.Cancelled])
def test_failure_that_is_not_transient_leaves_the_limit(play: Any, error: Any) -> None:
    limit = sp.AdaptiveLimit("aimd", initial=1, max=2)
    play(sp.Policy(limit), error).raised(error)
    assert (limit.limit, limit.in_use) == (1, 0)


def test_transient_errors_count_as_drops() -> None:
    limit = sp.AdaptiveLimit("aimd", initial=10)
    for error in (sp.AttemptTimeout(), TimeoutError(), ConnectionResetError()):
        SYNC(sp.Policy(limit), error)
    assert limit.rule.limit == pytest.approx(10 * 0.9**3)


@each_way
def test_call_beyond_the_limit_is_refused(play: Any) -> None:
    limit = sp.AdaptiveLimit(initial=2, min=1, name="search")
    policy = sp.Policy(limit)
    with limit.admit(), limit.admit() as second:
        seen = play(policy, "never").raised(sp.Throttled).made(0)
        assert str(seen.error) == "search: 2 calls at once are what the backend copes with"
        assert limit.in_use == 2
        second.cancel()
        play(policy, "fine").returned("fine")
    assert limit.in_use == 0


def test_shrunken_limit_waits_for_calls_to_end() -> None:
    limit = sp.AdaptiveLimit("aimd", initial=4, decrease=0.5)
    tickets = [limit.admit() for _ in range(4)]
    tickets[0].dropped()
    assert (limit.limit, limit.in_use) == (2, 3)
    for _ in range(2):
        with pytest.raises(sp.Throttled):
            limit.admit()
        tickets.pop().cancel()
    limit.admit()


def test_ticket_is_settled_once() -> None:
    limit = sp.AdaptiveLimit("aimd", initial=10, max=20)
    ticket = limit.admit()
    ticket.cancel()
    ticket.success()
    ticket.dropped()
    assert (limit.limit, limit.in_use) == (10, 0)


def test_call_reports_the_use_at_its_start() -> None:
    limit = sp.AdaptiveLimit("aimd", initial=4, max=20)
    first, second = limit.admit(), limit.admit()
    # It began as the only one, and ends as one of two: one of 4 does not make the limit grow.
    first.success()
    assert limit.limit == 4
    # It began as one of two, and ends as the only one: two are half of 4.
    second.success()
    assert limit.limit == 5


@each_loop
def test_cancelled_call_leaves_its_place_and_teaches_nothing(loop: Loop) -> None:
    limit = sp.AdaptiveLimit("aimd", initial=1, max=2, on=BaseException)

    @sp.Policy(limit)
    async def call() -> None:
        await loop.sleep(60)

    async def scenario() -> None:
        assert await loop.cut(1, call)
        assert (limit.limit, limit.in_use) == (1, 0)

    loop.run(scenario)


@each_loop
def test_tasks_share_the_limit(loop: Loop) -> None:
    limit = sp.AdaptiveLimit(initial=3)

    @sp.Policy(limit)
    async def call() -> str:
        await loop.sleep(1)
        return "ok"

    async def scenario() -> None:
        outcomes = await loop.together(*[call for _ in range(5)])
        kinds = sorted(type(outcome).__name__ for outcome in outcomes)
        assert kinds == ["Throttled"] * 2 + ["str"] * 3

    loop.run(scenario)
    assert limit.in_use == 0


def test_rule_that_raises_leaves_nothing_held() -> None:
    def broken(error: BaseException) -> bool:
        raise KeyError

    limit = sp.AdaptiveLimit(on=broken)
    SYNC(sp.Policy(limit), Boom).raised(KeyError)
    ASYNCIO(sp.Policy(limit), Boom).raised(KeyError)
    assert limit.in_use == 0


def test_clock_set_back_in_a_call_does_not_change_the_limit() -> None:
    clock = sp.testing.FakeClock()
    limit = sp.AdaptiveLimit("vegas", initial=1, clock=clock)
    for jump in (1, -3600, 0, 1):
        with limit.admit():
            clock.advance(jump)
    # The first second is the shortest latency, and the last one as short: it grows, by 6 * 1.
    assert limit.limit == 7 and limit.in_use == 0


def test_latency_measured_across_a_clock_set_back_is_not_averaged() -> None:
    clock = sp.testing.FakeClock()
    limit = sp.AdaptiveLimit("gradient2", clock=clock)
    for jump in (1, -3600):
        with limit.admit():
            clock.advance(jump)
    assert limit.rule.long == 1  # type: ignore[attr-defined]


def test_drop_counts_after_a_clock_set_back() -> None:
    clock = sp.testing.FakeClock()
    limit = sp.AdaptiveLimit("aimd", initial=10, clock=clock)
    ticket = limit.admit()
    clock.advance(-3600)
    ticket.dropped()
    assert limit.limit == 9


def test_latency_is_measured_by_the_policys_clock() -> None:
    clock = sp.testing.FakeClock()
    limit = sp.AdaptiveLimit("aimd", initial=1, timeout=1)
    sp.Policy(limit, clock=clock).call(clock.advance, 2)
    assert limit.rule.limit == 1
    own = sp.AdaptiveLimit(clock=clock)
    own.use_clock(sp.testing.FakeClock())
    assert own.clock is clock


# The object.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "magic"}, "kind must be one of 'aimd', 'vegas', 'gradient2', got 'magic'"),
        ({"initial": 0}, "initial must be >= 1, got 0"),
        ({"min": 0}, "min must be >= 1, got 0"),
        ({"max": 1.5}, "max must be a whole number, got 1.5"),
        ({"initial": 300}, r"initial must be within min \(1\) and max \(200\), got 300"),
        ({"initial": 2, "min": 3}, r"initial must be within min \(3\)"),
        ({"min": 30, "max": 10}, r"initial must be within"),
        ({"kind": "aimd", "decrease": 1}, "decrease must be < 1, got 1"),
        ({"kind": "aimd", "decrease": 0.4}, "decrease must be >= 0.5, got 0.4"),
        ({"kind": "aimd", "timeout": 0}, "timeout must be > 0 seconds, got 0"),
        ({"kind": "vegas", "smoothing": 0}, "smoothing must be > 0, got 0"),
        ({"kind": "vegas", "probe": 0}, "probe must be >= 1, got 0"),
        ({"tolerance": 0.5}, "tolerance must be >= 1, got 0.5"),
        ({"long_window": 0}, "long_window must be >= 1, got 0"),
        ({"queue": -1}, "queue must be >= 0, got -1"),
        (
            {"kind": "aimd", "queue": 4},
            "queue must be None for kind='aimd', which has decrease and timeout, got 4",
        ),
        ({"kind": "gradient2", "timeout": 4}, "timeout must be None for kind='gradient2'"),
        ({"on": 5}, "on must be an exception type"),
        ({"name": ""}, "name must be a non-empty string"),
        ({"clock": 5}, "clock must have now"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"AdaptiveLimit: {says}"):
        sp.AdaptiveLimit(**options)


@pytest.mark.parametrize(
    ("kind", "given", "slot", "value"),
    [
        ("aimd", {"decrease": 0.5, "timeout": 3}, ("_decrease", "_timeout_s"), (0.5, 3)),
        ("vegas", {"smoothing": 0.5, "probe": 7}, ("_smoothing", "_probe"), (0.5, 7)),
        (
            "gradient2",
            {"smoothing": 0.5, "tolerance": 2, "queue": 0},
            ("_smoothing", "_tolerance", "_queue"),
            (0.5, 2, 0),
        ),
        ("gradient2", {"long_window": 9}, ("_factor",), (0.2,)),
        ("gradient2", {}, ("_smoothing", "_tolerance", "_queue", "_factor"), (0.2, 1.5, 4, 2 / 601)),
        ("aimd", {}, ("_decrease", "_timeout_s"), (0.9, math.inf)),
        ("vegas", {}, ("_smoothing", "_probe"), (1.0, 30)),
    ],
)
def test_options_reach_the_rule(kind: Any, given: dict[str, Any], slot: Any, value: Any) -> None:
    rule = sp.AdaptiveLimit(kind, **given).rule
    assert tuple(getattr(rule, name) for name in slot) == value


def test_copy_of_a_limit_is_another_limit_without_history() -> None:
    limit = sp.AdaptiveLimit("aimd", initial=10, timeout=5, name="x")
    limit.admit().dropped()
    assert limit != limit.fresh()
    assert limit.describe()["limit"] == 9 and limit.describe()["in_use"] == 0
    names = {"AdaptiveLimit": sp.AdaptiveLimit, "transient": sp.transient}
    for copy in (
        limit.fresh(),
        limit.replace(max=50),
        pickle.loads(pickle.dumps(limit)),
        eval(repr(limit), names),
    ):
        assert (copy.limit, copy.timeout, copy.name) == (10, 5, "x")


def test_async_callers_on_several_loops_share_the_limit() -> None:
    limit = sp.AdaptiveLimit(initial=1)

    async def call() -> str:
        return "ok"

    for _ in range(2):
        assert asyncio.run(sp.Policy(limit).acall(call)) == "ok"
