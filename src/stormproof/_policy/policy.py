"""START HERE: a policy is an ordered row of strategies, compiled once per function it decorates.

The way of a call: the compiled wrapper of the outermost strategy, which calls the next one's,
down to the function itself. Each strategy makes its wrapper in `sync` or `aio`; nothing is looked
up on the way. A call that succeeds at once meets no clock, lock or event (see `retries`); what
happens after a failure is in `loop`; the code that really sleeps and awaits is in `_drive`.
"""

from __future__ import annotations

import functools
import sys

from . import bus, compose
from ._drive import chance
from ._drive import clock as _clock
from ._drive.memory import Shared
from ._drive.shape import Template, colour
from .block import Block
from .budget import Budget
from .census import census
from .deadlines import ambient, bypass
from .hedge import Hedge
from .keys import Keyed, Recent
from .options import plain, timepiece
from .retries import _DEFAULT, Retry
from .stream import stream, stream_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Literal, ParamSpec, Protocol, TypeVar

    from ._drive.chance import Rng
    from ._drive.clock import Clock
    from .attempts import Exchange
    from .backoff import Backoff
    from .classify import Verdict
    from .compose import WorstCase
    from .judge import On
    from .options import Seconds
    from .retries import AnyBudget, Before

    P = ParamSpec("P")
    R = TypeVar("R")
    F = TypeVar("F")

    class Strategy(Protocol):
        """One layer: wraps ``call``. ``like`` is the user's function, for its signature."""

        def sync(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]: ...

        def aio(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]: ...


#: Default budgets of named policies, alive as long as a policy of that name (and clock) is.
_named_budgets = Shared()


class Env:
    """What the strategies of one compiled function share: names, clock, randomness."""

    __slots__ = ("_function", "clock", "count", "draw", "idempotent", "name", "timer")

    def __init__(self, policy: Policy, function: Any) -> None:
        self.clock = policy.clock
        #: Where to read the time: ``timer.now()``.
        self.timer = _clock.AMBIENT if policy.clock is None else policy.clock
        self.draw = policy.draw
        self._function = function
        #: What events call it; None where only the call itself tells (`Policy.call`).
        self.name = policy.name or (None if function is None else _name_of(function))
        #: ``(args, kwargs) -> bool`` where a client can tell from the request; None for plain functions.
        self.idempotent: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None
        #: Counts a call that succeeded at its first attempt; set when the function is compiled.
        self.count: Callable[[], int]

    def now(self) -> float:
        return self.timer.now()

    def operation(self, args: tuple[Any, ...] = ()) -> str:
        """The name that events, notes and errors give this call."""
        return self.name or _name_of(args[0] if args else None)

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The user's own arguments: ``Policy.call(fn, x)`` carries ``fn`` in front of them."""
        return args if self._function is not None else args[1:]

    def may_hedge(self, declared: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether two attempts of this call may be out at once; ``declared``: its `Hedge` says so."""
        return declared or (self.idempotent is not None and self.idempotent(args, kwargs))

    def exchange(self, args: tuple[Any, ...]) -> Exchange | None:
        """The request that a client is sending with this call; ``None`` for plain functions."""
        return None

    def owner(self, args: tuple[Any, ...]) -> object:
        """Who marks an error as retried to exhaustion: the decorated function.

        What `Policy.call` calls is told by its code: a bound method or a lambda is a new object every time.
        """
        return self._function if self._function is not None else getattr(args[0], "__code__", args[0])


def _name_of(function: Any) -> str:
    return bus.clean(str(getattr(function, "__qualname__", None) or type(function).__qualname__))


class Policy:
    """Strategies in a row, outermost first: a decorator, and a caller of functions.

    ``name`` is what events call it; policies of the same name share their default budget.
    ``clock`` and ``rng`` replace time and randomness in tests.
    """

    __slots__ = ("__weakref__", "_acall", "_call", "clock", "draw", "name", "rng", "strategies")

    name: str | None
    clock: Clock | None
    strategies: tuple[Any, ...]
    rng: Any
    draw: Callable[[], float]
    _call: Callable[..., Any] | None
    _acall: Callable[..., Any] | None

    def __init__(
        self,
        *strategies: Strategy,
        name: str | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise ValueError(f"Policy: name must be a non-empty string or None, got {name!r}")
        for strategy in strategies:
            if isinstance(strategy, type) or not (hasattr(strategy, "sync") and hasattr(strategy, "aio")):
                raise TypeError(f"Policy: strategies must be strategies such as Retry(), got {strategy!r}")
        self._set(name=None if name is None else bus.clean(name), clock=timepiece("Policy", clock), rng=rng)
        self._set(draw=chance.source(rng, "Policy"), strategies=self._row(strategies))
        for doubt in compose.check(self.strategies):
            _warn(doubt)
        # Compiled on first use: most policies only decorate.
        self._set(_call=None, _acall=None)

    def _set(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"Policy.{key} cannot be assigned: policies are frozen; use .with_({key}=...)")

    def _row(self, strategies: tuple[Any, ...]) -> tuple[Any, ...]:
        """The strategies as this policy runs them: bound, and hedges paying what the retries pay."""
        row = [self._bound(strategy) for strategy in strategies]
        told = next((s.budget for s in row if isinstance(s, Retry) and s.budget is not None), None)
        paid = Budget(clock=self.clock) if told is None else told

        def paying(strategy: Any) -> Any:
            if isinstance(strategy, Hedge):
                return strategy.with_budget(paid, told is not None)
            if isinstance(strategy, Keyed) and isinstance(strategy.template, Hedge):
                return Keyed(paying(strategy.template), strategy.key, strategy.limit)
            return strategy

        return tuple(map(paying, row))

    def _bound(self, strategy: Any) -> Any:
        """``strategy``, going by this policy's clock, and by its name's budget unless it has its own."""
        if isinstance(strategy, Retry) and self.name is not None:
            key = (self.name, id(self.clock))
            strategy = strategy.adopt(_named_budgets.get(key, lambda: Budget(clock=self.clock)))
        keep_time = getattr(strategy, "keep_time", None)
        if self.clock is not None and keep_time is not None:
            keep_time(self.clock)
        return strategy

    # Using it.

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``: a function, coroutine function, (async) generator function, or method."""
        inner: Any = fn
        if isinstance(inner, (classmethod, staticmethod)):
            return type(inner)(self(inner.__func__))  # type: ignore[return-value]
        if isinstance(inner, type) or not callable(inner):
            raise TypeError(
                f"Policy: only functions and callables can be decorated, got {inner!r}; if this is a "
                "call of a function under a bare @hf.retry, that needs its parentheses: @hf.retry(on=...)"
            )
        env = Env(self, inner)
        kind = colour(inner)
        if kind == "async":
            wrapper = self._compile(inner, env, True)
        elif kind == "sync":
            wrapper = self._compile(inner, env, False)
        elif kind == "generator":
            wrapper = stream(inner, lambda begin: self._compile(begin, env, False))
        else:
            wrapper = stream_async(inner, lambda begin: self._compile(begin, env, True))
        functools.update_wrapper(wrapper, inner)
        wrapper.__holdfast__ = self  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``fn(*args, **kwargs)`` under this policy."""
        if (kind := colour(fn)) != "sync":
            raise TypeError(
                f"Policy.call: fn must be a plain function, got {fn!r} ({kind}); use acall() for a coroutine "
                "function, or decorate it"
            )
        compiled = self._call
        if compiled is None:
            compiled = self._compile(_apply, Env(self, None), False)
            self._set(_call=compiled)
        result: R = compiled(fn, *args, **kwargs)
        return result

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Await ``fn(*args, **kwargs)`` under this policy."""
        if colour(fn) in ("generator", "async generator"):
            raise TypeError(f"Policy.acall: fn must give something to await, got {fn!r}; decorate it instead")
        compiled = self._acall
        if compiled is None:
            compiled = self._compile(_apply_async, Env(self, None), True)
            self._set(_acall=compiled)
        result: R = await compiled(fn, *args, **kwargs)
        return result

    def retrying(self) -> Block:
        """The block form: ``for attempt in policy.retrying(): with attempt: ...`` (or ``async for``)."""
        return Block(self)

    # Compiling it.

    def _compile(self, fn: Callable[..., Any], env: Env, is_async: bool) -> Callable[..., Any]:
        """``fn`` wrapped in every strategy, innermost first."""
        env.count = census.enrol(self, env.name or "Policy.call")
        call = fn
        for strategy in reversed(self.strategies):
            call = (strategy.aio if is_async else strategy.sync)(call, env, fn)
        if self.strategies and isinstance(self.strategies[0], Retry):
            return call
        return _GATE.build(fn, is_async, {"ambient": ambient, "bypass": bypass, "call": call, "bare": fn})

    # Looking at it and changing it.

    def with_(self, *strategies: Any, **options: Any) -> Policy:
        """A copy with some strategies (by type) or options (by name) replaced.

        What is not replaced is shared, live state included.
        """
        own: dict[str, Any] = {key: options.pop(key) for key in ("name", "clock", "rng") if key in options}
        row = list(self.strategies)
        for strategy in strategies:
            places = [i for i, old in enumerate(row) if type(old) is type(strategy)]
            if len(places) != 1:
                raise TypeError(
                    f"Policy.with_: there must be one {type(strategy).__name__} to replace, "
                    f"this policy has {len(places)}"
                )
            row[places[0]] = strategy
        for option, value in options.items():
            places = [i for i, old in enumerate(row) if option in getattr(old, "_fields", ())]
            if len(places) != 1:
                raise TypeError(
                    f"Policy.with_: {option!r} must be an option of exactly one strategy, "
                    f"here it is one of {len(places)}"
                )
            row[places[0]] = row[places[0]].replace(**{option: value})
        if own.get("clock", self.clock) is not self.clock:
            # Live state goes by the clock it was made for, and stays with this policy.
            row = [strategy.fresh() if hasattr(strategy, "fresh") else strategy for strategy in row]
        kept: dict[str, Any] = {"name": self.name, "clock": self.clock, "rng": self.rng, **own}
        return Policy(*row, **kept)

    def describe(self) -> dict[str, Any]:
        """The policy and its live state as plain data, ready for JSON."""
        return {"name": self.name, "strategies": [plain(strategy) for strategy in self.strategies]}

    def worst_case(self) -> WorstCase:
        """The most that one call can come to: attempts, seconds, and load in the long run."""
        return compose.worst_case(self.strategies)

    def __repr__(self) -> str:
        inner = [repr(strategy) for strategy in self.strategies]
        if self.name is not None:
            inner.append(f"name={self.name!r}")
        return f"Policy({', '.join(inner)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return (self.name, self.strategies) == (other.name, other.strategies)

    def __hash__(self) -> int:
        return hash((self.name, self.strategies))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.strategies, self.name, self.clock, self.rng)


def _warn(doubt: str) -> None:
    import warnings

    warnings.warn(f"Policy: {doubt}", compose.PolicyWarning, stacklevel=3)


def _rebuild(strategies: tuple[Any, ...], name: str | None, clock: Clock | None, rng: Any) -> Policy:
    return Policy(*strategies, name=name, clock=clock, rng=rng)


def _apply(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


async def _apply_async(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    return await fn(*args, **kwargs)


#: Asks once, before the outermost strategy: are policies off here, has the enclosing scope ended?
_GATE = Template(
    "gated",
    """\
{async_}def gated({params}):
    if _hf_ambient() is not None and _hf_bypass():
        return {await_}_hf_bare({args})
    return {await_}_hf_call({args})
""",
)


def retry(
    on: On,
    attempts: int | None = 4,
    backoff: Backoff | None = None,
    within: Seconds | None = 30.0,
    budget: AnyBudget | Keyed | None = _DEFAULT,
    *,
    on_result: Callable[[Any], bool | Verdict] | None = None,
    max_hint: Seconds = 60.0,
    late: Literal["stop", "clip"] = "stop",
    retry_exhausted: bool = False,
    before_attempt: Before | None = None,
    name: str | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
) -> Policy:
    """A decorator that retries: ``Policy(Retry(on, ...))``. ``on`` has no default: say what may pass."""
    strategy = Retry(
        on, attempts, backoff, within, budget, on_result, max_hint, late, retry_exhausted, before_attempt
    )
    return Policy(strategy, name=name, clock=clock, rng=rng)


def retrying(
    on: On,
    attempts: int | None = 4,
    backoff: Backoff | None = None,
    within: Seconds | None = 30.0,
    budget: AnyBudget | Keyed | None = _DEFAULT,
    **options: Any,
) -> Block:
    """The block form of `retry`, with the same options::

    for attempt in retrying(on=ConnectionError):
        with attempt:
            ...

    The default budget belongs to this place in the code (or to ``name``), so it lasts from one
    execution of the block to the next.
    """
    if budget is _DEFAULT:
        budget = _block_budget(options.get("name"), options.get("clock"))
    return retry(on, attempts, backoff, within, budget, **options).retrying()


#: The budgets of blocks, which have no decorator to keep theirs: by name, or by place in the code.
_block_budgets = Recent(1024)


def _block_budget(name: str | None, clock: Clock | None) -> Budget:
    frame = sys._getframe(2)
    key = ("name", name) if name is not None else (frame.f_code, frame.f_lasti)
    budget: Budget | None = _block_budgets.get((key, id(clock)))
    if budget is not None:
        return budget
    named = (name, id(clock))
    made = Budget(clock=clock) if name is None else _named_budgets.get(named, lambda: Budget(clock=clock))
    kept: Budget = _block_budgets.put_first((key, id(clock)), made)
    return kept
