"""Policies as a gRPC service config: what it can say is written, what it cannot is reported."""

from __future__ import annotations

import math

from ..backoff import Constant, Exponential
from ..classify import Classifier, transient
from ..deadlines import Deadline
from ..hedge import Hedge
from ..jitter import Symmetric
from ..policy import Policy
from ..quotas import RateBudget, ThrottleBudget
from ..retries import Retry
from .backoffs import GrpcBackoff
from .service_config import MOST_ATTEMPTS, StatusCodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The jitter that every service config has: 0.8 to 1.2 times the wait.
_ITS_JITTER = Symmetric(0.2)
_LEAST_WAIT_S = 0.001


class LossyServiceConfig(ValueError):
    """A service config cannot say all that these policies do. ``losses`` has a line for each thing."""

    def __init__(self, losses: tuple[str, ...]) -> None:
        super().__init__(losses)
        self.losses = losses

    def __str__(self) -> str:
        listed = "".join(f"\n- {loss}" for loss in self.losses)
        return f"a service config cannot express (lossy=True leaves it out):{listed}"


def to_service_config(policies: Policy | Mapping[str, Policy], *, lossy: bool = False) -> str:
    """The service config, as JSON, that lets a native channel do what ``policies`` do.

    ``policies`` is one policy for all methods, or policies by name as `from_service_config` gives
    them. Give the result to a channel as ``("grpc.service_config", text)``. What a service config cannot
    express raises `LossyServiceConfig`, which lists it; with ``lossy=True`` it is left out.
    """
    import json

    named: dict[str, Policy] = {"": policies} if isinstance(policies, Policy) else dict(policies)
    writer = _Writer()
    entries: dict[int, dict[str, Any]] = {}
    for name, policy in named.items():
        if not isinstance(policy, Policy):
            raise TypeError(f"to_service_config: {name!r} must be a Policy, got {policy!r}")
        if id(policy) not in entries:
            entries[id(policy)] = {"name": [], **writer.method(name, policy)}
        entries[id(policy)]["name"].append(_named(name))
    config: dict[str, Any] = {"methodConfig": list(entries.values())}
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
    """Writes methods one by one, and collects what is lost on the way."""

    def __init__(self) -> None:
        self.losses: list[str] = []
        self._name = ""
        #: What each retrying method pays: the identity of its throttle, None for none.
        self._throttles: dict[int | None, ThrottleBudget | None] = {}

    def _lose(self, what: str) -> None:
        line = f"{self._name or 'all methods'}: {what}"
        if line not in self.losses:
            self.losses.append(line)

    def method(self, name: str, policy: Policy) -> dict[str, Any]:
        """The entry of methodConfig for ``policy``, without its names."""
        self._name = name.strip("/")
        entry: dict[str, Any] = {}
        for strategy in policy.strategies:
            if isinstance(strategy, Deadline):
                entry["timeout"] = _duration(strategy.seconds)
            elif isinstance(strategy, Retry) and "retryPolicy" not in entry:
                if (written := self._retry(strategy)) is not None:
                    entry["retryPolicy"] = written
            elif isinstance(strategy, Hedge) and "retryPolicy" not in entry:
                if (written := self._hedge(strategy)) is not None:
                    entry["hedgingPolicy"] = written
            elif isinstance(strategy, Hedge):
                self._lose("Hedge beside Retry")
            else:
                self._lose(type(strategy).__name__)
        return entry

    def _retry(self, retry: Retry) -> dict[str, Any] | None:
        if retry.attempts == 1:
            return None
        for option, usual in (("within", None), ("on_result", None), ("before_attempt", None)):
            if getattr(retry, option) is not usual:
                self._lose(f"Retry.{option}")
        if retry.max_hint != Retry().max_hint:
            self._lose("Retry.max_hint")
        self._pays(retry.budget, "Retry")
        return {
            "maxAttempts": self._attempts("Retry.attempts", retry.attempts),
            **self._backoff(retry.backoff),
            "retryableStatusCodes": self._codes("Retry.on", retry.on) or ["UNAVAILABLE"],
        }

    def _hedge(self, hedge: Hedge) -> dict[str, Any] | None:
        if not hedge.idempotent:
            # A channel would hedge whatever it is told to; nobody has said that it may.
            self._lose("Hedge, which was not declared idempotent")
            return None
        if hedge.vary is not None:
            self._lose("Hedge.vary")
        written: dict[str, Any] = {"maxAttempts": self._attempts("Hedge.max", hedge.max)}
        if isinstance(hedge.after, str):
            self._lose(f"Hedge.after={hedge.after!r}, a measured time")
            return None
        written["hedgingDelay"] = _duration(hedge.after)
        written["nonFatalStatusCodes"] = self._codes("Hedge.on", hedge.on)
        unlimited = isinstance(hedge.budget, RateBudget) and math.isinf(hedge.budget.rate)
        self._pays(None if unlimited else hedge.budget, "Hedge")
        return written

    def _attempts(self, option: str, attempts: int | None) -> int:
        if attempts is None or attempts > MOST_ATTEMPTS:
            self._lose(f"{option}={attempts}, of which a channel makes {MOST_ATTEMPTS}")
            return MOST_ATTEMPTS
        return attempts

    def _backoff(self, backoff: Any) -> dict[str, Any]:
        if isinstance(backoff, GrpcBackoff):
            first, most, factor = backoff.initial, backoff.maximum, backoff.multiplier
        else:
            if isinstance(backoff, Exponential):
                first, most, factor = backoff.base, backoff.cap, backoff.factor
            elif isinstance(backoff, Constant):
                first, most, factor = backoff.wait, backoff.wait, 1.0
            else:
                self._lose(f"{type(backoff).__name__}, which becomes an exponential")
                first, most, factor = backoff.ceiling(0), backoff.ceiling(MOST_ATTEMPTS), 2.0
            if getattr(backoff, "jitter", None) != _ITS_JITTER or getattr(backoff, "min", 0.0):
                self._lose(f"the jitter of {type(backoff).__name__}, which becomes 0.8 to 1.2 times the wait")
            if first <= 0:
                self._lose("a wait of 0, which becomes 1 ms")
        return {
            "initialBackoff": _duration(max(first, _LEAST_WAIT_S) if first <= 0 else first),
            "maxBackoff": _duration(max(most, _LEAST_WAIT_S) if most <= 0 else most),
            "backoffMultiplier": factor,
        }

    def _codes(self, option: str, on: Any) -> list[str]:
        if isinstance(on, StatusCodes):
            return list(on.codes)
        if isinstance(on, Classifier):
            if on != transient.with_(grpc_codes=on.settings.grpc_codes):
                self._lose(f"{option}, beyond its gRPC codes")
            elif "RESOURCE_EXHAUSTED" not in on.settings.grpc_codes:
                self._lose(f"{option}: RESOURCE_EXHAUSTED when the server names a time")
            return sorted(on.settings.grpc_codes)
        self._lose(f"{option}, which becomes UNAVAILABLE")
        return ["UNAVAILABLE"]

    def _pays(self, budget: Any, owner: str) -> None:
        if budget is not None and not isinstance(budget, ThrottleBudget):
            self._lose(f"{owner}.budget={type(budget).__name__}")
            budget = None
        self._throttles[None if budget is None else id(budget)] = budget

    def throttling(self) -> dict[str, Any] | None:
        """``retryThrottling``, which all methods of a channel share."""
        found = [budget for budget in self._throttles.values() if budget is not None]
        if not found:
            return None
        if len(self._throttles) > 1:
            self._name = ""
            self._lose("budgets that differ from method to method; all share the first")
        most = math.ceil(found[0].max_tokens)
        if most != found[0].max_tokens:
            # A channel takes a whole number only.
            self._lose(f"max_tokens={found[0].max_tokens:g}, which becomes {most}")
        return {"maxTokens": most, "tokenRatio": found[0].token_ratio}


def _duration(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
