"""The retry budgets of Finagle and Envoy."""

from __future__ import annotations

from contextvars import ContextVar

from .._classify.classifier import transient
from .._policy.policy import Policy
from .._primitives.options import Seconds, count, number, seconds
from .._runtime.call_template import Template
from .._runtime.locks import guard
from .._strategies.budget.other_systems import WindowBudget
from .._strategies.protocol import CallWrapper
from .._strategies.retry.backoff import Constant, Exponential
from .._strategies.retry.retry import Retry
from .._strategies.stateful import Stateful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Unpack

    from .._classify.on_clause import On
    from .._policy.policy import PolicyOptions
    from .._strategies.protocol import Env, Fn


def finagle(
    ttl: Seconds = 10,
    min_retries_per_s: float = 10,
    percent: float = 0.2,
    *,
    attempts: int = 3,
    on: On = transient,
    **options: Unpack[PolicyOptions],
) -> Policy:
    """Finagle's `RetryBudget`: over ``ttl`` seconds, ``percent`` of the requests may be retried, and
    ``min_retries_per_s`` * ``ttl`` besides. ``ttl`` is from 1 to 60 seconds.

    Earned once per call, when it begins; retried at once, without a wait. A call that the budget ends
    is final for the layers around it. ``options`` are those of `Policy`.

    Departures: Finagle leaves the number of retries of one request to the budget; here it is also
    bounded by ``attempts``. The window has 20 slices, there 10.
    """
    span = seconds("finagle", "ttl", ttl, least=1)
    if span > 60:
        raise ValueError(f"finagle: ttl must be <= 60 seconds, got {ttl!r}")
    budget = WindowBudget(ratio=percent, floor=min_retries_per_s, window=span)
    return Policy(Retry(on, attempts=attempts, backoff=Constant(0.0), within=None, budget=budget), **options)


def envoy(
    percent: float = 20.0,
    min_concurrency: int = 3,
    *,
    retries: int = 1,
    on: On = transient,
    **options: Unpack[PolicyOptions],
) -> Policy:
    """Envoy's router: 1 retry (2 attempts), full jitter, ``u * min(0.025 * 2**n, 0.25)`` seconds, and
    its retry budget: see `EnvoyBudget`. ``options`` are those of `Policy`.

    Departures: Envoy retries nothing until configured; here it is ``transient``. Waits are not whole
    milliseconds.
    """
    budget = EnvoyBudget(percent, min_concurrency)
    backoff = Exponential(0.025, factor=2.0, cap=0.25, jitter="full")
    attempts = count("envoy", "retries", retries, least=0) + 1
    return Policy(
        budget, Retry(on, attempts=attempts, backoff=backoff, within=None, budget=budget), **options
    )


class _EnvoyCall:
    """One call in flight; ``retrying`` is 1 from the moment its first retry was granted."""

    __slots__ = ("budget", "retrying")

    def __init__(self, budget: EnvoyBudget) -> None:
        self.budget = budget
        self.retrying = 0


_call: ContextVar[_EnvoyCall | None] = ContextVar("stormproof_envoy_call", default=None)


class EnvoyBudget(CallWrapper, Stateful):
    """Retries in flight <= max(``percent`` / 100 * calls in flight, ``min_concurrency``).

    It bounds concurrency and not a rate, so it has to see calls begin and end: it is a strategy, which
    stands outside the `Retry`, and that retry's budget at once (`envoy` puts it together). A call
    counts as in flight, and as retrying once it has begun to, until it ends, waits included; Envoy
    does not count a request that waits for its retry. ``percent`` of the calls is rounded down.
    """

    def __init__(self, percent: float = 20.0, min_concurrency: int = 3) -> None:
        self.percent = number("EnvoyBudget", "percent", percent, least=0, most=100)
        self.min_concurrency = count("EnvoyBudget", "min_concurrency", min_concurrency, least=0)
        self._active: int = 0
        self._retrying: int = 0
        self._lock = guard(self)

    @property
    def allowed(self) -> int:
        """Number of retries that may be in flight now."""
        return max(int(self.percent * self._active / 100), self.min_concurrency)

    @property
    def balance(self) -> float:
        """Number of further retries that may start now."""
        with self._lock:
            return float(max(0, self.allowed - self._retrying))

    @property
    def sustained(self) -> float:
        """Retries per call that it pays for in the long run."""
        return self.percent / 100

    # As a budget. Only a retry's beginning and the end of its call matter.

    def started(self) -> None:
        """A first attempt begins."""

    def success(self, spent: float | None = None) -> None:
        """A call succeeded."""

    def failure(self, timeout: bool = False) -> None:
        """A retryable failure happened."""

    def withdraw(self, timeout: bool = False) -> float:
        """Let one retry go out: 1.0, or 0.0 when refused, as it is outside this strategy."""
        call = _call.get()
        if call is None or call.budget is not self:
            return 0.0
        with self._lock:
            # The retry that this call may have had out has ended by now.
            others = self._retrying - call.retrying
            if others >= self.allowed:
                return 0.0
            self._retrying = others + 1
            call.retrying = 1
        return 1.0

    # As a strategy.

    def _begin(self) -> Any:
        with self._lock:
            self._active += 1
        return _call.set(_EnvoyCall(self))

    def _end(self, token: Any) -> None:
        call = _call.get()
        _call.reset(token)
        with self._lock:
            self._active -= 1
            self._retrying -= call.retrying if call else 0

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        return _COUNTED.build(like, is_async, {"begin": self._begin, "call": call, "end": self._end})

    def describe(self) -> dict[str, Any]:
        """Return the options as plain data, with the calls in flight now."""
        return {**super().describe(), "active": self._active, "retrying": self._retrying}


_COUNTED = Template(
    "counted",
    """\
{async_}def counted({params}):
    _sp_token = _sp_begin()
    try:
        return {await_}_sp_call({args})
    finally:
        _sp_end(_sp_token)
""",
)
