"""Service configs in and out: what a native channel can express, and what is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stormproof as sp
from stormproof import presets
from stormproof.grpc import LossyServiceConfig, from_service_config, to_service_config

RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "0.1s",
    "maxBackoff": "2.5s",
    "backoffMultiplier": 1.5,
    "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
}
HEDGE = {"maxAttempts": 2, "hedgingDelay": "0.05s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
WHOLE: dict[str, Any] = {
    "methodConfig": [
        {
            "name": [{"service": "pkg.A", "method": "Get"}, {"service": "pkg.B"}],
            "timeout": "1.5s",
            "retryPolicy": RETRY,
        },
        {"name": [{"service": "pkg.A"}], "hedgingPolicy": HEDGE},
        {"name": [{}], "timeout": "10s"},
    ],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
}


def test_every_name_has_its_policy() -> None:
    policies = from_service_config(json.dumps(WHOLE))
    assert list(policies) == ["pkg.A/Get", "pkg.B", "pkg.A", ""]
    deadline, retry = policies["pkg.A/Get"].strategies
    assert (deadline.seconds, retry.attempts) == (1.5, 3)
    assert policies["pkg.B"] is policies["pkg.A/Get"]
    (hedge,) = policies["pkg.A"].strategies
    assert (hedge.after, hedge.max, hedge.idempotent) == (0.05, 2, True)
    assert hedge.budget is retry.budget
    assert retry.budget.max_tokens == 10
    assert policies[""].strategies == (sp.Deadline(10),)


def test_every_entry_is_checked() -> None:
    broken = {
        **WHOLE,
        "methodConfig": [*WHOLE["methodConfig"], {"name": [{"service": "x"}], "timeout": "soon"}],
    }
    with pytest.raises(sp.ConfigError, match="timeout: must be a duration"):
        from_service_config(broken)


def test_service_config_survives_a_round_trip() -> None:
    written = json.loads(to_service_config(from_service_config(WHOLE)))
    assert written == WHOLE
    assert from_service_config({}) == {}
    assert json.loads(to_service_config({})) == {"methodConfig": []}


def test_empty_entry_keeps_its_place() -> None:
    config = {"methodConfig": [{"name": [{"service": "pkg.A"}]}]}
    assert json.loads(to_service_config(from_service_config(config))) == config


def test_single_policy_is_written_for_all_methods() -> None:
    written = json.loads(to_service_config(sp.Policy(sp.Deadline(0.25))))
    assert written == {"methodConfig": [{"name": [{}], "timeout": "0.25s"}]}


EXACT = sp.Exponential(0.1, factor=2.0, cap=5.0, jitter=sp.Symmetric(0.2))
CODES = presets.grpc(WHOLE, "pkg.A/Get").strategies[1].on


def retrying(**options: Any) -> sp.Retry:
    usual: dict[str, Any] = {"on": CODES, "backoff": EXACT, "within": None, "budget": None}
    return sp.Retry(**{**usual, **options})


@pytest.mark.parametrize(
    ("strategy", "lost"),
    [
        (retrying(), None),
        (retrying(attempts=1), None),
        (retrying(backoff=sp.Constant(0.1, jitter=sp.Symmetric(0.2))), None),
        (retrying(on=sp.transient.with_(grpc_codes="wide")), None),
        (retrying(attempts=6), "Retry.attempts=6, of which a channel makes 5"),
        (retrying(attempts=None, within=9), "Retry.attempts=None"),
        (retrying(within=30), "Retry.within"),
        (retrying(on_result=bool), "Retry.on_result"),
        (retrying(before_attempt=print), "Retry.before_attempt"),
        (retrying(max_hint=1), "Retry.max_hint"),
        (retrying(budget=sp.Budget()), "Retry.budget=Budget"),
        (retrying(budget=sp.ThrottleBudget(2.5, token_ratio=0.1)), "max_tokens=2.5, which becomes 3"),
        (retrying(on=sp.transient), "RESOURCE_EXHAUSTED when the server names a time"),
        (retrying(on=sp.transient.with_(statuses=[409])), "Retry.on, beyond its gRPC codes"),
        (retrying(on=ConnectionError), "Retry.on, which becomes UNAVAILABLE"),
        (retrying(backoff=sp.Exponential()), "the jitter of Exponential"),
        (retrying(backoff=sp.Constant(0, jitter=sp.Symmetric(0.2))), "a wait of 0 s, which becomes 0.002 s"),
        (retrying(backoff=sp.Decorrelated()), "Decorrelated, which becomes an exponential"),
        (sp.Hedge(0.1, on=CODES), "Hedge, which was not declared idempotent"),
        (sp.Hedge("p95", idempotent=True, on=CODES), "Hedge.after='p95'"),
        (sp.Hedge(0.1, max=6, idempotent=True, on=CODES), "Hedge.max=6"),
        (sp.Hedge(0.1, idempotent=True, on=CODES), "Hedge.budget=Budget"),
        (sp.Hedge(0.1, idempotent=True, on=CODES, vary=print), "Hedge.vary"),
        (sp.Breaker(), "Breaker"),
        (sp.Timeout(1), "Timeout"),
    ],
)
def test_losses_are_listed(strategy: Any, lost: str | None) -> None:
    policies = {"pkg.A/Get": sp.Policy(strategy)}
    if lost is None:
        to_service_config(policies)
    else:
        with pytest.raises(LossyServiceConfig) as caught:
            to_service_config(policies)
        assert lost in str(caught.value)
        assert any(lost in loss for loss in caught.value.losses)
    # What is left is a service config that says no more than the policy.
    from_service_config(to_service_config(policies, lossy=True))


def test_repeated_loss_is_listed_once() -> None:
    policy = sp.Policy(sp.Breaker(), retrying(), sp.Breaker())
    with pytest.raises(LossyServiceConfig) as caught:
        to_service_config({"pkg.A/Get": policy})
    assert caught.value.losses == ("pkg.A/Get: Breaker",)


def test_policy_is_written_as_a_service_config() -> None:
    written = json.loads(to_service_config(sp.Policy(retrying(attempts=4))))
    assert written["methodConfig"][0]["retryPolicy"] == {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2.0,
        "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
    }
    assert "retryThrottling" not in written
    assert (
        "retryPolicy" not in json.loads(to_service_config(sp.Policy(retrying(attempts=1))))["methodConfig"][0]
    )


def test_service_config_retries_or_hedges() -> None:
    both = sp.Policy(retrying(), sp.Hedge(0.1, idempotent=True, on=CODES))
    with pytest.raises(LossyServiceConfig, match="Hedge beside Retry"):
        to_service_config(both)
    assert "hedgingPolicy" not in to_service_config(both, lossy=True)


def test_undeclared_hedging_is_not_written() -> None:
    assert "hedgingPolicy" not in to_service_config(sp.Policy(sp.Hedge(0.1)), lossy=True)


def test_methods_of_a_channel_must_share_one_throttle() -> None:
    one, other = sp.ThrottleBudget(10, token_ratio=0.1), sp.ThrottleBudget(20, token_ratio=0.1)
    same = {"a.B": sp.Policy(retrying(budget=one)), "a.C": sp.Policy(retrying(budget=one))}
    assert json.loads(to_service_config(same))["retryThrottling"] == {"maxTokens": 10, "tokenRatio": 0.1}
    for second in (other, None):
        with pytest.raises(LossyServiceConfig, match="all methods: budgets that differ"):
            to_service_config({**same, "a.C": sp.Policy(retrying(budget=second))})


@pytest.mark.parametrize("name", ["a.B/C/D", "a//b"])
def test_invalid_method_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name must be"):
        to_service_config({name: sp.Policy()})


def test_value_that_is_not_a_policy_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'a.B' must be a Policy, got 3"):
        to_service_config({"a.B": 3})  # type: ignore[dict-item]
