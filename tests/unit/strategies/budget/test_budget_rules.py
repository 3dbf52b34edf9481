"""The parts of a budget by themselves: the sum over a window, and the reading of the clock."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import stormproof as sp
from stormproof._runtime import counters
from stormproof._strategies.budget.allowance import BudgetState
from stormproof._strategies.budget.rules import Slices


def test_slice_is_a_twentieth_of_the_window() -> None:
    sums = Slices(20.0, 7.5)
    assert (sums.end, sums.total) == (8.0, 0.0)
    sums.add(4.0)
    sums.roll(26.9)
    assert (sums.end, sums.total) == (27.0, 4.0)
    sums.roll(27.0)
    assert (sums.end, sums.total) == (28.0, 0.0)


def test_slices_far_behind_are_dropped_at_once() -> None:
    sums = Slices(20.0, 0.0)
    for second in range(20):
        sums.roll(float(second))
        sums.add(1.0)
    assert sums.total == 20.0
    sums.roll(39.0)
    assert sums.total == 0.0
    sums.add(3.0)
    sums.roll(1e9)
    assert sums.total == 0.0


def test_each_roll_drops_exactly_the_passed_slices() -> None:
    sums = Slices(20.0, 0.0)
    for second in range(20):
        sums.roll(float(second))
        sums.add(float(second))
    sums.roll(22.0)
    assert sums.total == sum(range(3, 20))
    # Time that runs backwards drops nothing, and what is added then is added to the newest.
    sums.roll(5.0)
    assert sums.total == sum(range(3, 20))
    sums.add(100.0)
    sums.roll(41.0)
    assert sums.total == 100.0
    sums.roll(42.0)
    assert sums.total == 0.0


def test_amount_added_over_some_time_is_spread_over_it() -> None:
    sums = Slices(20.0, 10.0)
    sums.add(6.0, 3.0)
    assert sums.total == 6.0
    sums.roll(28.0)
    assert sums.total == pytest.approx(4.0)
    sums.roll(29.0)
    assert sums.total == pytest.approx(2.0)
    sums.roll(30.0)
    assert sums.total == pytest.approx(0.0)


def test_amount_added_over_a_whole_window_leaves_evenly() -> None:
    sums = Slices(20.0, 0.0)
    sums.add(20.0, 20.0)
    assert sums.total == 20.0
    for second in range(1, 21):
        sums.roll(float(second))
        assert sums.total == pytest.approx(20.0 - second)
    # Of what came in over twice the window, its half counts.
    sums.add(20.0, 40.0)
    assert sums.total == pytest.approx(10.0)
    sums.roll(21.0)
    assert sums.total == pytest.approx(9.5)


def test_slice_is_never_shorter_than_the_clock_s_noise() -> None:
    assert Slices(1e-9, 0.0).end == 1e-7
    assert Slices(4e-6, 0.0).end == 2e-7


class Jumping:
    """A clock in the hands of the test."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        raise AssertionError("must not sleep")


def test_clock_set_back_repeatedly_continues_from_the_new_time() -> None:
    clock = Jumping()
    live = BudgetState(clock, 3.0)  # type: ignore[arg-type]
    assert (live.tokens, live.last, live.skew) == (3.0, 100.0, 0.0)
    clock.time = 105.0
    assert live.tick() == (105.0, 5.0)
    clock.time = 45.0
    assert live.tick() == (105.0, 0.0)
    clock.time = 47.0
    assert live.tick() == (107.0, 2.0)
    clock.time = 7.0
    assert live.tick() == (107.0, 0.0)
    clock.time = 8.0
    assert live.tick() == (108.0, 1.0)
    assert live.tick() == (108.0, 0.0)


def success_budget(**options: float) -> tuple[sp.Budget, Jumping]:
    clock = Jumping()
    return sp.Budget(clock=clock, **options), clock  # type: ignore[arg-type]


def settled(budget: Any) -> float:
    """Settle ``budget``, as a failure does, and return its balance: a reading alone settles nothing."""
    budget._settle()
    return float(budget.balance)


def test_budget_defaults_are_ratio_0_1_burst_3_window_10_s() -> None:
    budget, _ = success_budget()
    assert (budget.ratio, budget.burst, budget.window, budget.sustained) == (0.1, 3.0, 10.0, 0.1)
    assert budget.balance == 3.0


def test_budget_holds_the_burst_and_the_earnings_of_the_window() -> None:
    budget, clock = success_budget(ratio=0.5, burst=2, window=20)
    for _ in range(8):
        budget.success()
    assert settled(budget) == 6.0
    clock.time += 19.5
    assert budget.balance == 6.0
    clock.time += 1.0
    assert budget.balance == 2.0


def test_earnings_older_than_the_window_count_in_part() -> None:
    budget, clock = success_budget(ratio=1.0, burst=0, window=20)
    for _ in range(10):
        budget.success()
    clock.time += 40.0
    # Ten successes in forty seconds: five of them in the last twenty.
    assert budget.balance == pytest.approx(5.0)


def test_slow_earnings_count_in_full_until_the_burst_is_reached() -> None:
    budget, clock = success_budget(ratio=0.1, burst=3, window=10)
    for _ in range(3):
        assert budget.withdraw() == 1.0
    for _ in range(25):
        clock.time += 60.0
        budget.success()
    assert budget.balance == pytest.approx(2.5)
    for _ in range(25):
        clock.time += 60.0
        budget.success()
    # Above the burst stands what the last window earned: a sixth of a success, as they are spread evenly.
    assert budget.balance == pytest.approx(3.0 + 0.1 / 6, abs=1e-3)


def test_shortage_reports_earnings_spending_and_the_options_to_set() -> None:
    budget, _ = success_budget(ratio=0.1, burst=3)
    for _ in range(3):
        budget.withdraw()
    assert budget.shortage() == (
        "retry budget exhausted: burst 3, 0 successes earned 0, 3 retries spent 3; to allow more, set burst=6"
    )
    for _ in range(12):
        budget.success()
    assert budget.withdraw() == 1.0
    assert budget.withdraw() == 0.0
    assert budget.shortage() == (
        "retry budget exhausted: burst 3, 12 successes earned 1.2, 4 retries spent 4; "
        "to allow more, set burst=6 or ratio=0.17"
    )


def test_shortage_counts_what_was_earned_above_the_burst() -> None:
    """A busy caller spends what its window earned first; "0 successes" was said of it, and a large burst."""
    budget, _ = success_budget(ratio=0.1, burst=3)
    for _ in range(25):
        budget.success()
    for _ in range(5):
        assert budget.withdraw() == 1.0
    assert budget.withdraw() == 0.0
    assert budget.shortage() == (
        "retry budget exhausted: burst 3, 25 successes earned 2.5, 5 retries spent 5; "
        "to allow more, set burst=6 or ratio=0.12"
    )


def test_shortage_counts_from_the_moment_the_budget_was_last_full() -> None:
    budget, _ = success_budget(ratio=1.0, burst=1)
    budget.withdraw()
    budget.success()
    budget.withdraw()
    assert "0 successes earned 0, 1 retry spent 1" in budget.shortage()


@pytest.mark.parametrize(
    "budget", [sp.WindowBudget(), sp.QuotaBudget(), sp.ThrottleBudget(), sp.RateBudget()]
)
def test_shortage_of_every_kind_is_one_line_that_names_its_options(budget: Any) -> None:
    assert repr(budget) in budget.shortage()
    assert "\n" not in budget.shortage()


def test_budget_pays_down_to_zero_and_not_below() -> None:
    budget, _ = success_budget(ratio=0.1, burst=1.5)
    assert budget.withdraw() == 1.0
    assert budget.balance == 0.5
    assert budget.withdraw() == 0.0
    assert budget.balance == 0.5
    for _ in range(5):
        budget.success()
    assert budget.withdraw() == 1.0
    assert budget.balance == pytest.approx(0.0)
    assert budget.balance >= 0.0


def test_ten_successes_at_ratio_0_1_earn_one_token() -> None:
    budget, _ = success_budget(ratio=0.1, burst=0)
    for _ in range(10):
        budget.success()
        budget._settle()  # Ten additions of a tenth come to less than one.
    assert budget.withdraw() == 1.0
    assert budget.balance == 0.0


def test_new_clock_continues_the_time_of_the_first() -> None:
    budget = sp.Budget(ratio=1.0, burst=0, window=20)
    budget.success()
    assert settled(budget) == 1.0
    clock = Jumping()
    clock.time = -1e6
    budget.use_clock(clock)  # type: ignore[arg-type]
    assert budget.balance == 1.0
    clock.time += 21.0
    assert budget.balance == 0.0
    assert budget.clock is clock
    other = Jumping()
    budget.use_clock(other)  # type: ignore[arg-type]
    assert budget.clock is clock


def test_negative_times_are_summed() -> None:
    sums = Slices(20.0, -5.5)
    assert sums.end == -5.0
    sums.add(1.0)
    sums.roll(-0.5)
    assert (sums.end, sums.total) == (0.0, 1.0)
    sums.roll(14.0)
    assert sums.total == 0.0


def test_slices_of_another_width_sum_and_expire() -> None:
    sums = Slices(10.0, 10.0)
    sums.add(4.0)
    sums.roll(19.75)
    assert sums.total == 4.0
    sums.roll(20.25)
    assert sums.total == 0.0
    sums.add(6.0, 1.5)
    sums.roll(29.25)
    assert sums.total == pytest.approx(4.0)


def test_amounts_added_to_one_slice_sum_up() -> None:
    sums = Slices(20.0, 0.0)
    sums.add(1.0)
    sums.add(2.0)
    sums.roll(1.0)
    assert sums.total == 3.0


def test_fraction_of_a_second_does_not_count_as_a_step_back() -> None:
    clock = Jumping()
    live = BudgetState(clock, 0.0)  # type: ignore[arg-type]
    clock.time += 0.25
    assert live.tick() == (100.25, 0.25)


def test_slice_ends_with_its_last_moment() -> None:
    budget, clock = success_budget(ratio=1.0, burst=2, window=20)
    clock.time = 181.0
    assert settled(budget) == 2.0
    budget.success()
    assert settled(budget) == 3.0
    clock.time = 200.5
    assert budget.balance == 3.0
    clock.time = 201.0
    assert budget.balance == 2.0


def test_earnings_between_two_looks_leave_at_their_own_time() -> None:
    budget, clock = success_budget(ratio=1.0, burst=0, window=20)
    for _ in range(10):
        budget.success()
    clock.time = 110.0
    assert settled(budget) == 10.0
    clock.time = 125.0
    assert budget.balance == pytest.approx(5.0)


def test_clock_that_is_far_ahead_is_followed_from_where_the_first_was() -> None:
    budget = sp.Budget(ratio=1.0, burst=0, window=20)
    budget.success()
    assert settled(budget) == 1.0
    clock = Jumping()
    clock.time = 1e6
    budget.use_clock(clock)  # type: ignore[arg-type]
    assert budget.balance == 1.0


# The other kinds.


def window_budget() -> tuple[sp.WindowBudget, Jumping]:
    clock = Jumping()
    return sp.WindowBudget(ratio=1.0, floor=0.0, window=20, clock=clock), clock  # type: ignore[arg-type]


def test_calls_between_two_looks_are_spread_over_the_time_between() -> None:
    budget, clock = window_budget()
    for _ in range(10):
        budget.started()
    clock.time += 10.0
    assert settled(budget) == pytest.approx(10.0)
    clock.time += 15.0
    assert budget.balance == pytest.approx(5.0)


def test_calls_spread_over_more_than_a_window_count_in_part() -> None:
    budget, clock = window_budget()
    for _ in range(40):
        budget.started()
    clock.time += 80.0
    assert settled(budget) == pytest.approx(10.0)
    clock.time += 10.0
    assert budget.balance == pytest.approx(5.0)


def test_quota_charges_throttle_cost_only_if_set_and_throttled() -> None:
    plain, priced = sp.QuotaBudget(), sp.QuotaBudget(throttle_cost=50)
    assert (plain.withdraw(), plain.withdraw(True), plain.withdraw(throttle=True)) == (5.0, 10.0, 5.0)
    assert (priced.withdraw(), priced.withdraw(True), priced.withdraw(throttle=True)) == (5.0, 10.0, 50.0)


def test_quota_is_credited_for_each_success() -> None:
    budget = sp.QuotaBudget(capacity=100, retry_cost=40, success_credit=3)
    assert budget.sustained == pytest.approx(3 / 40)
    budget.withdraw()
    budget.success()
    budget.success()
    assert budget.balance == 66.0


def test_rate_budget_has_documented_defaults_and_bounds() -> None:
    budget = sp.RateBudget()
    assert (budget.rate, budget.burst, budget.wait) == (100.0, 200, False)
    assert sp.RateBudget(burst=10**15).burst == 10**15
    with pytest.raises(ValueError, match=r"^RateBudget: burst must be "):
        sp.RateBudget(burst=10**15 + 1)


@pytest.mark.parametrize("is_shared", [False, True])
def test_rate_budget_pays_from_its_bucket_or_from_the_fleet_s(is_shared: bool) -> None:
    clock = Jumping()
    own = (1, 1) if is_shared else (0.5, 2)
    budget = sp.RateBudget(*own, wait=True, clock=clock)  # type: ignore[arg-type]
    if is_shared:
        # What stands for the fleet has the rate in question; the budget's own bucket must not be asked.
        budget._shared = sp.Limiter(0.5, 2, clock=clock)  # type: ignore[arg-type]
    assert budget.balance == 2.0
    assert budget.withdraw() == 1.0
    assert budget.balance == 1.0
    assert budget.reserve(0.0).delay == 0.0
    assert budget.withdraw() == 0.0
    assert not budget.reserve(1.9).ok
    later = budget.reserve(2.0)
    assert later.ok and later.delay == 2.0
    assert budget.balance == 0.0
    last = budget.reserve(None)
    assert last.delay == 4.0
    last.leave()
    assert budget.reserve(None).delay == 4.0
    later.leave()
    assert budget.reserve(None).delay == 4.0, "the place of the first in line went to the one behind it"


def test_rate_budget_passes_its_clock_to_the_shared_limiter() -> None:
    budget = sp.RateBudget(1, 1)
    shared = sp.Limiter(1, 1)
    budget._shared = shared
    clock = Jumping()
    budget.use_clock(clock)  # type: ignore[arg-type]
    assert budget.clock is clock
    assert shared.clock is clock


@pytest.mark.parametrize("gil", [True, False], ids=["gil", "free-threaded"])
def test_tally_counts_every_thread_and_each_tick_once(gil: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "has_gil", lambda: gil)
    tally = counters.Tally()
    together = threading.Barrier(4)

    def tick() -> None:
        together.wait(10)
        for _ in range(1000):
            tally.tick()

    threads = [threading.Thread(target=tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.take() == 4000
    assert tally.take() == 0
    tally.tick()
    assert tally.peek() == 1
    assert tally.take() == 1


@pytest.mark.parametrize("gil", [True, False], ids=["gil", "free-threaded"])
def test_tally_read_while_threads_tick_loses_and_repeats_nothing(
    gil: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "has_gil", lambda: gil)
    tally, ended = counters.Tally(), [threading.Event() for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def tick(end: threading.Event) -> None:
        for _ in range(3000):
            tally.tick()
        end.set()

    try:
        threads = [threading.Thread(target=tick, args=(end,)) for end in ended]
        for thread in threads:
            thread.start()
        taken = 0
        while not all(end.is_set() for end in ended):
            tally.peek()
            taken += tally.take()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert taken + tally.take() == 9000


@pytest.mark.parametrize(("ratio", "burst"), [(0.5, 10.0), (0.0625, 1000.0)])
def test_budget_paid_by_many_threads_keeps_every_token(ratio: float, burst: float) -> None:
    clock = sp.testing.FakeClock()
    budget = sp.Budget(ratio, burst=burst, clock=clock)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    paid: list[float] = []

    def use(share: int) -> None:
        for n in range(2000):
            budget.success()
            if n % 5 == share:
                budget.balance  # noqa: B018 - it is read
            if n % 100 == 99:
                clock.advance(0.001)
            paid.append(budget.pay("transient"))

    try:
        threads = [threading.Thread(target=use, args=(share,)) for share in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert budget.balance == burst + ratio * 8000 - sum(paid)


def test_refusals_within_a_slice_take_nothing_and_see_what_was_earned() -> None:
    clock = sp.testing.FakeClock()
    budget = sp.Budget(0.5, burst=2, clock=clock)
    assert [budget.pay("transient") for _ in range(4)] == [1.0, 1.0, 0.0, 0.0]
    budget.success()
    assert budget.pay("transient") == 0.0
    budget.success()
    assert [budget.pay("transient") for _ in range(2)] == [1.0, 0.0]
    # A ratio of 1 would do, and is not advised.
    assert budget.shortage() == (
        "retry budget exhausted: burst 2, 2 successes earned 1, 3 retries spent 3; to allow more, set burst=4"
    )
    clock.advance(60.0)
    budget.success()
    budget.success()
    assert [budget.pay("transient") for _ in range(2)] == [1.0, 0.0]


def test_free_threaded_tally_keeps_what_ended_threads_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "has_gil", lambda: False)
    tally = counters.Tally()
    for _ in range(50):
        thread = threading.Thread(target=tally.tick)
        thread.start()
        thread.join()
    assert tally.take() == 50
