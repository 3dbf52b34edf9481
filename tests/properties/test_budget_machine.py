"""Each budget kind against a simple model of its own, through random histories.

The models keep plain lists and sums. Where the real one counts time in slices and spreads what it
counted since it last settled, the model keeps a lower and an upper bound: what is earned counts
at least until two slices before the window's end, and never past it.
"""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import stormproof as sp

NEAR = 1e-6


class Window:
    """Amounts earned over stretches of time: at least and at most how much of it the window holds."""

    def __init__(self, window: float) -> None:
        self.window = window
        self.entries: list[tuple[float, float, float]] = []

    def add(self, begin: float, end: float, amount: float) -> None:
        self.entries.append((begin, end, amount))

    def least(self, now: float) -> float:
        slices = self.window / 10
        return sum(amount for begin, _, amount in self.entries if begin > now - self.window + slices)

    def most(self, now: float) -> float:
        return sum(amount for _, end, amount in self.entries if end > now - self.window - NEAR)


class Model:
    """Time as the budget lives it, and what happened since it last read a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.read_at = 0.0
        self.pending = 0

    def started(self) -> None: ...

    def success(self, spent: float | None) -> None: ...

    def failure(self) -> None: ...

    def bounds(self) -> tuple[float, float]:
        """Settle, and give the lowest and the highest balance that is right. Readings settle a copy."""
        raise NotImplementedError

    def price(self, timeout: bool) -> float:
        return 1.0

    def paid(self, amount: float) -> None:
        raise NotImplementedError

    def counted(self, window: float) -> tuple[float, float, float]:
        """(begin, end, the share of the pending count that the window keeps), since it last settled."""
        elapsed = self.now - self.read_at
        share = window / elapsed if elapsed > window else 1.0
        begin, self.read_at = max(self.read_at, self.now - window), self.now
        count, self.pending = self.pending, 0
        return begin, self.now, count * share


class BudgetModel(Model):
    def __init__(self, ratio: float, burst: float, window: float) -> None:
        super().__init__()
        self.ratio, self.burst = ratio, burst
        self.earned = Window(window)
        self.low = self.high = burst

    def success(self, spent: float | None) -> None:
        self.pending += 1

    def bounds(self) -> tuple[float, float]:
        amount = self.pending * self.ratio
        begin, end, count = self.counted(self.earned.window)
        self.earned.add(begin, end, count * self.ratio)
        # All of it counts; only the bound looks at the window.
        self.low = min(self.low + amount, self.burst + self.earned.least(self.now))
        self.high = min(self.high + amount, self.burst + self.earned.most(self.now))
        return self.low, self.high

    def paid(self, amount: float) -> None:
        self.low, self.high = max(0.0, self.low - amount), max(0.0, self.high - amount)


class WindowModel(Model):
    def __init__(self, ratio: float, floor: float, window: float) -> None:
        super().__init__()
        self.ratio, self.reserve = ratio, floor * window
        self.calls, self.retries = Window(window), Window(window)

    def started(self) -> None:
        self.pending += 1

    def bounds(self) -> tuple[float, float]:
        self.calls.add(*self.counted(self.calls.window))
        low = self.ratio * self.calls.least(self.now) + self.reserve - self.retries.most(self.now)
        high = self.ratio * self.calls.most(self.now) + self.reserve - self.retries.least(self.now)
        return max(0.0, low), max(0.0, high)

    def paid(self, amount: float) -> None:
        self.retries.add(self.now, self.now, amount)


class QuotaModel(Model):
    def __init__(
        self, capacity: float, retry_cost: float, timeout_cost: float, success_credit: float
    ) -> None:
        super().__init__()
        self.capacity = self.tokens = capacity
        self.retry_cost, self.timeout_cost, self.credit = retry_cost, timeout_cost, success_credit

    def success(self, spent: float | None) -> None:
        self.tokens = min(self.capacity, self.tokens + (self.credit if spent is None else spent))

    def bounds(self) -> tuple[float, float]:
        return self.tokens, self.tokens

    def price(self, timeout: bool) -> float:
        return self.timeout_cost if timeout else self.retry_cost

    def paid(self, amount: float) -> None:
        self.tokens -= amount


class ThrottleModel(Model):
    def __init__(self, max_tokens: int, thousandths: int) -> None:
        super().__init__()
        self.most = self.tokens = Fraction(max_tokens)
        self.ratio = Fraction(thousandths, 1000)

    def success(self, spent: float | None) -> None:
        self.tokens = min(self.most, self.tokens + self.ratio)

    def failure(self) -> None:
        self.tokens = max(Fraction(0), self.tokens - 1)

    def bounds(self) -> tuple[float, float]:
        return float(self.tokens), float(self.tokens)

    def pays(self) -> bool:
        return self.tokens > self.most / 2

    def paid(self, amount: float) -> None: ...


class RateModel(Model):
    def __init__(self, rate: float, burst: int) -> None:
        super().__init__()
        self.rate, self.burst = rate, burst
        self.tokens = float(burst)

    def bounds(self) -> tuple[float, float]:
        self.tokens = min(self.burst, self.tokens + self.rate * (self.now - self.read_at))
        self.read_at = self.now
        return self.tokens, self.tokens

    def paid(self, amount: float) -> None:
        self.tokens -= amount


class Machine(RuleBasedStateMachine):
    """Everything that can happen to a budget. Subclasses make one, and its model."""

    budget: Any
    model: Any

    def __init__(self) -> None:
        super().__init__()
        self.clock = sp.testing.FakeClock(12_345.678)
        self.spent: list[float] = []

    @rule(times=st.integers(1, 40))
    def calls_that_succeed(self, times: int) -> None:
        for _ in range(times):
            self.budget.started()
            self.model.started()
            self.budget.success()
            self.model.success(None)

    @rule(timeout=st.booleans())
    def call_that_fails(self, timeout: bool) -> None:
        self.budget.started()
        self.model.started()
        self.budget.failure(timeout)
        self.model.failure()

    @rule(timeout=st.booleans())
    def withdraw(self, timeout: bool) -> None:
        low, high = self.model.bounds()
        paid = self.budget.withdraw(timeout)
        price = self.model.price(timeout)
        assert paid in (0.0, price)
        if isinstance(self.model, ThrottleModel):
            assert bool(paid) == self.model.pays()
        elif low >= price + NEAR:
            assert paid
        elif high < price - NEAR:
            assert not paid
        if paid:
            self.model.paid(paid)
            self.spent.append(paid)

    @precondition(lambda self: self.spent)
    @rule()
    def retry_that_succeeds(self) -> None:
        spent = self.spent.pop()
        self.budget.success(spent)
        self.model.success(spent)

    @rule()
    def read(self) -> None:
        low, high = deepcopy(self.model).bounds()
        assert low - NEAR <= self.budget.balance <= high + NEAR

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 1.0, 4.9, 10.0, 12.5, 1e4]) | st.floats(0, 30))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds

    @rule(seconds=st.sampled_from([0.001, 1.0, 11.0, 3600.0]))
    def the_clock_is_set_back(self, seconds: float) -> None:
        """Time goes on from where it was: nothing is earned, lost or refilled by it."""
        # It notices when it settles, which a reading does not do.
        self.withdraw(False)
        self.clock.advance(-seconds)
        self.withdraw(False)
        self.read()


class BudgetMachine(Machine):
    @initialize(
        ratio=st.sampled_from([0.0, 0.1, 0.25, 1.0, 2.5]),
        burst=st.sampled_from([0, 1, 10]),
        window=st.sampled_from([0.5, 10.0, 60.0]),
    )
    def begin(self, ratio: float, burst: float, window: float) -> None:
        self.budget = sp.Budget(ratio, burst=burst, window=window, clock=self.clock)
        self.model = BudgetModel(ratio, burst, window)


class WindowMachine(Machine):
    @initialize(
        ratio=st.sampled_from([0.0, 0.2, 1.0]),
        floor=st.sampled_from([0.0, 0.1, 2.0]),
        window=st.sampled_from([0.5, 10.0, 60.0]),
    )
    def begin(self, ratio: float, floor: float, window: float) -> None:
        self.budget = sp.WindowBudget(ratio, floor=floor, window=window, clock=self.clock)
        self.model = WindowModel(ratio, floor, window)


class QuotaMachine(Machine):
    @initialize(
        capacity=st.sampled_from([4, 20, 500]),
        retry_cost=st.sampled_from([1, 5, 14]),
        timeout_cost=st.sampled_from([5, 10]),
        credit=st.sampled_from([0, 1, 2.5]),
    )
    def begin(self, capacity: float, retry_cost: float, timeout_cost: float, credit: float) -> None:
        self.budget = sp.QuotaBudget(
            capacity,
            retry_cost=retry_cost,
            timeout_cost=timeout_cost,
            success_credit=credit,
            clock=self.clock,
        )
        self.model = QuotaModel(capacity, retry_cost, timeout_cost, credit)


class ThrottleMachine(Machine):
    @initialize(max_tokens=st.integers(1, 20), thousandths=st.integers(1, 2_000))
    def begin(self, max_tokens: int, thousandths: int) -> None:
        self.budget = sp.ThrottleBudget(max_tokens, token_ratio=thousandths / 1000, clock=self.clock)
        self.model = ThrottleModel(max_tokens, thousandths)


class RateMachine(Machine):
    @initialize(rate=st.sampled_from([0.0, 0.1, 1.0, 7.3, 100.0]), burst=st.integers(0, 10))
    def begin(self, rate: float, burst: int) -> None:
        self.budget = sp.RateBudget(rate, burst, clock=self.clock)
        self.model = RateModel(rate, burst)


MACHINES = [BudgetMachine, WindowMachine, QuotaMachine, ThrottleMachine, RateMachine]
for machine in MACHINES:
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)

TestBudget = BudgetMachine.TestCase
TestWindowBudget = WindowMachine.TestCase
TestQuotaBudget = QuotaMachine.TestCase
TestThrottleBudget = ThrottleMachine.TestCase
TestRateBudget = RateMachine.TestCase


def test_models_are_not_the_code() -> None:
    """A model that leaned on the budget would agree with any mistake in it."""
    budget = sp.Budget(ratio=1, burst=0, clock=sp.testing.FakeClock())
    model = BudgetModel(ratio=1, burst=0, window=10)
    for _ in range(3):
        budget.success()
    model.success(None)
    assert budget.balance == 3
    assert model.bounds() == (pytest.approx(1), pytest.approx(1))
