"""What a rate limiter admits, and what it does with those who wait."""

from __future__ import annotations

import asyncio
import threading
import time

from .. import wall_clock
from ..model import Probe, counted, seconds, yes_no
from ..setups.limiters import LIMITERS, Limiter, Throttled, ThrottledDefault

Make = type[Limiter]


def _steady(make: Make) -> int:
    limiter = make(10, 1)
    admitted = 0
    end = time.monotonic() + 1
    while time.monotonic() < end:
        admitted += limiter.allow()
        time.sleep(0.005)
    return admitted


def _judge_steady(seen: int | tuple[int, int]) -> tuple[str, bool]:
    n, by_default = seen if isinstance(seen, tuple) else (seen, None)
    more = "" if by_default is None else f" ({by_default} by its default algorithm)"
    return f"{n} admitted{more}", 5 <= n <= 12


steady = Probe(
    "steady",
    "limiter",
    "10 per second, no burst where that can be said; asked every 5 ms for 1 s.",
    "5 to 12 are admitted (10 and one, less what a busy machine misses).",
    _judge_steady,
)
steady.on(LIMITERS, _steady)


@steady.by("throttled-py")
def _steady_throttled() -> tuple[int, int]:
    return _steady(Throttled), _steady(ThrottledDefault)


def _idle(make: Make) -> int:
    limiter = make(10, 1)
    limiter.allow()
    time.sleep(1.1)
    return sum(limiter.allow() for _ in range(20))


burst_after_idle = Probe(
    "burst-after-idle",
    "limiter",
    "10 per second, no burst; idle for a second, then asked 20 times at once.",
    "1 is admitted.",
    lambda n: (f"{n} at once", n == 1),
)
burst_after_idle.on(LIMITERS, _idle, without={"limits": "no burst to set"})


def _window(make: Make) -> tuple[int, int]:
    """How many of a first rush came through, and the most in any second of the next two."""
    limiter = make(10, 10)
    start = time.monotonic()
    rush = sum(limiter.allow() for _ in range(10))
    admitted = [start] * rush
    while time.monotonic() < start + 1.8:
        if limiter.allow():
            admitted.append(time.monotonic())
        time.sleep(0.01)
    # 0.95: a call admitted just at the end of its second belongs to the next one.
    most = max(sum(0 <= later - first < 0.95 for later in admitted) for first in admitted)
    return rush, most


def _judge_window(seen: tuple[int, int]) -> tuple[str, bool]:
    rush, most = seen
    if rush < 10:
        return f"{rush} at once", False
    return ("up to 10 in a second", True) if most <= 10 else ("more than 10 in a second", False)


exact_window = Probe(
    "exact-window",
    "limiter",
    "10 per second, all 10 at once if they come so; asked without pause for 2 s.",
    "10 at once, and never more than 10 within any second.",
    _judge_window,
)
exact_window.on(LIMITERS, _window)


def _cancelled(make: Make) -> float:
    async def scenario() -> float:
        limiter = make(4, 1)
        await limiter.wait()
        waiters = [asyncio.create_task(limiter.wait()) for _ in range(8)]
        await asyncio.sleep(0.05)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.wait(waiters)
        start = time.monotonic()
        await limiter.wait()
        return time.monotonic() - start

    return asyncio.run(scenario())


cancelled_waiter = Probe(
    "cancelled-waiter",
    "limiter",
    "4 per second, no burst; 8 asyncio waiters are cancelled, then one more asks.",
    "it waits for its own turn (0.2 s), not for theirs.",
    lambda spent: (
        "gives the places back" if spent < 0.7 else f"the next waits {seconds(spent)}",
        spent < 0.7,
    ),
)
cancelled_waiter.on(LIMITERS, _cancelled, without={"limits": "no waiting"})


def _others(make: Make) -> float:
    limiter = make(1, 1)
    limiter.block()
    waiter = threading.Thread(target=limiter.block, daemon=True)
    waiter.start()
    time.sleep(0.1)
    start = time.monotonic()
    admitted = limiter.allow()
    spent = time.monotonic() - start
    if admitted and spent < 0.3:
        raise RuntimeError("there was nothing to wait for: two limiters were asked, not one")
    return spent


others_wait = Probe(
    "one-waits-all-wait",
    "limiter",
    "A thread waits for its turn (1 s); another asks the same limiter without waiting.",
    "the other has its answer at once.",
    lambda spent: ("at once" if spent < 0.3 else f"after {seconds(spent)}", spent < 0.3),
)
others_wait.on(LIMITERS, _others, without={"limits": "no waiting", "aiolimiter": "asyncio only"})


def _too_many(make: Make) -> tuple[bool, float]:
    limiter = make(10, 5)
    start = time.monotonic()
    try:
        given = limiter.too_many()
    except Exception:
        given = False
    return given, time.monotonic() - start


def _judge_too_many(seen: tuple[bool, float]) -> tuple[str, bool]:
    given, spent = seen
    if given:
        return "given", False
    return ("refused at once", True) if spent < 0.3 else (f"refused after {seconds(spent)}", False)


too_many = Probe(
    "more-than-burst",
    "limiter",
    "6 are asked for at once where the burst is 5, ready to wait 2 s.",
    "refused at once: they can never be had together.",
    _judge_too_many,
)
too_many.on(LIMITERS, _too_many, without={"limits": "no waiting", "nopanic": "one at a time"})


def _clock_back(make: Make) -> bool:
    wall_clock.take_over()
    limiter = make(10, 10)
    while limiter.allow():
        pass
    wall_clock.move(-3600)
    time.sleep(1.2)
    return limiter.allow()


limiter_clock_back = Probe(
    "limiter-clock-back",
    "limiter",
    "The wall clock is set back one hour when the limit is reached.",
    "a second later calls are admitted again.",
    yes_no("admits again", "refuses"),
)
limiter_clock_back.on(LIMITERS, _clock_back)


def _clock_on(make: Make) -> int:
    wall_clock.take_over()
    limiter = make(10, 10)
    while limiter.allow():
        pass
    wall_clock.move(3600)
    return sum(limiter.allow() for _ in range(50))


limiter_clock_on = Probe(
    "limiter-clock-on",
    "limiter",
    "The wall clock is set on one hour when the limit is reached, and 50 more ask at once.",
    "at most one burst (10) more is admitted.",
    lambda n: (f"{counted(n, 'call')} more", n <= 10),
)
limiter_clock_on.on(LIMITERS, _clock_on)


def _loops(make: Make) -> str:
    limiter = make(20, 1)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(limiter.wait(), limiter.wait()), 2)

    for turn in ("first", "second"):
        try:
            asyncio.run(both())
        except Exception as error:
            return f"{type(error).__name__} in the {turn} loop"
    return "works"


second_loop = Probe(
    "second-loop",
    "limiter",
    "One limiter, waited for in two `asyncio.run`, one after the other.",
    "it works in both.",
    lambda seen: (seen, seen == "works"),
)
second_loop.on(LIMITERS, _loops, without={"limits": "no waiting"})

PROBES = [
    steady,
    burst_after_idle,
    exact_window,
    cancelled_waiter,
    others_wait,
    too_many,
    limiter_clock_back,
    limiter_clock_on,
    second_loop,
]
