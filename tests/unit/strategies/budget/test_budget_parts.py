"""Budgets that are set back to their start, replaced, shared out, copied for a simulation, or retuned."""

from __future__ import annotations

from typing import Any

import pytest

import stormproof as sp
from stormproof._strategies.budget.rules import Slices, shortage

KINDS = {
    "Budget": lambda **options: sp.Budget(0.5, burst=3, **options),
    "WindowBudget": lambda **options: sp.WindowBudget(0.2, floor=1, window=10, **options),
    "QuotaBudget": lambda **options: sp.QuotaBudget(50, **options),
    "ThrottleBudget": lambda **options: sp.ThrottleBudget(50, **options),
    "RateBudget": lambda **options: sp.RateBudget(10, 50, **options),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock()


def drain(budget: Any) -> None:
    """Fail and pay until it refuses, or observes that it would."""
    for _ in range(200):
        budget.failure()
        if not budget.withdraw() or budget.describe().get("would_refuse"):
            return
    pytest.fail("it never refused")


@each_kind
@pytest.mark.parametrize("option", ["rng", "clock"])
def test_option_that_is_not_a_clock_or_a_source_of_randomness_is_refused(kind: str, option: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{kind}: {option} must"):
        KINDS[kind](**{option: "noon"})


@each_kind
def test_reset_budget_is_as_full_as_new_on_the_same_clock(kind: str, clock: sp.testing.FakeClock) -> None:
    budget = KINDS[kind](clock=clock)
    full = budget.balance
    drain(budget)
    assert budget.balance < full
    budget.reset()
    assert budget.balance == full and budget.clock is clock


def test_successes_before_a_reset_are_forgotten_those_after_it_count(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(0.5, burst=3, clock=clock)
    tick = budget.on_success
    assert tick is not None
    tick()
    budget.reset()
    assert budget.balance == 3
    # Compiled functions go on with the tally that they were given.
    tick()
    assert budget.balance == 3.5


@each_kind
def test_described_budget_has_its_balance(kind: str, clock: sp.testing.FakeClock) -> None:
    budget = KINDS[kind](clock=clock)
    assert budget.describe()["balance"] == budget.balance
    assert "would_refuse" not in budget.describe()


@each_kind
def test_observing_budget_describes_what_it_would_have_refused(
    kind: str, clock: sp.testing.FakeClock
) -> None:
    budget = KINDS[kind](clock=clock, observe=True)
    drain(budget)
    assert budget.withdraw()
    assert budget.describe()["would_refuse"] == 2


@each_kind
def test_factory_makes_full_budgets_that_share_nothing(kind: str, clock: sp.testing.FakeClock) -> None:
    model = KINDS[kind]()
    full = model.balance
    make = model.factory(clock)
    one, two = make(), make()
    drain(one)
    assert two.balance == full and two.clock is clock
    two.success()
    drain(model)
    assert make().balance == full
    assert repr(one) == repr(two) == repr(model)


def test_factory_leaves_the_store_out(clock: sp.testing.FakeClock) -> None:
    with sp.redis.RedisStore("redis://127.0.0.1:1/0") as store:
        made = sp.Budget(burst=5, store=store, name="x").factory(clock)()
    assert made.store is None and made.balance == 5


def test_one_budget_may_stand_for_many(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(0.5, burst=3, clock=clock)
    states = [budget.new_state() for _ in range(2)]
    assert all(state.clock is clock for state in states)
    budget.assume(states[0], 4)
    assert (budget.pending(), budget.balance) == (4, 5.0)
    assert budget.withdraw() and budget.pending() == 0
    budget.assume(states[1], 0)
    assert budget.balance == 3.0
    budget.assume(states[0], 0)
    assert budget.balance == 4.0


def test_budget_of_the_users_own_pays_what_it_withdraws() -> None:
    class Doubling(sp.RateBudget):
        def withdraw(self, timeout: bool = False) -> float:
            return 2.0 if timeout else 1.0

        def failure(self, timeout: bool = False) -> None:
            pass

    class Both(Doubling):
        def withdraw(self, timeout: bool = False) -> float:
            return 5.0

        def pay(self, kind: str, max_wait: float | None = None) -> float:
            return 7.0

    class Named(sp.RateBudget):
        pass

    mine = Doubling(1, 1)
    assert (mine.pay("timeout", 1.0), mine.pay("transient", 1.0)) == (2.0, 1.0)
    assert Both(1, 1).pay("timeout", 1.0) == 7.0
    assert Doubling.counts_failures and not Named.counts_failures
    # A token that comes later is a payment of its own kind, which only `pay` gives.
    clock = sp.testing.FakeClock()
    waiting = Named(1, 1, wait=True, clock=clock)
    assert waiting.pay("transient", 60.0)
    assert type(waiting.pay("transient", 60.0)).__name__ == "DeferredPayment"


def test_timeout_costs_a_quota_its_own_price() -> None:
    budget = sp.QuotaBudget(100, retry_cost=5, timeout_cost=10)
    assert budget.withdraw(True) == 10
    assert budget.pay("timeout", 1.0) == 10
    assert budget.pay("transient", 1.0) == 5
    assert budget.withdraw() == 5


def test_budget_that_replaces_another_has_no_more_than_it_had() -> None:
    former = sp.Budget(burst=5)
    former.withdraw()
    for burst, balance in ((9, 4), (2, 2)):
        budget = sp.Budget(burst=burst)
        budget.inherit(former)
        assert budget.balance == balance
    other = sp.Budget(burst=9)
    other.inherit(sp.QuotaBudget(3))
    assert other.balance == 9


def test_share_of_a_budget_counts_the_same_successes(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(0.5, burst=8, window=4, clock=clock)
    share = budget.share(4, None)
    assert (share.ratio, share.burst, share.window, share.clock) == (0.5, 2, 4, clock)
    assert share.balance == 2
    budget.success()
    budget.success()
    assert share.balance == 3
    assert [budget.share(4, tokens).settled_tokens for tokens in (1.5, 99.0, -5.0, 0.5)] == [1.5, 2, 0, 0.5]


def test_retries_made_under_other_options_are_paid_for(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(burst=5, clock=clock)
    budget.pay_for(2)
    assert budget.settled_tokens == 3
    for seconds in (7, 5):
        clock.advance(seconds)
        assert budget.read_clock() == budget.last_reading == clock.now()


def test_earnings_above_the_burst_end_with_their_window_to_the_moment(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(1.0, burst=0, window=20, clock=clock)
    for _ in range(3):
        budget.success()
    assert budget.withdraw() == 1.0
    clock.advance(19.5)
    assert budget.withdraw() == 1.0
    clock.advance(0.5)
    assert budget.withdraw() == 0.0


def test_budget_without_a_ratio_says_that_nothing_was_earned() -> None:
    budget = sp.Budget(0, burst=1)
    budget.success()
    assert budget.withdraw() and not budget.withdraw()
    assert "0 successes earned 0, 1 retry spent 1" in budget.shortage()


@pytest.mark.parametrize("burst", [1, 3])
def test_higher_ratio_is_advised_only_where_it_would_have_paid_for_one_more(burst: int) -> None:
    # Four successes at a half have paid for two retries, which is all that was missing.
    assert shortage(0.5, burst, 4, 2).endswith("; to allow more, set burst=" + ("2" if burst == 1 else "4"))
    assert shortage(0.25, 0, 8, 2).endswith(" or ratio=0.38")


@each_kind
def test_retuned_budget_has_the_new_options(kind: str, clock: sp.testing.FakeClock) -> None:
    budget, wanted = KINDS[kind](clock=clock), KINDS[kind](observe=True)
    assert budget.retune(wanted) is True
    assert budget.observe and budget.clock is clock


# The window that it looks back on, in slices.


def test_earnings_are_spread_over_the_time_they_took() -> None:
    slices = Slices(20.0, 0.0)
    slices.roll(10.5)
    for _ in range(2):
        slices.add(10.0, 10.0)
    assert slices.total == 20
    slices.roll(25.5)
    # Of ten slices five have left.
    assert slices.total == 10
    slices.roll(30.5)
    assert slices.total == 0


def test_slices_that_were_all_left_are_empty() -> None:
    slices = Slices(20.0, 0.0)
    slices.add(1.0)
    slices.roll(100.5)
    slices.add(1.0)
    slices.add(1.0)
    slices.roll(101.5)
    slices.add(1.0)
    assert slices.total == 3
    slices.roll(120.5)
    assert slices.total == 1


@pytest.mark.parametrize("window_s", [10.0, 40.0])
def test_other_slices_keep_each_part_for_as_long_as_the_new_window(window_s: float) -> None:
    slices = Slices(20.0, 0.25)
    slices.add(1.0)
    slices.roll(5.25)
    slices.add(2.0)
    new = slices.resliced(window_s, 5.25)
    assert (new.window_s, new.total) == (window_s, 3)
    # The first part lay about 0.5, the second one at 5.25; a slice is a twentieth of the window.
    width = window_s / 20
    totals = []
    for now in (window_s - width, 0.5 + window_s + width, 5.0 + window_s - width, 5.25 + window_s + width):
        new.roll(now)
        totals.append(new.total)
    assert totals == [3, 2, 2, 0]


def test_slices_of_a_shorter_window_lose_what_lies_before_it() -> None:
    slices = Slices(20.0, 0.25)
    slices.add(1.0)
    slices.roll(5.25)
    slices.add(2.0)
    assert slices.resliced(2.0, 5.25).total == 2
    assert slices.resliced(2.0, 9.0).total == 0


def test_slices_of_an_equal_window_stay_as_they_are() -> None:
    slices = Slices(20.0, 0.0)
    assert slices.resliced(20.0, 1.0) is slices
    assert slices.resliced(40.0, 1.0) is not slices


# Budgets of other systems under other options.


def test_window_budget_keeps_calls_and_retries_for_the_new_window(clock: sp.testing.FakeClock) -> None:
    budget = sp.WindowBudget(1.0, floor=0, window=10, clock=clock)
    for _ in range(4):
        budget.started()
    assert budget.withdraw() and budget.balance == 3
    budget.retune(sp.WindowBudget(1.0, floor=0, window=40))
    clock.advance(30)
    assert budget.balance == 3
    budget.retune(sp.WindowBudget(1.0, floor=0, window=20))
    assert budget.balance == 0


def test_throttle_budget_keeps_its_share_of_the_new_most(clock: sp.testing.FakeClock) -> None:
    budget = sp.ThrottleBudget(10, clock=clock)
    for _ in range(4):
        budget.failure()
    budget.retune(sp.ThrottleBudget(100))
    assert budget.balance == 60


def test_rate_budget_refills_at_the_new_rate_from_now_on(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(1, 5, clock=clock)
    drain(budget)
    clock.advance(2)
    budget.retune(sp.RateBudget(10, 3))
    assert budget.balance == 2
    clock.advance(1)
    assert budget.balance == 3


def test_token_that_comes_later_is_one_token(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(1, 1, wait=True, clock=clock)
    assert [float(budget.pay("transient", 60.0)) for _ in range(2)] == [1.0, 1.0]


def test_reservation_of_a_rate_budget_can_be_given_back(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(1, 5, wait=True, clock=clock)
    turn = budget.reserve(None)
    assert budget.balance == 4
    turn.cancel()
    assert budget.balance == 5


def test_observing_rate_budget_takes_what_is_there_and_never_waits(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(1, 2, wait=True, observe=True, clock=clock)
    turns = [budget.reserve(0.0) for _ in range(4)]
    assert all(turn.ok and turn.delay == 0 for turn in turns)
    for turn in turns:
        turn.cancel()
    assert budget.balance == 0 and budget.describe()["would_refuse"] == 2
    assert budget.pay("transient", 60.0)


@pytest.mark.parametrize("kind", [sp.Budget, sp.RateBudget])
@pytest.mark.parametrize("options", [{"store": "redis://x", "name": "x"}, {"name": 5}], ids=["store", "name"])
def test_bad_store_or_name_is_refused_by_the_budgets_own_name(kind: Any, options: dict[str, Any]) -> None:
    field = next(iter(options))
    with pytest.raises((TypeError, ValueError), match=rf"^{kind.__name__}: {field} must"):
        kind(**options)


@pytest.mark.parametrize("kind", [sp.Budget, sp.RateBudget])
def test_named_budget_has_its_name(kind: Any) -> None:
    assert kind(name="mail").name == "mail"
