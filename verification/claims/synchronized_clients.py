"""Claims about crowds: many clients that fail together, and when they come back."""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import numpy as np

import stormproof as sp
from stormproof.lab.scenarios import scenarios

from .experiments import crowd, received, retrying, simulate, thousands, walk
from .model import Found, Topic, found
from .retry_storm_model import storm
from .sources import CHAPTER, GUIDE, LESSON

topic = Topic(
    "Crowds",
    "Jitter is for callers that fail at the same instant. How many do is what most of these claims get "
    "wrong: "
    "calls that were spread over time fail spread over time.",
    plots=(
        ("plot-jitter", "Retries per 10 ms of 1,000 callers that failed together, for four kinds of jitter"),
    ),
)

PRINTED = {"no retry": 540, "no jitter": 4380, "equal": 1820, "full": 720}


@topic.claim(
    "The figures of the retry storm script",
    "1,000 callers at 500/s and a 200 ms outage: the backend peaks at 540/s without retries, at 4,380 with "
    "unjittered ones, at 1,820 with equal and 720 with full jitter (give or take 100).",
    CHAPTER,
)
def retry_storm() -> Found:
    exact = {kind: storm(kind, 0.002) for kind in PRINTED}
    late = {kind: storm(kind, 0.0023) for kind in PRINTED}
    return found(
        "the script's model in virtual time, with callers 2 ms apart as written, and 2.3 ms apart as an "
        "event "
        "loop's timers make it",
        "; ".join(
            f"{kind}: {exact[kind][0]:,.0f} and {late[kind][0]:,.0f} (printed {PRINTED[kind]:,})"
            for kind in PRINTED
        )
        + f". {exact['full'][1]} caller meets the outage, or {late['full'][1]}",
        all(abs(late[kind][0] - peak) <= 100 for kind, peak in PRINTED.items()),
        "The 1,000 callers arrive over two seconds, so the outage that begins at 2 s meets the last ones "
        "only, and "
        "these are spread over 200 ms. No storm arises, and jitter has nothing to mend: it adds to the "
        "peak.",
    )


@topic.claim(
    "Service time makes the natural peak",
    "Without retries the peak is 540/s and not 500/s because the 5 ms of service make calls clump.",
    CHAPTER,
)
def natural_peak() -> Found:
    peaks = {gap: storm("no retry", gap)[0] for gap in (0.002, 0.0023)}
    return found(
        "the same model, no retries",
        "; ".join(f"callers {gap * 1000:g} ms apart: {peak:,.0f}/s" for gap, peak in peaks.items()),
        peaks[0.002] == 540,
        "A call is counted before it is served, so the service time cannot show: what differs from 500/s are "
        "the "
        "timers of the machine.",
    )


@topic.claim(
    "More callers make the spread",
    "If the peaks with and without jitter differ by less than 4 times, 5,000 callers show the difference.",
    CHAPTER,
)
def more_callers() -> Found:
    peaks = {n: {k: storm(k, 0.0023, n)[0] for k in ("no jitter", "full")} for n in (1000, 5000)}
    ratio = peaks[5000]["no jitter"] / peaks[5000]["full"]
    return found(
        "the same model with 5,000 callers, 2.3 ms apart",
        "; ".join(
            f"{n:,} callers: {p['no jitter']:,.0f} against {p['full']:,.0f}/s" for n, p in peaks.items()
        ),
        ratio >= 4,
        "The others arrive after the outage. The rate decides how many meet it, not the number of callers.",
    )


@cache
def _herd() -> dict[str, dict[str, Any]]:
    """The figures of the herd for each kind of jitter."""
    summary = scenarios["herd"].run(engine="exact").summary
    return {kind: summary[f"{kind} jitter"] for kind in ("no", "equal", "full")}


@topic.claim(
    "Jitter ranks none equal full",
    "For callers that fail together, the peak after the outage is highest without jitter, lower with equal "
    "and "
    "lowest with full jitter.",
    CHAPTER,
    GUIDE,
    LESSON,
)
def herd() -> Found:
    peaks = {kind: summary["peak_rps_after"] for kind, summary in _herd().items()}
    return found(
        '`scenarios["herd"].run()`: 1,000 callers within a millisecond, in a 200 ms outage; peaks over 50 ms',
        f"none {thousands(peaks['no'])}/s, equal {thousands(peaks['equal'])}/s, full "
        f"{thousands(peaks['full'])}/s",
        peaks["no"] > 1.5 * peaks["equal"] > 1.5 * peaks["full"],
    )


@topic.claim(
    "Jitter keeps the number of retries",
    "With jitter it is the same number of retries, only spread differently.",
    GUIDE,
)
def same_number() -> Found:
    tries = {kind: summary["amplification"] for kind, summary in _herd().items()}
    return found(
        '`scenarios["herd"].run()`: attempts per call',
        ", ".join(f"{'none' if kind == 'no' else kind} {value:.2f}" for kind, value in tries.items()),
        max(tries.values()) < 1.02 * min(tries.values()),
        "Full jitter halves the waits, so it tries more often while the outage lasts.",
    )


@topic.claim(
    "Jitter cuts the peak to a tenth",
    "1,000 clients, six retries, base 100 ms, counted in steps of 100 ms: any jitter brings the peak to "
    "about a "
    "tenth.",
    GUIDE,
)
def tenth() -> Found:
    peaks = _peaks(1000, 6, 0.1)
    return found(
        "the guide's loop, with Stormproof's schedules: waits added up, counted in steps of 100 ms",
        ", ".join(f"{kind} {peak:,}" for kind, peak in peaks.items()),
        all(peaks[kind] < 0.15 * peaks["none"] for kind in ("full", "equal", "decorrelated")),
        "The first wait of full and equal jitter lies within the first 100 ms: all clients come back in that "
        "step, with full jitter some of them twice. Only finer steps show what jitter does there.",
    )


@topic.claim(
    "Full jitter has the lowest peak",
    "Counted in short steps, full jitter has the lowest peak of all, and decorrelated jitter lies between it "
    "and "
    "equal jitter.",
    GUIDE,
)
def lowest_peak() -> Found:
    peaks = _peaks(100_000, 6, 0.01)
    return found(
        "100,000 clients, six retries, base 100 ms, counted in steps of 10 ms",
        ", ".join(f"{kind} {thousands(peak)}" for kind, peak in peaks.items()),
        peaks["full"] < peaks["decorrelated"] < peaks["equal"],
        "Full jitter is below equal jitter, but decorrelated jitter is lowest: its first wait is spread over "
        "two "
        "bases (from one to three), that of full jitter over one.",
        partly=peaks["full"] < peaks["equal"],
    )


def _peaks(clients: int, retries: int, step: float) -> dict[str, int]:
    kinds: dict[str, Any] = {
        kind: sp.Exponential(0.1, cap=5, jitter=kind) for kind in ("none", "equal", "full")
    }
    kinds["decorrelated"] = sp.Decorrelated(0.1, cap=5)
    found_peaks = {}
    for kind, backoff in kinds.items():
        moments = np.cumsum(walk(backoff, retries, clients), axis=0)
        found_peaks[kind] = int(np.bincount(np.floor(moments / step + 1e-9).astype(int).ravel()).max())
    return found_peaks


HISTOGRAM = {"none": [0, 100, 0, 100, 0, 0], "full": [24, 23, 19, 11, 7, 4], "equal": [0, 0, 0, 25, 50, 25]}


@topic.claim(
    "A histogram of retries",
    "100 clients from 100 ms, retries per 100 ms (a conceptual table): none 0, 100, 0, 100, 0, 0; "
    "full 24, 23, 19, 11, 7, 4; equal "
    "0, 0, 0, 25, 50, 25.",
    GUIDE,
)
def histogram() -> Found:
    counts = {}
    for kind in HISTOGRAM:
        backoff = sp.Exponential(0.1, cap=5, jitter=kind)  # type: ignore[arg-type]
        moments = np.cumsum(walk(backoff, 6, 100), axis=0)
        # A retry at 100 ms sharp belongs to the first step.
        counts[kind] = np.bincount(np.ceil(moments / 0.1 - 1e-9).astype(int).ravel(), minlength=7)[
            1:7
        ].tolist()
    return found(
        "100 clients, six retries each",
        "; ".join(f"{kind} {', '.join(map(str, row))}" for kind, row in counts.items()),
        all(
            abs(a - b) <= 15 for kind in HISTOGRAM for a, b in zip(counts[kind], HISTOGRAM[kind], strict=True)
        ),
        "The first ceiling is 100 ms, so with any of the three every first retry falls into the first step.",
    )


@topic.claim(
    "A hundredth of the peak",
    "N clients that come back once over 100 ms: full jitter has a hundredth of the peak per millisecond of "
    "none, "
    "equal jitter twice that of full.",
    GUIDE,
    slow=True,
)
def hundredth() -> Found:
    peaks = {}
    for kind in ("none", "full", "equal"):
        backoff = sp.Constant(0.1, jitter=kind)
        place = crowd(100_000, 0.0005, clients=100, duration=1.2, resolution=0.001)
        result = simulate(retrying(attempts=2, backoff=backoff), place)
        peaks[kind] = max(v or 0 for t, v in received(result) if t >= 1.001) / 1000
    return found(
        "`lab.simulate` of a `Burst` of 100,000, one retry after `Constant(0.1, jitter=...)`; peaks per "
        "millisecond",
        ", ".join(f"{kind} {thousands(peak)}" for kind, peak in peaks.items())
        + f": {peaks['none'] / peaks['full']:.0f} times, and {peaks['equal'] / peaks['full']:.1f} times",
        80 < peaks["none"] / peaks["full"] <= 100 and abs(peaks["equal"] / peaks["full"] - 2) < 0.2,
        "For one retry. The factor is the width of the wait over that of the step; with several retries the "
        "first "
        "and shortest wait decides.",
    )


@topic.claim(
    "Uniform jitter flattens more than Gaussian",
    "Gaussian jitter has a peak 3 to 5 times below that without jitter, at 4 to 6 times the normal load; "
    "uniform "
    "jitter stays within 1.2 times the normal load.",
    CHAPTER,
)
def gaussian() -> Found:
    jitters: dict[str, Any] = {
        "none": "none",
        "Gaussian, sigma 1/4": lambda u, c: _gaussian(u, c, 4),
        "Gaussian, sigma 1/8": lambda u, c: _gaussian(u, c, 8),
        "uniform": "full",
    }
    place = crowd(1000, 0.1, duration=5, resolution=0.05)
    place = place.replace(arrival_rps=500, arrivals="even")
    peaks = {}
    for kind, jitter in jitters.items():
        retry = retrying(attempts=8, backoff=sp.Constant(2.0, jitter=jitter))
        peaks[kind] = simulate(retry, place).metrics["peak_rps_after"]
    ratios = {kind: peaks["none"] / peak for kind, peak in peaks.items()}
    return found(
        "`lab.simulate`: 500/s and 1,000 callers that fail at one instant, one wait of up to 2 s; peaks over "
        "50 ms",
        ", ".join(f"{kind}: {thousands(peak)}/s" for kind, peak in peaks.items()),
        3 <= ratios["Gaussian, sigma 1/4"] <= 5 and peaks["uniform"] <= 600,
        "The order is right, the figures hang on the width of the wait and of the bell, and 1,000 callers in "
        "2 s "
        "cannot add less than 500/s however they are spread.",
        partly=ratios["uniform"] > 1.1 * ratios["Gaussian, sigma 1/4"] > 1.1 * ratios["Gaussian, sigma 1/8"],
    )


def _gaussian(u: float, ceiling: float, parts: int) -> float:
    law = statistics.NormalDist(ceiling / 2, ceiling / parts)
    return min(max(0.0, law.inv_cdf(min(max(u, 1e-12), 1 - 1e-12))), ceiling)
