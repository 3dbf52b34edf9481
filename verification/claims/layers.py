"""Claims about amplification: attempts per call, through one layer and through several."""

from __future__ import annotations

from typing import Any

import stormproof as sp
from stormproof import lab

from .experiments import crowd, retrying, simulate
from .model import Found, Topic, found
from .sources import CARD, CHAPTER, GUIDE, LESSON, SPEC, SRE, THEORY

topic = Topic(
    "Amplification",
    plots=(
        (
            "plot-layers",
            "Attempts on the database for one call, when one, two or three layers try four times",
        ),
    ),
)


def per_call(attempts: int, layers: int, exhausted: bool = True) -> float:
    """Attempts on a backend that is down per call, when ``layers`` layers try ``attempts`` times each."""
    policy = retrying(attempts=attempts, backoff=sp.Constant(0.01), retry_exhausted=exhausted)
    down = lab.Scenario(
        clients=2,
        arrival_rps=5,
        capacity_rps=1000,
        outage=lab.Outage(0, 20, "fail"),
        # Nobody calls in the last seconds, so that every call ends within the run.
        faults=[lab.Spike(5, 15, factor=0)],
        duration=20,
        arrivals="even",
        layers=[lab.Layer(f"layer {n}", "same") for n in range(1, layers)],
    )
    return simulate(policy, down).amplification


@topic.claim(
    "Three layers make 64",
    "Four attempts at each of three layers make up to 64 attempts on the database for one call.",
    SRE,
)
def sixty_four() -> Found:
    got = per_call(4, 3)
    return found(
        "`lab.simulate` with two `Layer`s, four attempts each, a backend that is down", f"{got:g}", got == 64
    )


@topic.claim(
    "Three times at three layers make 27",
    "If client, load balancer and gateway retry three times each, one request makes 27 backend calls (or 27 "
    "retries).",
    CARD,
    GUIDE,
)
def twenty_seven() -> Found:
    three, four = per_call(3, 3), per_call(4, 3)
    return found(
        "the same with three and with four attempts each",
        f"{three:g} calls for three attempts each; {four:g} for three retries each",
        four == 27,
        "27 is right for three attempts, of which two are retries, and it counts the first call. Three "
        "retries are "
        "four attempts.",
        partly=three == 27,
    )


@topic.claim(
    "Five times five makes 25", "An outer loop of 5 and an inner loop of 5 attempts can make 25 calls.", GUIDE
)
def twenty_five() -> Found:
    got = per_call(5, 2)
    return found("`lab.simulate` with one `Layer`, five attempts each", f"{got:g}", got == 25)


@topic.claim(
    "Marks make it four",
    "Where layers honour the mark of an error that was already retried to exhaustion, three layers of four "
    "attempts "
    "make four calls.",
    SPEC,
)
def marked() -> Found:
    got = per_call(4, 3, exhausted=False)
    return found("the same as for 64, with `retry_exhausted=False` (the default)", f"{got:g}", got == 4)


@topic.claim(
    "Six attempts make six times the load",
    "In an outage, callers with six attempts each and no budget send six times the usual traffic.",
    LESSON,
    CARD,
)
def six() -> Found:
    got = per_call(6, 1)
    return found(
        "`lab.simulate`, six attempts, a backend that is down", f"{got:g} attempts per call", got == 6
    )


@topic.claim(
    "A budget for a million users",
    "1,000,000 users whose calls fail make 5,000,000 calls with five attempts each; a 10 % retry budget lets "
    "100,000 retries through.",
    GUIDE,
)
def million() -> Found:
    def retries(budget: Any, fleet: bool) -> tuple[int, int]:
        policy = retrying(attempts=5, backoff=sp.Constant(0.01), budget=budget)
        # Ten calls each from 1,000 processes.
        result = simulate(policy, crowd(10_000, 9.0, clients=1000, fleet=fleet))
        return result.attempts, result.attempts - result.calls

    free, _ = retries(None, False)
    _, shared = retries(sp.WindowBudget(ratio=0.1, floor=0), True)
    _, earned = retries(sp.Budget(ratio=0.1, burst=10), True)
    return found(
        "`lab.simulate` with a hundredth of it, 10,000 calls: no budget; `WindowBudget(ratio=0.1, floor=0)` "
        "and "
        "`Budget(ratio=0.1, burst=10)`, one for all clients",
        f"{free:,} calls without; {shared:,} retries with the one, {earned:,} with the other",
        free == 50_000 and abs(shared - 1000) <= 10,
        "For a budget that calls pay into. One that only successes pay into lets its burst through and no "
        "more.",
    )


@topic.claim(
    "Success and load of three retries",
    "If each attempt fails with probability f, three retries succeed with 1 - f^4 and make a load of "
    "(1 - f^4) / (1 - f).",
    THEORY,
)
def bernoulli() -> Found:
    lines, off = [], 0.0
    for failing in (0.1, 0.5, 0.9):
        place = lab.Scenario(clients=10, arrival_rps=400, capacity_rps=1e5, error_rate=failing, duration=60)
        result = simulate(retrying(attempts=4, backoff=sp.Constant(0.001)), place)
        success = 1 - failing**4
        got = result.metrics["availability"], result.amplification
        off = max(off, abs(got[0] / success - 1), abs(got[1] * (1 - failing) / success - 1))
        lines.append(
            f"f = {failing}: {got[0]:.4f} and {got[1]:.3f}, by formula {success:.4f} and "
            f"{success / (1 - failing):.3f}"
        )
    return found("`lab.simulate` with `error_rate=f`, 24,000 calls each", "; ".join(lines), off < 0.02)


@topic.claim(
    "Retries outgrow the calls",
    "Without a bound on attempts, under partial failure the retries exceed the original traffic.",
    CHAPTER,
)
def outgrow() -> Found:
    ratios = {}
    for failing in (0.4, 0.5, 0.6):
        place = lab.Scenario(clients=10, arrival_rps=400, capacity_rps=1e5, error_rate=failing, duration=30)
        result = simulate(retrying(attempts=None, backoff=sp.Constant(0.001)), place)
        ratios[failing] = result.amplification - 1
    return found(
        "`lab.simulate` with `attempts=None` and `error_rate=f`",
        ", ".join(f"f = {f}: {ratio:.2f} retries per call" for f, ratio in ratios.items()),
        ratios[0.4] > 1,
        "f / (1 - f): from half the attempts failing on.",
        partly=ratios[0.6] > 1,
    )
