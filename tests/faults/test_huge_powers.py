"""2**1100 and beyond: wherever something grows by powers, it stops at its cap and never overflows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp
from stormproof._programs.reconnecting import reconnecting

pytestmark = pytest.mark.proves("fault huge-powers")

HUGE = 2**1100
NUMBERS = [0, 1, 52, 53, 1022, 1023, 1024, 1025, 1074, 1075, 1100, 10**4, 10**6, 2**63, HUGE]
DRAWS = (0.0, 0.5, math.nextafter(1.0, 0.0))
JITTERS: list[Any] = ["none", "full", "equal", sp.Symmetric(1), lambda u, ceiling: u * ceiling]

SCHEDULES: list[Any] = [
    *(
        sp.Exponential(base, factor=factor, cap=cap, jitter=jitter)
        for (base, factor, cap), jitter in itertools.product(
            [(0.1, 2, 20), (1, 2, 1e300), (5e-324, 1e300, 1e308), (1e-300, 1.0000001, 1e9)], JITTERS
        )
    ),
    *(sp.Linear(base, cap=cap, jitter=how) for base, cap, how in [(1, 60, "full"), (1e300, 1e308, "none")]),
    *(sp.Fibonacci(1, cap=cap, jitter=jitter) for cap, jitter in [(60, "equal"), (1e308, "none")]),
    *(sp.Decorrelated(0.1, cap=cap, clip=clip) for cap in (20, 1e308) for clip in ("range", "sample")),
    sp.Schedule([1, 2, 4]),
    sp.Constant(1),
]  # fmt: skip


def test_every_wait_is_finite_and_within_its_cap(measured: Callable[[str], None]) -> None:
    waits = 0
    for schedule, n, u in itertools.product(SCHEDULES, NUMBERS, DRAWS):
        wait = schedule.delay(n, None, u)
        low, high = schedule.bounds(n)
        assert type(wait) is float and math.isfinite(wait), (schedule, n, u)
        # A rounding of the last digit apart.
        assert low * (1 - 1e-12) <= wait <= high * (1 + 1e-12), (schedule, n, u)
        assert 0 <= schedule.ceiling(n) < math.inf
        waits += 1
    measured(f"{waits:,} waits of {len(SCHEDULES)} schedules, n up to 2**1100, all finite and in bounds")


def test_decorrelated_wait_stays_in_range_after_a_huge_previous_wait() -> None:
    for clip, previous in itertools.product(("range", "sample"), (1e308, 1.7e308)):
        wait = sp.Decorrelated(0.1, cap=20, clip=clip).delay(5, previous, 0.999)
        assert 0.1 <= wait <= 20


@every_way
def test_loop_of_1100_retries_and_more(play: Any) -> None:
    played = play(
        retry(attempts=1300, backoff=sp.Exponential(0.1, cap=5, jitter="none")), *[Boom] * 1299, "ok"
    )
    played.returned("ok").made(1300)
    assert played.sleeps[-1] == 5.0 and max(played.sleeps) == 5.0


@every_way
@pytest.mark.parametrize("seconds", [2.0**1000, 1.7e308], ids=["2**1000", "1.7e308"])
def test_hint_of_huge_seconds_is_too_long(play: Any, seconds: float) -> None:
    error = Boom()
    played = play(retry(), sp.RetryAfter(seconds, error)).made(1)
    assert played.error is error and played.sleeps == []


@pytest.mark.parametrize("growth", [1.01, 3, 1e5, 1e300])
def test_breaker_open_time_grows_to_open_max_for_any_growth(growth: float) -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, open_growth=growth, open_max=3600, clock=clock)
    policy = sp.Policy(breaker, clock=clock)
    times = []
    for _ in range(1150):
        with pytest.raises(Boom):
            policy.call(_fails)
        with pytest.raises(sp.CircuitOpen) as refused:
            policy.call(_fails)
        times.append(refused.value.retry_after)
        clock.advance(3600.001)
    assert times[:2] == pytest.approx([1, min(growth, 3600)])
    assert all(later >= sooner - 1e-6 for sooner, later in itertools.pairwise(times))
    assert times[-1] == pytest.approx(3600)


def _fails() -> None:
    raise Boom


def test_wait_of_1100_reconnects_stays_at_its_cap() -> None:
    tries = 0

    def connect() -> str:
        nonlocal tries
        tries += 1
        if tries <= 1150:
            raise Boom
        return "connection"

    with sp.testing.instant() as clock:
        policy = retry(attempts=2000, backoff=sp.Exponential(0.1, cap=5, jitter="none"))
        for connection in reconnecting(connect, policy=policy):
            assert connection == "connection"
            break
        assert len(clock.sleeps) == 1150 and max(clock.sleeps) == 5.0


#: Callables that take a number, and the word that their refusal must contain.
OPTIONS: dict[str, Callable[[], Any]] = {
    "cap": lambda: sp.Exponential(cap=HUGE),
    "factor": lambda: sp.Exponential(factor=HUGE),
    "wait": lambda: sp.Constant(HUGE),
    "seconds": lambda: sp.Deadline(HUGE),
    "ratio": lambda: sp.Budget(ratio=HUGE),
    "open_growth": lambda: sp.Breaker(open_growth=HUGE),
    "values": lambda: sp.Schedule([1, HUGE]),
    "seconds of a hint": lambda: sp.RetryAfter(HUGE, Boom()),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_option_of_2_to_the_1100_is_refused_by_name(option: str) -> None:
    """And never by an OverflowError from somewhere within."""
    with pytest.raises(ValueError, match=rf"\b{option.split(maxsplit=1)[0]}\b"):
        OPTIONS[option]()


def test_huge_rate_does_not_limit() -> None:
    limiter = sp.Limiter(HUGE, 1)
    assert all(limiter.allow() for _ in range(100))
