"""The rate limit: calls pay a limiter before they start; without enough there, they wait or are refused."""

from __future__ import annotations

import math

from ..._context.deadlines import ambient, check
from ..._events import bus
from ..._primitives.errors import RateLimited
from ..._primitives.options import Options, Seconds, count, flag, seconds, sync_hook
from ..._primitives.rates import parse
from ..._runtime.call_template import Template
from ..generator_calls import is_stream
from ..keyed import Keyed
from ..protocol import CallWrapper, Env, Part
from .limiter import Limiter
from .waiting import Reservation, await_turn, await_turn_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..._runtime.clock import Clock
    from ..protocol import Fn
    from .pacer import Pacer

    Cost = int | Callable[..., int]


class RateLimit(CallWrapper, Options):
    """Each call takes ``cost`` tokens (1) from ``limiter`` before it starts.

    ``limiter`` is a `Limiter`, a `Pacer`, a ``keyed`` one of them, or a text such as
    ``"100/s burst 200"``, which makes a new `Limiter`. ``max_wait`` is how long a call may wait for
    its tokens: 0 refuses at once with `RateLimited`, whose ``retry_after`` says when; a number waits
    up to that many seconds and refuses at once when it would take longer; ``None`` waits as long as the
    deadline allows. ``cost`` may be a function of the call's arguments. ``cost_of_result(result)``
    returns the real cost afterwards: what was paid too much is given back, what is missing is charged,
    and delays those that come after. A call that fails has paid. With ``observe`` a call that would be
    refused, or wait, is let through at once, pays nothing and is emitted as `WouldRefuse`.
    """

    def __init__(
        self,
        limiter: Limiter | Pacer | Keyed | str,
        *,
        max_wait: Seconds | None = 0,
        cost: Cost | None = None,
        cost_of_result: Callable[[Any], int] | None = None,
        observe: bool = False,
    ) -> None:
        self.limiter: Any = _limiter(limiter)
        self.max_wait = None if max_wait is None else seconds("RateLimit", "max_wait", max_wait)
        self.cost: Cost | None = cost
        if cost is not None:
            self.cost = sync_hook("RateLimit", "cost", cost) if callable(cost) else _tokens("cost", cost)
        self.cost_of_result = sync_hook("RateLimit", "cost_of_result", cost_of_result)
        self.observe = flag("RateLimit", "observe", observe)

    def use_clock(self, clock: Clock) -> None:
        if isinstance(self.limiter, Part):
            self.limiter.use_clock(clock)

    def fresh(self, key: str | None = "") -> RateLimit:
        """A new one with these options and a limiter of its own."""
        return self.replace(limiter=self.limiter.fresh(key)) if isinstance(self.limiter, Part) else self

    # The decisions, the same in both colours.

    def _price(self, env: Env, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        if callable(self.cost):
            return _tokens("cost", self.cost(*env.arguments(args), **kwargs))
        return 1 if self.cost is None else self.cost

    def _pick(self, env: Env, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        limiter = self.limiter
        return limiter.pick(env.arguments(args), kwargs) if isinstance(limiter, Keyed) else limiter

    def take(self) -> None:
        """Take one token now, or raise `RateLimited`."""
        if not self.limiter.allow():
            self._reserve(self.limiter, 1, "call")

    def _turn(self, limiter: Any, n: int, operation: str) -> Reservation | None:
        """Return the reservation that a call without tokens waits for; None if it need not wait."""
        if self.observe:
            bus.publish("WouldRefuse", operation=operation, by="rate_limit")
            return None
        if self.max_wait == 0.0:
            check()
            raise _refusal(limiter, n, _ready_in(limiter, n), operation)
        return self._reserve(limiter, n, operation)

    def _reserve(self, limiter: Any, n: int, operation: str) -> Reservation:
        """Tokens to wait for, or the error that says why there are none."""
        check()
        scope = ambient()
        left = None if scope is None else scope.remaining()
        longest = math.inf if self.max_wait is None else self.max_wait
        limit = longest if left is None else min(longest, left)
        # A limiter of the user's own may have no line to wait in.
        enqueue = getattr(limiter, "enqueue", limiter.reserve)
        reservation: Reservation = enqueue(n, None if math.isinf(limit) else limit)
        if reservation.ok:
            return reservation
        wait = _ready_in(limiter, n)
        if scope is None or left is None or wait is None or not left < wait <= longest:
            raise _refusal(limiter, n, wait, operation)
        tightest = scope.tightest()
        late = tightest.late(
            f"{operation}: the wait for the rate limit would end past {tightest.name!r}, {left:.3g} s away"
        )
        late.retry_after = wait
        raise late

    def _correct(self, limiter: Any, paid: int, result: object) -> None:
        if self.cost_of_result is None:
            return
        missing = _tokens("cost_of_result", self.cost_of_result(result)) - paid
        if missing:
            limiter.charge(missing)

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        if self.cost_of_result is not None and is_stream(env):
            raise TypeError(
                "RateLimit: cost_of_result must be None for a generator function: its calls have no result, "
                f"got {self.cost_of_result!r}"
            )
        names = {
            "call": call,
            "operation": lambda args, kwargs: env.operation(args),
            "turn": self._turn,
            "wait": await_turn_async if is_async else await_turn,
        }
        if not isinstance(self.limiter, Keyed) and self.cost is None and self.cost_of_result is None:
            only = {"allow": self.limiter.allow, "limiter": self.limiter}
            return _METERED.build(like, is_async, {**names, **only})
        names["correct"] = self._correct
        names["pick"] = lambda args, kwargs: self._pick(env, args, kwargs)
        names["price"] = lambda args, kwargs: self._price(env, args, kwargs)
        return _WEIGHED.build(like, is_async, names)


_METERED = Template(
    "metered",
    """\
{async_}def metered({params}):
    if not _sp_allow():
        _sp_place = _sp_turn(_sp_limiter, 1, _sp_operation({packed}))
        if _sp_place is not None:
            {await_}_sp_wait(_sp_place, _sp_limiter.clock)
    return {await_}_sp_call({args})
""",
)

#: For a limiter that is found by the arguments, and costs that they or the result decide.
_WEIGHED = Template(
    "weighed",
    """\
{async_}def weighed({params}):
    _sp_limiter, _sp_n, _sp_paid = _sp_pick({packed}), _sp_price({packed}), True
    if not _sp_limiter.allow(_sp_n):
        _sp_place = _sp_turn(_sp_limiter, _sp_n, _sp_operation({packed}))
        _sp_paid = _sp_place is not None
        if _sp_paid:
            {await_}_sp_wait(_sp_place, _sp_limiter.clock)
    _sp_result = {await_}_sp_call({args})
    if _sp_paid:
        _sp_correct(_sp_limiter, _sp_n, _sp_result)
    return _sp_result
""",
)


def _limiter(limiter: object) -> Any:
    if isinstance(limiter, str):
        return Limiter(*parse(limiter, "RateLimit"))
    if isinstance(limiter, Keyed):
        return limiter
    for method in ("allow", "reserve", "tokens"):
        if isinstance(limiter, type) or not callable(getattr(limiter, method, None)):
            raise TypeError(
                "RateLimit: limiter must be a Limiter, a Pacer, a keyed one or a text like '100/s', "
                f"got {limiter!r}"
            )
    return limiter


def _tokens(field: str, value: Any) -> int:
    return count("RateLimit", field, value, least=0)


def _ready_in(limiter: Any, n: int) -> float | None:
    """Seconds until ``n`` tokens are there; ``None``: never."""
    ready_in = getattr(limiter, "ready_in", None)
    if ready_in is not None:
        wait: float = ready_in(n)
        return wait if wait < math.inf else None
    if n > limiter.burst or not limiter.rate:
        return None
    return max(0.0, float((n - limiter.tokens()) / limiter.rate))


def _refusal(limiter: Any, n: int, wait: float | None, operation: str) -> RateLimited:
    if bus.watchers:
        bus.publish("Refused", operation=operation, by="rate_limit")
    if wait is not None:
        return RateLimited(f"{operation}: over the rate limit, try again in {wait:.3g} s", wait)
    if n > limiter.burst:
        return RateLimited(f"{operation}: cost must be <= the limiter's burst ({limiter.burst}), got {n}")
    return RateLimited(f"{operation}: the tokens will never be there (rate {limiter.rate:g})")
