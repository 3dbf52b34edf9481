"""Stormproof: retries that cannot become the outage."""

from __future__ import annotations

from ._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import aiohttp as aiohttp
    from . import asgi as asgi
    from . import celery as celery
    from . import dramatiq as dramatiq
    from . import events as events
    from . import grpc as grpc
    from . import httpx as httpx
    from . import httpx2 as httpx2
    from . import idempotency as idempotency
    from . import lab as lab
    from . import logging as logging
    from . import otel as otel
    from . import presets as presets
    from . import prometheus as prometheus
    from . import redis as redis
    from . import requests as requests
    from . import tenacity as tenacity
    from . import testing as testing
    from . import urllib3 as urllib3
    from . import wsgi as wsgi
    from ._classify.classifier import Classifier as Classifier
    from ._classify.classifier import transient as transient
    from ._classify.exhaustion import Stopped as Stopped
    from ._classify.stops import stopped as stopped
    from ._classify.verdict import Verdict as Verdict
    from ._config.errors import ConfigError as ConfigError
    from ._config.registry import Registry as Registry
    from ._config.registry import load as load
    from ._config.registry import to_data as to_data
    from ._context.attempts import Attempt as Attempt
    from ._context.attempts import attempt as attempt
    from ._context.carrier import carry as carry
    from ._context.deadlines import Scope as Scope
    from ._context.deadlines import deadline as deadline
    from ._context.deadlines import disabled as disabled
    from ._context.deadlines import remaining as remaining
    from ._drivers.pause import sleep as sleep
    from ._drivers.pause import sleep_async as sleep_async
    from ._events.bus import subscribe as subscribe
    from ._policy.checks import PolicyWarning as PolicyWarning
    from ._policy.checks import WorstCase as WorstCase
    from ._policy.policy import Policy as Policy
    from ._policy.policy import retry as retry
    from ._policy.policy import retrying as retrying
    from ._primitives.errors import AttemptTimeout as AttemptTimeout
    from ._primitives.errors import BudgetExhausted as BudgetExhausted
    from ._primitives.errors import BulkheadFull as BulkheadFull
    from ._primitives.errors import Cancelled as Cancelled
    from ._primitives.errors import CircuitOpen as CircuitOpen
    from ._primitives.errors import DeadlineExceeded as DeadlineExceeded
    from ._primitives.errors import Permanent as Permanent
    from ._primitives.errors import RateLimited as RateLimited
    from ._primitives.errors import RetryAfter as RetryAfter
    from ._primitives.errors import StormproofError as StormproofError
    from ._primitives.errors import Throttled as Throttled
    from ._programs.once import once as once
    from ._programs.reconnect_loop import ConnectionLost as ConnectionLost
    from ._programs.reconnecting import reconnecting as reconnecting
    from ._programs.worker import Worker as Worker
    from ._programs.worker_run import WorkerStopped as WorkerStopped
    from ._strategies.adaptive.limit import AdaptiveLimit as AdaptiveLimit
    from ._strategies.adaptive.rate import AdaptiveRate as AdaptiveRate
    from ._strategies.breaker.breaker import Breaker as Breaker
    from ._strategies.budget.budget import Budget as Budget
    from ._strategies.budget.other_systems import QuotaBudget as QuotaBudget
    from ._strategies.budget.other_systems import RateBudget as RateBudget
    from ._strategies.budget.other_systems import ThrottleBudget as ThrottleBudget
    from ._strategies.budget.other_systems import WindowBudget as WindowBudget
    from ._strategies.bulkhead.bulkhead import Bulkhead as Bulkhead
    from ._strategies.chaos import Chaos as Chaos
    from ._strategies.chaos import chaos as chaos
    from ._strategies.deadline import Deadline as Deadline
    from ._strategies.fallback import Fallback as Fallback
    from ._strategies.hedge.hedge import Hedge as Hedge
    from ._strategies.keyed import keyed as keyed
    from ._strategies.limiter.limiter import Limiter as Limiter
    from ._strategies.limiter.pacer import Pacer as Pacer
    from ._strategies.limiter.rate_limit import RateLimit as RateLimit
    from ._strategies.limiter.waiting import Reservation as Reservation
    from ._strategies.retry.backoff import Backoff as Backoff
    from ._strategies.retry.backoff import Constant as Constant
    from ._strategies.retry.backoff import Decorrelated as Decorrelated
    from ._strategies.retry.backoff import Exponential as Exponential
    from ._strategies.retry.backoff import Fibonacci as Fibonacci
    from ._strategies.retry.backoff import Linear as Linear
    from ._strategies.retry.backoff import Schedule as Schedule
    from ._strategies.retry.by_kind import ByKind as ByKind
    from ._strategies.retry.jitter import Symmetric as Symmetric
    from ._strategies.retry.retry import Retry as Retry
    from ._strategies.throttle import Throttle as Throttle
    from ._strategies.timeout import Timeout as Timeout
    from .idempotency.once_per_key import idempotent as idempotent
    from .presets.from_tenacity import policy_from_tenacity as policy_from_tenacity
    from .presets.policy_of import policy_of as policy_of

#: Where each public name lives. A module loads when one of its names is first used (PEP 562).
_HOMES = {
    "_classify.classifier": "Classifier transient",
    "_classify.exhaustion": "Stopped",
    "_classify.stops": "stopped",
    "_classify.verdict": "Verdict",
    "_config.errors": "ConfigError",
    "_config.registry": "Registry load to_data",
    "_context.attempts": "Attempt attempt",
    "_context.carrier": "carry",
    "_context.deadlines": "Scope deadline disabled remaining",
    "_drivers.pause": "sleep sleep_async",
    "_events.bus": "subscribe",
    "_policy.checks": "PolicyWarning WorstCase",
    "_policy.policy": "Policy retry retrying",
    "_primitives.errors": "AttemptTimeout BudgetExhausted BulkheadFull Cancelled CircuitOpen "
    "DeadlineExceeded Permanent RateLimited RetryAfter StormproofError "
    "Throttled",
    "_programs.once": "once",
    "_programs.reconnect_loop": "ConnectionLost",
    "_programs.reconnecting": "reconnecting",
    "_programs.worker": "Worker",
    "_programs.worker_run": "WorkerStopped",
    "_strategies.adaptive.limit": "AdaptiveLimit",
    "_strategies.adaptive.rate": "AdaptiveRate",
    "_strategies.breaker.breaker": "Breaker",
    "_strategies.budget.budget": "Budget",
    "_strategies.budget.other_systems": "QuotaBudget RateBudget ThrottleBudget WindowBudget",
    "_strategies.bulkhead.bulkhead": "Bulkhead",
    "_strategies.chaos": "Chaos chaos",
    "_strategies.deadline": "Deadline",
    "_strategies.fallback": "Fallback",
    "_strategies.hedge.hedge": "Hedge",
    "_strategies.keyed": "keyed",
    "_strategies.limiter.limiter": "Limiter",
    "_strategies.limiter.pacer": "Pacer",
    "_strategies.limiter.rate_limit": "RateLimit",
    "_strategies.limiter.waiting": "Reservation",
    "_strategies.retry.backoff": "Backoff Constant Decorrelated Exponential Fibonacci Linear Schedule",
    "_strategies.retry.by_kind": "ByKind",
    "_strategies.retry.jitter": "Symmetric",
    "_strategies.retry.retry": "Retry",
    "_strategies.throttle": "Throttle",
    "_strategies.timeout": "Timeout",
    "idempotency.once_per_key": "idempotent",
    "presets.from_tenacity": "policy_from_tenacity",
    "presets.policy_of": "policy_of",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
# Type checkers read the imports above.
__all__ = sorted([*_HOME, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]  # noqa: PLE0605
#: Modules reached as attributes. Those that stand on another library import it when first used.
_MODULES = (
    "aiohttp asgi celery dramatiq events grpc httpx httpx2 idempotency lab logging "
    "otel presets prometheus redis requests tenacity testing urllib3 wsgi"
).split()


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOME:
            from ._primitives.guesses import near

            meant = None if name.startswith("_") else near(name, __all__)
            hint = f"; did you mean {meant}?" if meant else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        home = import_module(f"{__name__}.{_HOME[name]}")
        for export in _HOMES[_HOME[name]].split():
            value = getattr(home, export)
            if getattr(value, "__module__", "").startswith(__name__ + ".") and hasattr(value, "__qualname__"):
                # So that tracebacks and reprs say where users import it from.
                value.__module__ = __name__
            globals()[export] = value
        return globals()[name]
