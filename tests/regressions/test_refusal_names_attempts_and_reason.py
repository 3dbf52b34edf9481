"""`score: 0.0499 s left of 'deadline' after 1 attempt in 0.000 s`: of what, and who says so?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import stormproof as sp
from stormproof.testing import FakeClock


def failing(policy: sp.Policy) -> Callable[[], None]:
    @policy
    def score() -> None:
        raise ConnectionError("refused")

    return score


def of(**options: object) -> sp.Policy:
    retry = sp.Retry(on=OSError, backoff=sp.Constant(2), **options)  # type: ignore[arg-type]
    return sp.Policy(retry, name="score", clock=FakeClock())


def test_refusal_past_a_deadline_names_wait_and_scope() -> None:
    policy = sp.Policy(sp.Deadline(5), *of().strategies, name="score", clock=FakeClock())
    with pytest.raises(sp.DeadlineExceeded) as caught:
        failing(policy)()
    why = "a wait of 2 s would outlast 'score', which has 1 s left"
    assert str(caught.value) == f"score: gave up after 3 attempts in 4.000 s since the first failure: {why}"


def test_refusal_past_within_names_wait_and_limit() -> None:
    with pytest.raises(sp.DeadlineExceeded) as caught:
        failing(of(within=3, raises="refusal"))()
    why = "a wait of 2 s would end past the 3 s allowed for retrying"
    assert str(caught.value) == f"score: gave up after 2 attempts in 2.000 s since the first failure: {why}"


def test_refusal_of_the_budget_names_attempts_and_time() -> None:
    with pytest.raises(sp.BudgetExhausted) as caught:
        failing(of(budget=sp.Budget(burst=1), raises="refusal"))()
    assert (
        str(caught.value)
        == "score: gave up after 2 attempts in 2.000 s since the first failure: retry budget exhausted"
    )


def test_number_in_place_of_a_budget_is_refused() -> None:
    with pytest.raises(TypeError, match=r"budget must be one such as Budget\(ratio=0.1\), or None, got 0.2"):
        of(budget=0.2)


def test_undeclared_hedge_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"to hedge a plain function \(Policy.call\)"):
        sp.Policy(sp.Hedge(after=1)).call(int)
