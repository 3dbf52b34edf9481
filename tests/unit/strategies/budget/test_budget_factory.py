"""`factory` makes the budgets of a simulation's clients, which behave as those made by hand."""

from __future__ import annotations

from typing import Any

import pytest

import stormproof as sp
from stormproof.testing import FakeClock

BUDGETS: list[Any] = [
    sp.Budget(0.5, burst=2, window=1),
    sp.Budget(0.5, burst=2, window=1, observe=True),
    sp.WindowBudget(0.5, floor=1, window=2),
    sp.QuotaBudget(20),
    sp.ThrottleBudget(4, token_ratio=0.5),
    sp.RateBudget(2, 3),
    sp.RateBudget(2, 3, wait=True),
]


def payments(budget: Any, clock: FakeClock) -> list[float]:
    found = []
    for turn in range(60):
        budget.started()
        if turn % 3:
            budget.success()
        else:
            budget.failure()
            found.append(float(budget.pay("server")))
        found.append(budget.balance)
        clock.advance(0.125)
    return found


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_budget_of_a_factory_pays_as_one_made_by_hand(budget: Any) -> None:
    clock, other = FakeClock(), FakeClock()
    made, by_hand = budget.factory(clock)(), type(budget)(**budget.fields(), clock=other)
    assert type(made) is type(budget) and made.fields() == budget.fields()
    assert payments(made, clock) == payments(by_hand, other)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_budgets_of_a_factory_share_no_state(budget: Any) -> None:
    clock = FakeClock()
    make = budget.factory(clock)
    first, second = make(), make()
    payments(first, clock)
    assert second.balance == type(budget)(**budget.fields(), clock=clock).balance


def test_budget_class_of_the_users_own_keeps_its_attributes_in_a_factory() -> None:
    class Named(sp.Budget):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.__dict__["team"] = "payments"

    made: Any = Named(0.2).factory(FakeClock())()
    assert (made.ratio, made.team) == (0.2, "payments")
