"""Claims that go back to AWS's simulation: clients that contend for one row."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any, Literal

import numpy as np

import stormproof as sp
from stormproof import lab
from stormproof.lab.engines.contention import _Race

from .experiments import crowd, retrying, simulate
from .model import Found, Topic, found
from .sources import AWS, CARD, CHAPTER, GUIDE

topic = Topic(
    "Contention for one row",
    "AWS's model: N clients each write one row once, and a write that met another one waits and tries again; "
    "base "
    "5 ms, cap 2 s. `lab.occ` runs it with Stormproof's schedules.",
)

KINDS: dict[str, Any] = {
    "exponential": sp.Exponential(0.005, cap=2.0, jitter="none"),
    "decorrelated": sp.Decorrelated(0.005, cap=2.0, clip="sample"),
    "equal": sp.Exponential(0.005, cap=2.0, jitter="equal"),
    "full": sp.Exponential(0.005, cap=2.0),
    "no wait": sp.Constant(0),
}
#: Writes per client and milliseconds until the last is done, for 50 and 100 clients; means over 100 runs.
TABLE = {
    "exponential": ((12.46, 36_400), (18.61, 63_700)),
    "decorrelated": ((7.52, 2_145), (10.02, 4_575)),
    "equal": ((6.94, 4_239), (8.12, 6_644)),
    "full": ((6.65, 2_860), (7.96, 4_916)),
    "no wait": ((13.80, 1_139), (24.22, 2_030)),
}


def occ(kind: str, clients: int = 100) -> lab.Contention:
    return _occ(kind, clients)


@cache
def _occ(kind: str, clients: int) -> lab.Contention:
    # The mean time of the shortest rows varies by 2 % over 100 runs.
    runs = 100 if kind == "exponential" else 200
    return lab.occ(KINDS[kind], clients=clients, runs=runs, seed=0)


@topic.claim(
    "The AWS table",
    "Writes per client and time until the last is done, for 50 and 100 clients: exponential 12.46 in 36.4 s "
    "and "
    "18.61 in 63.7 s; decorrelated 7.52 in 2.145 s and 10.02 in 4.575 s; equal 6.94 in 4.239 s and 8.12 in "
    "6.644 s; full 6.65 in 2.86 s and 7.96 in 4.916 s; no wait 13.8 in 1.139 s and 24.22 in 2.03 s.",
    AWS,
    slow=True,
)
def table() -> Found:
    rows, calls_off, time_off = [], 0.0, 0.0
    for kind, published in TABLE.items():
        cells = []
        for clients, (calls, milliseconds) in zip((50, 100), published, strict=True):
            got = occ(kind, clients)
            cells.append(f"{got.calls_per_client:.2f} in {got.completion_time:.3g} s")
            calls_off = max(calls_off, abs(got.calls_per_client / calls - 1))
            time_off = max(time_off, abs(got.completion_time * 1000 / milliseconds - 1))
        rows.append(f"{kind} {' and '.join(cells)}")
    return found(
        "`lab.occ(backoff, clients=50)` and `clients=100`, 100 to 200 runs each",
        f"{'; '.join(rows)}. Calls within {calls_off:.1%}, time within {time_off:.1%}",
        calls_off <= 0.02 and time_off <= 0.04,
    )


@topic.claim(
    "Jitter halves the calls",
    "With 100 clients, jitter more than halves the number of calls of exponential backoff, and shortens the "
    "time.",
    AWS,
    slow=True,
)
def halves() -> Found:
    plain, full = occ("exponential"), occ("full")
    return found(
        "`lab.occ(backoff, clients=100)`",
        f"calls per client {plain.calls_per_client:.1f} without and {full.calls_per_client:.1f} with full "
        "jitter; time "
        f"{plain.completion_time:.0f} s and {full.completion_time:.1f} s",
        full.calls_per_client < plain.calls_per_client / 2 and full.completion_time < plain.completion_time,
    )


@topic.claim(
    "Without waits the work grows with the square",
    "Clients that try again at once make a total number of calls that grows with the square of their number.",
    AWS,
    slow=True,
)
def square() -> Found:
    totals = {n: occ("no wait", n).calls_per_client * n for n in (50, 100, 200)}
    steps = [totals[100] / totals[50], totals[200] / totals[100]]
    return found(
        "`lab.occ(Constant(0), clients=50)`, 100 and 200: calls in all",
        ", ".join(f"{n}: {total:,.0f}" for n, total in totals.items())
        + f"; doubling the clients makes it {steps[0]:.1f} and {steps[1]:.1f} times as many",
        all(3.4 < step < 4.4 for step in steps),
        "Nearly: the square shows as the number grows, since what each client does by itself matters less.",
    )


@topic.claim(
    "Full jitter finishes first",
    "In AWS's simulation of 100 clients full jitter takes the shortest time until all are done.",
    GUIDE,
    slow=True,
)
def first() -> Found:
    runs = {kind: occ(kind) for kind in ("no wait", "decorrelated", "full", "equal")}
    return found(
        "`lab.occ(backoff, clients=100)`",
        ", ".join(
            f"{kind} {run.completion_time:.2f} s for {run.calls_per_client:.1f} calls each"
            for kind, run in runs.items()
        ),
        min(runs, key=lambda kind: runs[kind].completion_time) == "full",
        "It makes the fewest calls, which is what AWS praises it for. Decorrelated jitter is done sooner, "
        "and no wait at all soonest, for the most calls.",
    )


@topic.claim(
    "Full jitter has the closest completions",
    "In that simulation full jitter has the smallest standard deviation of the clients' completion times.",
    GUIDE,
    slow=True,
)
def deviation() -> Found:
    spread = {kind: _deviation(kind) for kind in ("no wait", "decorrelated", "full", "equal", "exponential")}
    return found(
        "the same model, 100 clients, 50 runs: standard deviation of the moments at which the clients are "
        "done",
        ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in spread.items()),
        min(spread, key=lambda kind: spread[kind]) == "full",
        "Who is done sooner is also done closer together.",
    )


class _Timed(_Race):
    """A race that keeps the moment of every success."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.done: dict[int, list[float]] = {}

    def _write(self, rows: Any, who: Any, now: Any) -> None:
        before = self._left[rows].copy()
        super()._write(rows, who, now)
        for run in rows[self._left[rows] < before].tolist():
            self.done.setdefault(run, []).append(float(self.ended[run]))


def _deviation(kind: str) -> float:
    race = _Timed(KINDS[kind], 100, 50, np.random.default_rng(1))
    while race.step():
        pass
    return float(np.mean([np.std(moments) for moments in race.done.values()]))


@topic.claim(
    "Full jitter takes longer than equal",
    "Full jitter has the lowest load of all, but takes slightly longer than equal jitter.",
    CARD,
    slow=True,
)
def longer() -> Found:
    full, equal = occ("full"), occ("equal")
    calls = {kind: occ(kind).calls_per_client for kind in ("full", "equal", "decorrelated", "no wait")}
    return found(
        "`lab.occ(backoff, clients=100)`",
        f"calls per client: {', '.join(f'{kind} {value:.2f}' for kind, value in calls.items())}; time: full "
        f"{full.completion_time:.2f} s, equal {equal.completion_time:.2f} s",
        min(calls.values()) == calls["full"] and full.completion_time > equal.completion_time,
        "The lowest load, and a shorter time too: there is nothing to trade.",
        partly=min(calls.values()) == calls["full"],
    )


@topic.claim(
    "Decorrelated jitter needs fewer retries",
    "Decorrelated jitter converges in slightly fewer retries than full jitter.",
    CHAPTER,
    slow=True,
)
def fewer() -> Found:
    full, other = occ("full"), occ("decorrelated")
    return found(
        "`lab.occ(backoff, clients=100)`",
        f"calls per client: full {full.calls_per_client:.2f}, decorrelated {other.calls_per_client:.2f}",
        other.calls_per_client < full.calls_per_client,
        "It takes less time, for more calls.",
    )


@topic.claim(
    "Full and decorrelated within 5 percent",
    "Full jitter is within 5 % of decorrelated jitter on every metric.",
    CHAPTER,
    slow=True,
)
def within() -> Found:
    full, other = occ("full"), occ("decorrelated")
    calls = other.calls_per_client / full.calls_per_client - 1
    time = other.completion_time / full.completion_time - 1
    return found(
        "`lab.occ(backoff, clients=100)`",
        f"decorrelated against full: {calls:+.0%} calls, {time:+.0%} time",
        abs(calls) <= 0.05 and abs(time) <= 0.05,
        "Nor in how they spread a crowd: see [the lowest peak](#full-jitter-has-the-lowest-peak).",
    )


@topic.claim(
    "Few clients need no jitter",
    "With fewer than 10 clients jitter is optional.",
    CARD,
)
def few() -> Found:
    rows = [occ(kind, 8) for kind in ("exponential", "full")]
    results = {
        "one row": [(row.calls_per_client, row.completion_time) for row in rows],
        "a server with a queue": [_eight(jitter, None) for jitter in ("none", "full")],
        "a server with two places to wait": [_eight(jitter, 2) for jitter in ("none", "full")],
    }
    # What can be left out costs at most a tenth more, in calls and in time.
    optional = [
        all(without <= 1.1 * jittered for without, jittered in zip(plain, full, strict=True))
        for plain, full in results.values()
    ]
    return found(
        "`lab.occ(backoff, clients=8)`; and `lab.simulate` of eight callers that meet an outage of 0.5 s of "
        "a server for 20/s, which lets all of them wait or two, base 100 ms, 20 seeds: calls each and the "
        "time until the last is done, without and with full jitter",
        "; ".join(
            f"{shared}: {plain[0]:.1f} in {plain[1]:.2f} s and {full[0]:.1f} in {full[1]:.2f} s"
            for shared, (plain, full) in results.items()
        ),
        all(optional),
        "Where they can wait in a queue nothing is lost without jitter. Where one is served at the others' "
        "cost, in the row or before a full queue, eight that failed together meet again and again.",
        partly=any(optional),
    )


def _eight(jitter: Literal["none", "full"], queue: int | None) -> tuple[float, float]:
    """(Attempts per call, seconds until the last is served) of eight that call when an outage begins."""
    policy = retrying(attempts=10, backoff=sp.Exponential(0.1, jitter=jitter))
    place = crowd(8, 0.5, capacity_rps=20, queue=queue)
    results = [simulate(policy, place, seed) for seed in range(20)]
    if any(result.successes < result.calls for result in results):
        raise RuntimeError("_eight: all calls must be served within the run, or there is no last one")
    slowest = [result.p99 or 0.0 for result in results]
    return statistics.fmean(result.amplification for result in results), statistics.fmean(slowest)
