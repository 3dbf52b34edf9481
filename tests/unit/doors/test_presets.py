"""Presets against the numbers of their originals."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import math
import pickle
import statistics
from typing import Any

import pytest
from tests.support.scripted import SYNC, each_way

import stormproof as sp
from stormproof import presets
from stormproof._config.registry import ConfigError, Registry, to_data
from stormproof._strategies.adaptive.rate import AdaptiveRate

ALMOST_ONE = 1 - 2**-53


class Boom(ConnectionError): ...


class Throttling(Exception): ...


THROTTLED = sp.Verdict(True, kind="throttle")
FAILED = sp.Verdict(True)


def hinted(seconds: float) -> sp.Verdict:
    return sp.Verdict(True, seconds)


def retry_of(policy: sp.Policy) -> sp.Retry:
    return next(s for s in policy.strategies if isinstance(s, sp.Retry))


def waits(backoff: Any, u: float, count: int) -> list[float]:
    return [backoff.delay(n, None, u) for n in range(count)]


def draws(*values: float) -> Any:
    return itertools.chain(values, itertools.repeat(0.5)).__next__


#: Every preset, for what they all have in common.
SERVICE = {
    "methodConfig": [
        {
            "name": [{"service": "pkg.Service"}],
            "timeout": "2.5s",
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
}
ALL = {
    "aws_standard": presets.aws_standard,
    "aws_v2_1": presets.aws_v2_1,
    "aws_v2_1 dynamodb": lambda **o: presets.aws_v2_1("dynamodb", **o),
    "aws_adaptive": presets.aws_adaptive,
    "aws_adaptive v2.1": lambda **o: presets.aws_adaptive(v2_1=True, **o),
    "cenkalti 4": lambda **o: presets.cenkalti(4, **o),
    "cenkalti 5": presets.cenkalti,
    "envoy": presets.envoy,
    "finagle": presets.finagle,
    "google": presets.google,
    "grpc": lambda **o: presets.grpc(SERVICE, "pkg.Service/Get", **o),
    "polly": presets.polly,
    "retryablehttp": presets.retryablehttp,
    "stripe": presets.stripe,
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_preset_is_a_policy_that_works(name: str) -> None:
    policy = ALL[name](name="p", clock=sp.testing.FakeClock(), rng=lambda: 0.5)
    assert policy.name == "p"
    assert policy(lambda: 3)() == 3
    calls = []

    @policy
    def wrong() -> None:
        calls.append(1)
        raise ZeroDivisionError

    if not name.startswith("cenkalti"):
        with pytest.raises(ZeroDivisionError):
            wrong()
        assert len(calls) == 1
    json.dumps(policy.describe())
    assert policy.worst_case().attempts >= 2


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_preset_has_its_own_state(name: str) -> None:
    one, two = retry_of(ALL[name]()).budget, retry_of(ALL[name]()).budget
    assert one is None or one is not two


@pytest.mark.parametrize("name", sorted(ALL))
def test_absurd_hint_ends_the_call(name: str) -> None:
    policy = ALL[name](rng=lambda: 0.5)
    policy = policy.with_(retry_of(policy).replace(on=lambda error: hinted(math.inf)))
    played = SYNC(policy, Boom)
    assert isinstance(played.error, (Boom, sp.DeadlineExceeded)) and played.sleeps == []


def test_presets_are_listed_and_found() -> None:
    assert sorted(presets.__all__) == list(presets.__all__) == dir(presets)
    for name in presets.__all__:
        assert getattr(presets, name).__doc__
    name = "aws_legacy"
    with pytest.raises(AttributeError, match=name):
        getattr(presets, name)


# --- AWS ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
def test_aws_standard_waits_as_published(u: float) -> None:
    # u * min(2**(i-1), 20) before retry i.
    expected = [u * wait for wait in (1, 2, 4, 8, 16, 20, 20)]
    assert waits(retry_of(presets.aws_standard()).backoff, u, 7) == expected


@each_way
def test_aws_standard_makes_three_attempts(play: Any) -> None:
    played = play(presets.aws_standard(rng=lambda: 0.5), Boom, Boom, Boom)
    played.raised_the_last_error().made(3).slept(0.5, 1.0)


def test_aws_standard_quota_is_charged_as_published() -> None:
    policy = presets.aws_standard()
    quota = retry_of(policy).budget
    assert quota.balance == 500
    SYNC(policy, Boom, Boom, "ok").returned("ok")
    assert quota.balance == 495, "a success gives back only what the last retry cost"
    SYNC(policy, "ok")
    assert quota.balance == 496, "a first-try success gives 1"
    SYNC(policy, TimeoutError, "ok").returned("ok")
    assert quota.balance == 496, "a timeout costs 10, all of it given back"
    SYNC(policy, TimeoutError, TimeoutError, TimeoutError)
    assert quota.balance == 476
    for _ in range(10):
        SYNC(policy, "ok")
    assert quota.balance == 486
    for _ in range(48):
        SYNC(policy, Boom, Boom, Boom).made(3)
    assert quota.balance == 6
    SYNC(policy, Boom, Boom).made(2).stopped_for("budget")
    SYNC(policy, Boom).made(1).stopped_for("budget")
    assert quota.balance == 1


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
@pytest.mark.parametrize(
    ("service", "attempts", "bases"),
    [
        (None, 3, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20, 20]),
        ("s3", 3, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20, 20]),
        ("dynamodb", 4, [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20]),
        ("dynamodb-streams", 4, [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20]),
    ],
)
def test_aws_v2_1_waits(u: float, service: str | None, attempts: int, bases: list[float]) -> None:
    retry = retry_of(presets.aws_v2_1(service))
    assert retry.attempts == attempts
    assert waits(retry.backoff, u, 11) == pytest.approx([u * base for base in bases], rel=1e-15)
    planned = [retry.backoff.plan(n, None, FAILED, draws(u))[0] for n in range(11)]
    assert planned == waits(retry.backoff, u, 11)
    throttled = [retry.backoff.plan(n, None, THROTTLED, draws(u))[0] for n in range(7)]
    assert throttled == [u * base for base in (1, 2, 4, 8, 16, 20, 20)]


@pytest.mark.parametrize(
    ("hint", "wait"), [(0.0, 0.025), (0.01, 0.025), (2.0, 2.0), (5.025, 5.025), (9.0, 5.025), (1e9, 5.025)]
)
def test_aws_v2_1_holds_a_hint_to_five_seconds_above_its_own_wait(hint: float, wait: float) -> None:
    backoff = retry_of(presets.aws_v2_1()).backoff
    assert backoff.plan(0, None, hinted(hint), draws(0.5)) == (pytest.approx(wait), 0.025, 1)


def test_aws_v2_1_quota_is_charged_as_published() -> None:
    def on(error: Exception) -> sp.Verdict:
        return THROTTLED if isinstance(error, Throttling) else FAILED

    policy = presets.aws_v2_1(on=on)
    quota = retry_of(policy).budget
    SYNC(policy, Boom, Throttling, Throttling)
    assert quota.balance == 500 - 14 - 5
    SYNC(policy, Throttling, Boom, "ok").returned("ok")
    assert quota.balance == 481 - 5
    SYNC(policy, TimeoutError, TimeoutError, TimeoutError)
    assert quota.balance == 476 - 28


def test_aws_v2_1_waits_longer_after_throttling() -> None:
    policy = presets.aws_v2_1(
        on=lambda error: THROTTLED if isinstance(error, Throttling) else FAILED, rng=lambda: 0.5
    )
    SYNC(policy, Throttling, Boom, Boom).slept(0.5, 0.05)


def test_aws_v2_1_cuts_a_long_hint() -> None:
    SYNC(presets.aws_v2_1(on=lambda error: hinted(30), rng=lambda: 0.5), Boom, Boom, "ok").slept(5.025, 5.05)


def test_aws_bounds_cover_throttling() -> None:
    assert retry_of(presets.aws_v2_1()).backoff.bounds(0) == (0.0, 1.0)
    assert presets.AwsBackoff(throttle_base=None).bounds(0) == (0.0, 0.05)


def test_aws_ceiling_and_mean_are_those_of_a_plain_failure() -> None:
    backoff = presets.AwsBackoff(0.05, throttle_base=1, cap=5)
    assert [backoff.ceiling(n) for n in (0, 1, 6, 7)] == [0.05, 0.1, 3.2, 5.0]
    assert [backoff.mean(n) for n in (0, 1, 6, 7)] == [0.025, 0.05, 1.6, 2.5]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"base": 0}, "AwsBackoff: base must be > 0"),
        ({"base": 30}, "AwsBackoff: base must be <= cap"),
        ({"throttle_base": 30}, "AwsBackoff: throttle_base must be <= cap"),
        ({"cap": math.inf}, "AwsBackoff: cap must be finite"),
    ],
)
def test_aws_backoff_refuses_bad_options(options: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        presets.AwsBackoff(**options)


def test_aws_adaptive_is_the_standard_mode_and_a_rate() -> None:
    retry, rate = presets.aws_adaptive().strategies
    assert repr(retry) == repr(presets.aws_standard().strategies[0])
    assert isinstance(rate, AdaptiveRate)
    assert (rate.beta, rate.scale, rate.smoothing, rate.min_rate) == (0.7, 0.4, 0.8, 0.5)
    assert repr(presets.aws_adaptive(v2_1=True).strategies[0]) == repr(presets.aws_v2_1().strategies[0])


# --- gRPC --------------------------------------------------------------------------------------------------


def service(**retry: Any) -> dict[str, Any]:
    policy = {**SERVICE["methodConfig"][0]["retryPolicy"], **retry}  # type: ignore[index]
    return {
        "methodConfig": [
            {"name": [{"service": "s"}], "retryPolicy": {k: v for k, v in policy.items() if v is not ...}}
        ]
    }


def hedging(**policy: Any) -> dict[str, Any]:
    return {"methodConfig": [{"name": [{"service": "s"}], "hedgingPolicy": {"maxAttempts": 3, **policy}}]}


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
def test_grpc_waits_as_specified(u: float) -> None:
    # min(initial * multiplier**(n-1), max) * U(0.8, 1.2)
    backoff = retry_of(presets.grpc(service(), "s/m")).backoff
    expected = [wait * (0.8 + 0.4 * u) for wait in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0)]
    assert waits(backoff, u, 6) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("initial", "maximum", "multiplier", "expected"),
    [
        ("1s", "10s", 0.5, [1, 0.5, 0.25, 0.125]),
        ("10s", "1s", 2, [1, 1, 1, 1]),
        ("0.5s", "100s", 1, [0.5, 0.5, 0.5, 0.5]),
        ("0.000000001s", "1s", 1e300, [1e-9, 1, 1, 1]),
    ],
)
def test_grpc_takes_backoffs_that_do_not_grow(
    initial: str, maximum: str, multiplier: float, expected: list[float]
) -> None:
    config = service(initialBackoff=initial, maxBackoff=maximum, backoffMultiplier=multiplier)
    assert waits(retry_of(presets.grpc(config, "s/m")).backoff, 0.5, 4) == pytest.approx(expected)


@pytest.mark.parametrize(("given", "attempts"), [(2, 2), (5, 5), (6, 5), (1000, 5)])
def test_grpc_makes_five_attempts_at_most(given: int, attempts: int) -> None:
    assert retry_of(presets.grpc(service(maxAttempts=given), "s/m")).attempts == attempts
    assert presets.grpc(hedging(maxAttempts=given), "s/m").strategies[0].max == attempts


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (["UNAVAILABLE"], ("UNAVAILABLE",)),
        (["unavailable", "Aborted"], ("UNAVAILABLE", "ABORTED")),
        ([14, 8], ("UNAVAILABLE", "RESOURCE_EXHAUSTED")),
        ([14, "UNAVAILABLE"], ("UNAVAILABLE",)),
    ],
)
def test_grpc_codes_are_read(codes: list[Any], names: tuple[str, ...]) -> None:
    assert retry_of(presets.grpc(service(retryableStatusCodes=codes), "s/m")).on.codes == names  # type: ignore[union-attr]


WRONG = {
    "attempts 1": (service(maxAttempts=1), "retryPolicy.maxAttempts", "whole number > 1"),
    "attempts 0": (service(maxAttempts=0), "retryPolicy.maxAttempts", "whole number > 1"),
    "attempts 2.5": (service(maxAttempts=2.5), "retryPolicy.maxAttempts", "whole number > 1"),
    "attempts text": (service(maxAttempts="3"), "retryPolicy.maxAttempts", "whole number > 1"),
    "attempts true": (service(maxAttempts=True), "retryPolicy.maxAttempts", "whole number > 1"),
    "attempts missing": (service(maxAttempts=...), "retryPolicy", "must have 'maxAttempts'"),
    "initial 0": (service(initialBackoff="0s"), "retryPolicy.initialBackoff", "must be > 0"),
    "initial negative": (service(initialBackoff="-1s"), "retryPolicy.initialBackoff", "must be a duration"),
    "initial number": (service(initialBackoff=0.1), "retryPolicy.initialBackoff", "must be a duration"),
    "initial unit": (service(initialBackoff="100ms"), "retryPolicy.initialBackoff", "must be a duration"),
    "initial bare s": (service(initialBackoff="s"), "retryPolicy.initialBackoff", "must be a duration"),
    "initial ten decimals": (
        service(initialBackoff="0.0000000001s"),
        "retryPolicy.initialBackoff",
        "must be a duration",
    ),
    "initial missing": (service(initialBackoff=...), "retryPolicy", "must have 'initialBackoff'"),
    "max 0": (service(maxBackoff="0s"), "retryPolicy.maxBackoff", "must be > 0"),
    "max missing": (service(maxBackoff=...), "retryPolicy", "must have 'maxBackoff'"),
    "multiplier 0": (service(backoffMultiplier=0), "retryPolicy.backoffMultiplier", "must be > 0"),
    "multiplier negative": (service(backoffMultiplier=-1), "retryPolicy.backoffMultiplier", "must be > 0"),
    "multiplier text": (service(backoffMultiplier="2"), "retryPolicy.backoffMultiplier", "must be a number"),
    "multiplier missing": (service(backoffMultiplier=...), "retryPolicy", "must have 'backoffMultiplier'"),
    "codes empty": (service(retryableStatusCodes=[]), "retryPolicy.retryableStatusCodes", "at least one"),
    "codes missing": (service(retryableStatusCodes=...), "retryPolicy", "must have 'retryableStatusCodes'"),
    "codes no list": (
        service(retryableStatusCodes="UNAVAILABLE"),
        "retryPolicy.retryableStatusCodes",
        "must be a list",
    ),
    "code unknown": (
        service(retryableStatusCodes=["GONE"]),
        "retryPolicy.retryableStatusCodes[0]",
        "name or number",
    ),
    "code 17": (service(retryableStatusCodes=[17]), "retryPolicy.retryableStatusCodes[0]", "name or number"),
    "code OK": (
        service(retryableStatusCodes=["OK"]),
        "retryPolicy.retryableStatusCodes[0]",
        "name or number",
    ),
    "code true": (
        service(retryableStatusCodes=[True]),
        "retryPolicy.retryableStatusCodes[0]",
        "name or number",
    ),
    "hedging attempts": (hedging(maxAttempts=1), "hedgingPolicy.maxAttempts", "whole number > 1"),
    "hedging delay": (hedging(hedgingDelay="fast"), "hedgingPolicy.hedgingDelay", "must be a duration"),
    "hedging codes": (
        hedging(nonFatalStatusCodes=[99]),
        "hedgingPolicy.nonFatalStatusCodes[0]",
        "name or number",
    ),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_grpc_refuses_configs_that_a6_refuses(case: str) -> None:
    config, key, says = WRONG[case]
    with pytest.raises(ConfigError, match=says) as caught:
        presets.grpc(config, "s/m")
    assert caught.value.key == f"methodConfig[0].{key}"


def test_grpc_refuses_retrying_and_hedging_at_once() -> None:
    config = service()
    config["methodConfig"][0]["hedgingPolicy"] = {"maxAttempts": 2}
    with pytest.raises(ConfigError, match="must not stand beside a retryPolicy"):
        presets.grpc(config, "s/m")


@pytest.mark.parametrize(
    ("throttling", "key"),
    [
        ({"maxTokens": 0, "tokenRatio": 0.1}, "retryThrottling.maxTokens"),
        ({"maxTokens": -5, "tokenRatio": 0.1}, "retryThrottling.maxTokens"),
        ({"maxTokens": 1001, "tokenRatio": 0.1}, "retryThrottling.maxTokens"),
        ({"maxTokens": "10", "tokenRatio": 0.1}, "retryThrottling.maxTokens"),
        ({"maxTokens": 10, "tokenRatio": 0}, "retryThrottling.tokenRatio"),
        ({"maxTokens": 10, "tokenRatio": 0.0004}, "retryThrottling.tokenRatio"),
        ({"maxTokens": 10}, "retryThrottling"),
    ],
)
def test_grpc_refuses_bad_throttling(throttling: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        presets.grpc_throttle({"retryThrottling": throttling})
    assert caught.value.key == key


@pytest.mark.parametrize(
    "throttling", [{"maxTokens": 1000, "tokenRatio": 0.001}, {"maxTokens": 0.5, "tokenRatio": 5}]
)
def test_grpc_takes_throttling_at_its_bounds(throttling: Any) -> None:
    budget = presets.grpc_throttle({"retryThrottling": throttling})
    assert budget is not None
    assert (budget.max_tokens, budget.token_ratio) == (throttling["maxTokens"], throttling["tokenRatio"])


def test_grpc_throttle_charges_as_specified() -> None:
    # 10 tokens: refused while <= 5; -1 per failing attempt, +0.1 per success.
    policy = presets.grpc(SERVICE, "pkg.Service/Get", rng=lambda: 0.5).with_(on=Boom)
    budget = retry_of(policy).budget
    SYNC(policy, Boom, Boom, Boom, Boom).made(4)
    assert budget.balance == 6.0
    SYNC(policy, Boom).made(1).stopped_for("budget")
    assert budget.balance == 5.0, "the failure pays, then the retry is refused"
    for _ in range(11):
        SYNC(policy, "ok")
    assert budget.balance == pytest.approx(6.1)
    SYNC(policy, Boom, "ok").made(2).returned("ok")
    assert budget.balance == pytest.approx(5.2)


def test_grpc_methods_of_one_server_share_their_throttle() -> None:
    throttle = presets.grpc_throttle(SERVICE)
    one, two = (retry_of(presets.grpc(SERVICE, f"pkg.Service/{m}", throttle=throttle)) for m in ("A", "B"))
    assert one.budget is two.budget is throttle
    assert presets.grpc_throttle({}) is None
    assert retry_of(presets.grpc(service(), "s/m")).budget is None


def test_grpc_picks_the_most_specific_entry() -> None:
    def entry(timeout: str, *names: dict[str, str]) -> dict[str, Any]:
        return {"name": list(names), "timeout": timeout}

    config = json.dumps(
        {
            "methodConfig": [
                entry("1s", {}),
                entry("2s", {"service": "a.B"}),
                entry("3s", {"service": "a.B", "method": "Get"}, {"service": "x.Y", "method": "Z"}),
            ]
        }
    )
    found = {
        m: presets.grpc(config, m).strategies[0].seconds
        for m in ("a.B/Get", "/a.B/Get", "a.B/Put", "c.D/Get", "x.Y/Z")
    }
    assert found == {"a.B/Get": 3, "/a.B/Get": 3, "a.B/Put": 2, "c.D/Get": 1, "x.Y/Z": 3}
    assert presets.grpc({"methodConfig": []}, "a.B/Get").strategies == ()
    assert presets.grpc({}, "a.B/Get")(lambda: 1)() == 1


@pytest.mark.parametrize("method", ["", "Get", "/", "a.B/", "/Get", "a/b/c"])
def test_grpc_refuses_a_method_it_cannot_read(method: str) -> None:
    with pytest.raises(ConfigError, match=r"pkg\.Service/Method"):
        presets.grpc(SERVICE, method)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a table"),
        ({"methodConfig": {}}, "must be a list"),
        ({"methodConfig": [{"name": [{"method": "m"}]}]}, "must name a service"),
        ({"methodConfig": [{"name": [{"service": 3}]}]}, "must be a string"),
        ({"methodConfig": [{"name": [{"service": "s"}]}, {"name": [{"service": "s"}]}]}, "same methods"),
        ({"methodConfig": [{"name": [{"service": "s"}], "timeout": "1"}]}, "must be a duration"),
    ],
)
def test_grpc_refuses_a_config_it_cannot_read(config: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        presets.grpc(config, "s/m")


def test_grpc_errors_in_text_have_a_line() -> None:
    text = json.dumps(service(maxAttempts=1), indent=1)
    with pytest.raises(ConfigError) as caught:
        presets.grpc(text, "s/m")
    assert caught.value.line == next(n for n, line in enumerate(text.split("\n"), 1) if "maxAttempts" in line)


def test_grpc_deadline_is_outermost() -> None:
    policy = presets.grpc(SERVICE, "pkg.Service/Get")
    assert [type(s) for s in policy.strategies] == [sp.Deadline, sp.Retry]
    assert policy.strategies[0].seconds == 2.5


def test_grpc_hedging_policy_becomes_a_hedge() -> None:
    hedge = presets.grpc(
        hedging(hedgingDelay="0.25s", nonFatalStatusCodes=["UNAVAILABLE"]), "s/m"
    ).strategies[0]
    assert (hedge.after, hedge.max, hedge.idempotent, hedge.on.codes) == (0.25, 3, True, ("UNAVAILABLE",))
    at_once = presets.grpc(hedging(), "s/m").strategies[0]
    assert (at_once.after, at_once.on.codes) == (0.0, ())
    assert at_once.budget.withdraw() == 1.0 and math.isinf(at_once.budget.rate), (
        "A6 bounds nothing without throttling"
    )
    throttled = presets.grpc(
        {**hedging(), "retryThrottling": {"maxTokens": 4, "tokenRatio": 1}}, "s/m"
    ).strategies[0]
    assert isinstance(throttled.budget, sp.ThrottleBudget)


def rpc_error(code: str, *trailing: tuple[str, str]) -> Exception:
    grpc = pytest.importorskip("grpc")

    class Failed(grpc.RpcError):  # type: ignore[misc]
        def code(self) -> Any:
            return grpc.StatusCode[code]

        def trailing_metadata(self) -> Any:
            return trailing

        def details(self) -> str:
            return ""

    return Failed()


@pytest.mark.parametrize(
    ("code", "trailing", "kind", "after"),
    [
        ("UNAVAILABLE", (), "transient", None),
        ("ABORTED", (), "fatal", None),
        ("RESOURCE_EXHAUSTED", (("grpc-retry-pushback-ms", "100"),), "fatal", 0.1),
        ("UNAVAILABLE", (("grpc-retry-pushback-ms", "250"),), "transient", 0.25),
        ("UNAVAILABLE", (("grpc-retry-pushback-ms", "-1"),), "pushback", None),
        ("UNAVAILABLE", (("grpc-retry-pushback-ms", "soon"),), "pushback", None),
        ("UNAVAILABLE", (("grpc-retry-pushback-ms", "1"), ("grpc-retry-pushback-ms", "2")), "pushback", None),
        ("ABORTED", (("grpc-retry-pushback-ms", "-1"),), "pushback", None),
    ],
)
def test_grpc_judges_by_the_listed_codes(code: str, trailing: Any, kind: str, after: float | None) -> None:
    verdict = retry_of(presets.grpc(service(), "s/m")).judge(rpc_error(code, *trailing))
    assert (verdict.kind, verdict.after) == (kind, after)


def test_grpc_pushback_that_says_stop_costs_a_token() -> None:
    policy = presets.grpc(SERVICE, "pkg.Service/Get")
    stop = rpc_error("UNAVAILABLE", ("grpc-retry-pushback-ms", "-1"))
    SYNC(policy, stop).made(1)
    assert retry_of(policy).budget.balance == 9.0
    SYNC(policy, rpc_error("ABORTED")).made(1)
    assert retry_of(policy).budget.balance == 9.0, "another fatal status costs nothing"


def test_grpc_hedged_failures_cost_tokens() -> None:
    config = hedging(hedgingDelay="0.1s", nonFatalStatusCodes=["UNAVAILABLE"])
    policy = presets.grpc({**config, "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}, "s/m")
    error = rpc_error("UNAVAILABLE")

    @policy
    async def call() -> None:
        raise error

    async def main(clock: Any) -> None:
        with pytest.raises(type(error)):
            await call()

    sp.testing.run(main)
    assert policy.strategies[0].budget.balance == 7.0


def test_grpc_plans_a_pushback_exactly_and_begins_again() -> None:
    backoff = retry_of(presets.grpc(service(), "s/m")).backoff
    assert backoff.plan(0, None, FAILED, draws(0.5)) == (pytest.approx(0.1), pytest.approx(0.1), 1)
    assert backoff.plan(3, 0.8, hinted(0.007), draws()) == (0.007, None, 0)


def test_grpc_pushback_replaces_the_wait() -> None:
    error = rpc_error("UNAVAILABLE")
    pushed = rpc_error("UNAVAILABLE", ("grpc-retry-pushback-ms", "7"))
    policy = presets.grpc(service(maxAttempts=5), "s/m", rng=lambda: 0.5)
    SYNC(policy, error, error, pushed, error, "ok").returned("ok").slept(0.1, 0.2, 0.007, 0.1)


# --- cenkalti ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("u", "factor"), [(0.0, 0.5), (0.5, 1.0), (ALMOST_ONE, 1.5)])
def test_cenkalti_waits_as_published(version: int, u: float, factor: float) -> None:
    # 0.5 s * 1.5**n, held to 60 s before the jitter; the original truncates to nanoseconds.
    intervals = [0.5, 0.75, 1.125, 1.6875, 2.53125, 3.796875, 5.6953125, 8.54296875, 12.814453125]
    intervals += [19.221679687, 28.832519530, 43.248779295, 60.0, 60.0]
    expected = [interval * factor for interval in intervals]
    assert waits(retry_of(presets.cenkalti(version)).backoff, u, 14) == pytest.approx(expected, abs=5e-9)


@pytest.mark.parametrize("version", [4, 5])
def test_cenkalti_stops_rather_than_pass_fifteen_minutes(version: int) -> None:
    played = SYNC(presets.cenkalti(version, rng=lambda: 0.5), KeyError, ...)
    played.stopped_for("within")
    total = sum(played.sleeps)
    assert 840 < total <= 900, "one more wait of 60 s would have passed 900 s"
    assert played.calls == len(played.sleeps) + 1 > 20


def test_cenkalti_retries_everything_but_permanent() -> None:
    SYNC(presets.cenkalti(), KeyError, ValueError, "ok").returned("ok")
    SYNC(presets.cenkalti(), sp.Permanent(KeyError("x"))).made(1).raised(KeyError)


def test_cenkalti_v5_plans_a_retry_after_exactly_and_begins_again() -> None:
    assert retry_of(presets.cenkalti(5)).backoff.plan(7, 8.5, hinted(42), draws()) == (42, None, 0)


def test_cenkalti_v5_waits_for_the_hint_and_then_starts_again() -> None:
    policy = presets.cenkalti(5, rng=lambda: 0.5)
    hint = sp.RetryAfter(42, Boom("busy"))
    SYNC(policy, Boom, Boom, hint, Boom, "ok").returned("ok").slept(0.5, 0.75, 42, 0.5)


def test_cenkalti_knows_two_versions() -> None:
    with pytest.raises(ValueError, match="version must be 4 or 5, got 3"):
        presets.cenkalti(3)


# --- go-retryablehttp, Stripe, Google ----------------------------------------------------------------------


class Answer(Exception):
    """An HTTP error as clients raise it."""

    def __init__(self, status: int, method: str = "GET", **headers: str) -> None:
        super().__init__(status)
        request = type("Request", (), {"method": method, "headers": {}})()
        self.response = type(
            "Response", (), {"status_code": status, "headers": headers, "request": request}
        )()


Answer.__module__, Answer.__qualname__ = "requests.exceptions", "HTTPError"


def statuses(policy: sp.Policy) -> set[int]:
    judge = retry_of(policy).judge
    return {status for status in range(400, 600) if judge(Answer(status)).retry}


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
def test_retryablehttp_waits_as_published(u: float) -> None:
    assert waits(retry_of(presets.retryablehttp()).backoff, u, 7) == [1, 2, 4, 8, 16, 30, 30]


def test_retryablehttp_makes_four_retries() -> None:
    played = SYNC(presets.retryablehttp(), Boom, Boom, Boom, Boom, Boom)
    played.raised_the_last_error().made(5).slept(1, 2, 4, 8)


def test_retryablehttp_retries_these_statuses() -> None:
    assert statuses(presets.retryablehttp()) == {429, *range(500, 600)} - {501}


def test_retryablehttp_plans_a_retry_after_exactly_and_goes_on() -> None:
    assert retry_of(presets.retryablehttp()).backoff.plan(2, 2.0, hinted(9), draws()) == (9, 2.0, 3)


def test_retryablehttp_retry_after_in_the_loop() -> None:
    busy = Answer(503, **{"retry-after": "9"})
    SYNC(presets.retryablehttp(), Boom, busy, Boom, "ok").returned("ok").slept(1, 9, 4)


def test_retryablehttp_does_not_wait_for_ever() -> None:
    SYNC(presets.retryablehttp(), Answer(503, **{"retry-after": "86400"})).made(1).slept()


@pytest.mark.parametrize(
    ("u", "expected"),
    [
        (0.0, [0.5, 0.5, 1.0, 2.0, 2.0]),
        (0.5, [0.5, 0.75, 1.5, 3.0, 3.0]),
        (ALMOST_ONE, [0.5, 1.0, 2.0, 4.0, 4.0]),
    ],
)
def test_stripe_waits_as_published(u: float, expected: list[float]) -> None:
    # min(0.5 * 2**n, 4) * (1 + u) / 2, and never less than 0.5.
    assert waits(retry_of(presets.stripe()).backoff, u, 5) == pytest.approx(expected)


def test_stripe_makes_three_attempts_and_asks_for_keys() -> None:
    SYNC(presets.stripe(rng=lambda: 0.0), Boom, Boom, Boom).made(3).slept(0.5, 0.5)
    assert statuses(presets.stripe()) == {409, *range(500, 600)}
    judge = retry_of(presets.stripe()).judge
    assert not judge(Answer(500, "POST")).retry
    keyed = Answer(500, "POST")
    keyed.response.request.headers["Idempotency-Key"] = "k"
    assert judge(keyed).retry


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
def test_google_waits_as_published(u: float) -> None:
    expected = [u * wait for wait in (1, 2, 4, 8, 16, 32, 60, 60)]
    assert waits(retry_of(presets.google()).backoff, u, 8) == expected


def test_google_stops_after_two_minutes() -> None:
    assert statuses(presets.google()) == {429, 500, 503}
    played = SYNC(presets.google(rng=lambda: 0.5), Boom, ...)
    # 0.5 + 1 + 2 + 4 + 8 + 16 + 30 + 30 = 91.5; another 30 would pass 120.
    played.stopped_for("within").made(9).slept(0.5, 1, 2, 4, 8, 16, 30, 30)


# --- Finagle -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("percent", [0.0001, 0.001, 0.1, 0.2, 0.25, 0.4, 0.6, 0.7, 0.9, 0.9999])
def test_finagle_budget_is_exact(percent: float) -> None:
    # Frozen time, 10,000 requests: 10,000 p + the reserve of 10 * 10, +-1.
    policy = presets.finagle(percent=percent, clock=sp.testing.FakeClock())
    budget = retry_of(policy).budget
    for _ in range(10_000):
        budget.started()
    retries = 0
    while budget.withdraw():
        retries += 1
    assert abs(retries - (10_000 * percent + 100)) <= 1


def test_finagle_earns_at_the_start_and_retries_at_once() -> None:
    clock = sp.testing.FakeClock()
    policy = presets.finagle(min_retries_per_s=0, percent=0.5, clock=clock)
    with pytest.raises(Boom):
        policy(_boom)()
    assert retry_of(policy).budget.balance == 0.5
    calls = []

    @policy
    def second() -> None:
        calls.append(1)
        raise Boom

    with pytest.raises(Boom):
        second()
    assert (len(calls), clock.sleeps) == (2, [0.0])


def _boom() -> None:
    raise Boom


@pytest.mark.parametrize(
    ("options", "says"), [({"ttl": 0.5}, "ttl must be >= 1"), ({"ttl": 61}, "ttl must be <= 60")]
)
def test_finagle_refuses_bad_options(options: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        presets.finagle(**options)
    assert presets.finagle(1) and presets.finagle(60)


# --- Envoy -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
def test_envoy_waits_as_published(u: float) -> None:
    expected = [u * wait for wait in (0.025, 0.05, 0.1, 0.2, 0.25, 0.25)]
    assert waits(retry_of(presets.envoy()).backoff, u, 6) == expected
    assert retry_of(presets.envoy()).attempts == 2


def under_way(budget: presets.EnvoyBudget, count: int) -> list[Any]:
    """Calls that have begun, each in a context of its own."""
    found = []
    for _ in range(count):
        context = contextvars.copy_context()
        found.append((context, context.run(budget._begin)))
    return found


@pytest.mark.parametrize(
    ("percent", "least", "active", "allowed"),
    [
        (20, 3, 1, 3),
        (20, 3, 15, 3),
        (20, 3, 19, 3),
        (20, 3, 20, 4),
        (20, 3, 24, 4),
        (20, 3, 100, 20),
        (0, 0, 100, 0),
        (100, 0, 7, 7),
        (33.3, 0, 10, 3),
    ],
)
def test_envoy_budget_is_a_share_of_the_calls_under_way(
    percent: float, least: int, active: int, allowed: int
) -> None:
    budget = presets.EnvoyBudget(percent, least)
    calls = under_way(budget, active)
    granted = [context.run(budget.withdraw) for context, _ in calls]
    assert sum(granted) == min(allowed, active)
    assert budget.balance == max(0, allowed - active)
    for context, token in calls:
        context.run(budget._end, token)
    assert budget.describe() | {"percent": 0} == {
        "kind": "EnvoyBudget",
        "percent": 0,
        "min_concurrency": least,
        "active": 0,
        "retrying": 0,
    }


def test_call_with_several_retries_counts_once_in_an_envoy_budget() -> None:
    budget = presets.EnvoyBudget(0, 1)
    (one, first), (two, second) = under_way(budget, 2)
    assert [one.run(budget.withdraw) for _ in range(3)] == [1.0, 1.0, 1.0]
    assert two.run(budget.withdraw) == 0.0
    one.run(budget._end, first)
    assert two.run(budget.withdraw) == 1.0
    two.run(budget._end, second)
    assert budget.withdraw() == 0.0, "outside any call there is nothing to retry"


def test_copy_of_an_envoy_budget_is_another_budget_without_history() -> None:
    budget = presets.EnvoyBudget(50, 7)
    ((context, token),) = under_way(budget, 1)
    context.run(budget.withdraw)
    copy = budget.fresh()
    assert copy != budget and budget == budget
    assert len({budget, copy}) == 2
    assert copy.describe() == {**budget.describe(), "active": 0, "retrying": 0}
    context.run(budget._end, token)


def test_envoy_policy_settles_its_budget_sync_and_async() -> None:
    policy = presets.envoy(retries=2, rng=lambda: 0.5)
    SYNC(policy, Boom, Boom, "ok").returned("ok").slept(0.0125, 0.025)
    budget = policy.strategies[0]
    assert (budget.balance, budget._active) == (3.0, 0)

    async def main() -> int:
        gate, three = asyncio.Event(), asyncio.Event()
        retrying = 0

        @policy
        async def call() -> None:
            nonlocal retrying
            attempt = sp.attempt()
            if attempt is None or attempt.number == 1:
                raise Boom
            retrying += 1
            if retrying == 3:
                three.set()
            await gate.wait()

        tasks = [asyncio.ensure_future(call()) for _ in range(6)]
        results = asyncio.gather(*tasks, return_exceptions=True)
        await three.wait()
        gate.set()
        return sum(sp.stopped(result) is not None for result in await results)

    with sp.testing.instant():
        assert asyncio.run(main()) == 3
    assert (budget._active, budget._retrying) == (0, 0)


# --- Polly -------------------------------------------------------------------------------------------------


def polly_original(us: list[float], delay: float) -> list[float]:
    """From the published formula: t = attempt + u; 2**t * tanh(sqrt(4 t)) less the one before, / 1.4."""
    found, before = [], 0.0
    for attempt, u in enumerate(us):
        t = attempt + u
        term = 2.0**t * math.tanh(math.sqrt(4.0 * t))
        found.append((term - before) * delay / 1.4)
        before = term
    return found


@pytest.mark.parametrize(
    "us",
    [
        [0.0] * 6,
        [0.5] * 6,
        [ALMOST_ONE] * 6,
        [0.9, 0.1, 0.9, 0.1, 0.9, 0.1],
        [0.3, 0.7, 0.11, 0.99, 0.5, 0.42],
    ],
)
def test_polly_waits_as_published(us: list[float]) -> None:
    backoff = presets.PollyJitter(2.0)
    expected = polly_original(us, 2.0)
    assert list(itertools.islice(backoff.delays(draws(*us)), 6)) == pytest.approx(expected)
    draw, n, memory, planned = draws(*us), 0, None, []
    for _ in us:
        wait, memory, n = backoff.plan(n, memory, FAILED, draw)
        planned.append(wait)
    assert planned == pytest.approx(expected)
    assert n == 6


def test_polly_gives_the_known_numbers() -> None:
    # By hand: 2**0.5 * tanh(sqrt 2) = 1.41421 * 0.888386 = 1.25637; 2 * tanh 2 = 2 * 0.964028 = 1.92806.
    assert presets.PollyJitter(1.0).delay(0, None, 0.5) == pytest.approx(1.25637 / 1.4, rel=1e-5)
    assert polly_original([0.0, 0.0], 1.0)[1] == pytest.approx(1.92806 / 1.4, rel=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_polly_waits_are_distributed_as_the_originals(n: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    import random

    rng = random.Random(20)
    ours = [presets.PollyJitter(1.0).delay(n, None, rng.random()) for _ in range(4000)]
    theirs = [polly_original([rng.random() for _ in range(n + 1)], 1.0)[n] for _ in range(4000)]
    assert stats.ks_2samp(ours, theirs).pvalue > 0.001


def test_polly_medians_match_the_docs() -> None:
    """The words of the docs and of ``ceiling``, of the published formula and of ours alike."""
    import random

    rng = random.Random(7)
    theirs = [polly_original([rng.random() for _ in range(6)], 2.0) for _ in range(20_000)]
    backoff = presets.PollyJitter(2.0)
    ours = [list(itertools.islice(backoff.delays(rng.random), 6)) for _ in range(20_000)]
    for rows in (theirs, ours):
        alone = [statistics.median(waits) for waits in zip(*rows, strict=True)]
        assert alone == pytest.approx([1.8, 2.3, 4, 8, 16, 32], rel=0.03)
        together = [statistics.median(map(sum, (row[: n + 1] for row in rows))) for n in range(6)]
        assert together[0] == pytest.approx(1.8, rel=0.03)
        assert together[1:] == pytest.approx([backoff.ceiling(n) for n in range(1, 6)], rel=0.03)


def test_polly_waits_of_arrays_are_those_of_floats() -> None:
    np = pytest.importorskip("numpy")
    backoff = presets.PollyJitter(0.5, cap=3)
    u = np.linspace(0, 1, 11)
    n = np.arange(11)
    assert backoff.delay(n, None, u).tolist() == [
        backoff.delay(k, None, x) for k, x in zip(range(11), u.tolist(), strict=True)
    ]
    assert backoff.delay(2, None, u).shape == (11,)
    with pytest.raises(ValueError, match="n must be >= 0"):
        backoff.delay(-1, None, u)


@pytest.mark.parametrize("n", [0, 1, 5, 60])
def test_polly_bounds_hold(n: int) -> None:
    import random

    rng = random.Random(n)
    for backoff in (presets.PollyJitter(2.0), presets.PollyJitter(2.0, cap=30)):
        low, high = backoff.bounds(n)
        seen = [backoff.delay(n, None, rng.random()) for _ in range(300)]
        assert low <= min(seen) and max(seen) <= high
        assert backoff.cap is None or high <= backoff.cap


@pytest.mark.parametrize("n", [1022, 1024, 5000, 10**6])
@pytest.mark.parametrize("u", [0.0, 0.5, 1.0])
def test_polly_stays_finite(n: int, u: float) -> None:
    for backoff in (presets.PollyJitter(2.0), presets.PollyJitter(2.0, cap=30)):
        assert 0 <= backoff.delay(n, None, u) < math.inf
        assert math.isfinite(backoff.ceiling(n))
        memory = None if n < 1024 else math.inf
        assert 0 <= backoff.plan(n, memory, FAILED, draws(u))[0] < math.inf


def test_polly_preset_has_its_options() -> None:
    policy = presets.polly()
    assert (retry_of(policy).attempts, retry_of(policy).backoff) == (4, presets.PollyJitter(2.0))
    assert retry_of(presets.polly(1, 5, max_delay=30)).backoff == presets.PollyJitter(1.0, cap=30)
    with pytest.raises(ValueError, match="polly: retries must be >= 1"):
        presets.polly(retries=0)


def test_polly_waits_in_the_loop_as_published() -> None:
    us = [0.9, 0.1, 0.7]
    SYNC(presets.polly(rng=draws(*us)), Boom, Boom, Boom, Boom).slept(*polly_original(us, 2.0))


# --- as values ---------------------------------------------------------------------------------------------

BACKOFFS = [
    presets.AwsBackoff(),
    presets.AwsBackoff(0.025, throttle_base=None, cap=5),
    presets.GrpcBackoff(0.1, 1, 1.5),
    presets.HintedExponential(hint="replace"),
    presets.PollyJitter(1, cap=9),
]


@pytest.mark.parametrize("backoff", BACKOFFS, ids=repr)
def test_preset_backoffs_compare_and_round_trip(backoff: Any) -> None:
    names = {name: getattr(presets, name) for name in presets.__all__}
    assert eval(repr(backoff), names) == backoff
    assert pickle.loads(pickle.dumps(backoff)) == backoff
    assert hash(backoff.replace()) == hash(backoff)
    policy = sp.Policy(sp.Retry(backoff=backoff), name="p")
    assert Registry.from_data({"policies": {"p": to_data(policy)}})["p"].strategies[0].backoff == backoff


def test_hinted_exponential_refuses_an_unknown_hint() -> None:
    with pytest.raises(ValueError, match="HintedExponential: hint must be one of 'restart', 'replace'"):
        presets.HintedExponential(hint="ignore")


@pytest.mark.parametrize(
    "name", ["aws_standard", "aws_v2_1", "aws_adaptive", "cenkalti 4", "cenkalti 5", "finagle", "polly"]
)
def test_presets_of_named_failures_can_be_written_to_a_file(name: str) -> None:
    policy = ALL[name](name="p")
    assert repr(Registry.from_data({"policies": {"p": to_data(policy)}})["p"]).replace(
        "name='p', ", ""
    ) == repr(policy).replace("name=None", "name='p'")
