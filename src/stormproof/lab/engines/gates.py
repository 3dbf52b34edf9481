"""Strategies that admit or refuse an attempt at once, as the direct engine asks them.

Each calls the strategy's own rule, in the same order as its compiled wrapper does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._primitives.errors import StormproofError
from ..._strategies.breaker.breaker import Breaker
from ..._strategies.breaker.ticket import Ticket
from ..._strategies.keyed import Keyed
from ..._strategies.limiter.rate_limit import RateLimit
from ..._strategies.throttle import Throttle


class BreakerGate:
    """A breaker: counts in the current bucket while closed, by ticket otherwise."""

    __slots__ = ("breaker",)

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker

    def admit(self, now: float) -> Any:
        """Return the ticket to settle with; raises `CircuitOpen`."""
        bucket = self.breaker.open_bucket(now)
        if bucket is None:
            return self.breaker.admit()
        bucket.started()
        return bucket

    def passed(self, admitted: Any) -> None:
        if type(admitted) is Ticket:
            admitted.success()
        else:
            admitted.succeeded()

    def failed(self, admitted: Any, error: BaseException) -> None:
        ticket = admitted if type(admitted) is Ticket else Ticket(self.breaker, admitted, None, 0.0)
        ticket.end(error)


class ThrottleGate:
    """Adaptive throttling."""

    __slots__ = ("_draw", "_throttle")

    def __init__(self, throttle: Throttle, draw: Callable[[], float]) -> None:
        self._throttle = throttle
        self._draw = draw

    def admit(self, now: float) -> Any:
        self._throttle.admit(self._draw)

    def passed(self, admitted: object) -> None:
        self._throttle.accept()

    def failed(self, admitted: object, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._throttle.settle(error)


class LimitGate:
    """A rate limit that refuses instead of waiting."""

    __slots__ = ("_strategy",)

    def __init__(self, strategy: RateLimit) -> None:
        self._strategy = strategy

    def admit(self, now: float) -> Any:
        self._strategy.take()

    def passed(self, admitted: object) -> None:
        pass

    def failed(self, admitted: object, error: BaseException) -> None:
        pass


Gate = BreakerGate | ThrottleGate | LimitGate


def gate(strategy: object, draw: Callable[[], float]) -> Gate | None:
    """The gate of a strategy; None if it is not one that answers at once."""
    if type(strategy) is Breaker:
        return BreakerGate(strategy)
    if type(strategy) is Throttle:
        return ThrottleGate(strategy, draw)
    if type(strategy) is RateLimit and answers_at_once(strategy):
        return LimitGate(strategy)
    return None


def answers_at_once(limit: RateLimit) -> bool:
    """Return True if a rate limit never waits and does not depend on the call."""
    plain = limit.cost is None and limit.cost_of_result is None and not isinstance(limit.limiter, Keyed)
    return plain and limit.max_wait == 0


def admitted(gates: tuple[Gate, ...], now: float) -> tuple[list[Any] | None, StormproofError | None]:
    """Pass the gates, outermost first: the tickets to settle, or a refusal, settled with the outer gates."""
    tickets: list[Any] = []
    for each in gates:
        try:
            tickets.append(each.admit(now))
        except StormproofError as refusal:
            all_failed(gates, tickets, refusal)
            return None, refusal
    return tickets, None


def all_passed(gates: tuple[Gate, ...], tokens: list[Any]) -> None:
    """Settle every gate as a success, innermost first."""
    for each, token in zip(reversed(gates), reversed(tokens), strict=True):
        each.passed(token)


def all_failed(gates: tuple[Gate, ...], tokens: list[Any], error: BaseException) -> None:
    """Settle every gate that admitted the call with ``error``, innermost first."""
    for each, token in zip(reversed(gates[: len(tokens)]), reversed(tokens), strict=True):
        each.failed(token, error)
