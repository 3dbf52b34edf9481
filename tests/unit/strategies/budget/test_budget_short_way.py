"""A budget that has earned nothing since its last payment pays without its lock, where there is a GIL."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof._strategies.budget import budget as module
from stormproof.testing import FakeClock


class CountingLock:
    """Stands in for a lock, and counts how often it is taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *error: object) -> None:
        """Nothing is locked."""


def locked(budget: sp.Budget, monkeypatch: pytest.MonkeyPatch) -> CountingLock:
    lock = CountingLock()
    monkeypatch.setattr(budget, "_lock", lock)
    return lock


@pytest.mark.parametrize(("gil", "taken"), [(True, 1), (False, 5)], ids=["gil", "free-threaded"])
def test_budget_without_earnings_takes_its_lock_once_where_there_is_a_gil(
    gil: bool, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HAS_GIL", gil)
    budget = sp.Budget(burst=3, clock=FakeClock())
    lock = locked(budget, monkeypatch)
    assert [budget.withdraw() for _ in range(5)] == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert lock.taken == taken


@pytest.mark.parametrize("event", ["success", "slice", "set back", "clock"])
def test_budget_takes_its_lock_again_after(event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    budget = sp.Budget(burst=3, window=10, clock=None if event == "clock" else clock)
    assert [budget.withdraw(), budget.withdraw()] == [1.0, 1.0]
    lock = locked(budget, monkeypatch)
    match event:
        case "success":
            budget.success()
        case "slice":
            clock.advance(0.5)
        case "set back":
            clock.advance(-0.1)
        case "clock":
            budget.use_clock(clock)
            assert lock.taken == 1
            lock.taken = 0
    assert budget.withdraw() == 1.0
    assert lock.taken == 1


def test_budget_that_is_retuned_settles_before_it_pays_again(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = sp.Budget(burst=3, clock=FakeClock())
    assert budget.withdraw() == 1.0
    budget.retune(sp.Budget(burst=1))
    lock = locked(budget, monkeypatch)
    assert [budget.withdraw(), budget.withdraw()] == [1.0, 0.0]
    assert lock.taken == 1


def test_balance_a_rounding_below_one_pays_a_retry_on_the_short_way_too() -> None:
    budget = sp.Budget(ratio=0.1, burst=0, clock=FakeClock())
    for _ in range(29):
        budget.success()
    budget.success()
    assert [budget.withdraw() for _ in range(4)] == [1.0, 1.0, 1.0, 0.0]


def test_budget_that_settles_is_not_paid_on_the_short_way_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = sp.Budget(burst=3, clock=FakeClock())
    assert budget.withdraw() == 1.0
    lock, settle = locked(budget, monkeypatch), module.settle

    def interrupted(*state: object) -> float:
        # As another thread would, which has to wait for the lock.
        monkeypatch.setattr(module, "settle", settle)
        budget.withdraw()
        return settle(*state)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "settle", interrupted)
    budget.success()
    budget.withdraw()
    assert lock.taken == 2
