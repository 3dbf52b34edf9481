"""gRPC's service config: retryPolicy, hedgingPolicy, retryThrottling and timeout as a `Policy` (gRFC A6)."""

from __future__ import annotations

import math

from .._classify.classifier import Classifier, transient
from .._classify.foreign_objects import called, get, leaves
from .._classify.known_faults import GRPC_NAMES
from .._classify.on_clause import unwrap_marker
from .._classify.verdict import Verdict
from .._config.errors import ConfigError, Document, Spot, shown
from .._config.key_lines import in_json
from .._policy.policy import Policy
from .._primitives import durations
from .._primitives.errors import AttemptTimeout
from .._primitives.options import Options
from .._strategies.budget.other_systems import RateBudget, ThrottleBudget
from .._strategies.deadline import Deadline
from .._strategies.hedge.hedge import Hedge
from .._strategies.retry.retry import Retry
from .backoffs import GrpcBackoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Unpack

    from .._policy.policy import PolicyOptions

#: A6 lets no call make more attempts than this, whatever the config says.
MOST_ATTEMPTS = 5


class StatusCodes(Options):
    """``on=`` for gRPC: the status is one of ``codes``. Without pushback that says not to retry.

    An error without a status is fatal. A `Timeout`'s end of an attempt counts as DEADLINE_EXCEEDED, and a
    group needs a listed status in every leaf.
    """

    def __init__(self, codes: tuple[str, ...]) -> None:
        self.codes = codes
        self._judge: Classifier = transient.with_(grpc_codes=codes)

    def __call__(self, error: Any) -> Verdict:
        verdict = self._judge(error)
        if not verdict.retry:
            return verdict
        # The shipped classifier retries more: lost connections, RESOURCE_EXHAUSTED that names a time.
        for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else (error,):
            cause, _ = unwrap_marker(leaf)
            name = None if cause is None else _status(cause)
            if cause is not None and name not in self.codes:
                why = "no gRPC status" if name is None else f"gRPC {name}"
                return Verdict(False, verdict.after, "fatal", why)
        return verdict


def _status(error: BaseException) -> str | None:
    if isinstance(error, AttemptTimeout):
        return "DEADLINE_EXCEEDED"
    name = get(called(error, "code"), "name")
    return name if isinstance(name, str) else None


def grpc(
    service_config: str | Mapping[str, Any],
    method: str,
    *,
    throttle: ThrottleBudget | None = None,
    **options: Unpack[PolicyOptions],
) -> Policy:
    """Return the policy that ``service_config`` (JSON, or what it decodes to) gives ``method``,
    "pkg.Service/Method".

    retryPolicy: ``maxAttempts`` (at most 5), waits ``min(initial * multiplier**n, max) * U(0.8, 1.2)``,
    the listed status codes and no other error. hedgingPolicy: ``hedgingDelay`` (0 or none: all at once),
    ``maxAttempts``, a code that is not fatal sends the next at once. retryThrottling: a
    `ThrottleBudget`; the methods of one server share it: pass ``throttle=grpc_throttle(service_config)``
    to each. timeout: a `Deadline`. Pushback of n ms is waited for exactly, and the waits begin anew;
    pushback that is negative, unreadable or repeated ends the call. ``options`` are those of `Policy`.

    The config is checked as A6 demands; `ConfigError` says what is wrong, and where. Departures: a
    pushback of more than 60 s ends the call, and pushback does not move the next hedged attempt.
    Transparent retries are the gRPC library's business.
    """
    root = _document(service_config).root()
    service, _, name = method.removeprefix("/").partition("/")
    if not service or not name or "/" in name:
        raise ConfigError(f"the method must read like 'pkg.Service/Method', got {method!r}")
    own = _throttle(root)
    budget = own if throttle is None else throttle
    entry = _entry(root, service, name)
    return Policy(*([] if entry is None else _strategies(entry, budget)), **options)


def grpc_throttle(service_config: str | Mapping[str, Any]) -> ThrottleBudget | None:
    """Return the budget of ``retryThrottling``, for all methods of one server; ``None`` if there is none."""
    return _throttle(_document(service_config).root())


def _document(config: str | Mapping[str, Any]) -> Document:
    if not isinstance(config, str):
        return Document(dict(config))
    import json

    try:
        data = json.loads(config)
        return Document(data, None, in_json(config)[0])
    except RecursionError:
        raise ConfigError("is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"is not JSON: {error}") from None


def _throttle(root: Spot) -> ThrottleBudget | None:
    table = dict(root.entries()).get("retryThrottling")
    if table is None:
        return None
    most, ratio = _field(table, "maxTokens"), _field(table, "tokenRatio")
    if not 0 < _number(most) <= 1000:
        raise most.error(f"must be > 0 and <= 1000, got {shown(most.value)}")
    # A6 counts to three decimals, and a ratio of nothing would never give a token back.
    if not _number(ratio) >= 0.001:
        raise ratio.error(f"must be > 0, to three decimals, got {shown(ratio.value)}")
    return ThrottleBudget(most.value, token_ratio=ratio.value)


def from_service_config(service_config: str | Mapping[str, Any]) -> dict[str, Policy]:
    """Return every policy of ``service_config`` (JSON, or what it decodes to), by name.

    A name is "pkg.Service/Method", "pkg.Service" for the rest of a service, "" for all others; the
    most specific one counts. Policies that stand under several names are one object, and all of them
    share the budget of ``retryThrottling``. See `grpc` for what becomes of each field, and for the
    checks; fields that are not about time and retries (``waitForReady``, message sizes, load
    balancing) are left to the channel.
    """
    root = _document(service_config).root()
    budget = _throttle(root)
    by_place: dict[int, Policy] = {}
    policies: dict[str, Policy] = {}
    for (service, method), entry in _entries(root).items():
        place = id(entry.value)
        if place not in by_place:
            by_place[place] = Policy(*_strategies(entry, budget))
        policies[f"{service}/{method}" if method else service] = by_place[place]
    return policies


def _entry(root: Spot, service: str, method: str) -> Spot | None:
    """Return the entry of methodConfig for the method: by its own name, its service's, or the default."""
    entries = _entries(root)
    for name in ((service, method), (service, ""), ("", "")):
        if name in entries:
            return entries[name]
    return None


def _entries(root: Spot) -> dict[tuple[str, str], Spot]:
    """Return the entries of methodConfig by (service, method), either of which may be empty."""
    listed = dict(root.entries()).get("methodConfig")
    entries: dict[tuple[str, str], Spot] = {}
    for entry in _items(listed) if listed is not None else ():
        names = dict(entry.entries()).get("name")
        for spot in _items(names) if names is not None else ():
            name = _name(spot)
            if name in entries:
                raise spot.error("stands for the same methods as another name")
            entries[name] = entry
    return entries


def _name(spot: Spot) -> tuple[str, str]:
    table = dict(spot.entries())
    parts = []
    for key in ("service", "method"):
        value = table[key].value if key in table else ""
        if value is not None and not isinstance(value, str):
            raise table[key].error(f"must be a string, got {shown(value)}")
        parts.append(value or "")
    if parts[1] and not parts[0]:
        raise spot.error("must name a service for its method")
    return parts[0], parts[1]


def _strategies(entry: Spot, throttle: ThrottleBudget | None) -> list[Any]:
    table = dict(entry.entries())
    row: list[Any] = []
    if "timeout" in table:
        row.append(Deadline(_duration(table["timeout"], zero=True)))
    if "retryPolicy" in table and "hedgingPolicy" in table:
        raise table["hedgingPolicy"].error("must not stand beside a retryPolicy")
    if "retryPolicy" in table:
        row.append(_retry(table["retryPolicy"], throttle))
    if "hedgingPolicy" in table:
        row.append(_hedge(table["hedgingPolicy"], throttle))
    return row


def _retry(policy: Spot, throttle: ThrottleBudget | None) -> Retry:
    multiplier = _field(policy, "backoffMultiplier")
    if not _number(multiplier) > 0:
        raise multiplier.error(f"must be > 0, got {shown(multiplier.value)}")
    backoff = GrpcBackoff(
        _duration(_field(policy, "initialBackoff")),
        _duration(_field(policy, "maxBackoff")),
        multiplier.value,
    )
    codes = _codes(_field(policy, "retryableStatusCodes"))
    if not codes:
        raise policy.named("retryableStatusCodes").error("must hold at least one status code")
    return Retry(
        StatusCodes(codes), attempts=_attempts(policy), backoff=backoff, within=None, budget=throttle
    )


def _hedge(policy: Spot, throttle: ThrottleBudget | None) -> Hedge:
    table = dict(policy.entries())
    delay = _duration(table["hedgingDelay"], zero=True) if "hedgingDelay" in table else 0.0
    codes = _codes(table["nonFatalStatusCodes"]) if "nonFatalStatusCodes" in table else ()
    # Without retryThrottling A6 bounds nothing; `Hedge` would take a budget of its own for None.
    budget: Any = RateBudget(math.inf) if throttle is None else throttle
    return Hedge(delay, max=_attempts(policy), idempotent=True, budget=budget, on=StatusCodes(codes))


def _attempts(policy: Spot) -> int:
    spot = _field(policy, "maxAttempts")
    value = spot.value
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise spot.error(f"must be a whole number > 1, got {shown(value)}")
    return min(value, MOST_ATTEMPTS)


def _field(table: Spot, key: str) -> Spot:
    if key not in dict(table.entries()):
        raise table.error(f"must have {key!r}")
    return table.at(key)


def _items(spot: Spot) -> list[Spot]:
    if not isinstance(spot.value, list):
        raise spot.error(f"must be a list, got {shown(spot.value)}")
    return [spot.at(place) for place in range(len(spot.value))]


def _number(spot: Spot) -> float:
    if isinstance(spot.value, bool) or not isinstance(spot.value, (int, float)):
        raise spot.error(f"must be a number, got {shown(spot.value)}")
    return spot.value


def _duration(spot: Spot, zero: bool = False) -> float:
    """Parse a JSON duration of protobuf: seconds with up to nine decimals, and an "s"."""
    text = spot.value
    whole, point, fraction = text[:-1].partition(".") if isinstance(text, str) else ("", "", "")
    digits = whole + fraction
    good = digits.isascii() and digits.isdigit() and bool(whole) and bool(point) == bool(fraction)
    if not good or text[-1] != "s" or len(fraction) > 9 or len(whole) > 12:
        raise spot.error(f"must be a duration such as '0.1s', got {shown(text)}")
    value = durations.parse(text)
    if not value and not zero:
        raise spot.error(f"must be > 0, got {shown(text)}")
    return value


def _codes(spot: Spot) -> tuple[str, ...]:
    """Return status codes, given as names in any case or as numbers, as names."""
    names: dict[str, None] = {}
    for item in _items(spot):
        value = item.value
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < len(GRPC_NAMES):
            names[GRPC_NAMES[value]] = None
        elif isinstance(value, str) and value.upper() in GRPC_NAMES[1:]:
            names[value.upper()] = None
        else:
            raise item.error(f"must be the name or number of a gRPC error status, got {shown(value)}")
    return tuple(names)
