"""Holdfast: retries that cannot become the outage."""

from __future__ import annotations

from ._version import __version__

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
    from . import testing as testing
    from . import urllib3 as urllib3
    from . import wsgi as wsgi
    from .adaptive import AdaptiveLimit as AdaptiveLimit
    from .adaptive_rate import AdaptiveRate as AdaptiveRate
    from .attempts import Attempt as Attempt
    from .attempts import attempt as attempt
    from .backoff import Backoff as Backoff
    from .backoff import Constant as Constant
    from .backoff import Decorrelated as Decorrelated
    from .backoff import Exponential as Exponential
    from .backoff import Fibonacci as Fibonacci
    from .backoff import Linear as Linear
    from .backoff import Schedule as Schedule
    from .breaker import Breaker as Breaker
    from .budget import Budget as Budget
    from .bulkhead import Bulkhead as Bulkhead
    from .bus import subscribe as subscribe
    from .chaotic import Chaos as Chaos
    from .chaotic import chaos as chaos
    from .classify import Classifier as Classifier
    from .classify import Verdict as Verdict
    from .classify import transient as transient
    from .compose import PolicyWarning as PolicyWarning
    from .compose import WorstCase as WorstCase
    from .config.problem import ConfigError as ConfigError
    from .deadlines import Deadline as Deadline
    from .deadlines import Scope as Scope
    from .deadlines import carry as carry
    from .deadlines import deadline as deadline
    from .deadlines import disabled as disabled
    from .deadlines import remaining as remaining
    from .errors import AttemptTimeout as AttemptTimeout
    from .errors import BudgetExhausted as BudgetExhausted
    from .errors import BulkheadFull as BulkheadFull
    from .errors import Cancelled as Cancelled
    from .errors import CircuitOpen as CircuitOpen
    from .errors import DeadlineExceeded as DeadlineExceeded
    from .errors import HoldfastError as HoldfastError
    from .errors import Permanent as Permanent
    from .errors import RateLimited as RateLimited
    from .errors import RetryAfter as RetryAfter
    from .errors import Throttled as Throttled
    from .fallback import Fallback as Fallback
    from .hedge import Hedge as Hedge
    from .idempotency.once_per_key import idempotent as idempotent
    from .jitter import Symmetric as Symmetric
    from .keys import keyed as keyed
    from .limiter import Limiter as Limiter
    from .limiter import Reservation as Reservation
    from .pacer import Pacer as Pacer
    from .policy import Policy as Policy
    from .policy import retry as retry
    from .policy import retrying as retrying
    from .quotas import QuotaBudget as QuotaBudget
    from .quotas import RateBudget as RateBudget
    from .quotas import ThrottleBudget as ThrottleBudget
    from .quotas import WindowBudget as WindowBudget
    from .rate_limit import RateLimit as RateLimit
    from .reconnect import reconnecting as reconnecting
    from .registry import Registry as Registry
    from .registry import load as load
    from .registry import to_data as to_data
    from .retries import Retry as Retry
    from .shift import WorkerStopped as WorkerStopped
    from .singly import once as once
    from .streak import ConnectionLost as ConnectionLost
    from .throttle import Throttle as Throttle
    from .timeouts import Timeout as Timeout
    from .worker import Worker as Worker

__all__ = [
    "AdaptiveLimit",
    "AdaptiveRate",
    "Attempt",
    "AttemptTimeout",
    "Backoff",
    "Breaker",
    "Budget",
    "BudgetExhausted",
    "Bulkhead",
    "BulkheadFull",
    "Cancelled",
    "Chaos",
    "CircuitOpen",
    "Classifier",
    "ConfigError",
    "ConnectionLost",
    "Constant",
    "Deadline",
    "DeadlineExceeded",
    "Decorrelated",
    "Exponential",
    "Fallback",
    "Fibonacci",
    "Hedge",
    "HoldfastError",
    "Limiter",
    "Linear",
    "Pacer",
    "Permanent",
    "Policy",
    "PolicyWarning",
    "QuotaBudget",
    "RateBudget",
    "RateLimit",
    "RateLimited",
    "Registry",
    "Reservation",
    "Retry",
    "RetryAfter",
    "Schedule",
    "Scope",
    "Symmetric",
    "Throttle",
    "ThrottleBudget",
    "Throttled",
    "Timeout",
    "Verdict",
    "WindowBudget",
    "Worker",
    "WorkerStopped",
    "WorstCase",
    "__version__",
    "attempt",
    "carry",
    "chaos",
    "deadline",
    "disabled",
    "idempotent",
    "keyed",
    "load",
    "once",
    "reconnecting",
    "remaining",
    "retry",
    "retrying",
    "subscribe",
    "to_data",
    "transient",
]

#: Where each public name lives. A module loads when one of its names is first used (PEP 562).
_HOMES = {
    "adaptive": ("AdaptiveLimit",),
    "adaptive_rate": ("AdaptiveRate",),
    "attempts": ("Attempt", "attempt"),
    "backoff": ("Backoff", "Constant", "Decorrelated", "Exponential", "Fibonacci", "Linear", "Schedule"),
    "breaker": ("Breaker",),
    "budget": ("Budget",),
    "bulkhead": ("Bulkhead",),
    "bus": ("subscribe",),
    "chaotic": ("Chaos", "chaos"),
    "classify": ("Classifier", "Verdict", "transient"),
    "compose": ("PolicyWarning", "WorstCase"),
    "config.problem": ("ConfigError",),
    "deadlines": ("Deadline", "Scope", "carry", "deadline", "disabled", "remaining"),
    "errors": (
        "AttemptTimeout",
        "BudgetExhausted",
        "BulkheadFull",
        "Cancelled",
        "CircuitOpen",
        "DeadlineExceeded",
        "HoldfastError",
        "Permanent",
        "RateLimited",
        "RetryAfter",
        "Throttled",
    ),
    "fallback": ("Fallback",),
    "hedge": ("Hedge",),
    "idempotency.once_per_key": ("idempotent",),
    "jitter": ("Symmetric",),
    "keys": ("keyed",),
    "limiter": ("Limiter", "Reservation"),
    "pacer": ("Pacer",),
    "policy": ("Policy", "retry", "retrying"),
    "quotas": ("QuotaBudget", "RateBudget", "ThrottleBudget", "WindowBudget"),
    "rate_limit": ("RateLimit",),
    "reconnect": ("reconnecting",),
    "registry": ("Registry", "load", "to_data"),
    "retries": ("Retry",),
    "shift": ("WorkerStopped",),
    "singly": ("once",),
    "streak": ("ConnectionLost",),
    "throttle": ("Throttle",),
    "timeouts": ("Timeout",),
    "worker": ("Worker",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
#: Modules reached as attributes. Those that stand on another library import it when first used.
_MODULES = (
    "aiohttp",
    "asgi",
    "celery",
    "dramatiq",
    "events",
    "grpc",
    "httpx",
    "httpx2",
    "idempotency",
    "lab",
    "logging",
    "otel",
    "presets",
    "prometheus",
    "redis",
    "requests",
    "testing",
    "urllib3",
    "wsgi",
)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as missing:
                # The extra that brings it is called as the module is.
                missing.add_note(f"holdfast.{name} needs it: pip install 'holdfast[{name}]'")
                raise
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(f"{__name__}.{_HOME[name]}")
        for export in _HOMES[_HOME[name]]:
            found = getattr(home, export)
            if getattr(found, "__module__", "").startswith(__name__ + ".") and hasattr(found, "__qualname__"):
                # So that tracebacks and reprs say where users import it from.
                found.__module__ = __name__
            globals()[export] = found
        return globals()[name]
