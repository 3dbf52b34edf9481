"""START HERE: a policy is a pipeline of strategies, compiled once per function it decorates.

The way of a call: the compiled wrapper of the outermost strategy, which calls the next one's,
down to the function itself. Each strategy makes its wrapper in `sync` or `aio`; nothing is looked
up on the way. A call that succeeds at once meets no clock, lock or event (see `_strategies/retry/retry.py`);
what happens after a failure is in `_strategies/retry/aio_loop.py`, and what is decided then in
`_strategies/retry/rules/decision.py`; the code that really sleeps is in `_drivers`.
"""

from __future__ import annotations

import functools

from .._events import labels
from .._events.operations import census
from .._primitives.guesses import with_guesses
from .._primitives.options import Options, plain, validate_clock
from .._runtime import randomness
from .._runtime.call_template import Template, apply, apply_async, enter, enter_async
from .._runtime.frames import frame_at
from .._runtime.function_kind import function_kind
from .._runtime.maps import Recent, SharedValues
from .._strategies.budget.budget import Budget
from .._strategies.deadline import Deadline
from .._strategies.gate import GATE, GATE_NAMES
from .._strategies.keyed import Keyed
from .._strategies.protocol import Env, Part, PolicySettings
from .._strategies.retry.generators import stream, stream_async
from .._strategies.retry.retry import DEFAULT, Retry
from .._strategies.timeout import Timeout
from . import checks, mistakes
from .attempt_block import Block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

    from .._classify.on_clause import On
    from .._context.attempts import Before, OnRetry
    from .._primitives.options import Seconds
    from .._runtime.clock import Clock
    from .._runtime.randomness import Rng
    from .._strategies.protocol import AnyBudget, Strategy
    from .._strategies.retry.backoff import Backoff
    from .._strategies.retry.retry import OnResult
    from .checks import WorstCase

    P = ParamSpec("P")
    R = TypeVar("R")
    F = TypeVar("F")

    class PolicyOptions(TypedDict, total=False):
        """The keywords of `Policy`, for functions that pass them on."""

        name: str | None
        clock: Clock | None
        rng: Rng | None


#: Default budgets of named policies, alive as long as a policy of that name (and clock) is; those used last
#: outlive it, so that a policy made for each call pays from the same budget.
_named_budgets = SharedValues()
_last_named_budgets = Recent(1024)


def _named_budget(name: str, clock: Clock | None) -> Budget:
    key = (name, id(clock))
    budget: Budget = _named_budgets.get(key, lambda: Budget(clock=clock))
    _last_named_budgets.put(key, budget)
    return budget


class Policy(PolicySettings):
    """Pipeline of strategies, outermost first: a decorator, and a caller of functions.

    ``name`` is what events call it; policies of the same name share their default budget.
    ``clock`` and ``rng`` replace time and randomness in tests.
    """

    rng: Rng | None

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
                raise TypeError(mistakes.not_a_strategy(strategy))
        self.__dict__.update(
            name=None if name is None else labels.clean(name),
            clock=validate_clock("Policy", clock),
            rng=rng,
            draw=randomness.source(rng, "Policy"),
        )
        self.__dict__.update(self._pipeline(tuple(map(self._bind, strategies)), None))
        for warning in checks.check(self.strategies):
            mistakes.warn(warning)
        if (made_again := mistakes.doubtful_place(self)) is not None:
            mistakes.warn(made_again)

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"Policy.{key} cannot be assigned: policies are frozen; use .with_({key}=...)")

    def _bind(self, strategy: Strategy) -> Strategy:
        """Return ``strategy`` on this policy's clock, and on its name's budget unless it has its own.

        A policy's clock is for all that was given none, so objects with live state are not copied for it:
        they are shared by passing them, and other policies and the caller go on to see their state.
        """
        if isinstance(strategy, Retry) and self.name is not None:
            strategy = strategy.adopt(_named_budget(self.name, self.clock))
        if self.clock is not None and isinstance(strategy, Part):
            strategy.use_clock(self.clock)
        return strategy

    # Using it.

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``: a function, coroutine function, (async) generator function, or method."""
        inner: object = fn
        if isinstance(inner, (classmethod, staticmethod)):
            return type(inner)(self(inner.__func__))  # type: ignore[return-value]
        if isinstance(inner, type) or not callable(inner):
            raise TypeError(mistakes.undecoratable(inner))
        env = Env(self, inner)
        kind = function_kind(inner)
        if kind == "async":
            wrapper = self.compile(inner, env, True)
        elif kind == "sync":
            wrapper = self.compile(inner, env, False)
        elif kind == "generator":
            wrapper = stream(inner, lambda begin: self.compile(begin, env, False), *self._stream_rules())
        else:
            wrapper = stream_async(inner, lambda begin: self.compile(begin, env, True), *self._stream_rules())
        functools.update_wrapper(wrapper, inner, _named_by(inner))
        if kind == "sync" and (warning := mistakes.doubtful_return(inner)) is not None:
            mistakes.warn(warning)
        wrapper.__stormproof__ = self  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]

    def _stream_rules(self) -> tuple[Any, Any]:
        """Return how the retry loop, if there is one, takes items: ``commit`` and ``on_result``."""
        every = (s.template if isinstance(s, Keyed) else s for s in self.strategies)
        return next(((s.commit, s.on_result) for s in every if isinstance(s, Retry)), (None, None))

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``fn(*args, **kwargs)`` under this policy."""
        result: R = self._compiled("call", apply, False)(fn, *args, **kwargs)
        return result

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Await ``fn(*args, **kwargs)`` under this policy."""
        compiled = self.__dict__.get("_acall") or self._compiled("_acall", apply_async, True)
        try:
            result: R = await compiled(fn, *args, **kwargs)
        except TypeError as error:
            if callable(fn) and function_kind(fn) == "sync" and _is_await_error(error):
                raise TypeError(
                    f"Policy.acall: fn must be async or return an awaitable, got {fn!r}; use call() for it"
                ) from None
            raise
        return result

    def _compiled(self, method: str, applier: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
        """Return ``method``, compiled; under "call" it replaces that method from its first use on."""
        compiled: Any = self.__dict__.get(method)
        if compiled is None:
            compiled = self.__dict__[method] = self.compile(applier, Env(self, None), is_async)
        return compiled  # type: ignore[no-any-return]

    def retrying(self) -> Block:
        """The block form: ``for attempt in policy.retrying(): with attempt: ...`` (or ``async for``)."""
        return Block(self)

    # Compiling it.

    def compile(self, fn: Callable[..., Any], env: Env, is_async: bool) -> Callable[..., Any]:
        """``fn`` wrapped in every strategy, innermost first."""
        env.count = census.enrol(self, env.name or "Policy.call")
        call, pipeline = fn, self.strategies
        env.breakers = checks.certain_breakers(pipeline)
        env.retry_budget, env.hedge_budget = self.retry_budget, self.hedge_budget
        is_gate = bool(pipeline) and _is_gate(pipeline[0])
        for index in range(len(pipeline) - 1, -1, -1):
            env.outermost = index == 0
            env.entered = index > 0 and type(pipeline[index - 1]) is Deadline
            like = _entry(fn) if index == 0 and is_gate else fn
            call = (pipeline[index].aio if is_async else pipeline[index].sync)(call, env, like)
        env.outermost = env.entered = False
        if is_gate:
            return call
        like = _entry(fn)
        return _GATED.build(like, is_async, {**GATE_NAMES, "call": call, "bare": like})

    # Looking at it and changing it.

    def with_(self, *strategies: object, **options: object) -> Policy:
        """A copy with some strategies (by type) or options (by name) replaced.

        What is not replaced is shared, live state included.
        """
        own: dict[str, Any] = {key: options.pop(key) for key in ("name", "clock", "rng") if key in options}
        parts = list(self.strategies)
        for strategy in strategies:
            if isinstance(strategy, type):
                raise TypeError(mistakes.not_a_strategy(strategy, "Policy.with_"))
            places = [i for i, old in enumerate(parts) if type(old) is type(strategy)]
            if len(places) != 1:
                raise TypeError(
                    f"Policy.with_: there must be one {type(strategy).__name__} to replace, "
                    f"this policy has {len(places)}"
                )
            parts[places[0]] = strategy
        for option, value in options.items():
            places = [
                i for i, old in enumerate(parts) if isinstance(old, Options) and option in old.field_names()
            ]
            if len(places) != 1:
                raise TypeError(mistakes.not_one_option(option, value, parts))
            parts[places[0]] = parts[places[0]].replace(**{option: value})
        if own.get("clock", self.clock) is not self.clock:
            # Live state belongs to the clock it was made for, and stays with this policy.
            parts = [strategy.fresh() if isinstance(strategy, Part) else strategy for strategy in parts]
        settings: dict[str, Any] = {"name": self.name, "clock": self.clock, "rng": self.rng, **own}
        return Policy(*parts, **settings)

    def with_pipeline(self, strategies: tuple[Strategy, ...], hedge_budget: AnyBudget | None) -> Policy:
        """A copy with ``strategies``, which belong to this policy already, and their budget for hedges."""
        copy = object.__new__(Policy)
        copy.__dict__.update(name=self.name, clock=self.clock, rng=self.rng, draw=self.draw)
        copy.__dict__.update(self._pipeline(strategies, hedge_budget))
        return copy

    def _pipeline(self, strategies: tuple[Strategy, ...], hedge_budget: AnyBudget | None) -> dict[str, Any]:
        """The attributes for ``strategies``: hedges pay as the retries do, or else from ``hedge_budget``."""
        budgets = (s.budget for s in strategies if isinstance(s, Retry) and s.budget is not None)
        retry_budget = next(budgets, None)
        if retry_budget is not None or hedge_budget is None:
            hedge_budget = Budget(clock=self.clock) if retry_budget is None else retry_budget
        return {"strategies": strategies, "retry_budget": retry_budget, "hedge_budget": hedge_budget}

    def describe(self) -> dict[str, Any]:
        """The policy and its live state as plain data, ready for JSON."""
        return {"name": self.name, "strategies": [plain(strategy) for strategy in self.strategies]}

    def worst_case(self) -> WorstCase:
        """The most that one call can come to: attempts, seconds, and load in the long run."""
        return checks.worst_case(self.strategies, self.hedge_budget)

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


def _named_by(inner: object) -> list[str]:
    """The attributes that a wrapper takes over; a mock's may be anything."""
    texts = ("__module__", "__name__", "__qualname__")
    return [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if name not in texts or isinstance(getattr(inner, name, None), str)
    ]


def _is_await_error(error: TypeError) -> bool:
    """Return True if the policy's own ``await`` of a plain function's result raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("stormproof")


def _is_gate(strategy: Any) -> bool:
    """Return True if the wrapper of ``strategy``, as the outermost one, checks if policies are off."""
    kind = type(strategy)
    return isinstance(strategy, Retry) or kind is Deadline or (kind is Timeout and not strategy.thread)


def _entry(fn: object) -> Any:
    """Return ``fn`` for the outermost wrapper, which checks the function given to `Policy.call`."""
    return enter if fn is apply else enter_async if fn is apply_async else fn


def _rebuild(strategies: tuple[Any, ...], name: str | None, clock: Clock | None, rng: Rng | None) -> Policy:
    return Policy(*strategies, name=name, clock=clock, rng=rng)


#: For an outermost strategy that is not a gate itself.
_GATED = Template(
    "gated",
    "{async_}def gated({params}):\n"
    + GATE
    + "    _sp_result = {await_}_sp_call({args})\n    return _sp_result\n",
)


Policy.__init__ = with_guesses(Policy.__init__, "Policy")  # type: ignore[method-assign]


@with_guesses
def retry(
    on: On,
    attempts: int | None = 4,
    backoff: Backoff | None = None,
    within: Seconds | None = 30.0,
    budget: AnyBudget | Keyed | None = DEFAULT,
    *,
    on_result: OnResult | None = None,
    max_hint: Seconds = 60.0,
    late: Literal["stop", "clip"] = "stop",
    retry_exhausted: bool = False,
    before_attempt: Before | None = None,
    raises: Literal["failure", "refusal"] = "failure",
    on_retry: OnRetry | None = None,
    commit: Callable[[Any], Any] | None = None,
    name: str | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
) -> Policy:
    """Return a decorator that retries: ``Policy(Retry(on, ...))``.

    ``on`` has no default: say what is retryable. The other options are those of `Retry` and `Policy`.
    """
    mistakes.refuse_bare(on)
    strategy = Retry(
        on,
        attempts=attempts,
        backoff=backoff,
        within=within,
        budget=budget,
        on_result=on_result,
        max_hint=max_hint,
        late=late,
        retry_exhausted=retry_exhausted,
        before_attempt=before_attempt,
        raises=raises,
        on_retry=on_retry,
        commit=commit,
    )
    return Policy(strategy, name=name, clock=clock, rng=rng)


def retrying(
    on: On,
    attempts: int | None = 4,
    backoff: Backoff | None = None,
    within: Seconds | None = 30.0,
    budget: AnyBudget | Keyed | None = DEFAULT,
    **options: Any,
) -> Block:
    """Block form of `retry`, with the same options:

        for attempt in retrying(on=ConnectionError):
            with attempt:
                ...

    The default budget belongs to this place in the code (or to ``name``), so it lasts from one
    execution of the block to the next.
    """
    if budget is DEFAULT:
        budget = _block_budget(options.get("name"), options.get("clock"))
    return retry(on, attempts, backoff, within, budget, **options).retrying()


#: The budgets of blocks, which have no decorator to keep theirs: by name, or by place in the code.
_block_budgets = Recent(1024)


def _block_budget(name: str | None, clock: Clock | None) -> Budget:
    frame = frame_at(2)
    key = ("name", name) if name is not None else (frame.f_code, frame.f_lasti)
    budget: Budget | None = _block_budgets.get((key, id(clock)))
    if budget is not None:
        return budget
    candidate = Budget(clock=clock) if name is None else _named_budget(name, clock)
    shared: Budget = _block_budgets.put_first((key, id(clock)), candidate)
    return shared
