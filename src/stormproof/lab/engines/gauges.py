"""Readings of a process's budget that leave it as it was."""

from __future__ import annotations

from typing import Any

from ..._strategies.budget.budget import Allowance
from .processes import FleetBudget

#: Slots of a budget that a reading does not change, or that correct themselves.
_KEPT = frozenset(("__weakref__", "_lock", "_tally", "_fleet", "_shared"))

_put = object.__setattr__
_states: dict[type, tuple[str, ...]] = {}


def has_balance(budget: Any) -> bool:
    """Return whether ``budget`` is one budget: not none, and not one per key."""
    return isinstance(budget, (Allowance, FleetBudget))


def settled_balance(budget: Any) -> float:
    """Return what ``budget`` holds when it is settled now.

    Settling spreads what was earned evenly over the time since the last settlement, so a reading that settles
    would change what the budget pays later. It settles a copy of the state instead.
    """
    if isinstance(budget, FleetBudget):
        budget = budget.current
    names, tally = _state(type(budget)), budget._tally
    state, seen = [getattr(budget, name) for name in names], tally._seen
    for name, value in zip(names, state, strict=True):
        _put(budget, name, _duplicate(value))
    try:
        # What `balance` does, but for the lock: a run has one thread.
        budget._settle()
        return float(budget._held())
    finally:
        for name, value in zip(names, state, strict=True):
            _put(budget, name, value)
        if tally._seen != seen:
            # The reading itself is one tick, which the next one leaves out.
            tally._seen = seen + 1


def _state(kind: type) -> tuple[str, ...]:
    """Return the slots that hold live state."""
    if kind not in _states:
        names = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
        _states[kind] = tuple(name for name in names if name.startswith("_") and name not in _KEPT)
    return _states[kind]


def _duplicate(value: Any) -> Any:
    kind = type(value)
    slots = getattr(kind, "__slots__", ())
    if not slots:
        return value
    copy = object.__new__(kind)
    for name in slots:
        part = getattr(value, name)
        _put(copy, name, part[:] if type(part) is list else part)
    return copy
