"""Four circuit breakers that open after 3 failures, for 0.3 s."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FAILURES = 3
OPEN_FOR = 0.3


class Circuit:
    """One breaker, made. ``refusal`` is what it raises while it is open."""

    refusal: type[Exception]

    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call`` behind the breaker: a ``def`` or an ``async def``."""
        raise NotImplementedError

    def trip(self) -> None:
        """Fail until it is open."""

        def down() -> None:
            raise ConnectionError("down")

        guarded = self.guard(down)
        for _ in range(FAILURES):
            try:
                guarded()
            except Exception:
                pass

    def half_open(self) -> None:
        """Open it, and wait until it would let a call try."""
        self.trip()
        time.sleep(OPEN_FOR + 0.1)

    def lets_in(self) -> bool:
        """Whether a call that succeeds gets through now."""
        try:
            self.guard(lambda: None)()
        except self.refusal:
            return False
        return True


class Stormproof(Circuit):
    def __init__(self, open_for: float = OPEN_FOR, **more: Any) -> None:
        import stormproof as sp

        self.refusal = sp.CircuitOpen
        self.policy = sp.Policy(
            sp.Breaker(consecutive=FAILURES, open_for=open_for, probe_timeout=0.5, **more)
        )

    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self.policy(call)


class Pybreaker(Circuit):
    def __init__(self, open_for: float = OPEN_FOR, **more: Any) -> None:
        import pybreaker

        self.refusal = pybreaker.CircuitBreakerError
        self.breaker = pybreaker.CircuitBreaker(fail_max=FAILURES, reset_timeout=open_for, **more)

    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self.breaker(call)


class TornadoPybreaker(Pybreaker):
    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self.breaker(call, __pybreaker_call_async=True)


class Circuitbreaker(Circuit):
    def __init__(self, open_for: float = OPEN_FOR) -> None:
        import circuitbreaker

        self.refusal = circuitbreaker.CircuitBreakerError
        self.breaker = circuitbreaker.CircuitBreaker(failure_threshold=FAILURES, recovery_timeout=open_for)

    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self.breaker(call)


class Nopanic(Circuit):
    def __init__(self, open_for: float = OPEN_FOR) -> None:
        import nopanic

        self.refusal = nopanic.CircuitOpen
        self.breaker = nopanic.circuit_breaker(
            failure_threshold=0.5, min_calls=FAILURES, reset_timeout=open_for, name="probe"
        )

    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self.breaker(call)


BREAKERS: dict[str, Callable[..., Circuit]] = {
    "stormproof": Stormproof,
    "pybreaker": Pybreaker,
    "circuitbreaker": Circuitbreaker,
    "nopanic": Nopanic,
}
