"""Policies as a gRPC service config; settings that it cannot hold are reported."""

from __future__ import annotations

import math

from .._classify.classifier import Classifier, transient
from .._policy.policy import Policy
from .._strategies.budget.other_systems import RateBudget, ThrottleBudget
from .._strategies.deadline import Deadline
from .._strategies.hedge.hedge import Hedge
from .._strategies.retry.backoff import Constant, Exponential
from .._strategies.retry.jitter import Symmetric
from .._strategies.retry.retry import Retry
from .backoffs import GrpcBackoff, HintedExponential
from .service_config import MOST_ATTEMPTS, StatusCodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The jitter that every service config has: 0.8 to 1.2 times the wait.
_ITS_JITTER = Symmetric(0.2)
#: A channel counts whole milliseconds. It refuses a wait of 0 of them, and may hang when jitter makes 0 of
#: 1 (grpc#41036).
_LEAST_WAIT_S = 0.002
#: A timeout of 0 ms is none.
_LEAST_TIMEOUT_S = 0.001
#: Protobuf's longest duration, 10,000 years.
_LONGEST_S = 315_576_000_000.0


class LossyServiceConfig(ValueError):
    """A service config cannot say all that these policies do. ``losses`` has a line for each thing."""

    def __init__(self, losses: tuple[str, ...]) -> None:
        super().__init__(losses)
        self.losses = losses

    def __str__(self) -> str:
        listed = "".join(f"\n- {loss}" for loss in self.losses)
        return f"a service config cannot express (lossy=True leaves it out):{listed}"


def to_service_config(policies: Policy | Mapping[str, Policy], *, lossy: bool = False) -> str:
    """Return the service config, as JSON, that lets a native channel do what ``policies`` do.

    ``policies`` is one policy for all methods, or policies by name as `from_service_config` gives
    them. Give the result to a channel as ``("grpc.service_config", text)``. What a service config cannot
    express raises `LossyServiceConfig`, which lists it; with ``lossy=True`` it is left out.

    Two habits of a channel are not counted as losses: it keeps to a server's pushback exactly and
    begins the waits anew, and when a wait would end past the timeout, it sleeps until then.
    """
    import json

    named: dict[str, Policy] = {"": policies} if isinstance(policies, Policy) else dict(policies)
    names: dict[int, list[str]] = {}
    for name, policy in named.items():
        if not isinstance(policy, Policy):
            raise TypeError(f"to_service_config: {name!r} must be a Policy, got {policy!r}")
        names.setdefault(id(policy), []).append(name)
    writer = _Writer()
    config: dict[str, Any] = {
        "methodConfig": [
            {"name": [*map(_named, same)], **writer.method(same, named[same[0]])} for same in names.values()
        ]
    }
    if (throttling := writer.throttling()) is not None:
        config["retryThrottling"] = throttling
    if writer.losses and not lossy:
        raise LossyServiceConfig(tuple(writer.losses))
    return json.dumps(config)


def _named(name: str) -> dict[str, str]:
    service, _, method = name.strip("/").partition("/")
    if (method and not service) or "/" in method:
        raise ValueError(
            f"to_service_config: a name must be 'pkg.Service/Method', 'pkg.Service' or '', got {name!r}"
        )
    return {key: value for key, value in (("service", service), ("method", method)) if value}


class _Writer:
    """Writes methods one by one, and collects the settings that are lost."""

    def __init__(self) -> None:
        #: In order, each once.
        self.losses: dict[str, None] = {}
        self._names: list[str] = []
        #: Identity of each retrying method's throttle, None for none.
        self._throttles: dict[int | None, ThrottleBudget | None] = {}

    def _report_loss(self, what: str) -> None:
        for name in self._names:
            self.losses[f"{name.strip('/') or 'all methods'}: {what}"] = None

    def method(self, names: list[str], policy: Policy) -> dict[str, Any]:
        """Return the entry of methodConfig for ``policy``; losses are reported under ``names``."""
        self._names = names
        # A service config retries or hedges, not both: wherever the Retry stands, it goes first.
        retry = next((strategy for strategy in policy.strategies if isinstance(strategy, Retry)), None)
        retries = None if retry is None else self._retry(retry)
        entry: dict[str, Any] = {} if retries is None else {"retryPolicy": retries}
        timeout, around = math.inf, ""
        for strategy in policy.strategies:
            if strategy is retry:
                around = around if retries is None else "Retry"
            elif isinstance(strategy, Deadline) and around:
                self._report_loss(f"Deadline inside {around}, which bounds an attempt")
            elif isinstance(strategy, Deadline):
                timeout = min(timeout, strategy.seconds)
            elif not isinstance(strategy, Hedge):
                self._report_loss(type(strategy).__name__)
            elif entry:
                self._report_loss(f"Hedge beside {'Hedge' if retries is None else 'Retry'}")
            elif (written := self._hedge(strategy, policy)) is not None:
                entry, around = {"hedgingPolicy": written}, "Hedge"
        if timeout < math.inf:
            entry["timeout"] = self._duration("a Deadline", timeout, _LEAST_TIMEOUT_S)
        return entry

    def _retry(self, retry: Retry) -> dict[str, Any] | None:
        for hook in ("before_attempt", "on_retry"):
            if getattr(retry, hook) is not None:
                self._report_loss(f"Retry.{hook}")
        if retry.attempts == 1:
            return None
        if retry.on_result is not None:
            self._report_loss("Retry.on_result")
        codes = self._codes("Retry.on", retry.on)
        if not codes:
            return None
        if retry.within is not None:
            self._report_loss("Retry.within")
        if retry.max_hint != Retry().max_hint:
            self._report_loss("Retry.max_hint")
        self._collect_throttle(retry.budget, "Retry")
        return {
            "maxAttempts": self._attempts("Retry.attempts", retry.attempts),
            **self._backoff(retry.backoff),
            "retryableStatusCodes": codes,
        }

    def _hedge(self, hedge: Hedge, policy: Policy) -> dict[str, Any] | None:
        if not hedge.idempotent:
            # A channel would hedge every method of the entry, though idempotence was not declared.
            self._report_loss("Hedge, which was not declared idempotent")
            return None
        if hedge.vary is not None:
            self._report_loss("Hedge.vary")
        written: dict[str, Any] = {"maxAttempts": self._attempts("Hedge.max", hedge.max)}
        if isinstance(hedge.after, str):
            self._report_loss(f"Hedge.after={hedge.after!r}, a measured time")
            return None
        written["hedgingDelay"] = self._duration("Hedge.after", hedge.after, 0.0)
        written["nonFatalStatusCodes"] = self._codes("Hedge.on", hedge.on)
        budget = hedge.budget_in(policy)
        unlimited = isinstance(budget, RateBudget) and math.isinf(budget.rate)
        self._collect_throttle(None if unlimited else budget, "Hedge")
        return written

    def _attempts(self, option: str, attempts: int | None) -> int:
        if attempts is None or attempts > MOST_ATTEMPTS:
            self._report_loss(f"{option}={attempts}, of which a channel makes {MOST_ATTEMPTS}")
            return MOST_ATTEMPTS
        return attempts

    def _backoff(self, backoff: Any) -> dict[str, Any]:
        # The very classes: a subclass may wait in any other way.
        kind = type(backoff)
        if kind is GrpcBackoff:
            first, most, factor = backoff.initial, backoff.maximum, backoff.multiplier
        elif kind is Exponential or kind is HintedExponential:
            first, most, factor = backoff.base, backoff.cap, backoff.factor
        elif kind is Constant:
            first, most, factor = backoff.wait, backoff.wait, 1.0
        else:
            self._report_loss(f"{kind.__name__}, which becomes an exponential")
            first, most, factor = backoff.ceiling(0), backoff.ceiling(MOST_ATTEMPTS), 2.0
        if getattr(backoff, "jitter", None) != _ITS_JITTER or getattr(backoff, "min", 0.0):
            self._report_loss(f"the jitter of {kind.__name__}, which becomes 0.8 to 1.2 times the wait")
        if kind is HintedExponential and backoff.hint == "replace":
            self._report_loss("HintedExponential.hint='replace': after pushback a channel's waits begin anew")
        return {
            "initialBackoff": self._duration("a wait", first, _LEAST_WAIT_S),
            "maxBackoff": self._duration("a wait", most, _LEAST_WAIT_S),
            "backoffMultiplier": factor,
        }

    def _duration(self, what: str, seconds: float, least: float) -> str:
        """Return ``seconds`` as protobuf writes a duration, held to [``least``, its longest]."""
        duration_s = min(max(seconds, least), _LONGEST_S)
        if duration_s != seconds:
            self._report_loss(f"{what} of {seconds:g} s, which becomes {duration_s:.12g} s")
        return f"{duration_s:.9f}".rstrip("0").rstrip(".") + "s"

    def _codes(self, option: str, on: object) -> list[str]:
        if isinstance(on, StatusCodes):
            return list(on.codes)
        if isinstance(on, Classifier):
            if on != transient.with_(grpc_codes=on.settings.grpc_codes):
                self._report_loss(f"{option}, beyond its gRPC codes")
            elif "RESOURCE_EXHAUSTED" not in on.settings.grpc_codes:
                self._report_loss(f"{option}: RESOURCE_EXHAUSTED when the server names a time")
            return sorted(on.settings.grpc_codes)
        self._report_loss(f"{option}, which becomes UNAVAILABLE")
        return ["UNAVAILABLE"]

    def _collect_throttle(self, budget: object, owner: str) -> None:
        if budget is not None and not isinstance(budget, ThrottleBudget):
            self._report_loss(f"{owner}.budget={type(budget).__name__}")
            budget = None
        self._throttles[None if budget is None else id(budget)] = budget

    def throttling(self) -> dict[str, Any] | None:
        """Return ``retryThrottling``, which all methods of a channel share."""
        budgets = [budget for budget in self._throttles.values() if budget is not None]
        if not budgets:
            return None
        if len(self._throttles) > 1:
            self._names = [""]
            self._report_loss("budgets that differ from method to method; all share the first")
        most = math.ceil(budgets[0].max_tokens)
        if most != budgets[0].max_tokens:
            # A channel takes a whole number only.
            self._report_loss(f"max_tokens={budgets[0].max_tokens:g}, which becomes {most}")
        return {"maxTokens": most, "tokenRatio": budgets[0].token_ratio}
