"""The options of a decorator as a policy, for `stormproof.policy_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._policy.policy import Policy
from ..._strategies.retry.backoff import Constant, Schedule
from ..._strategies.retry.retry import Retry
from ._call import maybe_call, start_waits
from ._jitter import full_jitter, random_jitter
from ._plan import is_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._strategies.retry.jitter import Jitter
    from ._plan import Plan

#: Waits are written down up to here; the last one repeats.
_MOST_STEPS = 100
#: Longer waits than this many seconds mean "no maximum".
_FAR_S = 1e9


def policy_of_exceptions(plan: Plan) -> Policy:
    """Return a policy that retries what ``on_exception`` does, as often and after the same waits."""
    if is_async(plan.giveup):
        raise ValueError(f"policy_of: giveup must be a plain function, got {plan.giveup!r}")
    return _policy(plan, lambda error: isinstance(error, plan.exception) and not plan.giveup(error), None)


def policy_of_results(plan: Plan, predicate: Callable[[object], object]) -> Policy:
    """Return a policy that retries what ``on_predicate`` does, as often and after the same waits."""
    return _policy(plan, lambda error: False, lambda result: bool(predicate(result)))


def _policy(
    plan: Plan, on: Callable[[BaseException], bool], on_result: Callable[[object], bool] | None
) -> Policy:
    """``max_time`` becomes ``within``, which no wait outlasts; handlers and budgets have no counterpart."""
    attempts, within = maybe_call(plan.max_tries) or None, maybe_call(plan.max_time)
    waits = _waits(plan, _MOST_STEPS if attempts is None else attempts - 1)
    if len(waits) < _MOST_STEPS:
        attempts = len(waits) + 1 if attempts is None else min(attempts, len(waits) + 1)
    if attempts is None and within is None:
        raise ValueError("policy_of: max_tries or max_time must end the retrying, got None for both")
    backoff = Schedule(waits, jitter=_jitter(plan)) if waits else Constant(0)
    return Policy(
        Retry(on, attempts=attempts, within=within, backoff=backoff, on_result=on_result, budget=None)
    )


def _waits(plan: Plan, most: int) -> list[float]:
    """The first waits of the generator, at most ``most``; fewer if it ends before."""
    waits: list[float] = []
    generator = start_waits(plan)
    try:
        while len(waits) < min(most, _MOST_STEPS):
            waits.append(min(float(generator.send(None)), _FAR_S))
    except StopIteration:
        pass
    except Exception as error:
        raise ValueError(
            f"policy_of: wait_gen must not depend on the outcome of a try, got {plan.wait_gen!r}"
        ) from error
    return waits


def _jitter(plan: Plan) -> Jitter:
    if plan.jitter is None:
        return "none"
    if plan.jitter is full_jitter:
        return "full"
    if plan.jitter is random_jitter:
        return lambda u, ceiling: ceiling + u
    raise ValueError(f"policy_of: jitter must be one of backoff's own, got {plan.jitter!r}")
