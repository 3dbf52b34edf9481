"""The table of everything a policy file can hold: strategies, backoffs, budgets, limiters, and their options.

The loader, the writer and the schema all read this table; names and defaults of options come from
the constructors. ``code_only`` lists the options that only code can give (callables), so that a test
can distinguish an option left out on purpose from one forgotten.
"""

from __future__ import annotations

from .names import ExceptionName, On
from .values import (
    After,
    Anything,
    Count,
    Flag,
    Jitter,
    Number,
    PartTable,
    Rate,
    Seconds,
    Stored,
    Value,
    Waits,
    Word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Options that code may give a constructor, and a file cannot.
AMBIENT = frozenset({"clock", "rng"})

REQUIRED: object = type("Required", (), {"__repr__": lambda self: "<required>"})()


class Form:
    """One class that a file can describe: its options, and which of them a bare value stands for."""

    def __init__(
        self,
        home: str,
        options: dict[str, Value],
        *,
        short: str | None = None,
        code_only: tuple[str, ...] = (),
        about: str | None = None,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        #: The public name of the class, below ``stormproof``.
        self.home = home
        self.options = options
        self.short = short
        self.code_only = code_only
        self._about = about
        self._parameters = defaults

    @property
    def type(self) -> Any:
        """The class, imported when it is first needed."""
        from importlib import import_module

        module, _, name = f"stormproof.{self.home}".rpartition(".")
        return getattr(import_module(module), name)

    def about(self) -> str:
        """The class's docstring."""
        return (self.type.__doc__ or "") if self._about is None else self._about

    def defaults(self) -> dict[str, Any]:
        """The constructor's parameters and their defaults; `REQUIRED` where there is none."""
        if self._parameters is None:
            from inspect import Parameter, signature

            self._parameters = {
                name: REQUIRED if parameter.default is Parameter.empty else parameter.default
                for name, parameter in signature(self.type).parameters.items()
            }
        return self._parameters


class Family:
    """Classes of which an option holds one, selected by ``kind``; ``default`` is meant without it."""

    def __init__(self, default: str, forms: dict[str, Form]) -> None:
        self.default = default
        self.forms = forms


def _share(**more: Any) -> Number:
    return Number(exclusiveMinimum=0, maximum=1, **more)


def _positive(**more: Any) -> Seconds:
    return Seconds(exclusiveMinimum=0, **more)


def _span(**more: Any) -> Seconds:
    return Seconds(minimum=0, **more)


_CAPPED: dict[str, Value] = {"base": _positive(), "cap": _positive(), "jitter": Jitter(), "min": _span()}
_NAME = Word(none=True)
#: Options of objects that a fleet can share: the store, and the name there.
_FLEET: dict[str, Value] = {"store": Stored(), "name": _NAME}
_OBSERVE: dict[str, Value] = {"observe": Flag()}

STRATEGIES: dict[str, Form] = {
    "deadline": Form("Deadline", {"seconds": _span()}, short="seconds"),
    "fallback": Form("Fallback", {"value": Anything(), "on": On()}, short="value"),
    "retry": Form(
        "Retry",
        {
            "on": On(),
            "attempts": Count(minimum=1, none=True),
            "backoff": PartTable("backoff"),
            "within": _span(none=True),
            "budget": PartTable("budget", none=True),
            "max_hint": _span(infinite=True),
            "late": Word("stop", "clip"),
            "retry_exhausted": Flag(),
            "raises": Word("failure", "refusal"),
        },
        code_only=("on_result", "before_attempt", "on_retry", "commit"),
    ),
    "hedge": Form(
        "Hedge",
        {
            "after": After(minimum=0),
            "max": Count(minimum=2),
            "idempotent": Flag(),
            "budget": PartTable("budget", none=True),
            "on": On(),
        },
        code_only=("vary",),
    ),
    "breaker": Form(
        "Breaker",
        {
            "failure_ratio": _share(),
            "min_calls": Count(minimum=1),
            "window": _positive(none=True),
            "open_for": _positive(),
            "probes": Count(minimum=1),
            "probe_timeout": _positive(none=True),
            "consecutive": Count(minimum=1, none=True),
            "slow_call": _positive(none=True),
            "slow_ratio": _share(),
            "on": On(),
            "exclude": On(empty=True),
            "bucket": _positive(none=True),
            "open_growth": Number(minimum=1),
            "open_max": _positive(),
            "ramp": _span(),
            "quorum": Count(minimum=1),
            "count": Word("attempts", "calls"),
            **_OBSERVE,
            **_FLEET,
        },
        code_only=("trip", "on_state_change"),
    ),
    "rate_limit": Form(
        "RateLimit",
        {
            "limiter": PartTable("limiter"),
            "max_wait": _span(none=True),
            "cost": Count(minimum=0, none=True),
            **_OBSERVE,
        },
        short="limiter",
        code_only=("cost_of_result",),
    ),
    "bulkhead": Form(
        "Bulkhead",
        {
            "limit": Count(minimum=1),
            "queue": Count(minimum=0),
            "max_wait": _span(none=True),
            **_OBSERVE,
            **_FLEET,
        },
        short="limit",
    ),
    "throttle": Form(
        "Throttle",
        {
            "k": Number(minimum=1),
            "window": _positive(),
            "on": On(),
            "min_calls": Count(minimum=0),
            "max_rejection": _share(),
            **_OBSERVE,
            "name": _NAME,
        },
    ),
    "adaptive_limit": Form(
        "AdaptiveLimit",
        {
            "kind": Word("aimd", "vegas", "gradient2"),
            "initial": Count(minimum=1),
            "min": Count(minimum=1),
            "max": Count(minimum=1),
            "on": On(),
            "decrease": Number(minimum=0.5, exclusiveMaximum=1, none=True),
            "timeout": _positive(none=True),
            "smoothing": _share(none=True),
            "probe": Count(minimum=1, none=True),
            "tolerance": Number(minimum=1, none=True),
            "long_window": Count(minimum=1, none=True),
            "queue": Count(minimum=0, none=True),
            "name": _NAME,
        },
    ),
    "adaptive_rate": Form(
        "AdaptiveRate",
        {
            "on": On(),
            "max_wait": _span(none=True),
            "beta": Number(exclusiveMinimum=0, exclusiveMaximum=1),
            "scale": Number(exclusiveMinimum=0),
            "smoothing": _share(),
            "min_rate": Number(exclusiveMinimum=0),
            "name": _NAME,
        },
    ),
    "chaos": Form(
        "Chaos",
        {
            "fault": ExceptionName(none=True),
            "outcome": Anything(),
            "latency": _span(none=True),
            "rate": Number(minimum=0, maximum=1),
            "name": _NAME,
        },
        code_only=("behaviour", "when"),
    ),
    "timeout": Form("Timeout", {"seconds": _positive(), "thread": Flag()}, short="seconds"),
}

FAMILIES: dict[str, Family] = {
    "backoff": Family(
        "exponential",
        {
            "exponential": Form("Exponential", {**_CAPPED, "factor": Number(minimum=1)}),
            "decorrelated": Form(
                "Decorrelated",
                {"base": _positive(), "cap": _positive(), "clip": Word("range", "sample"), "min": _span()},
            ),
            "constant": Form("Constant", {"wait": _span(), "jitter": Jitter(), "min": _span()}),
            "linear": Form("Linear", dict(_CAPPED)),
            "fibonacci": Form("Fibonacci", dict(_CAPPED)),
            "schedule": Form("Schedule", {"values": Waits(), "jitter": Jitter(), "min": _span()}),
            "by_kind": Form(
                "ByKind",
                {
                    name: PartTable("backoff")
                    for name in ("default", "throttle", "timeout", "network", "server")
                },
            ),
            "hinted": Form(
                "presets.backoffs.HintedExponential",
                {**_CAPPED, "factor": Number(minimum=1), "hint": Word("restart", "replace")},
            ),
            "aws": Form(
                "presets.backoffs.AwsBackoff",
                {"base": _positive(), "throttle_base": _positive(none=True), "cap": _positive()},
            ),
            "grpc": Form(
                "presets.backoffs.GrpcBackoff",
                {"initial": _positive(), "maximum": _positive(), "multiplier": Number(exclusiveMinimum=0)},
            ),
            "polly": Form("presets.backoffs.PollyJitter", {"base": _positive(), "cap": _positive(none=True)}),
        },
    ),
    "budget": Family(
        "success",
        {
            "success": Form(
                "Budget",
                {
                    "ratio": Number(minimum=0),
                    "burst": Number(minimum=0),
                    "window": _positive(),
                    **_FLEET,
                    **_OBSERVE,
                },
            ),
            "window": Form(
                "WindowBudget",
                {"ratio": Number(minimum=0), "floor": Number(minimum=0), "window": _positive(), **_OBSERVE},
            ),
            "quota": Form(
                "QuotaBudget",
                {
                    "capacity": Number(exclusiveMinimum=0),
                    "retry_cost": Number(exclusiveMinimum=0),
                    "timeout_cost": Number(exclusiveMinimum=0),
                    "success_credit": Number(minimum=0),
                    "throttle_cost": Number(exclusiveMinimum=0, none=True),
                    **_OBSERVE,
                },
            ),
            "throttle": Form(
                "ThrottleBudget",
                {
                    "max_tokens": Number(exclusiveMinimum=0, maximum=1000),
                    "token_ratio": Number(minimum=0.001),
                    **_OBSERVE,
                },
            ),
            "rate": Form(
                "RateBudget",
                {
                    "rate": Rate(minimum=0, infinite=True),
                    "burst": Count(minimum=0),
                    "wait": Flag(),
                    **_FLEET,
                    **_OBSERVE,
                },
            ),
        },
    ),
    "limiter": Family(
        "bucket",
        {
            "bucket": Form(
                "Limiter",
                {"rate": Rate(minimum=0, infinite=True), "burst": Count(minimum=0), **_OBSERVE, **_FLEET},
            ),
            "pacer": Form(
                "Pacer", {"rate": Rate(exclusiveMinimum=0, infinite=True), "burst": Count(minimum=1)}
            ),
        },
    ),
}

#: The table ``[store]``: where a fleet's state is.
STORE = Form(
    "redis.RedisStore",
    {
        "url": Word(),
        "prefix": Word(),
        "timeout": _positive(),
        "on_failure": Word("local", "open", "closed"),
        "cluster": Flag(none=True),
        "instances": Count(minimum=1),
    },
    # Written out, since the class itself needs redis-py, and the schema has to do without it.
    about="Redis >= 6.2 or Valkey as the shared state of a fleet.",
    defaults={
        "url": REQUIRED,
        "prefix": "sp",
        "timeout": 0.03,
        "on_failure": "local",
        "cluster": None,
        "instances": 1,
    },
)

#: Objects that policies share by name: the section of the file, and the family or strategy in it.
SECTIONS = {"budgets": "budget", "limiters": "limiter", "breakers": "breaker", "bulkheads": "bulkhead"}

#: The section in which an option's or a strategy's name is looked up.
SECTION_OF = {kind: section for section, kind in SECTIONS.items()}


def form_of(table: dict[str, Form], instance: object) -> tuple[str, Form] | None:
    """The name and form of ``instance``'s exact class, if the table has it."""
    module, name = type(instance).__module__, type(instance).__qualname__
    for kind, form in table.items():
        # By name first, so that looking for one class does not import all the others.
        if (
            form.home.rpartition(".")[2] == name
            and module.startswith("stormproof")
            and form.type is type(instance)
        ):
            return kind, form
    return None
