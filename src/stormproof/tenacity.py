"""Pieces for programs that stay on tenacity: a budget, the ambient deadline and server hints.

    @retry(
        retry=budgeted(retry_if_exception_type(ConnectionError), budget),
        wait=wait_hinted(wait_random_exponential(max=10)),
        stop=stop_after_attempt(4) | stop_at_deadline(),
    )

Each is a tenacity strategy, so ``|``, ``&`` and ``+`` combine it with others. Needs tenacity.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from ._primitives.extras import extra

with extra("tenacity"):
    import tenacity
    from tenacity.wait import wait_base

from ._classify.classifier import transient
from ._classify.on_clause import unwrap_marker
from ._context.deadlines import ambient
from ._primitives.options import Seconds, seconds
from ._runtime import randomness
from ._strategies.budget.budget import Budget
from ._strategies.retry.rules.waits import spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._runtime.randomness import Rng
    from ._strategies.protocol import AnyBudget

__all__ = ["budgeted", "stop_at_deadline", "wait_hinted"]

#: Attribute of a call's state with the cost that its last retry paid.
_PAID = "_stormproof_paid"


def budgeted(
    predicate: Callable[[tenacity.RetryCallState], Any], budget: AnyBudget | None = None
) -> tenacity.retry_base:
    """Return ``predicate`` with a budget that pays for each retry it asks for.

    Wrap the whole condition, so that the budget sees successes too: they earn the retries. A retry that the
    budget refuses is not made: the call ends with the error of its last attempt (not `tenacity.RetryError`),
    or returns its result. ``budget=None`` is a fresh `stormproof.Budget`; give one object to several
    functions that call the same service. A retry forced by `tenacity.TryAgain` is not asked for here.
    """
    for method in ("started", "success", "failure", "withdraw"):
        is_one = not isinstance(budget, type) and callable(getattr(budget, method, None))
        if budget is not None and not is_one:
            raise TypeError(f"budgeted: budget must be one such as Budget(), or None, got {budget!r}")
    if not callable(predicate):
        raise TypeError(f"budgeted: predicate must be callable, got {predicate!r}")
    paid = Budget() if budget is None else budget
    called = getattr(predicate, "__call__", None)  # noqa: B004 - its kind is wanted
    is_async = iscoroutinefunction(predicate) or iscoroutinefunction(called)
    return _BudgetedAsync(predicate, paid) if is_async else _Budgeted(predicate, paid)


class _Budgeted(tenacity.retry_base):
    def __init__(self, predicate: Callable[[Any], Any], budget: AnyBudget) -> None:
        self.predicate = predicate
        self.budget = budget

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        return _settle(self.budget, retry_state, bool(self.predicate(retry_state)))


class _BudgetedAsync(_Budgeted):
    async def __call__(self, retry_state: tenacity.RetryCallState) -> bool:  # type: ignore[override]
        return _settle(self.budget, retry_state, bool(await self.predicate(retry_state)))


def _settle(budget: AnyBudget, state: Any, wanted: bool) -> bool:
    """Report one outcome to ``budget``; return whether the retry that is ``wanted`` is also paid for."""
    if state.attempt_number == 1:
        budget.started()
    error = state.outcome.exception()
    if not wanted:
        if error is None:
            budget.success(getattr(state, _PAID, None))
        return False
    timeout = isinstance(error, TimeoutError)
    budget.failure(timeout=timeout)
    if _will_stop(getattr(state.retry_object, "stop", None), state):
        # There will be no retry to pay for: the answer lets tenacity end the call in its own way.
        return True
    paid = budget.withdraw(timeout=timeout)
    setattr(state, _PAID, paid)
    return paid > 0


def _will_stop(stop: Any, state: object) -> bool:
    """Return True if ``stop`` ends the call for certain; stops that know the next wait are not asked."""
    if isinstance(stop, tenacity.stop_any):
        return any(_will_stop(part, state) for part in stop.stops)
    if isinstance(stop, tenacity.stop_all):
        return all(_will_stop(part, state) for part in stop.stops)
    if type(stop) in (tenacity.stop_after_attempt, tenacity.stop_after_delay, tenacity.stop_when_event_set):
        return bool(stop(state))
    return False


class stop_at_deadline(tenacity.stop.stop_base):  # noqa: N801 - tenacity's classes are called as functions are
    """Stop when the enclosing `stormproof.deadline` has passed, or would pass during the next wait."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        scope = ambient()
        if scope is None:
            return False
        left = scope.remaining()
        wait = getattr(retry_state, "upcoming_sleep", 0.0)
        return scope.ended() is not None or (left is not None and wait >= left)


class wait_hinted(wait_base):  # noqa: N801
    """Wait as ``wait`` says, or longer if the server asked for it (``Retry-After`` and the like).

    A hint is spread by up to 10 %, so that the callers it was given to do not return together, and counts for
    at most ``max_hint`` seconds.
    """

    def __init__(
        self, wait: Callable[[Any], float], *, max_hint: Seconds = 60.0, rng: Rng | None = None
    ) -> None:
        if not callable(wait):
            raise TypeError(f"wait_hinted: wait must be callable, got {wait!r}")
        self.wait = wait
        self.max_hint = seconds("wait_hinted", "max_hint", max_hint)
        self._draw = randomness.source(rng, "wait_hinted")

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        own = self.wait(retry_state)
        hint = _hint(retry_state.outcome)
        return own if hint is None else spread(own, min(hint, self.max_hint), self._draw)


def _hint(outcome: Any) -> float | None:
    """Return the seconds that the server asked for, in the error or the result of ``outcome``."""
    if outcome is None:
        return None
    error = outcome.exception()
    if error is None:
        return transient(outcome.result()).after
    cause, after = unwrap_marker(error)
    hints = [after, None if cause is None else transient(cause).after]
    return max((hint for hint in hints if hint is not None), default=None)
