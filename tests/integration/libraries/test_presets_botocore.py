"""The AWS presets against botocore's own classes: waits, quota and rate, step by step.

botocore's "standard" mode is v2.1 in recent releases and the older one before; the classes at hand
decide which preset they are compared with.
"""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("botocore")

from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError
from botocore.retries import adaptive, bucket, standard, throttling
from botocore.retries.quota import RetryQuota

import stormproof as sp
from stormproof import presets

V2_1 = standard.RetryQuotaChecker._RETRY_COST == 14
OPERATION = SimpleNamespace(
    name="GetItem", error_shapes=[], service_model=SimpleNamespace(service_name="dynamodb")
)
CODES = {"throttle": "ThrottlingException", "transient": "RequestTimeout", "fatal": "ValidationException"}


def preset(service: str | None = None, **options: Any) -> sp.Policy:
    return presets.aws_v2_1(service, **options) if V2_1 else presets.aws_standard(**options)


def context(
    attempt: int, kind: str = "transient", request: dict[str, Any] | None = None, **headers: str
) -> Any:
    """The facts of a failed attempt as botocore's classes take them."""
    if kind in ("timeout", "connection"):
        url = "https://aws.test"
        error = (
            ConnectTimeoutError(endpoint_url=url)
            if kind == "timeout"
            else EndpointConnectionError(endpoint_url=url)
        )
        return standard.RetryContext(attempt, OPERATION, caught_exception=error, request_context=request)
    response = SimpleNamespace(status_code=400, headers={k.replace("_", "-"): v for k, v in headers.items()})
    parsed = {"Error": {"Code": CODES[kind]}, "ResponseMetadata": {}}
    return standard.RetryContext(attempt, OPERATION, parsed, response, request_context=request)


def failure(kind: str) -> Exception:
    """The same failure as botocore's client raises it."""
    seen = context(1, kind)
    if seen.caught_exception is not None:
        return seen.caught_exception
    return ClientError(
        {"Error": {"Code": CODES[kind]}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "GetItem"
    )


def detector() -> Any:
    return standard.ThrottlingErrorDetector(standard.RetryEventAdapter())


def backoff(service: str | None, draw: Any) -> Any:
    if V2_1:
        return standard.ExponentialBackoff(random=draw, service_name=service, throttling_detector=detector())
    return standard.ExponentialBackoff(random=draw)


def retry_of(policy: sp.Policy) -> sp.Retry:
    return next(s for s in policy.strategies if isinstance(s, sp.Retry))


@pytest.mark.parametrize("u", [0.0, 0.25, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("service", [None, "s3", "dynamodb", "dynamodb-streams"])
def test_waits_equal_those_of_botocore(service: str | None, u: float) -> None:
    theirs = [backoff(service, lambda: u).delay_amount(context(attempt)) for attempt in range(1, 13)]
    ours = [retry_of(preset(service)).backoff.delay(n, None, u) for n in range(12)]
    assert ours == pytest.approx(theirs, rel=1e-15)


@pytest.mark.skipif(not V2_1, reason="botocore before v2.1: one base for all failures")
@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("kind", ["throttle", "transient", "timeout", "connection"])
def test_waits_by_kind_of_failure_equal_those_of_botocore(kind: str, u: float) -> None:
    verdict = sp.transient(failure(kind))
    for n in range(8):
        theirs = backoff(None, lambda: u).delay_amount(context(n + 1, kind))
        ours, _, _ = retry_of(preset()).backoff.plan(n, None, verdict, lambda: u)
        assert ours == pytest.approx(theirs, rel=1e-15)


@pytest.mark.skipif(not V2_1, reason="botocore before v2.1: reads no hint")
@pytest.mark.parametrize("header", ["0", "10", "1500", "5024", "5026", "60000", "-1", "soon", ""])
def test_waits_with_a_hint_equal_those_of_botocore(header: str) -> None:
    theirs = backoff(None, lambda: 0.5).delay_amount(context(1, "transient", x_amz_retry_after=header))
    error = ClientError(
        {
            "Error": {"Code": CODES["transient"]},
            "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"x-amz-retry-after": header}},
        },
        "GetItem",
    )
    ours, _, _ = retry_of(preset()).backoff.plan(0, None, sp.transient(error), lambda: 0.5)
    assert ours == pytest.approx(theirs)


def test_attempts_equal_those_of_botocore() -> None:
    assert retry_of(preset()).attempts == standard.DEFAULT_MAX_ATTEMPTS
    for service, attempts in getattr(standard, "_SERVICE_MAX_ATTEMPTS", {}).items():
        assert retry_of(preset(service)).attempts == attempts


class Theirs:
    """A client's retry handler, given one attempt after the other."""

    def __init__(self) -> None:
        self.quota = RetryQuota()
        self.checker = (
            standard.RetryQuotaChecker(self.quota, detector())
            if V2_1
            else standard.RetryQuotaChecker(self.quota)
        )
        self.conditions = standard.StandardRetryConditions()

    def call(self, outcomes: list[str]) -> tuple[int, str]:
        """(attempts made, how it ended) of one call."""
        request: dict[str, Any] = {}
        for attempt, outcome in enumerate(outcomes, 1):
            if outcome == "ok":
                self.checker.release_retry_quota(request, SimpleNamespace(status_code=200))
                return attempt, "ok"
            seen = context(attempt, outcome, request)
            if not self.conditions.is_retryable(seen):
                return attempt, "error"
            if not self.checker.acquire_retry_quota(seen):
                return attempt, "quota"
        raise AssertionError("the script was too short")


def ours_call(policy: sp.Policy, outcomes: list[str]) -> tuple[int, str]:
    script = iter(outcomes)
    made = itertools.count()

    @policy
    def call() -> str:
        next(made)
        outcome = next(script)
        if outcome != "ok":
            raise failure(outcome)
        return outcome

    try:
        ended = call()
    except Exception as error:
        stop = sp.stopped(error)
        ended = "quota" if stop is not None and stop.reason == "budget" else "error"
    return next(made), ended


@pytest.mark.parametrize("seed", range(6))
def test_quota_equals_that_of_botocore_step_by_step(seed: int) -> None:
    rng = random.Random(seed)
    weights = [
        [1, 1, 1, 1, 1],
        [8, 1, 1, 1, 0],
        [0, 5, 2, 2, 1],
        [1, 20, 1, 5, 0],
        [30, 1, 1, 1, 1],
        [0, 0, 0, 1, 0],
    ][seed]
    theirs, policy = Theirs(), preset(clock=sp.testing.FakeClock())
    quota = retry_of(policy).budget
    for _ in range(400):
        outcomes = rng.choices(["ok", "transient", "throttle", "timeout", "fatal"], weights, k=3)
        assert ours_call(policy, outcomes) == theirs.call(outcomes)
        assert quota.balance == theirs.quota.available_capacity


def test_older_quota_costs_equal_those_of_botocore() -> None:
    # RetryQuota is the same class in all releases; the older checker's costs are 5, and 10 after a timeout.
    theirs, ours = RetryQuota(), retry_of(presets.aws_standard()).budget
    rng = random.Random(5)
    for _ in range(2000):
        timeout = rng.random() < 0.3
        paid = ours.withdraw(timeout)
        assert bool(paid) == theirs.acquire(10 if timeout else 5)
        if rng.random() < 0.4:
            ours.success(paid or None)
            theirs.release(paid or 1)
        assert ours.balance == theirs.available_capacity


class Time:
    """botocore's clock, and ours, on the same hands."""

    def __init__(self) -> None:
        self.clock = sp.testing.FakeClock(start=1000.3)

    def current_time(self) -> float:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)


@pytest.mark.parametrize("seed", range(4))
def test_adaptive_rate_equals_that_of_botocore_step_by_step(seed: int) -> None:
    rng = random.Random(seed)
    time = Time()
    tokens = bucket.TokenBucket(max_rate=1, clock=time)
    limiter = adaptive.ClientRateLimiter(
        rate_adjustor=throttling.CubicCalculator(starting_max_rate=0, start_time=time.current_time()),
        rate_clocker=adaptive.RateClocker(time),
        token_bucket=tokens,
        throttling_detector=SimpleNamespace(is_throttling_error=lambda throttled, **_: throttled),
        clock=time,
    )
    rate = presets.aws_adaptive(clock=time.clock).strategies[1]
    error = failure("throttle")
    for step in range(500):
        time.clock.advance(rng.choice([0.01, 0.05, 0.2, 0.7]))
        throttled = rng.random() < (0.02 if step < 250 else 0.3)
        limiter.on_receiving_response(throttled=throttled)
        rate._learn(error if throttled else None)
        assert rate._cubic.enabled == limiter._enabled
        if limiter._enabled:
            assert rate.rate == pytest.approx(tokens.max_rate, rel=1e-9)
            assert rate._tokens.capacity == pytest.approx(tokens.max_capacity, rel=1e-9)
