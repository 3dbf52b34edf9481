"""The public contract, name by name: what users import, with which options, and what they default to."""

from __future__ import annotations

import importlib
import inspect
import math
from typing import Any

import pytest

import stormproof as sp

REFUSALS = ("BudgetExhausted", "DeadlineExceeded", "CircuitOpen", "RateLimited", "BulkheadFull", "Throttled")

_ANY = object()

#: Call shapes: options and their defaults; `_ANY` where the default is not part of the contract.
SHAPES: dict[str, dict[str, Any]] = {
    "Exponential": {"base": 0.1, "factor": 2.0, "cap": 5.0, "jitter": "full", "min": 0.0},
    "Decorrelated": {"base": 0.1, "cap": 5.0, "clip": "range"},
    "Constant": {"jitter": "none"},
    "Linear": {"base": 0.1, "cap": 5.0, "jitter": "full"},
    "Fibonacci": {},
    "Schedule": {},
    "Symmetric": {},
    "ByKind": {"default": _ANY, "throttle": _ANY, "timeout": _ANY, "network": _ANY, "server": _ANY},
    "Deadline": {"seconds": _ANY},
    "Fallback": {"on": _ANY},
    "Retry": {
        "on": sp.transient,
        "attempts": 4,
        "backoff": _ANY,
        "within": 30.0,
        "budget": _ANY,
        "on_result": None,
        "max_hint": 60.0,
        "late": "stop",
        "retry_exhausted": False,
        "before_attempt": None,
        "raises": "failure",
        "on_retry": None,
        "commit": None,
    },
    "Hedge": {"after": _ANY, "max": 2, "idempotent": False, "budget": _ANY},
    "Breaker": {
        "failure_ratio": 0.5,
        "min_calls": 20,
        "window": 60,
        "open_for": 30,
        "probes": 1,
        "probe_timeout": 30,
        "consecutive": None,
        "slow_call": None,
        "slow_ratio": 1.0,
        "trip": None,
        "on": Exception,
        "exclude": (),
        "bucket": None,
        "name": None,
        "count": "attempts",
        "on_state_change": None,
        "observe": False,
        "store": None,
        "clock": None,
        "rng": None,
    },
    "RateLimit": {"limiter": _ANY, "observe": False},
    "Bulkhead": {"limit": _ANY, "queue": 0, "max_wait": 0, "store": None, "name": None, "observe": False},
    "Throttle": {"k": 2.0, "window": 120, "observe": False},
    "Timeout": {"seconds": _ANY},
    "Policy": {"name": None, "clock": None, "rng": None},
    "retry": {"on": _ANY, "attempts": 4, "on_retry": None, "commit": None},
    "retrying": {"on": _ANY, "attempts": 4},
    "Budget": {"ratio": 0.1, "burst": 3, "window": 10.0, "store": None, "name": None, "observe": False},
    "WindowBudget": {"ratio": 0.2, "floor": 10.0, "window": 10.0, "observe": False},
    "QuotaBudget": {
        "capacity": 500,
        "retry_cost": 5,
        "timeout_cost": 10,
        "success_credit": 1,
        "observe": False,
    },
    "ThrottleBudget": {"max_tokens": 10, "token_ratio": 0.1, "observe": False},
    "RateBudget": {"rate": _ANY, "burst": _ANY, "wait": False, "observe": False},
    "Limiter": {"rate": _ANY, "burst": _ANY, "store": None, "name": None, "clock": None, "observe": False},
    "deadline": {"limit": _ANY},
    "sleep": {"seconds": _ANY},
    "sleep_async": {"seconds": _ANY},
    "Permanent": {},
    "RetryAfter": {"seconds": _ANY, "cause": _ANY},
    "once": {"policy": _ANY},
    "reconnecting": {"connect": _ANY, "policy": _ANY},
    "Worker": {"handler": _ANY, "policy": _ANY, "concurrency": 8},
    "testing.FakeClock": {"start": 0.0},
    "testing.off": {},
    "testing.instant": {},
    "idempotency.MemoryStore": {},
    "idempotency.SqliteStore": {"path": _ANY},
    "lab.simulate": {"seed": _ANY, "engine": "auto"},
    "lab.compare": {"seeds": _ANY, "executor": None},
    "lab.occ": {"clients": 100, "runs": 100, "seed": 0},
    "redis.RedisStore": {"prefix": "sp", "timeout": 0.03, "on_failure": "local"},
    "httpx.Transport": {"policy": _ANY, "transport": None},
    "httpx.AsyncTransport": {"policy": _ANY, "transport": None},
    "grpc.interceptors": {"policy": _ANY},
    "grpc.aio_interceptors": {"policy": _ANY},
}

#: Attributes and methods of what these make.
MEMBERS: dict[str, tuple[Any, str]] = {
    "backoff": (sp.Constant(1), "delay ceiling delays"),
    "policy": (sp.Policy(), "call acall with_ describe worst_case retrying"),
    "budget": (sp.Budget(), "started success failure withdraw balance shortage"),
    "limiter": (sp.Limiter(1, 1), "allow reserve wait wait_async tokens set_rate set_burst rate burst"),
    "breaker": (sp.Breaker(), "state counts force_open force_closed reset admit"),
    "ticket": (sp.Breaker().admit(), "success failure cancel"),
    "counts": (
        sp.Breaker().counts,
        "requests successes failures excluded consecutive_successes consecutive_failures",
    ),
    "reservation": (sp.Limiter(1, 1).reserve(), "ok delay cancel"),
    "attempt": (sp.Attempt("op", 1, None), "number last_error remaining args kwargs"),
    "clock": (sp.testing.FakeClock(), "now advance sleeps"),
    "scope": (sp.deadline(1), "cancel"),
    "stopped": (sp.Stopped("attempts", 1, 0.0, None), "reason attempts elapsed retry_after"),
}

NAMES = """
 AttemptTimeout BudgetExhausted BulkheadFull Cancelled CircuitOpen DeadlineExceeded RateLimited
StormproofError Throttled AdaptiveLimit Chaos Registry Reservation Verdict attempt carry disabled
keyed load policy_from_tenacity remaining stopped subscribe transient presets.aws_standard
presets.aws_v2_1 presets.grpc presets.cenkalti presets.retryablehttp presets.stripe presets.google
presets.finagle requests.Adapter aiohttp.middleware grpc.from_service_config grpc.to_service_config
asgi.DeadlineMiddleware asgi.IdempotencyMiddleware asgi.SheddingMiddleware prometheus otel logging
celery dramatiq idempotency.RedisStore tenacity.budgeted tenacity.stop_at_deadline
tenacity.wait_hinted compat.tenacity compat.stamina compat.backoff lab.Scenario lab.Outage
lab.Comparison lab.BackendError
""".split()


def find(path: str) -> Any:
    found: Any = sp
    for part in path.split("."):
        if not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", [*SHAPES, *NAMES])
def test_contract_name_exists(path: str) -> None:
    assert find(path) is not None


@pytest.mark.parametrize("path", SHAPES)
def test_options_exist_with_their_defaults(path: str) -> None:
    parameters = inspect.signature(find(path)).parameters
    for option, default in SHAPES[path].items():
        assert option in parameters, f"{path} takes {', '.join(parameters)}"
        if default is not _ANY:
            assert parameters[option].default == default, f"{path}({option}=)"


@pytest.mark.parametrize("kind", MEMBERS)
def test_contract_members_exist(kind: str) -> None:
    made, names = MEMBERS[kind]
    missing = [name for name in names.split() if not hasattr(made, name)]
    assert not missing


def test_errors_have_their_documented_base_classes() -> None:
    assert issubclass(sp.DeadlineExceeded, TimeoutError) and issubclass(sp.AttemptTimeout, TimeoutError)
    for name in (*REFUSALS, "AttemptTimeout", "Cancelled"):
        assert issubclass(getattr(sp, name), sp.StormproofError)


def test_limiter_takes_any_rate() -> None:
    assert sp.Limiter(math.inf, 1).allow() and sp.Limiter(0, 1).allow()


def test_on_is_required_by_the_decorator() -> None:
    assert inspect.signature(sp.retry).parameters["on"].default is inspect.Parameter.empty
