"""The retry strategy: its options and its success path. `call` and `aio_loop` have what follows a failure."""

from __future__ import annotations

import math
from itertools import product

from ..._classify.classifier import transient
from ..._classify.exhaustion import exhausted_by, is_silent
from ..._classify.on_clause import by_type, judge, named_refusals
from ..._events import bus
from ..._primitives.options import Options, choice, count, flag, hook, plain, seconds
from ..._runtime.call_template import Template
from ..budget.budget import Budget
from ..gate import GATE, GATE_NAMES
from ..keyed import Keyed
from ..protocol import CallWrapper, Part
from . import aio_loop, sync_loop
from .backoff import Backoff, Exponential, Jittered
from .call import RetriedCall
from .rules.decision import refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Literal

    from ..._classify.on_clause import On
    from ..._classify.verdict import Verdict
    from ..._context.attempts import Before, OnRetry
    from ..._primitives.options import Seconds
    from ..._runtime.clock import Clock
    from ..protocol import AnyBudget, Env, Fn

    #: May be async in async calls.
    OnResult = Callable[[Any], bool | Verdict | Awaitable[bool | Verdict]]


class _Default:
    """The default of ``budget``: one that is made for the strategy, or the one of all policies of a name."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget

    def __repr__(self) -> str:
        return "<a fresh Budget()>"


DEFAULT: Any = _Default()


def _validate_budget(budget: object) -> None:
    for method in ("started", "success", "failure", "withdraw"):
        if isinstance(budget, type) or not callable(getattr(budget, method, None)):
            if isinstance(budget, type):
                hint = f"; did you mean {budget.__name__}()?"
            else:
                hint = "; did you mean None?" if budget is False else f" (which has no {method}())"
            rule = "one such as Budget(ratio=0.1), or None"
            raise TypeError(f"Retry: budget must be {rule}, got {budget!r}{hint}")


class Retry(CallWrapper, Options):
    """Try again when a call fails transiently.

    ``on`` says which failures (a type, a tuple of types, or a callable); ``attempts`` counts the
    first call, ``None`` leaves the end to ``within`` or a deadline; ``within`` is the time for
    retrying in seconds from the first failure, ``None`` sets no such limit; ``budget`` is a fresh
    `Budget` unless given, ``None`` is none; ``on_result`` refuses results; a server's hint longer
    than ``max_hint`` seconds ends the call; ``late="stop"`` gives up when the wait would end past
    the time allowed, ``"clip"`` sleeps what is left first; ``retry_exhausted`` retries what an
    inner layer has already given up on; ``before_attempt(attempt)`` runs before every attempt, and
    ``on_retry(attempt, error, wait)`` before the wait for the next one. Hooks and ``on_result`` may be
    async in async calls. A generator is retried until its first item, or with ``commit(item)`` until the
    first item for which that is true: what comes before it is held back, at most 64 items or 1 MiB.

    A call that failed raises its failure: the error of its last attempt, the same object, whatever ended the
    retrying; `stopped` says what that was. ``raises="refusal"`` raises `BudgetExhausted`, `DeadlineExceeded`
    (for ``within``) or what refused a later attempt (`CircuitOpen`, ...) from it instead.
    """

    def __init__(
        self,
        on: On = transient,
        *,
        attempts: int | None = 4,
        backoff: Backoff | None = None,
        within: Seconds | None = 30.0,
        budget: AnyBudget | Keyed | None = DEFAULT,
        on_result: OnResult | None = None,
        max_hint: Seconds = 60.0,
        late: Literal["stop", "clip"] = "stop",
        retry_exhausted: bool = False,
        before_attempt: Before | None = None,
        raises: Literal["failure", "refusal"] = "failure",
        on_retry: OnRetry | None = None,
        commit: Callable[[Any], Any] | None = None,
    ) -> None:
        backoff = Exponential() if backoff is None else backoff
        if isinstance(backoff, type) or not hasattr(backoff, "delay"):
            given: object = backoff
            meant = f"; did you mean Constant({given!r})?" if isinstance(given, (int, float)) else ""
            rule = "a schedule such as Exponential()"
            raise TypeError(f"Retry: backoff must be {rule}, got {backoff!r}{meant}")
        if budget is not None and not isinstance(budget, (Keyed, _Default)):
            _validate_budget(budget)
        self.on = on
        self.attempts = None if attempts is None else count("Retry", "attempts", attempts)
        self.backoff = backoff
        self.within = None if within is None else seconds("Retry", "within", within)
        #: True if the budget is the default one, made for this strategy.
        self.owns_budget = isinstance(budget, _Default)
        self.budget: Any = (budget.budget or Budget()) if isinstance(budget, _Default) else budget
        #: True if failures are reported to the budget: one that counts them, or any of the user's own.
        self.reports_failures: bool = getattr(self.budget, "counts_failures", True)
        self.on_result = hook("Retry", "on_result", on_result)
        self.max_hint = seconds("Retry", "max_hint", max_hint, infinite=True)
        self.late: Literal["stop", "clip"] = choice("Retry", "late", late, ("stop", "clip"))
        self.retry_exhausted = flag("Retry", "retry_exhausted", retry_exhausted)
        self.before_attempt = hook("Retry", "before_attempt", before_attempt)
        self.raises = choice("Retry", "raises", raises, ("failure", "refusal"))
        self.on_retry = hook("Retry", "on_retry", on_retry)
        self.commit = hook("Retry", "commit", commit)
        #: The reasons to stop for which the caller gets a refusal.
        self.refusing = refusing(self.raises == "refusal")
        #: The refusals that ``on`` names.
        self.named: tuple[type[Exception], ...] = named_refusals(on)
        self.judge = judge(on)
        #: The schedule's own plan, where it has one.
        self.plan: Callable[..., tuple[float, float | None, int]] | None = _own_plan(backoff)
        #: The schedule's formula, as the loop calls it.
        self.delay: Callable[[int, float | None, float], float] = _quick_delay(backoff)
        #: Has the verdicts that ``judge`` keeps by type, as ``known``.
        self.by_type: Any = by_type(self.judge)
        #: ``attempts`` and ``within`` as the loop compares them: no limit is inf.
        self.most_attempts: float = math.inf if self.attempts is None else self.attempts
        self.most_seconds: float = math.inf if self.within is None else self.within

    def fields(self) -> dict[str, Any]:
        fields = super().fields()
        if self.owns_budget:
            del fields["budget"]
        return fields

    def replace(self, **changes: Any) -> Retry:
        copy = super().replace(**changes)
        return copy if "budget" in changes or not self.owns_budget else copy.adopt(self.budget)

    def adopt(self, budget: Budget) -> Retry:
        """A copy whose default budget is ``budget``; itself if it was given one of its own."""
        return super().replace(budget=_Default(budget)) if self.owns_budget else self

    def fresh(self, key: str | None = "") -> Retry:
        """A copy whose budget, if it has one, is a new one with the same options."""
        if self.owns_budget:
            return super().replace()
        return self.replace(budget=self.budget.fresh(key)) if isinstance(self.budget, Part) else self

    def use_clock(self, clock: Clock) -> None:
        if isinstance(self.budget, Part):
            self.budget.use_clock(clock)

    @property
    def bounded(self) -> bool:
        """True if the loop ends without a deadline."""
        return self.attempts is not None or self.within is not None

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "budget": plain(self.budget)}

    # Compiling: the success path is the template; everything else goes through the loop.

    def _beginner(self, env: Env) -> Callable[..., RetriedCall]:
        """Return what makes the `RetriedCall` of a call, given its ``args`` and ``kwargs``."""
        budget = self.budget

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> RetriedCall:
            paying = budget.pick(env.arguments(args), kwargs) if isinstance(budget, Keyed) else budget
            return RetriedCall(self, paying, env, env.operation(args), env.owner(args), env.exchange(args))

        return begin

    def _first_failure(self, env: Env) -> Callable[..., RetriedCall | None]:
        """Return what settles the failure of a first attempt, which began at the moment ``began``.

        It returns the call that has to go on, or None if ``error`` is what its caller gets.
        """
        by_type, refusing, budget = self.by_type, self.refusing, self.budget
        fixed = (env.operation(), env.owner(()), None) if env.is_fixed else None
        is_final = self._is_final if env.has_no_request else _never

        def failed(
            error: Exception, began: int, args: tuple[Any, ...] = (), kwargs: object = None
        ) -> RetriedCall | None:
            verdict = by_type.known.get(type(error))
            if (verdict is None or verdict.kind == "fatal") and is_final(error, verdict):
                return None
            operation, owner, exchange = fixed or (env.operation(args), env.owner(args), env.exchange(args))
            run = RetriedCall(self, budget, env, operation, owner, exchange, 1, began)
            wait, stop = run.after(None, error), run.stop
            if stop is None or wait is not None or run.visible_error is not error or stop.reason in refusing:
                run.wait = wait
                return run
            run.give_up(None, error)
            return None

        return failed

    def _is_final(self, error: Exception, verdict: Verdict | None) -> bool:
        """Return True if the failure of a first attempt is raised unchanged: nothing to count, note or emit.

        A shortcut for what the loop would decide; False leaves the decision to the loop. ``verdict`` is that
        on the type, "fatal" or not known.
        """
        if bus.watchers:
            return False
        if verdict is None:
            return type(error) in self.by_type.final and exhausted_by(error) is None
        return error.__cause__ is None and (not (attached := error.__dict__) or is_silent(attached))

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        plain = self.before_attempt is None and self.on_result is None and not isinstance(self.budget, Keyed)
        names: dict[str, Any] = {
            **GATE_NAMES,
            "bare": like,
            "call": call,
            "loop": aio_loop.retry_loop if is_async else sync_loop.retry_loop,
            "watchers": bus.watchers,
            "first_try_subscribers": bus.first_try_subscribers,
            "layer": env,
            "count": env.count,
            "succeeded": lambda args, kwargs: bus.first_try(env.operation(args)),
        }
        if not plain:
            names["begin"] = self._beginner(env)
            return _FOLLOWED.build(like, is_async, names)
        names["failed"] = self._first_failure(env)
        on_start, on_success = ticks(self.budget)
        names["tick"] = on_success or _nothing
        names["started"] = on_start
        return _RETRIED[on_start is not None, env.entered, env.is_fixed].build(like, is_async, names)


def _own_plan(backoff: Any) -> Any:
    """``backoff.plan`` if it differs from the usual one, which the loop has built in."""
    plan = getattr(backoff, "plan", None)
    return None if getattr(plan, "__func__", None) is Backoff.plan else plan


def _quick_delay(backoff: Any) -> Any:
    """``backoff.delay`` for the loop: it gives a float, finite and >= 0, or raises."""
    if isinstance(backoff, Jittered) and type(backoff).delay is Jittered.delay:
        return backoff.quick_delay()

    def checked(n: int, prev: float | None, u: float) -> float:
        wait = backoff.delay(n, prev, u)
        # One of the user's own may give anything.
        return wait if type(wait) is float and 0.0 <= wait < math.inf else seconds("backoff", "delay", wait)

    return checked


def _never(error: Exception, verdict: Verdict | None) -> bool:
    """In place of `_is_final` where an error stands for a client's request."""
    return False


def _nothing() -> None:
    """Count nothing: a success without a budget."""


def ticks(budget: Any) -> tuple[Callable[[], object] | None, Callable[[], object] | None]:
    """Return what is called at the start and at the end of a first attempt that succeeds; None: nothing."""
    if budget is None:
        return None, None
    if hasattr(budget, "on_start"):
        return budget.on_start, budget.on_success
    return budget.started, budget.success


_SUCCESS_PATH = """\
{{async_}}def {name}({{params}}):
{gate}{start}    _sp_began = _sp_moment
    try:
        _sp_result = {{await_}}_sp_call({{args}})
    except Exception as _sp_error:
        _sp_run = _sp_failed(_sp_error, _sp_began{given})
        if _sp_run is None:
            raise
        _sp_failure = _sp_error
    else:
        _sp_tick()
        if _sp_watchers:
            _sp_count()
            if _sp_first_try_subscribers:
                _sp_succeeded({{packed}})
        return _sp_result
    try:
        _sp_result = {{await_}}_sp_loop(_sp_run, _sp_call, {{packed}}, _sp_failure)
    finally:
        del _sp_failure, _sp_run
    return _sp_result
"""


def _template(starts: bool, inside: bool, fixed: bool) -> Template:
    name = f"retried{'_from_start' * starts}{'_inside' * inside}"
    gate, start = "" if inside else GATE, "    _sp_started()\n" * starts
    return Template(
        name,
        _SUCCESS_PATH.format(name=name, gate=gate, start=start, given="" if fixed else ", {packed}"),
    )


#: By whether the budget counts starts, whether a `Deadline` right outside has asked what the gate asks, and
#: whether the arguments of a call do not matter to what is known of it.
_RETRIED = {key: _template(*key) for key in product((False, True), repeat=3)}

#: For what must see the first attempt too: hooks, refused results, a budget chosen by the arguments.
_FOLLOWED = Template(
    "followed",
    "{async_}def followed({params}):\n"
    + GATE
    + "    _sp_result = {await_}_sp_loop(_sp_begin({packed}), _sp_call, {packed})\n    return _sp_result\n",
)
