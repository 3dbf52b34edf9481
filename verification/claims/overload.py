"""Claims about overload: queues, and collapses that outlive their cause."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import stormproof as sp
from stormproof import lab

from .experiments import retrying, simulate
from .model import Found, Topic, found
from .sources import CHAPTER, HOTOS, LESSON, SPEC, THEORY

topic = Topic(
    "Overload",
    "A backend for 300/s, a 10 s outage in which it hangs, attempts that time out after 1 s and are made "
    "once more: "
    "the example of the HotOS paper, and what others say of such cases.",
    plots=(
        ("plot-collapse", "280/s on 300/s, a 10 s outage: one retry without a budget, and with one"),
        ("plot-threshold", "Share of the runs that recover, over the offered load"),
    ),
)

CAPACITY, OUTAGE, TIMEOUT = 300, 10, 1


def collapse(load: float, duration: float, retry: sp.Policy | None = None, **options: Any) -> lab.Result:
    """The paper's example at ``load`` calls a second; ``retry`` is one retry at once unless given."""
    place = lab.Scenario(
        **{
            "clients": 1,
            "arrival_rps": load,
            "capacity_rps": CAPACITY,
            "timeout": TIMEOUT,
            "outage": lab.Outage(10, OUTAGE),
            "duration": duration,
            "arrivals": "even",
            **options,
        }
    )
    return simulate(retry or once(), place, seed=0)


def once(budget: Any = None) -> sp.Policy:
    return retrying(attempts=2, backoff=sp.Constant(0), budget=budget)


LOADS = (110, 120, 130, 140, 145, 150, 155, 160, 170, 180)
SEEDS = 10


@cache
def recovered(load: float) -> lab.Share:
    """The share of the runs at ``load`` that recover from a short outage, with its interval."""
    place = lab.Scenario(
        clients=1,
        arrival_rps=load,
        capacity_rps=CAPACITY,
        timeout=TIMEOUT,
        outage=lab.Outage(5, 2),
        duration=125,
    )
    return lab.compare({"once": once()}, place, seeds=range(SEEDS), engine="exact").recovery["once"]


@topic.claim(
    "A queue at 80 percent",
    "One server at 80 % load with exponential service of 0.1 s: mean time 0.5 s, p99 2.303 s.",
    THEORY,
    slow=True,
)
def one_server() -> Found:
    busy = lab.Scenario(clients=1, arrival_rps=8, capacity_rps=10, service="exponential", duration=10_000)
    results = [simulate(None, busy, seed) for seed in range(8)]
    mean = statistics.fmean(result.metrics["mean"] for result in results)
    p99 = statistics.fmean(result.p99 or 0.0 for result in results)
    return found(
        "`lab.simulate(None, Scenario(arrival_rps=8, capacity_rps=10, service='exponential', "
        "duration=10000))`, "
        "the mean of eight seeds",
        f"mean {mean:.3f} s, p99 {p99:.2f} s",
        abs(mean / 0.5 - 1) < 0.04 and abs(p99 / 2.303 - 1) < 0.06,
    )


@topic.claim(
    "At 280 it never recovers",
    "280 calls/s on a capacity of 300/s and one retry: after a 10 s outage the load stays at 560/s, goodput "
    "at 0.",
    HOTOS,
    slow=True,
)
def never() -> Found:
    result = collapse(280, 300)
    load = statistics.fmean(value or 0.0 for value in result.series["received"][-100:])
    good = statistics.fmean(value or 0.0 for value in result.series["goodput"][-100:])
    return found(
        "`lab.simulate`, 280 s after the outage",
        f"load {load:.0f}/s, goodput {good:.0f}/s, recovered: {'yes' if result.recovered else 'no'}",
        not result.recovered and abs(load - 560) < 6 and good == 0,
    )


@topic.claim(
    "Below 150 it is stable",
    "With one retry the system recovers from any outage below half its capacity, 150/s, and not above.",
    HOTOS,
    slow=True,
)
def threshold() -> Found:
    shares = {load: recovered(load).value for load in LOADS}
    return found(
        f"`lab.compare`, random arrivals, {SEEDS} seeds, an outage of 2 s: share of the runs that recover in "
        "two minutes",
        ", ".join(f"{load}/s: {share:.0%}" for load, share in shares.items()),
        all(share == 1 for load, share in shares.items() if load <= 140)
        and all(share == 0 for load, share in shares.items() if load >= 160),
    )


@topic.claim(
    "The time to drain",
    "Below the threshold the backlog is gone T = (kLD - (k-1)Lt - Mt) / (M - kL) after the outage, for k "
    "attempts, "
    "load L, outage D, timeout t, capacity M.",
    HOTOS,
)
def drain() -> Found:
    lines, off = [], 0.0
    for load in (60, 100, 130, 140):
        k = 2
        wanted = (k * load * OUTAGE - (k - 1) * load * TIMEOUT - CAPACITY * TIMEOUT) / (CAPACITY - k * load)
        got = collapse(load, 40 + 1.2 * wanted).recovery_time
        off = max(off, abs((got if got is not None else 1e9) - wanted))
        lines.append(f"{load}/s: {'never' if got is None else f'{got:.1f} s'}, by formula {wanted:.1f} s")
    return found("`lab.simulate` with even arrivals: recovery time", "; ".join(lines), off <= 2)


BUDGETS: dict[str, Any] = {
    "none": None,
    "by time": sp.RateBudget(),
    "by call": sp.WindowBudget(),
    "by success": sp.Budget(),
}


@topic.claim(
    "Only budgets earned by success recover",
    "At 280/s on 300/s after a 10 s outage, a budget that fills by time or by calls never recovers; one "
    "earned by "
    "success does.",
    SPEC,
    slow=True,
)
def earned() -> Found:
    times = {kind: collapse(280, 200, once(budget)).recovery_time for kind, budget in BUDGETS.items()}
    return found(
        "`lab.simulate` with no budget, `RateBudget()`, `WindowBudget()`, `Budget()`; 180 s after the outage",
        ", ".join(f"{kind}: {'never' if t is None else f'after {t:.0f} s'}" for kind, t in times.items()),
        [kind for kind, t in times.items() if t is not None] == ["by success"],
        f"What takes so long is the backlog of the outage, which drains at the spare {CAPACITY - 280}/s.",
    )


WAITS: dict[str, Any] = {
    "exponential": sp.Exponential(0.1, cap=60, jitter="none"),
    "exponential, full jitter": sp.Exponential(0.1, cap=60),
    "linear": sp.Linear(0.1, cap=60, jitter="none"),
}


@cache
def _tenth(waits: str, budgeted: bool = False) -> lab.Result:
    """The example at a tenth of its size, four attempts; with a budget earned by success if asked for."""
    budget = sp.Budget(burst=1) if budgeted else None
    return collapse(
        28, 200, retrying(attempts=4, backoff=WAITS[waits], budget=budget), capacity_rps=CAPACITY / 10
    )


@topic.claim(
    "Exponential waits let the queue drain",
    "In overload exponential waits grow fast enough to guarantee that the queue drains; linear ones do not.",
    CHAPTER,
)
def exponential() -> Found:
    results = {kind: _tenth(kind) for kind in WAITS}
    results["with a budget"] = _tenth("exponential, full jitter", budgeted=True)
    return found(
        "the example at a tenth (28/s on 30/s), four attempts; load at the end, 180 s after the outage",
        "; ".join(
            f"{kind}: {statistics.fmean(value or 0.0 for value in result.series['received'][-100:]):.0f}/s, "
            f"{'never' if result.recovery_time is None else f'recovered after {result.recovery_time:.0f} s'}"
            for kind, result in results.items()
        ),
        results["exponential"].recovered and not results["linear"].recovered,
        "New calls keep coming, each with its own first waits. A longer wait moves retries, it does not "
        "remove any: "
        "every call still makes its four attempts. Only fewer retries let the queue drain.",
    )


@topic.claim(
    "Backoff and jitter do not suffice",
    "Without a retry budget even perfect backoff and jitter cannot prevent a retry storm under sustained "
    "failure.",
    CHAPTER,
)
def not_enough() -> Found:
    results = [_tenth("exponential, full jitter", budgeted) for budgeted in (False, True)]
    return found(
        "the example at a tenth, four attempts, full jitter: without and with `Budget(burst=1)`",
        " and ".join(
            f"{r.amplification:.2f} attempts per call, {'recovered' if r.recovered else 'never recovered'}"
            for r in results
        ),
        not results[0].recovered and results[1].recovered,
    )


@topic.claim(
    "A 200 ms blip becomes a long outage",
    "A blip of 200 ms becomes an outage of 30 minutes when callers retry after 100 ms without end.",
    CHAPTER,
    slow=True,
)
def blip() -> Found:
    naive = retrying(attempts=None, within=1e6, backoff=sp.Constant(0.1))
    load, lasts, timeout = 500, 0.2, 0.15
    shares = {}
    for mode in ("fail", "hang"):
        for capacity in (600, 1000):
            place = lab.Scenario(
                clients=100,
                arrival_rps=load,
                capacity_rps=capacity,
                timeout=timeout,
                outage=lab.Outage(2, lasts, mode),
                duration=12,
            )
            runs = lab.compare({"naive": naive}, place, seeds=range(8), engine="exact")
            shares[mode, capacity] = runs.recovery["naive"].value
    return found(
        "`lab.compare` over eight seeds: 500 calls/s, attempts of at most 150 ms, a retry every 100 ms; the "
        "backend fails or hangs for 200 ms and has a capacity of 600 or 1,000/s",
        "; ".join(
            f"{mode}s, {capacity:,}/s: {share:.0%} of the runs have recovered 10 s later"
            for (mode, capacity), share in shares.items()
        ),
        all(share == 0 for share in shares.values()),
        f"At 600/s the {load * lasts:.0f} calls of a hanging blip need {load * lasts / 600 * 1000:.0f} ms, "
        "longer than the timeout: what is served then has no caller any more. A backend that only refuses "
        "builds no queue, and chance decides whether the returning calls do. With twice the capacity of the "
        "load nothing follows. The 30 minutes themselves were not followed.",
        partly=shares["hang", 600] == 0,
    )


@topic.claim(
    "Six attempts make a blip last minutes",
    "Without a budget six attempts per request turn a 30 s blip into an outage of minutes.",
    LESSON,
    slow=True,
)
def thirty() -> Found:
    six = retrying(attempts=6, backoff=sp.Exponential())
    times = {}
    for load in (10, 15, 20, 40):
        result = collapse(load, 280, six, capacity_rps=100, outage=lab.Outage(10, 30))
        times[load] = result.recovery_time
    return found(
        "`lab.simulate`: a backend that hangs for 30 s, timeout 1 s, six attempts with full jitter, loads in "
        "% of "
        "the capacity; followed for 240 s",
        ", ".join(f"{load} %: {'never' if t is None else f'{t:.0f} s'}" for load, t in times.items()),
        all(t is None or t > 60 for t in times.values()),
        "Above a sixth of the capacity, where six times the load does not fit into it, it had not ended when "
        "we stopped looking; just below it takes minutes, and the lower the load the sooner it is over.",
        partly=any(t is None or t > 60 for t in times.values()),
    )
