"""Policy files in each format, the environment laid over them, and gRPC service configs."""

from __future__ import annotations

import copy
import json
import warnings
from typing import Any

from stormproof._config.catalog import SECTIONS
from stormproof._config.detached import detached
from stormproof._config.errors import ConfigError, Document
from stormproof._config.overrides import overridden
from stormproof._config.registry import Registry
from stormproof._config.sources import parse
from stormproof._policy.checks import PolicyWarning
from stormproof._policy.policy import Policy
from stormproof.presets import from_service_config, to_service_config
from stormproof.presets.service_config import grpc, grpc_throttle
from stormproof.presets.service_config_text import LossyServiceConfig

from ..model import Target, must, text


def _read(written: str, suffix: str) -> Document | None:
    """The document, or None if it is refused; the line of every key, and none beside the file."""
    try:
        document = parse(written, suffix)
    except ConfigError as error:
        last = written.count("\n") + 1
        # PyYAML ends a line at more characters than a newline.
        must(
            error.line is None or 1 <= error.line <= max(last, len(written.splitlines()) + 1), "no such line"
        )
        return None
    _check_lines(document, written, suffix)
    return document


def _check_lines(document: Document, written: str, suffix: str) -> None:
    last = written.count("\n") + 1
    if suffix == ".yaml":
        last = max(last, len(written.splitlines()))
    for path, line in document.lines.items():
        must(1 <= line <= last, f"{path} is said to stand on line {line} of {last}")
    if suffix == ".yaml":
        return
    paths = set(_paths(document.data, ()))
    must(paths == document.lines.keys(), f"keys without a line, or lines without a key: {written!r}")


def _paths(value: Any, path: tuple[str | int, ...]) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _built(document: Document) -> None:
    """A registry that writes itself down and is read back as the same, or ConfigError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PolicyWarning)
        try:
            # Without the modules and stores that a text could reach: it may come from anywhere.
            registry = Registry(lambda: detached(document, only=("json.JSONDecodeError",)), environ={})
        except ConfigError as error:
            must(str(error) and len(error.message) < 5000, "an error must say something, in short")
            return
        try:
            written = registry.dump()
        except ConfigError:
            # A value of a fallback that only YAML or TOML can hold: a date, a set.
            return
        again = Registry.from_data(written)
    must(list(map(repr, again.values())) == list(map(repr, registry.values())), "not read back as the same")
    must(again.dump() == written, "not written as the same")
    json.dumps(registry.describe(), allow_nan=False)


def _check_file(suffix: str) -> Any:
    def check(data: bytes) -> None:
        document = _read(text(data), suffix)
        if document is not None:
            _built(document)

    return check


_TABLE: dict[str, Any] = {
    "budgets": {"partner": {"ratio": 0.2}, "fraud-score": {"kind": "quota"}},
    "limiters": {"partner": "100/s burst 5"},
    "breakers": {"all": {"open_for": "5s"}},
    "policies": {
        "fraud-score": {
            "deadline": "10s",
            "retry": {"attempts": 3, "backoff": {"base": "100ms", "jitter": "full"}, "budget": "partner"},
            "breaker": {},
            "timeout": 2,
        },
        "search": {
            "strategies": [{"retry": {"backoff": {"kind": "schedule", "waits": [1, 2]}}}, {"hedge": {}}]
        },
        "slow": {"rate_limit": {"limiter": {"rate": 5, "burst": 1}}, "fallback": {"value": [1, {"a": None}]}},
    },
}
_DOCUMENTS: tuple[Any, ...] = (
    _TABLE,
    {},
    {"policies": {}},
    [],
    None,
    {"policies": [1], "budgets": 5, "limiters": "x", "breakers": None, "store": 3},
    {"policies": {1: {}, None: {}, "a": 1, "A": 2}, "budgets": {2: 3}},
)


def check_environment(data: bytes) -> None:
    """``NAME=value`` a line, laid over a document: ConfigError, or a document beside the first one, which
    stays as it is. What fits nothing is an error that names the variable.
    """
    place, rest = (data[0], data[1:]) if data else (0, b"")
    document = Document(copy.deepcopy(_DOCUMENTS[place % len(_DOCUMENTS)]))
    before = repr(document.data)
    pairs = (line.partition("=") for line in text(rest).split("\n"))
    environ = {f"STORMPROOF_{name}": value for name, equals, value in pairs if equals}
    try:
        laid = overridden(document, environ, "STORMPROOF")
    except ConfigError as error:
        must(any(name in str(error) for name in environ), f"an error that names no variable: {error}")
    else:
        _built(laid)
    must(repr(document.data) == before, "the document itself must not change")


def check_service_config(data: bytes) -> None:
    """Policies or ConfigError. What is written without a loss is read back as the same policies."""
    written = text(data)
    try:
        policies = from_service_config(written)
    except ConfigError:
        _refused(lambda: grpc(written, "pkg.Search/Find"), optional=True)
        _refused(lambda: grpc_throttle(written), optional=True)
        return
    must(all(isinstance(policy, Policy) for policy in policies.values()), "must be policies")
    must(isinstance(grpc(written, "pkg.Search/Find"), Policy), "every method must have a policy")
    try:
        config = to_service_config(policies)
    except LossyServiceConfig:
        config = to_service_config(policies, lossy=True)
        from_service_config(config)
        return
    again = from_service_config(config)
    must(
        {name: repr(policy) for name, policy in again.items()}
        == {name.strip("/"): repr(policy) for name, policy in policies.items()},
        "not read back as the same",
    )


def _refused(call: Any, optional: bool) -> None:
    try:
        call()
    except ConfigError:
        return
    must(optional, "must be refused")


_TOML = """\
[budgets.partner]
ratio = 0.1
burst = 10

[limiters]
partner = "100/s burst 5"

[policies.fraud]
deadline = "10s"
retry = { attempts = 3, on = ["transient", "json.JSONDecodeError"], budget = "partner" }
breaker = { failure_ratio = 0.5, open_for = "30s" }
timeout = "2s"

[policies.search] # a comment
strategies = [
  { retry = { backoff = { kind = "linear", base = "50ms", jitter = { symmetric = 0.5 } } } },
  { hedge = { after = "p95", idempotent = true } },
]
"""
_BITS = (
    '"',
    "'",
    '"""',
    "'''",
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    ",",
    ":",
    "=",
    "#",
    "\n",
    "\r\n",
    " ",
    "\\",
    "\\u0041",
    ".",
    "-",
    "policies",
    "strategies",
    "retry",
    "attempts",
    "backoff",
    "base",
    "cap",
    "kind",
    "jitter",
    "budget",
    "budgets",
    "limiters",
    "breakers",
    "bulkheads",
    "store",
    "deadline",
    "timeout",
    "breaker",
    "hedge",
    "after",
    "rate_limit",
    "limiter",
    "rate",
    "burst",
    "fallback",
    "value",
    "chaos",
    "fault",
    "throttle",
    "adaptive_limit",
    "bulkhead",
    "limit",
    "queue",
    "max_wait",
    "on",
    "waits",
    "transient",
    "none",
    "null",
    "true",
    "false",
    "inf",
    "nan",
    "1e400",
    "0xffffffffffffffffffff",
    "-1",
    "0",
    "1",
    "3.5",
    "1979-05-27",
    "07:32:00",
    "100ms",
    "p95",
    "x-",
    "10/s",
    "ConnectionError",
    "quota",
    "window",
    "schedule",
    "symmetric",
    "[a]\n",
    "a.b.c",
    "\ufeff",
    "\x0c",
    "\u2028",
)
_YAML_BITS = (
    "&a",
    "*a",
    "<<: *a",
    "!!bool",
    "!!int",
    "!!float",
    "!!timestamp",
    "!!set",
    "!!omap",
    "!!binary",
    "!!null",
    "---\n",
    "...",
    "? ",
    "- ",
    "| ",
    "> ",
    "%YAML 1.1\n",
    "0b1",
    "1:60",
    "0o7",
    "~",
    "  ",
)
_SERVICE = {
    "methodConfig": [
        {
            "name": [{"service": "pkg.Search"}, {"service": "pkg.Other", "method": "Find"}, {}],
            "timeout": "1.5s",
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", 8],
            },
        },
        {
            "name": [{"service": "pkg.Search", "method": "Find"}],
            "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["ABORTED"]},
        },
    ],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
}


def _variants() -> tuple[str, ...]:
    """The seeds of the JSON and YAML files: every document of ours, and one for each kind of option."""
    return tuple(json.dumps(document, default=str) for document in (_TABLE, {"policies": {}}, *_each_kind()))


def _each_kind() -> Any:
    from stormproof._config.catalog import FAMILIES

    for family, option in (("backoff", "backoff"), ("budget", "budget")):
        for kind in FAMILIES[family].forms:
            yield {"policies": {"p": {"retry": {option: {"kind": kind}}}}}
    for section in SECTIONS:
        yield {section: {"shared": {}}, "policies": {"p": {"retry": {}}}}


TARGETS = (
    Target(
        "policy-toml",
        "policy files in TOML, and the line of every key",
        _check_file(".toml"),
        (
            _TOML,
            "[policies.a.retry]\n[policies.'b c']\ntimeout = 1\n[[x-list]]\na.b = 1\n[[x-list]]\n",
            "[policies.p]\nretry = { attempts = 0xFF, within = 1_000 }\nx = [1, [2, {a = '''x'''''}]]\n",
            'x-a."b\\"c".d = """q\\\n  ""\\"""""\n[policies]\n',
        ),
        _BITS,
        longest=1500,
        slowest_s=2.0,
    ),
    Target(
        "policy-json",
        "policy files in JSON, and the line of every key",
        _check_file(".json"),
        _variants(),
        _BITS,
        longest=1500,
        slowest_s=2.0,
    ),
    Target(
        "policy-yaml",
        "policy files in YAML",
        _check_file(".yaml"),
        (
            "policies:\n  a:\n    retry:\n      attempts: 3\n      on: [transient]\n    timeout: 2s\n",
            "x-d: &d\n  attempts: 2\npolicies:\n  a: {retry: {<<: *d, within: 5s}}\n  b: {retry: *d}\n",
            "policies:\n  p:\n    fallback: {value: !!set {a, b}}\n",
            *_variants()[:4],
        ),
        (*_BITS, *_YAML_BITS),
        longest=600,
        slowest_s=4.0,
    ),
    Target(
        "environment",
        "environment variables laid over a policy file",
        check_environment,
        (
            b"\x00FRAUD_SCORE__RETRY__ATTEMPTS=2\nFRAUD_SCORE__TIMEOUT=3s",
            b"\x00FRAUD_SCORE__RETRY__BACKOFF__BASE=5ms\nFRAUD_SCORE__RETRY__ON=transient,OSError",
            b"\x00BUDGETS__PARTNER__RATIO=0.5\nLIMITERS__PARTNER__RATE=3",
            b"\x00SEARCH__RETRY__BACKOFF__WAITS=1,2s,3\nSEARCH__HEDGE__AFTER=p99",
            b"\x00SLOW__FALLBACK__VALUE=x\nSLOW__RATE_LIMIT__LIMITER__RATE=5",
            b"\x05BUDGETS__A__B=1",
            b"\x06A__RETRY__ATTEMPTS=1",
            b"\x03STORE__URL=redis://h",
        ),
        (
            "FRAUD_SCORE",
            "SEARCH",
            "SLOW",
            "BUDGETS",
            "LIMITERS",
            "BREAKERS",
            "POLICIES",
            "STORE",
            "PARTNER",
            "ALL",
            "__",
            "RETRY",
            "HEDGE",
            "STRATEGIES",
            "BACKOFF",
            "WAITS",
            "ATTEMPTS",
            "LIMITER",
            "VALUE",
            "0",
            "=",
            "\n",
            "KIND",
            "NAME",
            "1",
            "1,2",
            "none",
            "true",
            "transient",
            "9" * 400,
            "1_0",
            "nan",
            "-1",
            "A",
        ),
        slowest_s=2.0,
    ),
    Target(
        "service-config",
        "gRPC service configs",
        check_service_config,
        (
            json.dumps(_SERVICE),
            json.dumps({"methodConfig": _SERVICE["methodConfig"][:1]}),  # type: ignore[index]
            '{"methodConfig": [{"name": [{}], "timeout": "0s"}]}',
            '{"retryThrottling": {"maxTokens": 0.5, "tokenRatio": 1e-3}}',
            "{}",
        ),
        (
            '"methodConfig"',
            '"name"',
            '"service"',
            '"method"',
            '"timeout"',
            '"retryPolicy"',
            '"hedgingPolicy"',
            '"maxAttempts"',
            '"initialBackoff"',
            '"maxBackoff"',
            '"backoffMultiplier"',
            '"retryableStatusCodes"',
            '"hedgingDelay"',
            '"nonFatalStatusCodes"',
            '"retryThrottling"',
            '"maxTokens"',
            '"tokenRatio"',
            ":",
            ",",
            "{",
            "}",
            "[",
            "]",
            "null",
            "true",
            "NaN",
            "Infinity",
            "1e999",
            "-1",
            "0",
            "17",
            '"0.1s"',
            '"1e3s"',
            '"s"',
            '"999999999999.999999999s"',
            '"/"',
            '""',
            '"UNAVAILABLE"',
            '"OK"',
            "\n",
            "\\ud800",
        ),
        longest=1200,
        slowest_s=2.0,
    ),
)
