"""Retry loops of client libraries: cenkalti/backoff, go-retryablehttp, Stripe, Google, Polly."""

from __future__ import annotations

from .._classify.classifier import transient
from .._policy.policy import Policy
from .._primitives.options import Seconds, count, seconds
from .._strategies.retry.backoff import Exponential
from .._strategies.retry.jitter import Symmetric
from .._strategies.retry.retry import Retry
from .backoffs import HintedExponential, PollyJitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from .._classify.on_clause import On
    from .._policy.policy import PolicyOptions
    from .._strategies.keyed import Keyed
    from .._strategies.protocol import AnyBudget


def cenkalti(
    version: int = 5,
    *,
    on: On = Exception,
    budget: AnyBudget | Keyed | None = None,
    **options: Unpack[PolicyOptions],
) -> Policy:
    """cenkalti/backoff, v4 or v5, with its default `ExponentialBackOff`.

    Wait ``min(0.5 * 1.5**n, 60)`` seconds +-50 % (the cap holds before the jitter); retried for 15
    minutes, as often as that allows; a wait that would pass them is not begun. Every error is retried
    but `Permanent`. v5: `RetryAfter` replaces the wait and the waits begin anew. ``options`` are those
    of `Policy`.

    Departures: the 15 minutes count from the first failure, since a success reads no clock; the
    original's count from the start; a `RetryAfter` of up to 15 minutes is waited for if it came before they
    were over. The original draws from an interval longer by 1 ns. It has no budget; pass one.
    """
    if version not in (4, 5):
        raise ValueError(f"cenkalti: version must be 4 or 5, got {version!r}")
    kind = HintedExponential if version == 5 else Exponential
    backoff = kind(0.5, factor=1.5, cap=60.0, jitter=Symmetric(0.5))
    retry = Retry(on, attempts=None, backoff=backoff, within=900.0, budget=budget, max_hint=900.0)
    return Policy(retry, **options)


def retryablehttp(
    *, on: On | None = None, budget: AnyBudget | Keyed | None = None, **options: Unpack[PolicyOptions]
) -> Policy:
    """hashicorp/go-retryablehttp's default client.

    4 retries (5 attempts). Wait ``min(1 * 2**n, 30)`` seconds, no jitter; ``Retry-After`` replaces it.
    Retried: 429, and 500 and above but 501; connection errors. ``options`` are those of `Policy`.

    Departures: a ``Retry-After`` of more than 60 s ends the call; the original waits for as long as
    the server says. It is read from every answer, there from 429 and 503 only. A POST or PATCH is
    retried only with an idempotency key, or when nothing was processed. The original has no budget;
    pass one.
    """
    statuses = {429, *range(500, 600)} - {501}
    backoff = HintedExponential(1.0, factor=2.0, cap=30.0, jitter="none", hint="replace")
    retry = Retry(
        on or transient.with_(statuses=statuses), attempts=5, backoff=backoff, within=None, budget=budget
    )
    return Policy(retry, **options)


def stripe(
    *, on: On | None = None, budget: AnyBudget | Keyed | None = None, **options: Unpack[PolicyOptions]
) -> Policy:
    """Stripe's client libraries.

    3 attempts. Wait ``min(0.5 * 2**n, 4)`` seconds times a draw from [0.5, 1), but never less than
    0.5; a ``Retry-After`` of up to 60 s is a floor. Retried: 409, 500 and above, connection errors; a
    POST only with an idempotency key, which the HTTP integrations can add (``idempotency_key="auto"``).
    ``options`` are those of `Policy`.

    Departures: a longer ``Retry-After`` ends the call instead of being ignored, and waits that follow
    one are spread by up to 10 %. The header ``Stripe-Should-Retry`` is not read. The original has no
    budget; pass one.
    """
    backoff = Exponential(0.5, factor=2.0, cap=4.0, jitter="equal", min=0.5)
    chosen = on or transient.with_(statuses={409, *range(500, 600)})
    return Policy(Retry(chosen, attempts=3, backoff=backoff, within=None, budget=budget), **options)


def google(
    *, on: On | None = None, budget: AnyBudget | Keyed | None = None, **options: Unpack[PolicyOptions]
) -> Policy:
    """google-api-core's default `Retry`.

    Wait ``u * min(1 * 2**n, 60)`` seconds, for 120 seconds, as often as that allows. Retried: HTTP
    429, 500, 503; gRPC RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE; connection errors. ``options`` are
    those of `Policy`.

    Departures: the 120 seconds count from the first failure, there from the start; the call that they
    end raises its last error, there `RetryError`. A server's hint is a floor;
    the original ignores it. It has no budget; pass one.
    """
    chosen = on or transient.with_(
        statuses={429, 500, 503}, grpc_codes={"RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE"}
    )
    backoff = Exponential(1.0, factor=2.0, cap=60.0, jitter="full")
    return Policy(Retry(chosen, attempts=None, backoff=backoff, within=120.0, budget=budget), **options)


def polly(
    delay: Seconds = 2.0,
    retries: int = 3,
    *,
    max_delay: Seconds | None = None,
    on: On = transient,
    budget: AnyBudget | Keyed | None = None,
    **options: Unpack[PolicyOptions],
) -> Policy:
    """Polly v8's retry strategy with exponential backoff and jitter: 3 retries (4 attempts), delay 2 s.

    The waits are `PollyJitter`'s: medians near 0.9, 1.15, 2 times the delay, and twice that each time
    from then on. ``options`` are those of `Policy`.

    Departures: Polly handles every exception by default, here it is ``transient``. It
    has no budget; pass one.
    """
    backoff = PollyJitter(
        seconds("polly", "delay", delay, above=0),
        cap=None if max_delay is None else seconds("polly", "max_delay", max_delay, above=0),
    )
    attempts = count("polly", "retries", retries) + 1
    return Policy(Retry(on, attempts=attempts, backoff=backoff, within=None, budget=budget), **options)
