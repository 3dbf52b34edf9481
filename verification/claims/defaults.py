"""Claims about what other libraries do by default, against Stormproof's presets and themselves."""

from __future__ import annotations

from typing import Any

import stormproof as sp

from .model import Found, Topic, found, unknown
from .sources import CARD, CHAPTER, FORMULAS, GUIDE, LESSON, TAIL

topic = Topic(
    "Defaults of others",
    "Stormproof's presets were written from the sources of these libraries, and stand for them here; only "
    "botocore "
    "is run itself.",
)


def retry_of(policy: Any) -> Any:
    return next(part for part in policy.strategies if isinstance(part, sp.Retry))


@topic.claim(
    "Published defaults",
    "cenkalti: 500 ms, factor 1.5, plus or minus 50 %, cap 60 s, 15 minutes. retryablehttp: 1 to 30 s, 4 "
    "retries. "
    "Stripe: 3 attempts, 0.5 to 4 s. AWS: 3 attempts, at most 20 s.",
    FORMULAS,
    CARD,
)
def numbers() -> Found:
    presets = sp.presets
    cenkalti, http = retry_of(presets.cenkalti()), retry_of(presets.retryablehttp())
    stripe, aws = retry_of(presets.stripe()), retry_of(presets.aws_standard())
    got = {
        "cenkalti": (cenkalti.backoff.base, cenkalti.backoff.factor, cenkalti.backoff.cap, cenkalti.within),
        "retryablehttp": (http.backoff.base, http.backoff.cap, http.attempts),
        "stripe": (stripe.attempts, stripe.backoff.base, stripe.backoff.cap),
        "aws": (aws.attempts, aws.backoff.cap),
    }
    wanted = {
        "cenkalti": (0.5, 1.5, 60, 900),
        "retryablehttp": (1, 30, 5),
        "stripe": (3, 0.5, 4),
        "aws": (3, 20),
    }
    return found(
        "`presets.cenkalti()`, `retryablehttp()`, `stripe()`, `aws_standard()`",
        "; ".join(f"{name} {', '.join(f'{value:g}' for value in row)}" for name, row in got.items())
        + " (retryablehttp's 4 retries are 5 attempts)",
        got == wanted and cenkalti.backoff.jitter == sp.Symmetric(0.5),
    )


@topic.claim(
    "retryablehttp jitters by default",
    "The default backoff of go-retryablehttp is exponential with jitter.",
    GUIDE,
)
def retryablehttp() -> Found:
    jitter = retry_of(sp.presets.retryablehttp()).backoff.jitter
    return found(
        "`presets.retryablehttp()`: its jitter",
        f"{jitter!r}",
        jitter != "none",
        "Its default doubles from 1 s without jitter; the jittered one is linear and has to be asked for.",
    )


@topic.claim(
    "The AWS SDKs use decorrelated jitter",
    "The AWS SDKs wait by decorrelated jitter (botocore's standard ExponentialBackoff, SDK v3).",
    CHAPTER,
    LESSON,
)
def botocore() -> Found:
    from types import SimpleNamespace

    from botocore.retries.standard import ExponentialBackoff  # type: ignore[import-untyped,unused-ignore]

    context = SimpleNamespace(attempt_number=3, http_response=None)
    low, high = (ExponentialBackoff(random=lambda u=u: u).delay_amount(context) for u in (0.0, 1.0))
    again = ExponentialBackoff(random=lambda: 1.0)
    waits = [again.delay_amount(SimpleNamespace(attempt_number=n, http_response=None)) for n in (1, 2, 3)]
    return found(
        "botocore's `ExponentialBackoff.delay_amount` for the third attempt, with the lowest and the highest "
        "draw",
        f"the lowest is {low:g} s; the highest grows {waits[1] / waits[0]:g} and {waits[2] / waits[1]:g} "
        "times",
        low > 0 and high / waits[1] > 2.5,
        "From nothing up to a ceiling that doubles: that is full jitter, as the other texts say. The "
        "JavaScript "
        "SDK v3 is not run here; its published source has the same formula.",
    )


@topic.claim(
    "crypto rand is slower",
    "In Go math/rand is about 50 (or 100) times faster than crypto/rand; timers fire to the millisecond.",
    GUIDE,
    FORMULAS,
)
def go_speed() -> Found:
    return unknown(
        "It is about Go's runtime and the speed of a machine; a simulation in virtual time has neither."
    )


@topic.claim(
    "1800000 retries in a final",
    "In a cricket final with 25 million viewers the origin saw 1.8 million retries spread over 4 s.",
    CHAPTER,
)
def final() -> Found:
    return unknown(
        "The measurement is not published. What such players could send at most is under "
        "[25 million players](#25-million-players-retry-in-100-ms)."
    )


@topic.claim(
    "BigTable hedged",
    "Hedging after 10 ms brought the 99.9th percentile of a BigTable benchmark from 1,800 to 74 ms for 2 % "
    "more "
    "requests.",
    TAIL,
)
def bigtable() -> Found:
    return unknown(
        "It was measured on that system, whose latencies are not published. The principle is above."
    )


@topic.claim(
    "Rules of thumb",
    "Three to five attempts, a base of 100 ms, a cap of 5 s or of 30 to 60 s, budgets of 10 %, breakers at "
    "50 % of "
    "20 calls, a third of the SLO for retries, budgets above 100 requests per second.",
    FORMULAS,
    CARD,
    LESSON,
    CHAPTER,
)
def thumbs() -> Found:
    return unknown(
        "Advice says what to do, not what comes of it. `lab.tune` finds what suits a scenario of yours."
    )
