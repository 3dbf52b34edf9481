"""A policy as numbers for the kernel: its waits and its budget."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...._classify.classifier import Classifier
from ...._strategies.budget.budget import Budget
from ...._strategies.budget.other_systems import QuotaBudget, RateBudget, ThrottleBudget, WindowBudget
from ...._strategies.budget.rules import SHORTEST_S
from ...._strategies.retry.backoff import Constant, Decorrelated, Exponential, Fibonacci, Linear, Schedule
from ...._strategies.retry.jitter import Symmetric
from ...._strategies.retry.retry import Retry
from ...model.arrivals import Floats
from ...model.scenario import Scenario
from ..policy_shape import Shape
from . import layout

#: Largest number of different waits of a schedule.
_MOST_WAITS = 65_536
_FAR = 10**12

_BACKOFFS = (Constant, Decorrelated, Exponential, Fibonacci, Linear, Schedule)
_JITTERS = {"none": layout.UNSPREAD, "full": layout.FULL, "equal": layout.EQUAL}
#: The number of each kind of budget, and which of its options the rules take as they are.
_BUDGETS: dict[type, tuple[int, dict[str, str]]] = {
    Budget: (layout.EARNED, {"ratio": "ratio", "window": "window", "burst": "burst", "top": "burst"}),
    WindowBudget: (layout.WINDOW, {"ratio": "ratio", "window": "window", "floor": "floor"}),
    QuotaBudget: (
        layout.QUOTA,
        {"top": "capacity", "credit": "success_credit", "cost": "retry_cost", "timeout_cost": "timeout_cost"},
    ),
    ThrottleBudget: (layout.THROTTLE, {}),
    RateBudget: (layout.RATE, {"burst": "burst", "top": "burst", "rate": "rate", "waits": "wait"}),
}


def unfit(form: Shape | str) -> str | None:
    """Why the fast engine cannot run a policy of this form; None: it can."""
    if isinstance(form, str):
        return form
    for part in (*form.outer, *form.inner):
        return f"{type(part).__name__} is not compiled"
    if form.deadline is not None:
        return "Deadline is not compiled"
    return None if form.retry is None else _unfit_retry(form.retry)


def _unfit_retry(retry: Retry) -> str | None:
    backoff, kind = retry.backoff, type(retry.backoff)
    if kind not in _BACKOFFS or retry.plan is not None:
        return f"the backoff {kind.__name__} is not compiled"
    if not isinstance(backoff, Decorrelated):
        jitter = backoff.jitter  # type: ignore[attr-defined]
        if not isinstance(jitter, str) and type(jitter) is not Symmetric:
            return "jitter= is a function of the user's own"
        if ceilings(retry) is None:
            return f"the backoff has more than {_MOST_WAITS:,} different waits"
    if not isinstance(retry.on, (type, tuple, Classifier)):
        return "on= is a function of the user's own"
    if retry.budget is not None and type(retry.budget) not in _BUDGETS:
        return f"the budget {type(retry.budget).__name__} is not compiled"
    if getattr(retry.budget, "observe", False):
        return "a budget that observes is not compiled"
    return None


def ceilings(retry: Retry) -> Floats | None:
    """The ceilings of the waits before retry 0, 1, ...; the last holds for all after it. None: too many."""
    backoff = retry.backoff
    if isinstance(backoff, Decorrelated):
        return np.zeros(1)
    retries = _FAR if retry.attempts is None else max(1, retry.attempts - 1)
    if isinstance(backoff, Schedule):
        different = min(retries, len(backoff.values))
        return np.array([backoff.ceiling(n) for n in range(different)]) if different <= _MOST_WAITS else None
    waits: list[float] = []
    last = backoff.ceiling(_FAR)
    # These only ever rise, so one that has reached the last stays there.
    while len(waits) < retries and (not waits or waits[-1] != last):
        if len(waits) == _MOST_WAITS:
            return None
        waits.append(backoff.ceiling(len(waits)))
    return np.array(waits)


def fill_policy(rules: layout.RunRules, form: Shape, scenario: Scenario) -> Floats:
    """Fill in the policy's part of ``rules``; the ceilings of its waits are returned."""
    rules["timeout"] = form.timeout
    rules["budget"] = layout.NO_BUDGET
    retry = form.retry
    if retry is None:
        return np.zeros(1)
    rules["retries"] = 1
    rules["attempts"] = -1 if retry.attempts is None else retry.attempts
    rules["within"] = math.inf if retry.within is None else retry.within
    rules["max_hint"] = retry.max_hint
    rules["clip"] = retry.late == "clip"
    _fill_waits(rules, retry.backoff)
    if retry.budget is not None:
        _fill_budget(rules, retry.budget)
        rules["shared"] = shared = scenario.fleet or getattr(retry.budget, "store", None) is not None
        rules["counted"] = rules["budget"] in (layout.EARNED, layout.THROTTLE) and not shared
    waits = ceilings(retry)
    assert waits is not None, "`unfit` has said so"
    return waits


def _fill_waits(rules: layout.RunRules, backoff: Any) -> None:
    rules["min"] = backoff.min
    if isinstance(backoff, Decorrelated):
        rules["base"], rules["cap"] = backoff.base, backoff.cap
        range_ = backoff.clip == "range"
        rules["jitter"] = layout.DECORRELATED if range_ else layout.DECORRELATED_SAMPLE
    elif isinstance(backoff.jitter, Symmetric):
        rules["jitter"], rules["jitter_r"] = layout.SYMMETRIC, backoff.jitter.r
    else:
        rules["jitter"] = _JITTERS[backoff.jitter]


def _fill_budget(rules: layout.RunRules, budget: Any) -> None:
    kind, options = _BUDGETS[type(budget)]
    rules["budget"] = kind
    rules["by_success"] = kind in (layout.EARNED, layout.QUOTA, layout.THROTTLE)
    for name, option in options.items():
        rules[name] = getattr(budget, option)
    if "window" in options:
        rules["width"] = max(budget.window / layout.SLICES, SHORTEST_S)
    if isinstance(budget, QuotaBudget):
        rules["throttle_cost"] = math.nan if budget.throttle_cost is None else budget.throttle_cost
    elif isinstance(budget, ThrottleBudget):
        # As the budget itself counts: thousandths, those of the ratio cut off.
        rules["top"] = round(budget.max_tokens * 1000)
        rules["credit"] = int(budget.token_ratio * 1000 + 1e-9)
