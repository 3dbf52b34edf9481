"""The retry modes of the AWS SDKs."""

from __future__ import annotations

from .._classify.classifier import transient
from .._policy.policy import Policy
from .._strategies.adaptive.rate import AdaptiveRate
from .._strategies.budget.other_systems import QuotaBudget
from .._strategies.retry.backoff import Exponential
from .._strategies.retry.retry import Retry
from .backoffs import AwsBackoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from .._classify.on_clause import On
    from .._policy.policy import PolicyOptions


def aws_standard(*, on: On = transient, **options: Unpack[PolicyOptions]) -> Policy:
    """The "standard" mode, as it was until v2.1.

    3 attempts. Wait ``u * min(2**(i-1), 20)`` seconds before retry i. Quota of 500: a retry costs 5,
    after a timeout 10; a success after retries gives back what the last one cost, a first-try
    success 1. ``options`` are those of `Policy`.

    Departures: ``transient`` decides what is retried. It knows botocore's errors and some more (every
    5xx that a repeat can help, instead of 500, 502, 503, 504). A server's hint is a minimum for the
    wait; this mode ignored it.
    """
    backoff = Exponential(1.0, factor=2.0, cap=20.0, jitter="full")
    budget = QuotaBudget(capacity=500, retry_cost=5, timeout_cost=10, success_credit=1)
    return Policy(Retry(on, attempts=3, backoff=backoff, within=None, budget=budget), **options)


def aws_v2_1(service: str | None = None, *, on: On = transient, **options: Unpack[PolicyOptions]) -> Policy:
    """The "standard" mode of v2.1.

    3 attempts. Wait ``u * min(base * 2**n, 20)`` seconds, base 0.05, after throttling 1.0. Quota of
    500: a retry costs 14, after throttling 5; given back as in `aws_standard`. For ``service``
    "dynamodb" or "dynamodb-streams": 4 attempts, base 0.025. ``x-amz-retry-after`` is held to
    [t, t + 5 s] around the wait t. ``options`` are those of `Policy`.

    Departures: those of `aws_standard` about what is retried and how an empty quota shows. A hint of
    more than 60 s ends the call with the server's error instead of being cut to t + 5. A shorter
    ``Retry-After`` or ``retry-after-ms``, which the original does not read, is held to [t, t + 5 s] as
    well: such a server may see a retry before the time it named.
    """
    dynamo = service in ("dynamodb", "dynamodb-streams")
    backoff = AwsBackoff(0.025 if dynamo else 0.05, throttle_base=1.0, cap=20.0)
    budget = QuotaBudget(capacity=500, retry_cost=14, timeout_cost=14, success_credit=1, throttle_cost=5)
    return Policy(
        Retry(on, attempts=4 if dynamo else 3, backoff=backoff, within=None, budget=budget), **options
    )


def aws_adaptive(*, v2_1: bool = False, on: On = transient, **options: Unpack[PolicyOptions]) -> Policy:
    """The "adaptive" mode: the standard one (`aws_v2_1` with ``v2_1=True``) and a client-side rate.

    Off until the first throttling answer; from then on every attempt waits for a token. Rate measured
    in buckets of 0.5 s, smoothed by 0.8; beta 0.7, C 0.4; at least 0.5 a second, at most twice the
    measured rate. ``options`` are those of `Policy`.

    Departures: those of the standard mode. Attempts that wait for a token go in the order they came;
    botocore lets them race.
    """
    standard = aws_v2_1(on=on) if v2_1 else aws_standard(on=on)
    return Policy(*standard.strategies, AdaptiveRate(on), **options)
