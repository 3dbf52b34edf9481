"""The waits of other clients, where no schedule of `stormproof._strategies.retry.backoff` gives them exactly.

``delay(n, prev, u)`` is the wait without regard to what the server said; ``plan(n, prev, verdict, draw)``,
which the loop asks, is the original's whole rule, with the kind of failure and the server's hint.
"""

from __future__ import annotations

import math

from .._primitives.options import Seconds, choice, number, seconds
from .._strategies.retry.backoff import Backoff, Exponential, Jittered
from .._strategies.retry.jitter import Jitter, Symmetric
from .._strategies.retry.rules.waits import LARGEST, general, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from .._classify.verdict import Verdict
    from .._strategies.retry.backoff import Array

    Plan = tuple[float, float | None, int]

#: AWS lets a server's hint add this much to the client's own wait, and no more.
_AWS_HINT_S = 5.0


class AwsBackoff(Backoff):
    """``u * min(cap, base * 2**n)``; after a throttling answer ``throttle_base`` stands for ``base``.

    ``throttle_base=None``: as any failure. A server's hint is held to [t, t + 5 s], t being the wait
    that was drawn: AWS's rule for ``x-amz-retry-after``, here for every hint, ``Retry-After`` included.
    """

    def __init__(
        self, base: Seconds = 0.05, *, throttle_base: Seconds | None = 1.0, cap: Seconds = 20.0
    ) -> None:
        owner = type(self).__name__
        low, high = seconds(owner, "base", base, above=0), seconds(owner, "cap", cap, above=0)
        slow = low if throttle_base is None else seconds(owner, "throttle_base", throttle_base, above=0)
        for field, value in (("base", low), ("throttle_base", slow)):
            if value > high:
                raise ValueError(f"{owner}: {field} must be <= cap ({high!r} seconds), got {value!r}")
        self.base: float = low
        self.throttle_base: float | None = None if throttle_base is None else slow
        self.cap: float = high
        self._plain = Exponential(low, cap=high)
        self._throttled = Exponential(slow, cap=high)

    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """Return the wait after a failure that is not throttling."""
        return self._plain.delay(n, prev, u)

    def ceiling(self, n: int | Array) -> float:
        return self._plain.ceiling(n)

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """Return 0 and the longer of the two ceilings."""
        return 0.0, max(self._plain.ceiling(n), self._throttled.ceiling(n))

    def mean(self, n: int, prev: float | None = None) -> float | None:
        return self._plain.mean(n)

    def plan(self, n: int, prev: float | None, verdict: Verdict, draw: Callable[[], float]) -> Plan:
        rule = self._throttled if verdict.kind == "throttle" else self._plain
        own = rule.delay(n, prev, draw())
        hint = verdict.after
        return own if hint is None else max(own, min(hint, own + _AWS_HINT_S)), own, n + 1


class HintedExponential(Exponential):
    """`Exponential`, with the server's hint in place of the wait: exactly as long, without spread.

    ``hint="restart"``: the waits after it begin anew at ``base``; ``"replace"``: they go on as if
    nothing had happened.
    """

    def __init__(
        self,
        base: Seconds = 0.1,
        *,
        factor: float = 2.0,
        cap: Seconds = 5.0,
        jitter: Jitter = "full",
        min: Seconds = 0.0,
        hint: str = "restart",
    ) -> None:
        super().__init__(base, factor=factor, cap=cap, jitter=jitter, min=min)
        self.hint = choice(type(self).__name__, "hint", hint, ("restart", "replace"))

    def plan(self, n: int, prev: float | None, verdict: Verdict, draw: Callable[[], float]) -> Plan:
        if verdict.after is None:
            own = self.delay(n, prev, draw())
            return own, own, n + 1
        wait = min(verdict.after, LARGEST)
        return (wait, None, 0) if self.hint == "restart" else (wait, prev, n + 1)


class GrpcBackoff(Jittered):
    """``min(initial * multiplier**n, maximum) * U(0.8, 1.2)``: gRFC A6.

    ``multiplier`` may be below 1, and ``initial`` above ``maximum``. A server's pushback is waited for
    exactly, and the waits after it begin anew.
    """

    def __init__(self, initial: Seconds, maximum: Seconds, multiplier: float) -> None:
        owner = type(self).__name__
        super().__init__(Symmetric(0.2), 0.0)
        self.initial = seconds(owner, "initial", initial, above=0)
        self.maximum = seconds(owner, "maximum", maximum, above=0)
        self.multiplier = number(owner, "multiplier", multiplier, above=0)

    def _ceiling(self, n: int) -> float:
        try:
            wait = self.initial * self.multiplier**n
        except OverflowError:
            return self.maximum
        return min(wait, self.maximum)

    def plan(self, n: int, prev: float | None, verdict: Verdict, draw: Callable[[], float]) -> Plan:
        if verdict.after is not None:
            return min(verdict.after, LARGEST), None, 0
        own = self.delay(n, prev, draw())
        return own, own, n + 1


#: Scales the median of the first n + 1 waits together to about base * 2**n.
_POLLY_SCALE = 1 / 1.4
_HALF = 2.0**26


class PollyJitter(Backoff):
    """Polly's jitter: wait n is ``(f(n + u) - f(n - 1 + u')) * base / 1.4``, f(t) = 2**t * tanh(sqrt(4 t)).

    u' is the draw of the wait before, and f(...) = 0 before the first. Polly remembers it; a pure
    function of the last wait alone cannot, since a wait is a difference of two such terms. So
    ``delay`` takes u from the leading and u' from the trailing half of the bits of one draw: each wait
    is distributed exactly as Polly's, only not correlated with its neighbours. ``delays`` and ``plan``
    carry the term along and give Polly's very sequence. ``cap`` (``None``: none) cuts each wait.
    """

    def __init__(self, base: Seconds = 2.0, *, cap: Seconds | None = None) -> None:
        owner = type(self).__name__
        self.base = seconds(owner, "base", base, above=0)
        self.cap = None if cap is None else seconds(owner, "cap", cap, above=0)

    def ceiling(self, n: int | Array) -> float:
        """``base * 2**n``, cut at the cap. Not a bound, for which see ``bounds``.

        It is about the median of waits 0 to n taken together. The median of wait n alone is about
        0.9 times the base for n = 0, 1.15 times for n = 1, and half of this from n = 2 on.
        """
        return self._rising.ceiling(n)

    @property
    def _rising(self) -> Exponential:
        cap = LARGEST if self.cap is None else self.cap
        return Exponential(min(self.base, cap), cap=cap, jitter="none")

    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """Return a wait with Polly's distribution. ``prev`` is ignored."""
        if type(n) is int and type(u) is float and n >= 0 and 0.0 <= u <= 1.0:
            lead = math.floor(u * _HALF)
            return self._wait(_term(n + lead / _HALF), _term(n - 1 + u * _HALF - lead) if n else 0.0)
        wait: float = general(self, n, prev, u)
        return wait

    def _wait(self, term: float, before: float) -> float:
        # The difference of two infinite terms counts as an infinite wait.
        wait = (term - before) * _POLLY_SCALE * self.base if math.isfinite(term) else LARGEST
        return min(wait, LARGEST if self.cap is None else self.cap)

    def many(self, np: ModuleType, n: Array, prev: Array, u: Array) -> Array:
        self.ceiling(n)  # for its check of n
        numbers = np.broadcast_to(n, u.shape).ravel().tolist()
        waits = [
            self.delay(number, None, draw) for number, draw in zip(numbers, u.ravel().tolist(), strict=True)
        ]
        return np.array(waits, dtype=float).reshape(u.shape)

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """Return 0 (reached by the first wait, approached by the others) and the wait at u = 1, u' = 0."""
        return 0.0, self.delay(n, None, 1.0)

    def delays(self, seed: Any = None) -> Iterator[float]:
        """Yield the waits of one call, exactly as Polly makes them from the same draws."""
        from .._runtime.randomness import source

        draw = source(seed)
        before = 0.0
        n = 0
        while True:
            term = _term(n + draw())
            yield self._wait(term, before)
            before, n = term, n + 1

    def plan(self, n: int, prev: float | None, verdict: Verdict, draw: Callable[[], float]) -> Plan:
        """Return Polly's next wait: ``prev`` is the term of the wait before, not the wait itself."""
        term = _term(n + draw())
        own = self._wait(term, prev or 0.0)
        hint = verdict.after
        return own if hint is None else min(spread(own, hint, draw), LARGEST), term, n + 1


def _term(t: float) -> float:
    try:
        return float(2.0**t * math.tanh(math.sqrt(4.0 * t)))
    except OverflowError:
        return math.inf
