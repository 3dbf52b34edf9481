"""Every option that cannot be meant is refused by owner, name, value and rule, in that order."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp

NEGATIVE: dict[Callable[..., Any], tuple[str, ...]] = {
    sp.Budget: ("ratio", "burst", "window"),
    sp.WindowBudget: ("ratio", "floor", "window"),
    sp.QuotaBudget: ("capacity", "retry_cost", "timeout_cost", "success_credit", "throttle_cost"),
    sp.ThrottleBudget: ("max_tokens", "token_ratio"),
    sp.RateBudget: ("rate", "burst"),
    sp.Retry: ("attempts", "within", "max_hint"),
    sp.Exponential: ("base", "factor", "cap", "min"),
    sp.Linear: ("base", "cap", "min"),
    sp.Fibonacci: ("base", "cap", "min"),
    sp.Decorrelated: ("base", "cap", "min"),
}


@pytest.mark.parametrize(
    ("owner", "field"), [(owner, field) for owner, fields in NEGATIVE.items() for field in fields]
)
@pytest.mark.parametrize("value", [-1, math.nan])
def test_number_below_its_range_is_refused_by_name(
    owner: Callable[..., Any], field: str, value: float
) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        owner(**{field: value})
    name = getattr(owner, "__name__", "")
    assert str(caught.value).startswith(f"{name}: {field} must be ")
    assert str(caught.value).endswith(f", got {value!r}")


@pytest.mark.parametrize(
    ("owner", "field"), [(owner, field) for owner, fields in NEGATIVE.items() for field in fields]
)
def test_value_that_is_not_a_number_is_refused_by_name(owner: Callable[..., Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        owner(**{field: object})
    assert str(caught.value).startswith(f"{owner.__name__}: {field} must be ")


#: Where zero is a meaning of its own, and where it is refused.
ZERO = [
    (sp.Budget, "ratio", True),
    (sp.Budget, "burst", True),
    (sp.Budget, "window", False),
    (sp.WindowBudget, "ratio", True),
    (sp.WindowBudget, "floor", True),
    (sp.WindowBudget, "window", False),
    (sp.QuotaBudget, "capacity", False),
    (sp.QuotaBudget, "retry_cost", False),
    (sp.QuotaBudget, "timeout_cost", False),
    (sp.QuotaBudget, "success_credit", True),
    (sp.QuotaBudget, "throttle_cost", False),
    (sp.ThrottleBudget, "max_tokens", False),
    (sp.ThrottleBudget, "token_ratio", False),
    (sp.RateBudget, "rate", True),
    (sp.RateBudget, "burst", True),
    (sp.Exponential, "base", False),
    (sp.Exponential, "min", True),
    (sp.Constant, "wait", True),
]


@pytest.mark.parametrize(("owner", "field", "allowed"), ZERO)
def test_zero_is_accepted_where_it_has_a_meaning(owner: Any, field: str, allowed: bool) -> None:
    if allowed:
        assert getattr(owner(**{field: 0}), field) == 0
    else:
        with pytest.raises(ValueError):
            owner(**{field: 0})


def test_fractions_below_one_are_accepted() -> None:
    """A bar of 1 where 0 is meant would refuse these."""
    assert sp.Budget(0.01, burst=0.5, window=0.25).fields() == {"ratio": 0.01, "burst": 0.5, "window": 0.25}
    assert sp.WindowBudget(0.01, floor=0.5, window=0.25).fields() == {
        "ratio": 0.01,
        "floor": 0.5,
        "window": 0.25,
    }
    assert sp.QuotaBudget(
        0.5, retry_cost=0.1, timeout_cost=0.2, success_credit=0.3, throttle_cost=0.4
    ).fields() == {
        "capacity": 0.5,
        "retry_cost": 0.1,
        "timeout_cost": 0.2,
        "success_credit": 0.3,
        "throttle_cost": 0.4,
    }
    assert sp.ThrottleBudget(0.5, token_ratio=0.001).fields() == {"max_tokens": 0.5, "token_ratio": 0.001}
    assert sp.ThrottleBudget(1000).max_tokens == 1000
    with pytest.raises(ValueError, match=r"^ThrottleBudget: max_tokens must be "):
        sp.ThrottleBudget(1000.5)
    with pytest.raises(ValueError, match=r"^ThrottleBudget: token_ratio must be "):
        sp.ThrottleBudget(10, token_ratio=0.0009)
    assert sp.RateBudget(math.inf, 3, wait=True).fields() == {"rate": math.inf, "burst": 3, "wait": True}
    with pytest.raises((ValueError, TypeError), match=r"^RateBudget: wait must be "):
        sp.RateBudget(wait=1)  # type: ignore[arg-type]


NAMED_AFTER_THE_FIRST = [
    *(
        sp.Retry,
        sp.Hedge,
        sp.Breaker,
        sp.RateLimit,
        sp.Bulkhead,
        sp.Throttle,
        sp.AdaptiveLimit,
        sp.AdaptiveRate,
    ),
    *(sp.Chaos, sp.Fallback, sp.Deadline, sp.Timeout, sp.Worker),
    *(sp.Budget, sp.WindowBudget, sp.QuotaBudget, sp.ThrottleBudget),
    *(sp.Exponential, sp.Decorrelated, sp.Constant, sp.Linear, sp.Fibonacci, sp.Schedule, sp.ByKind),
]


@pytest.mark.parametrize("owner", NAMED_AFTER_THE_FIRST, ids=lambda owner: owner.__name__)
def test_options_after_the_first_are_keyword_only(owner: Any) -> None:
    _, *rest = inspect.signature(owner).parameters.values()
    assert {option.kind for option in rest} <= {inspect.Parameter.KEYWORD_ONLY}


def test_option_without_its_name_is_refused_by_name() -> None:
    with pytest.raises(
        TypeError, match=r"^Retry: attempts must be given by name, got 3; write attempts=\.\.\.$"
    ):
        sp.Retry(OSError, 3)  # type: ignore[misc]
