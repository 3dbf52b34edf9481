"""A policy was written as a service config that said something else than it, without a warning: both
hedging and retrying, the longer of two deadlines, the last of two hedges.

Stormproof: what is written is the policy's own, and `LossyServiceConfig` names the rest for every method.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import stormproof as sp
from stormproof import presets
from stormproof.grpc import LossyServiceConfig, from_service_config, to_service_config
from stormproof.presets.service_config import StatusCodes

UNAVAILABLE = StatusCodes(("UNAVAILABLE",))
PLAIN = sp.Symmetric(0.2)


def retrying(**options: Any) -> sp.Retry:
    usual: dict[str, Any] = {
        "on": UNAVAILABLE,
        "backoff": sp.Exponential(0.1, jitter=PLAIN),
        "within": None,
        "budget": None,
    }
    return sp.Retry(**{**usual, **options})


def hedging(after: float, budget: Any) -> sp.Hedge:
    return sp.Hedge(after, idempotent=True, on=UNAVAILABLE, budget=budget)


def losses(policies: Any) -> tuple[str, ...]:
    with pytest.raises(LossyServiceConfig) as caught:
        to_service_config(policies)
    return caught.value.losses


def entry(policy: sp.Policy) -> dict[str, Any]:
    """Return what is left of the policy, which must be readable."""
    written = to_service_config(policy, lossy=True)
    from_service_config(written)
    (only,) = json.loads(written)["methodConfig"]
    return only  # type: ignore[no-any-return]


@pytest.mark.parametrize("retry_first", [True, False])
def test_hedge_beside_a_retry_is_a_loss_in_either_order(retry_first: bool) -> None:
    budget = sp.ThrottleBudget(10, token_ratio=0.1)
    row: list[Any] = [hedging(0.1, budget), retrying(budget=budget)]
    policy = sp.Policy(*(reversed(row) if retry_first else row))
    assert losses(policy) == ("all methods: Hedge beside Retry",)
    assert entry(policy).keys() == {"name", "retryPolicy"}


@pytest.mark.parametrize("retry_first", [True, False])
@pytest.mark.parametrize("nothing", [{"attempts": 1}, {"on": StatusCodes(())}], ids=["once", "no codes"])
def test_retry_that_never_retries_leaves_the_hedge(nothing: dict[str, Any], retry_first: bool) -> None:
    budget = sp.ThrottleBudget(10, token_ratio=0.1)
    row: list[Any] = [hedging(0.1, budget), retrying(budget=budget, **nothing)]
    written = json.loads(to_service_config(sp.Policy(*(reversed(row) if retry_first else row))))
    assert written["methodConfig"][0].keys() == {"name", "hedgingPolicy"}


def test_service_config_of_two_hedges_has_the_first() -> None:
    budget = sp.ThrottleBudget(10, token_ratio=0.1)
    policy = sp.Policy(hedging(0.1, budget), hedging(0.3, budget))
    assert losses(policy) == ("all methods: Hedge beside Hedge",)
    assert entry(policy)["hedgingPolicy"]["hedgingDelay"] == "0.1s"


@pytest.mark.parametrize("deadlines", [(1, 5), (5, 1)])
def test_smaller_of_two_deadlines_counts(deadlines: tuple[float, float]) -> None:
    written = json.loads(to_service_config(sp.Policy(*map(sp.Deadline, deadlines), retrying())))
    assert written["methodConfig"][0]["timeout"] == "1s"


@pytest.mark.filterwarnings("ignore:Policy. Deadline inside Retry")
def test_deadline_inside_retry_or_hedge_is_a_loss() -> None:
    budget = sp.ThrottleBudget(10, token_ratio=0.1)
    for outer in (retrying(budget=budget), hedging(0.1, budget)):
        policy = sp.Policy(sp.Deadline(9), outer, sp.Deadline(1))
        kind = type(outer).__name__
        assert losses(policy) == (f"all methods: Deadline inside {kind}, which bounds an attempt",)
        assert entry(policy)["timeout"] == "9s"
    inner = sp.Policy(retrying(attempts=1), sp.Deadline(1))
    assert json.loads(to_service_config(inner))["methodConfig"] == [{"name": [{}], "timeout": "1s"}]


def test_hint_that_replaces_a_wait_is_a_loss() -> None:
    replaced = presets.HintedExponential(jitter=PLAIN, hint="replace")
    (loss,) = losses(sp.Policy(retrying(backoff=replaced)))
    assert (
        loss == "all methods: HintedExponential.hint='replace': after pushback a channel's waits begin anew"
    )
    to_service_config(sp.Policy(retrying(backoff=presets.HintedExponential(jitter=PLAIN))))


def test_schedule_derived_from_a_known_one_is_another() -> None:
    class Odd(sp.Exponential):
        def _ceiling(self, n: int) -> float:
            return 0.5

    policy = sp.Policy(retrying(backoff=Odd(0.1, jitter=PLAIN)))
    assert losses(policy) == ("all methods: Odd, which becomes an exponential",)
    assert entry(policy)["retryPolicy"]["initialBackoff"] == "0.5s"


def test_before_attempt_is_a_loss_even_for_a_single_attempt() -> None:
    policy = sp.Policy(retrying(attempts=1, before_attempt=print))
    assert losses(policy) == ("all methods: Retry.before_attempt",)


def test_empty_codes_write_no_retry_policy() -> None:
    assert "retryPolicy" not in entry(sp.Policy(retrying(on=StatusCodes(()))))
    assert "retryPolicy" not in entry(sp.Policy(retrying(on=sp.transient.with_(grpc_codes=()))))


def test_every_method_of_a_policy_is_listed() -> None:
    policy, other = sp.Policy(sp.Breaker()), sp.Policy(sp.Timeout(1))
    named = {"pkg.A/Get": policy, "pkg.B": other, "/pkg.C": policy, "": policy}
    assert losses(named) == (
        "pkg.A/Get: Breaker",
        "pkg.C: Breaker",
        "all methods: Breaker",
        "pkg.B: Timeout",
    )
