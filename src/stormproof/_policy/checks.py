"""Checks of a pipeline of strategies: doubtful combinations, and its worst case."""

from __future__ import annotations

import math

from .._primitives.errors import DeadlineExceeded
from .._primitives.options import Options
from .._strategies.breaker.breaker import Breaker
from .._strategies.bulkhead.bulkhead import Bulkhead
from .._strategies.deadline import Deadline
from .._strategies.fallback import Fallback
from .._strategies.hedge.hedge import Hedge
from .._strategies.keyed import Keyed
from .._strategies.protocol import Part
from .._strategies.retry.backoff import Backoff, Jittered
from .._strategies.retry.retry import Retry
from .._strategies.timeout import Timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._strategies.protocol import AnyBudget


class PolicyWarning(UserWarning):
    """A policy that works, but hardly as it was meant."""


def check(strategies: tuple[Any, ...]) -> list[str]:
    """Refuse a pipeline that makes no sense (`ValueError`); return a warning for each doubtful pair."""
    retries = [s for s in strategies if isinstance(s, Retry)]
    every = [s.template if isinstance(s, Keyed) else s for s in strategies]
    loops = [s for s in every if isinstance(s, Retry)]
    if len(loops) > 1:
        raise ValueError(
            f"Policy: strategies must hold one Retry, got {len(loops)}: they would multiply "
            f"({' * '.join(str(loop.attempts) for loop in loops)} attempts)"
        )
    if retries and not retries[0].bounded and not _around(strategies, Deadline, retries[0]):
        raise ValueError(
            "Retry: attempts must be a number when neither within nor an enclosing Deadline "
            "bounds the loop, got attempts=None, within=None"
        )
    _check_hedges(strategies)
    return [
        *_doubtful_times(strategies),
        *_doubtful_waits(every),
        *_strategy_warnings(every),
        *doubtful_order(strategies),
    ]


def certain_breakers(strategies: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the breakers inside the `Retry` that are certain to refuse its next attempt while they are open.

    Not so where an answer comes from elsewhere (`Fallback`, `Hedge`), where the target may change
    (``before_attempt``) or is not known (`keyed`), where a fleet decides, or where the wait is not known yet
    (``RateBudget(wait=True)``). If ``on`` retries the refusal itself is asked when it comes to that.
    """
    place = next((i for i, s in enumerate(strategies) if isinstance(s, Retry)), None)
    if place is None:
        return ()
    retry, breakers = strategies[place], []
    if retry.before_attempt is not None or getattr(retry.budget, "wait", False):
        return ()
    for strategy in strategies[place + 1 :]:
        if isinstance(strategy, (Fallback, Hedge)):
            break
        if isinstance(strategy, Breaker) and strategy.store is None:
            breakers.append(strategy)
    return tuple(breakers)


def _check_hedges(strategies: tuple[Any, ...]) -> None:
    for retry in (s for s in strategies if isinstance(s, Retry)):
        for hedge in _around(strategies, Hedge, retry):
            if retry.budget is None or (hedge.budget is not None and hedge.budget is not retry.budget):
                raise ValueError(
                    "Policy: a Retry inside a Hedge must share its budget (give both the same object), "
                    f"or each of {hedge.max} attempts retries on its own account"
                )


def _around(strategies: tuple[Any, ...], kind: type, inner: object) -> list[Any]:
    """The strategies of type ``kind`` that enclose ``inner``."""
    before = strategies[: next(i for i, s in enumerate(strategies) if s is inner)]
    return [s for s in before if isinstance(s, kind)]


def _doubtful_times(strategies: tuple[Any, ...]) -> list[str]:
    return [
        f"Timeout({timeout.seconds:g}) is longer than the Deadline({deadline.seconds:g}) around it, "
        "so it never acts"
        for timeout in strategies
        if isinstance(timeout, Timeout)
        for deadline in _around(strategies, Deadline, timeout)
        if timeout.seconds > deadline.seconds
    ]


def _least_wait(backoff: Backoff) -> float:
    """Return the shortest first wait; 0 where a method or jitter of the user's own decides."""
    return backoff.bounds(0)[0] if type(backoff).delay is Jittered.delay else 0.0


def _doubtful_waits(every: list[Any]) -> list[str]:
    warnings = [
        f"Timeout({s.seconds:g}) lets one attempt take {s.seconds:g} seconds: durations are not milliseconds"
        for s in every
        if isinstance(s, Timeout) and s.seconds > 100 and s.seconds % 60
    ]
    for retry in (s for s in every if isinstance(s, Retry)):
        if retry.within is None or not isinstance(retry.backoff, Backoff):
            continue
        kind, allowed = type(retry.backoff).__name__, f"longer than within={retry.within:g}"
        first, least = retry.backoff.ceiling(0), _least_wait(retry.backoff)
        if least > max(retry.within, 10.0):
            warnings.append(
                f"the first wait of {kind} is at least {least:g} seconds, {allowed}: nothing is retried "
                "unless a server asks for a wait"
            )
        elif first > max(retry.within, 10.0) and (getattr(retry.backoff, "cap", None) or first) >= 1000:
            warnings.append(
                f"the first wait of {kind} may be {first:g} seconds, {allowed}: durations are not "
                "milliseconds"
            )
    return warnings


def _strategy_warnings(every: list[Any]) -> list[str]:
    """Return the warnings that strategies give about those inside them."""
    return [
        warning
        for place, strategy in enumerate(every)
        if isinstance(strategy, Part)
        for warning in strategy.warnings_for(every[place + 1 :])
    ]


def doubtful_order(strategies: tuple[Any, ...]) -> list[str]:
    """Return a warning for each strategy that does not do what it is made for in its place."""
    warnings = []
    for retry in (s for s in strategies if isinstance(s, Retry)):
        if _around(strategies, Timeout, retry):
            warnings.append("Timeout outside Retry cuts off all attempts together; Deadline is made for that")
        if _around(strategies, Bulkhead, retry):
            warnings.append("Bulkhead outside Retry keeps its place during the waits between attempts")
        inside = strategies[next(i for i, s in enumerate(strategies) if s is retry) :]
        if any(isinstance(s, Fallback) and _swallows(s, retry) for s in inside):
            warnings.append("Fallback inside Retry answers before Retry sees the failure; it belongs outside")
        if any(isinstance(s, Deadline) for s in inside) and not retry.judge(DeadlineExceeded("")).retry:
            warnings.append("Deadline inside Retry ends the call for good; Timeout ends an attempt")
    return warnings


def _swallows(fallback: Fallback, retry: Retry) -> bool:
    """Return True if the fallback catches every type that the retry names, or every exception."""
    caught: Any = fallback.on if isinstance(fallback.on, tuple) else (fallback.on,)
    if not all(isinstance(kind, type) for kind in caught):
        return False
    kinds = retry.on if isinstance(retry.on, tuple) else (retry.on,)
    named = [kind for kind in kinds if isinstance(kind, type)]
    return Exception in caught or (bool(named) and all(issubclass(kind, caught) for kind in named))


class WorstCase(Options):
    """The most that one call can come to.

    ``attempts`` counts real calls of the function; ``seconds`` is the time until the caller has its
    answer when every attempt and every wait of our own takes as long as it may, inf when nothing bounds an
    attempt; ``hinted_seconds`` is that time when the server asks for the longest waits that ``max_hint`` lets
    it ask for; ``amplification`` is the load in the long run as a multiple of the calls offered, when as
    many of them fail as the budget can pay for.
    """

    def __init__(self, attempts: float, seconds: float, amplification: float, hinted_seconds: float) -> None:
        self.attempts = attempts
        self.seconds = seconds
        self.amplification = amplification
        self.hinted_seconds = hinted_seconds

    def __str__(self) -> str:
        hinted = f" ({self.hinted_seconds:.3g} s if the server asks for waits)"
        return (
            f"at most {self.attempts:g} attempts, {self.seconds:.3g} s"
            f"{hinted if self.hinted_seconds > self.seconds else ''}, "
            f"{self.amplification:.3g} times the load in the long run"
        )


def worst_case(strategies: tuple[Any, ...], hedge_budget: AnyBudget | None) -> WorstCase:
    """Return the worst case of this pipeline; hedges without a budget of their own pay ``hedge_budget``."""
    retry = next((s for s in strategies if isinstance(s, Retry)), None)
    tries = 1.0 if retry is None else math.inf if retry.attempts is None else float(retry.attempts)
    attempts = tries
    budgets = [] if retry is None else [retry.budget]
    for hedge in (s for s in strategies if isinstance(s, Hedge)):
        # Inside a Retry only the first attempt is hedged; outside it, each hedge retries by itself.
        outside = retry is not None and hedge in _around(strategies, Hedge, retry)
        attempts = attempts * hedge.max if outside else attempts + hedge.max - 1
        budgets.append(hedge_budget if hedge.budget is None else hedge.budget)
    one, whole = bounds(strategies)
    seconds, hinted = (min(_time(retry, tries, one, hinted), whole) for hinted in (False, True))
    extra = sum({id(budget): sustained(budget) for budget in budgets}.values())
    return WorstCase(attempts, seconds, min(attempts, 1.0 + extra), hinted)


def bounds(strategies: tuple[Any, ...]) -> tuple[float, float]:
    """(Seconds that bound one attempt, seconds that bound the whole call); inf: nothing does.

    What stands outside the `Retry` bounds the call and what stands inside it each attempt, be it a Timeout
    or a Deadline. Without a Retry a Timeout bounds the attempt and a Deadline the call.
    """
    place = next((i for i, s in enumerate(strategies) if isinstance(s, Retry)), None)
    if place is None:
        inside: Any = [s for s in strategies if isinstance(s, Timeout)]
        outside: Any = [s for s in strategies if isinstance(s, Deadline)]
    else:
        inside, outside = strategies[place:], strategies[:place]
    shortest = [
        min((s.seconds for s in part if isinstance(s, (Timeout, Deadline))), default=math.inf)
        for part in (inside, outside)
    ]
    return shortest[0], shortest[1]


def _time(retry: Retry | None, tries: float, one: float, hinted: bool) -> float:
    if retry is None:
        return one
    hint = 1.1 * retry.max_hint if hinted and tries > 1 else 0.0
    waits = math.inf
    if math.isfinite(tries):
        waits = sum(max(retry.backoff.bounds(n)[1], hint) for n in range(int(tries) - 1))
    # Retrying ends `within` seconds after the first failure; an attempt begun before that may still run, and
    # a wait that the server asked for before that is kept.
    return min(tries * one + waits, one + (math.inf if retry.within is None else retry.within) + hint + one)


def sustained(budget: object) -> float:
    """Retries per call that ``budget`` pays for in the long run; inf without a budget."""
    return math.inf if budget is None else float(getattr(budget, "sustained", math.inf))
