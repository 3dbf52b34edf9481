"""Read a tenacity retry object as a policy, for `stormproof.lab` and ``stormproof explain``.

Classes are known by their names: tenacity need not be installed, and `stormproof.compat.tenacity` will do.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

from .._policy.policy import Policy
from .._strategies.retry.backoff import Backoff, Constant, Exponential, Schedule
from .._strategies.retry.retry import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Longer waits than this many seconds mean "no maximum".
_FAR_S = 1e9
#: An arithmetic series of waits is written down up to here; its last value repeats.
_MOST_STEPS = 100

_OF_EXCEPTIONS = {"retry_if_exception", "retry_if_exception_type", "retry_if_not_exception_type",
                  "retry_if_exception_cause_type", "retry_if_exception_message", "_retry_never"}  # fmt: skip


def policy_from_tenacity(retrying: Any) -> Policy:
    """Return a policy that retries what ``retrying`` does, as often and after the same waits.

    ``retrying`` is a `tenacity.Retrying` (or ``AsyncRetrying``), or a function that ``tenacity.retry``
    decorated. It has no budget, as tenacity has none, unless `stormproof.compat.tenacity` was given one.
    ``stop_after_delay`` and ``stop_before_delay`` become ``within``, which no wait outlasts. Hooks,
    ``retry_error_callback`` and ``RetryError`` have no counterpart: the policy raises the original error.

    Raises ValueError for what a policy cannot say: no stop at all, ``stop_all``, a stop or wait of one's own.
    """
    if hasattr(retrying, "retry_with"):
        retrying = retrying.retry
    for name in ("stop", "wait", "retry"):
        if not hasattr(retrying, name):
            raise TypeError(
                f"policy_from_tenacity: retrying must be a tenacity retry object, got {retrying!r}"
            )
    attempts, within = _limits(retrying.stop)
    if attempts is None and within is None:
        raise ValueError("policy_from_tenacity: stop must end the retrying, got stop_never")
    on, on_result = _conditions(retrying.retry)
    retry = Retry(
        on,
        attempts=attempts,
        within=within,
        backoff=_backoff(retrying.wait),
        on_result=on_result,
        budget=getattr(retrying, "budget", None),
    )
    name = str(retrying)
    return Policy(retry, name=None if name.startswith("<") else name)


def _name(part: object) -> str:
    return type(part).__name__


def _unknown(field: str, part: object) -> ValueError:
    return ValueError(f"policy_from_tenacity: {field} must be one of tenacity's own, got {part!r}")


def _limits(stop: Any) -> tuple[int | None, float | None]:
    """Return (attempts, within) of ``stop``; ``None`` for no limit."""
    kind = _name(stop)
    if kind == "stop_any":
        limits = [_limits(part) for part in stop.stops]
        attempts = min((a for a, _ in limits if a is not None), default=None)
        return attempts, min((w for _, w in limits if w is not None), default=None)
    if kind == "stop_after_attempt":
        return max(1, math.ceil(stop.max_attempt_number)), None
    if kind in ("stop_after_delay", "stop_before_delay"):
        return None, stop.max_delay
    if kind in ("_stop_never", "stop_at_deadline"):
        return None, None
    raise _unknown("stop", stop)


def _backoff(wait: Any) -> Backoff:
    """Return the schedule that waits as ``wait`` does."""
    if wait is None or wait == 0:
        return Constant(0)
    kind = _name(wait)
    if kind == "wait_hinted":
        return _backoff(wait.wait)
    if kind == "wait_chain":
        if {_name(part) for part in wait.strategies} <= {"wait_fixed", "wait_none"}:
            return Schedule([part.wait_fixed for part in wait.strategies])
        raise _unknown("wait", wait)
    if kind == "wait_incrementing":
        return _arithmetic(wait)
    parts = list(wait.wait_funcs) if kind == "wait_combine" else [wait]
    return _sum(wait, [inner for part in parts for inner in getattr(part, "wait_funcs", [part])])


def _arithmetic(wait: Any) -> Backoff:
    longest = min(wait.max, _FAR_S)
    steps = [max(0.0, min(wait.start + wait.increment * n, longest)) for n in range(_MOST_STEPS)]
    while len(steps) > 1 and steps[-1] == steps[-2]:
        steps.pop()
    return Schedule(steps)


def _sum(wait: object, parts: list[Any]) -> Backoff:
    """Return the sum of fixed waits, at most one that grows and at most one that is random."""
    fixed = sum(part.wait_fixed for part in parts if _name(part) in ("wait_fixed", "wait_none"))
    spread = [part for part in parts if _name(part) == "wait_random"]
    growing = [part for part in parts if _name(part).startswith(("wait_exponential", "wait_random_exp"))]
    plain = [part for part in parts if _name(part) in ("wait_fixed", "wait_none")]
    if len(spread) > 1 or len(growing) > 1 or len(spread) + len(growing) + len(plain) != len(parts):
        raise _unknown("wait", wait)
    low, high = (spread[0].wait_random_min, spread[0].wait_random_max) if spread else (0.0, 0.0)
    if not growing:
        if not spread:
            return Constant(fixed)
        return Constant(fixed + high, jitter=lambda u, ceiling: fixed + low + u * (high - low))
    if len(parts) == 1:
        return _exponential(growing[0])
    if _name(growing[0]) != "wait_exponential":
        raise _unknown("wait", wait)
    exponential = _exponential(growing[0])
    least = growing[0].min
    return exponential.replace(
        jitter=lambda u, ceiling: max(ceiling, least) + fixed + low + u * (high - low), min=0.0
    )


def _exponential(wait: Any) -> Backoff:
    kind, cap, least = _name(wait), min(wait.max, _FAR_S), max(0.0, wait.min)
    base = wait.multiplier if hasattr(wait, "multiplier") else wait.initial
    cap = max(cap, least)
    if base <= 0:
        return Constant(least)
    jitter: Any = "none"
    if kind == "wait_random_exponential":
        # tenacity draws from min to the ceiling; full jitter draws from 0 and is lifted to min.
        jitter = "full" if least == 0 else lambda u, ceiling: least + u * (max(ceiling, least) - least)
    elif kind == "wait_exponential_jitter":
        jitter = lambda u, ceiling: min(wait.max, ceiling + u * wait.jitter)  # noqa: E731
    elif kind != "wait_exponential":
        raise _unknown("wait", wait)
    return Exponential(min(base, cap), factor=wait.exp_base, cap=cap, jitter=jitter, min=least)


def _conditions(retry: Any) -> tuple[Any, Callable[[Any], bool] | None]:
    """Return ``on`` and ``on_result`` that decide as ``retry`` does."""
    if _name(retry) == "_Budgeted":
        retry = retry.predicate
    if _name(retry) == "retry_if_exception_type":
        return retry.exception_types, None

    def on(error: BaseException) -> bool:
        return bool(retry(_state(error, None)))

    def on_result(result: object) -> bool:
        return bool(retry(_state(None, result)))

    return on, None if _sees_exceptions_only(retry) else on_result


def _sees_exceptions_only(retry: Any) -> bool:
    if _name(retry) in ("retry_any", "retry_all"):
        return all(map(_sees_exceptions_only, retry.retries))
    return _name(retry) in _OF_EXCEPTIONS


def _state(error: BaseException | None, result: object) -> SimpleNamespace:
    """Return as much of a ``RetryCallState`` as a condition looks at: an outcome that raised or returned."""
    outcome = SimpleNamespace(failed=error is not None, exception=lambda: error, result=lambda: result)
    return SimpleNamespace(attempt_number=1, outcome=outcome)
