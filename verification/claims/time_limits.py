"""Claims about time: deadlines, timeouts, and hints from the server."""

from __future__ import annotations

import random

import stormproof as sp

from .model import Found, Topic, found
from .sources import CARD, GUIDE

topic = Topic("Deadlines and hints")


def _run(policy_parts: tuple[object, ...], took: tuple[float, ...]) -> tuple[int, float]:
    """(Attempts, seconds until the caller knew.) Attempt i takes ``took[i]`` s, later ones as the last."""
    clock = sp.testing.FakeClock()
    attempts = 0

    def call() -> None:
        nonlocal attempts
        clock.advance(took[min(attempts, len(took) - 1)])
        attempts += 1
        raise ConnectionError

    try:
        sp.Policy(*policy_parts, clock=clock).call(call)  # type: ignore[arg-type]
    except (ConnectionError, sp.DeadlineExceeded):
        pass
    return attempts, clock.now()


@topic.claim(
    "Five attempts of 5 s take 25 s",
    "Five attempts of at most 5 s each take up to 25 s and the sleeps; a total deadline of 30 s bounds that.",
    GUIDE,
)
def total() -> Found:
    slow = sp.Retry(
        on=ConnectionError, attempts=5, backoff=sp.Exponential(jitter="none"), within=None, budget=None
    )
    long = sp.Retry(
        on=ConnectionError, attempts=50, backoff=sp.Exponential(jitter="none"), within=None, budget=None
    )
    _, free = _run((slow,), (5.0,))
    attempts, bounded = _run((sp.Deadline(30), long), (4.0,))
    return found(
        "`Policy.call` on a `FakeClock`: five attempts of 5 s from 100 ms; and `Deadline(30)` with attempts "
        "of 4 s",
        f"{free:.1f} s; {attempts} attempts in {bounded:.1f} s",
        free == 25 + 0.1 + 0.2 + 0.4 + 0.8 and bounded <= 30,
    )


@topic.claim(
    "A shortened sleep gives the next call time",
    "A sleep that would pass the deadline should be cut to what is left, so that the next call has as much "
    "time as "
    "possible.",
    GUIDE,
)
def clipped() -> Found:
    outcomes = {}
    for late in ("clip", "stop"):
        retry = sp.Retry(
            on=ConnectionError, attempts=5, backoff=sp.Constant(1), within=None, budget=None, late=late
        )
        outcomes[late] = _run((sp.Deadline(5), retry), (1.4, 0.4, 1.0))
    return found(
        "`Policy.call` on a `FakeClock`, `Deadline(5)`, a third failure at 4.8 s and a wait of 1 s: "
        "`late='clip'` "
        "against `late='stop'`",
        "; ".join(
            f"{late}: {n} attempts, the caller knows after {t:.1f} s" for late, (n, t) in outcomes.items()
        ),
        outcomes["clip"][0] > outcomes["stop"][0],
        "The sleep ends when the deadline does, so no call follows: the caller only learns it later.",
    )


@topic.claim(
    "Retry-After cut to the cap",
    "The server's `Retry-After` is taken as min(Retry-After, cap): 5 gives 5 s, and the server's wish is "
    "respected.",
    CARD,
)
def hint() -> Found:
    waits = {}
    for asked in (5, 45):
        clock = sp.testing.FakeClock()

        def call(asked: int = asked) -> None:
            raise sp.RetryAfter(asked, ConnectionError())

        try:
            retry = sp.Retry(on=ConnectionError, attempts=2, within=None, budget=None)
            sp.Policy(retry, clock=clock, rng=random.Random(1)).call(call)
        except ConnectionError:
            waits[asked] = clock.sleeps[0], min(asked, 30.0)
    return found(
        "`Policy.call` of a call that raises `RetryAfter(s)`, against min(s, 30), the card's formula and cap",
        "; ".join(
            f"asked for {s} s: {own:.1f} s, by the formula {theirs:.0f} s"
            for s, (own, theirs) in waits.items()
        ),
        all(theirs >= asked for asked, (_, theirs) in waits.items()),
        "Asked for 45 s, the formula comes back after 30 s, which the card itself warns of. A hint is a "
        "floor.",
        partly=waits[5][1] == 5,
    )
