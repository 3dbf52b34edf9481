"""Figures of a run: load, goodput, recovery."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..model.scenario import Scenario
from .recorder import Raw

#: Goodput of at least this share of the offered load counts as recovered.
ENOUGH = 0.95

#: No aftermath shorter than this makes a recovery late.
SOON_S = 1.0

SURVIVED, LATE, COLLAPSED = "survived", "recovered late", "collapsed"


def metrics(raw: Raw, scenario: Scenario) -> dict[str, Any]:
    """The figures of a run, as plain data; None for a missing value."""
    until = raw.until
    recovered, after = recovery(raw, scenario)
    calm = min(scenario.broken_until, until)
    first = min(len(raw.offered) - 1, math.ceil(calm / raw.step - 1e-9))
    rest = until - first * raw.step
    legs = _legs(raw, scenario, first)
    return {
        "state": state(recovered, after, scenario),
        "peak_rps": peak(raw, scenario),
        "amplification": _ratio(raw.attempts, raw.calls),
        "goodput": raw.successes / until,
        "recovered": recovered,
        "recovery_time": after,
        "attempts": raw.attempts,
        "calls": raw.calls,
        "successes": raw.successes,
        "calls_per_success": _ratio(raw.attempts, raw.successes),
        "p50": _finite(raw.latency[0]),
        "p99": _finite(raw.latency[1]),
        "mean": _finite(raw.mean),
        "availability": _ratio(raw.successes, raw.calls),
        **legs,
        "offered_rps": raw.calls / until,
        "peak_rps_after": peak(raw, scenario, first),
        "received_rps_after": float(raw.received[first:].sum() / rest) if rest > 0 else None,
        "offered_rps_after": float(raw.offered[first:].sum() / rest) if rest > 0 else None,
        "goodput_after": float(raw.succeeded[first:].sum() / rest) if rest > 0 else None,
        "backlog": _finite(float(raw.queue[first - 1])) if first else None,
        "unfinished": raw.calls - raw.successes - sum(raw.failures.values()),
        "failures": dict(raw.failures),
        "until": until,
    }


def state(recovered: bool, after: float | None, scenario: Scenario) -> str:
    """Return the outcome for the service: "survived", "recovered late" or "collapsed".

    Late is a recovery that took longer after the fault than the fault itself, and longer than a second.
    Without a fault there is nothing to be late for.
    """
    if not recovered:
        return COLLAPSED
    bound = max(SOON_S, scenario.broken_until - scenario.broken_from)
    return SURVIVED if after is None or after <= bound else LATE


def _legs(raw: Raw, scenario: Scenario, first: int) -> dict[str, Any]:
    """Return the availability and the calls lost of each leg, by when a call began: before the first fault,
    from there to the end of the last, and after it.
    """
    begins = min(first, math.ceil(min(scenario.broken_from, raw.until) / raw.step - 1e-9))
    if not scenario.broken:
        begins = first = len(raw.offered)
    figures: dict[str, Any] = {}
    for name, leg in (
        ("calm", slice(0, begins)),
        ("fault", slice(begins, first)),
        ("after", slice(first, None)),
    ):
        offered, served = int(raw.offered[leg].sum()), int(raw.kept[leg].sum())
        figures[f"availability_{name}"] = _ratio(served, offered)
        figures[f"lost_{name}"] = offered - served
    return figures


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def peak(raw: Raw, scenario: Scenario, first: int = 0) -> float | None:
    """The highest load that arrived at the backend in any window of `Scenario.peak_window`, per second,
    from step ``first`` on; None if there is none.
    """
    whole = raw.received[first : max(1, int(raw.until / raw.step + 1e-9))]
    if not len(whole):
        return None
    width = min(len(whole), max(1, round(scenario.peak_window / raw.step)))
    sums = np.concatenate(([0.0], np.cumsum(whole)))
    return float((sums[width:] - sums[:-width]).max() / (width * raw.step))


def recovery(raw: Raw, scenario: Scenario) -> tuple[bool, float | None]:
    """Return (True if it recovered, seconds from the last fault's end to that moment).

    Recovered: from some moment on until the end, goodput is at least 95 % of the offered load; over the
    whole of that time, and in every window of a second within it, less two standard deviations of a random
    load. The moment lies on the end of a step. Without a fault the whole run has to reach 95 % as well, and
    the time is None.
    """
    if scenario.broken:
        return _settled(raw, scenario)
    whole = bool(raw.succeeded.sum() >= ENOUGH * raw.offered.sum())
    return whole and (len(raw.offered) < 2 or _settled(raw, scenario)[0]), None


def _settled(raw: Raw, scenario: Scenario) -> tuple[bool, float | None]:
    """Return (True if goodput kept up from some moment on, seconds from the last fault's end to it)."""
    start, size = scenario.broken_until, len(raw.offered)
    first = math.ceil(start / raw.step - 1e-9)
    window = max(1, round(max(1.0, 5 * raw.step) / raw.step))
    window = min(window, max(1, (size - first) // 2))
    if size - first < 2:
        return False, None
    offered = np.concatenate(([0.0], np.cumsum(raw.offered)))
    good = np.concatenate(([0.0], np.cumsum(raw.succeeded)))
    at = np.arange(first, size - window + 1)
    offered_then = offered[at + window] - offered[at]
    enough = good[at + window] - good[at] >= ENOUGH * offered_then - 2 * np.sqrt(offered_then)
    since = int(at[-1]) + 1 if not enough[-1] else int(at[0])
    if not enough.all() and enough[-1]:
        since = int(at[np.flatnonzero(~enough)[-1]]) + 1
    for moment in range(since, size - window + 1):
        if good[-1] - good[moment] >= ENOUGH * (offered[-1] - offered[moment]):
            return True, max(0.0, round(moment * raw.step - start, 9))
    return False, None
