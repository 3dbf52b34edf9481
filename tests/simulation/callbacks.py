"""Users' callbacks: slow, raising and re-entrant, as the seed has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import stormproof as sp

from .failures import Bang, Hooked
from .world import World


class Callbacks:
    """Makes them, and knows what they did. ``slow_s`` is the time that all of them took together."""

    def __init__(self, world: World) -> None:
        rng = world.rng
        self.world = world
        self.slow_s = 0.0
        self.raised = self.reported = 0
        self._slow = rng.choice([0, 0, 0, 0.05])
        self._raise = rng.choice([0, 0, 0.1])
        self._again = rng.choice([0, 0.1])
        self.yard: Any = None
        self._inner = sp.Policy(sp.Retry(Hooked, attempts=2, backoff=sp.Constant(0), budget=None), rng=rng)

    def _mischief(self) -> None:
        rng = self.world.rng
        if self._again and rng.random() < self._again:
            self._reenter()
        if self._slow and rng.random() < 0.2:
            self.slow_s += self._slow
            self.world.sleep(self._slow)

    def _reenter(self) -> None:
        """Look at everything from inside a callback, and make a call there."""
        yard = self.yard
        if yard is not None:
            for breaker, _ in yard.breakers:
                _ = breaker.state, breaker.counts
            for limiter, _ in yard.limiters:
                limiter.tokens()
            for budget in yard.budgets:
                _ = None if budget is None else budget.balance
            _ = yard.throttle.rejection, sp.remaining()
        # The scope it is called in may have ended.
        with contextlib.suppress(sp.DeadlineExceeded, sp.AttemptTimeout, sp.Cancelled):
            self._inner.call(int)

    def on(self) -> Callable[[BaseException], bool]:
        return On(self)

    def before(self) -> Callable[[Any], None]:
        def before(attempt: Any) -> None:
            self._mischief()
            if self._raise and self.world.rng.random() < self._raise:
                raise Hooked("before_attempt")

        return before

    def fallback(self, answer: Any) -> Callable[[], Any]:
        def fall_back() -> Any:
            self._mischief()
            if self._raise and self.world.rng.random() < self._raise:
                raise Hooked("fallback")
            return answer

        return fall_back

    def watch(self, event: Any) -> None:
        """A subscriber."""
        self._mischief()
        if self._raise and self.world.rng.random() < self._raise:
            self.raised += 1
            raise Hooked("subscriber")


class On:
    """``on=``: retries everything but `Bang`; counts how often it failed itself."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self.raised = 0

    def __repr__(self) -> str:
        return "On()"

    def __call__(self, error: BaseException) -> bool:
        callbacks = self._callbacks
        callbacks._mischief()
        if callbacks._raise and callbacks.world.rng.random() < callbacks._raise / 2:
            self.raised += 1
            raise Hooked("on")
        return not isinstance(error, Bang)
