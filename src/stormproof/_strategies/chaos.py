"""Chaos: faults, answers, delays and side effects put into calls on purpose, where it is switched on.

Outside ``with chaos():`` a `Chaos` strategy costs one look at a context variable.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from .._context.deadlines import ambient, check
from .._drivers import aio as _aio
from .._drivers import sync as _sync
from .._events import bus
from .._events.labels import label
from .._primitives.options import Options, Seconds, hook, number, seconds, source
from .._runtime import clock as _clock
from .._runtime.call_template import Template
from .._runtime.function_kind import function_kind
from .generator_calls import in_async
from .protocol import CallWrapper, Env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from .._runtime.clock import Clock
    from .protocol import Fn

    Fault = Exception | type[Exception] | Callable[[], Exception]
    When = Callable[[tuple[Any, ...], dict[str, Any]], bool]

_switch: ContextVar[Switch | None] = ContextVar("stormproof_chaos", default=None)


class Switch:
    """Context manager of ``chaos()``: chaos is on inside the ``with`` block, in this context alone."""

    def __init__(self, names: tuple[str, ...], rate: float | None) -> None:
        self.names = names
        self.rate = rate
        self._token: Token[Switch | None] | None = None

    def __enter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("chaos is already entered; make a new one for each block")
        self._token = _switch.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        token, self._token = self._token, None
        assert token is not None
        _switch.reset(token)

    def __repr__(self) -> str:
        inner = [*map(repr, self.names), *([] if self.rate is None else [f"rate={self.rate!r}"])]
        return f"chaos({', '.join(inner)})"


def chaos(*names: str, rate: float | None = None) -> Switch:
    """``with chaos():`` switches every `Chaos` strategy on inside, in this task or thread.

    ``names`` switches on those of these names alone. ``rate`` replaces their own: 1 hits every call,
    0 none. An inner block replaces an outer one.
    """
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"chaos: names must be non-empty strings, got {name!r}")
    return Switch(names, None if rate is None else number("chaos", "rate", rate, least=0, most=1))


class Chaos(CallWrapper, Options):
    """Hit a share ``rate`` of the calls that ``when(args, kwargs)`` matches, inside ``with chaos():``.

    A call that is hit runs ``behaviour()``, waits ``latency`` seconds, and then raises ``fault``,
    or returns ``outcome`` instead of calling, or makes the call as usual; ``None`` leaves a step out. Each
    may be a callable without arguments that gives it. A fault given as an object is copied for each
    call where it can be. To return ``None``, say ``outcome=lambda: None``. ``when=None`` matches all
    calls. A latency that the enclosing deadline does not allow ends with it.
    """

    def __init__(
        self,
        fault: Fault | None = None,
        *,
        outcome: object = None,
        latency: Seconds | Callable[[], Any] | None = None,
        behaviour: Callable[[], Any] | None = None,
        rate: float = 0.001,
        when: When | None = None,
        name: str | None = None,
    ) -> None:
        if fault is None and outcome is None and latency is None and behaviour is None:
            raise ValueError("Chaos: one of fault, outcome, latency and behaviour must be given, got none")
        if fault is not None and outcome is not None:
            raise ValueError("Chaos: fault and outcome must not both be given: a call fails or answers")
        self.fault: Fault | None = _check_fault(fault)
        self.outcome: object = _not_async("outcome", outcome)
        self.latency: float | Callable[[], Any] | None = _check_latency(latency)
        self.behaviour = hook("Chaos", "behaviour", behaviour)
        self.rate = number("Chaos", "rate", rate, least=0, most=1)
        self.when: When | None = _not_async("when", hook("Chaos", "when", when))
        self.name = label("Chaos", name)

    # The decisions, the same in both colours.

    def _hits(self, env: Env, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        switch = _switch.get()
        if switch is None or (switch.names and self.name not in switch.names):
            return False
        if self.when is not None and not self.when(env.arguments(args), kwargs):
            return False
        rate = self.rate if switch.rate is None else switch.rate
        return rate > 0 and env.draw() < rate

    def _emit_injected(self, what: str, operation: str) -> None:
        bus.publish("ChaosInjected", operation=operation, what=what, name=self.name)

    def _run_behaviour(self, operation: str) -> Any:
        self._emit_injected("behaviour", operation)
        return self.behaviour()  # type: ignore[misc]

    def _delay(self, operation: str) -> float:
        self._emit_injected("latency", operation)
        given: Any = self.latency
        if callable(given):
            given = given()
        return seconds("Chaos", "latency", given)

    def _end(self, operation: str) -> Any:
        """Raise the fault, or give the outcome."""
        if self.fault is not None:
            self._emit_injected("fault", operation)
            raise _error(self.fault)
        self._emit_injected("outcome", operation)
        return self.outcome() if callable(self.outcome) else self.outcome

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        if not is_async and self.behaviour is not None and function_kind(self.behaviour) == "async":
            raise TypeError(
                f"Chaos: behaviour must not be async where the call is not, got {source(self.behaviour)}"
            )

        def disturb(operation: str) -> None:
            if self.behaviour is not None:
                self._run_behaviour(operation)
            if self.latency is not None:
                # Python code cannot be interrupted, but a client inside a deadline stops in time.
                _sync.sleep(_within_deadline(self._delay(operation)), env.clock)
                check()

        async def disturb_async(operation: str) -> None:
            if self.behaviour is not None and hasattr(pending := self._run_behaviour(operation), "__await__"):
                await pending
            if self.latency is not None:
                delay = self._delay(operation)
                await _aio.sleep(delay if _has_timers(env.clock) else _within_deadline(delay), env.clock)
                check()

        names = {
            "call": call,
            "disturb": disturb_async if is_async else disturb,
            "end": (lambda operation: in_async(env, self._end(operation))) if is_async else self._end,
            "ends": self.fault is not None or self.outcome is not None,
            "hits": lambda args, kwargs: self._hits(env, args, kwargs),
            "operation": lambda args, kwargs: env.operation(args),
            "switch": _switch.get,
        }
        return _CHAOS.build(like, is_async, names)


_CHAOS = Template(
    "chaos",
    """\
{async_}def chaos({params}):
    if _sp_switch() is not None and _sp_hits({packed}):
        _sp_name = _sp_operation({packed})
        {await_}_sp_disturb(_sp_name)
        if _sp_ends:
            return _sp_end(_sp_name)
    return {await_}_sp_call({args})
""",
)


def _within_deadline(delay_s: float) -> float:
    scope = ambient()
    left = None if scope is None else scope.remaining()
    return delay_s if left is None else min(delay_s, left)


def _has_timers(clock: Clock | None) -> bool:
    """Return True if a deadline interrupts this wait by itself; one on a clock moved by hand does not."""
    return bool(getattr(clock or _clock.current(), "drives_timers", True))


def _not_async(field: str, value: object) -> Any:
    if callable(value) and function_kind(value) == "async":
        raise TypeError(f"Chaos: {field} must not be async, got {source(value)}")
    return value


def _check_latency(latency: Any) -> Any:
    if latency is None or callable(latency):
        return _not_async("latency", latency)
    return seconds("Chaos", "latency", latency)


def _check_fault(fault: object) -> Any:
    """``fault`` if it can be raised. A type is tried: one that needs arguments is refused at once."""
    if fault is None or isinstance(fault, Exception):
        return fault
    if isinstance(fault, type):
        if not issubclass(fault, Exception):
            raise TypeError(f"Chaos: fault must be an Exception, got {source(fault)}")
        try:
            fault()
        except Exception as error:
            raise TypeError(
                f"Chaos: fault must be an Exception that needs no arguments, an object or a callable, "
                f"got {source(fault)}"
            ) from error
    elif not callable(fault):
        raise TypeError(f"Chaos: fault must be an Exception or a callable that makes one, got {fault!r}")
    return _not_async("fault", fault)


def _error(fault: Any) -> Exception:
    if isinstance(fault, Exception):
        from copy import copy

        try:
            # Marks, notes and tracebacks of one call must not show up in the next.
            error: object = copy(fault)
        except Exception:
            error = fault
        return error if isinstance(error, Exception) else fault
    error = fault()
    if not isinstance(error, Exception):
        raise TypeError(f"Chaos: fault must make an Exception, got {error!r}")
    return error
