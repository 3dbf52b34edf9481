"""The verdict on a run, in words."""

from __future__ import annotations

from typing import Any

from ..model.faults import ColdCache
from ..model.scenario import Scenario


def verdict(figures: dict[str, Any], scenario: Scenario) -> str:
    """Return the outcome in three or four sentences."""
    if not figures["calls"]:
        return "No calls were made."
    sentences = [
        _recovery(figures, scenario),
        _lost(figures, scenario),
        _load(figures, scenario),
        _calls(figures),
    ]
    sentences = [sentence for sentence in sentences if sentence]
    reasons = figures["failures"]
    if reasons:
        most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:3]
        sentences.append(
            "Failed calls: " + ", ".join(f"{count:,} {_REASONS.get(why, why)}" for why, count in most) + "."
        )
    return " ".join(sentences)


def headline(runs: list[dict[str, Any]]) -> str:
    """Return the outcome of runs of one scenario in one sentence. Each has ``name`` and ``metrics``."""
    if not any(run["metrics"]["calls"] for run in runs):
        return "No calls were made."
    groups: dict[str, list[str]] = {}
    for run in sorted(runs, key=lambda run: _order(run["metrics"])):
        groups.setdefault(_outcome(run["metrics"]), []).append(run["name"])
    if len(runs) == 1:
        return f"The service {next(iter(groups))}."
    (outcome, names), *others = groups.items()
    sentences = [f"With {_names(names)} the service {outcome}"]
    sentences += [f"with {_names(names)} it {outcome}" for outcome, names in others]
    return f"{'; '.join(sentences)}."


def _order(figures: dict[str, Any]) -> float:
    return -(figures["recovery_time"] or 0.0) if figures["recovered"] else -float("inf")


def _outcome(figures: dict[str, Any]) -> str:
    after = figures["recovery_time"]
    if not figures["recovered"]:
        return "never comes back"
    return (
        "keeps up"
        if after is None
        else "comes back at once"
        if after == 0
        else f"comes back after {_seconds(after)}"
    )


def _names(names: list[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def explanation(figures: dict[str, Any], scenario: Scenario) -> str:
    """Return the sentence that explains the curves of a run."""
    if not figures["calls"]:
        return ""
    received, capacity = figures["received_rps_after"], scenario.capacity_rps
    offered, backlog = figures["offered_rps_after"], figures["backlog"]
    if figures["state"] == "collapsed":
        if received is not None and received > capacity:
            return (
                f"The backend receives {received:,.0f}/s and can serve {capacity:,.0f}/s, so its queue never "
                "empties: when a request is served, its caller has given up and sent another."
            )
        return "Calls keep failing although the backend receives no more than it can serve."
    if not scenario.broken:
        mean = figures["attempts"] / figures["until"]
        return f"The backend can serve {capacity:,.0f}/s and receives {mean:,.0f}/s."
    if figures["state"] == "recovered late" and backlog and offered is not None and offered < capacity:
        return (
            f"{backlog:,.0f} requests wait when the fault ends, and the spare capacity clears "
            f"{capacity - offered:,.0f}/s of them; until then calls wait longer than their callers do."
        )
    waiting = "nothing waits" if not backlog else f"{backlog:,.0f} requests wait"
    if figures["state"] == "recovered late":
        longer = _seconds(figures["recovery_time"])
        sentence = f"When the fault ends {waiting}, but for {longer} more fewer calls succeed than are made"
        cold = any(isinstance(fault, ColdCache) for fault in scenario.faults)
        return f"{sentence}: the caches are cold, and requests cost more." if cold else f"{sentence}."
    return (
        f"A call makes {figures['amplification']:.2f} attempts on average; when the fault ends {waiting}, "
        "and the backend has the capacity to catch up."
    )


_REASONS = {
    "503": "on the first 503",
    "429": "on the first 429",
    "attempts": "after the last attempt",
    "budget": "for want of retry budget",
    "deadline": "at their deadline",
    "within": "at the end of the time for retrying",
    "timeout": "on the first timeout",
    "hint": "asked to wait too long",
    "exhausted": "already retried further in",
    "CircuitOpen": "refused by the open breaker",
    "RateLimited": "refused by the rate limit",
    "BulkheadFull": "refused by the full bulkhead",
    "Throttled": "refused by the throttle",
}


def _recovery(figures: dict[str, Any], scenario: Scenario) -> str:
    broken = scenario.broken
    if figures["recovered"]:
        if not broken:
            return "Steady: goodput kept up with the offered load."
        after = figures["recovery_time"]
        if after == 0:
            return "Survived: goodput was back at once."
        if figures["state"] == "survived":
            return f"Survived: goodput was back {_seconds(after)} after the fault ended."
        length = scenario.broken_until - scenario.broken_from
        return f"Recovered late: {_seconds(after)} after a fault of {_seconds(length)}."
    if broken and figures["until"] <= scenario.broken_until:
        return "Not seen to recover: the fault lasted until the end of the run."
    goodput, offered = figures["goodput_after"], figures["offered_rps_after"]
    received, capacity = figures["received_rps_after"], scenario.capacity_rps
    over = received is not None and received > capacity
    what = "Collapsed" if broken else "Overloaded" if over else "Fell short"
    if goodput is None:
        return f"{what}."
    when = "after the fault" if broken else "all along"
    text = f"{what}: {when}, goodput was {goodput:,.0f}/s of {offered:,.0f}/s offered"
    if over:
        return f"{text}, while the backend received {received:,.0f}/s and can serve {capacity:,.0f}/s."
    return f"{text}."


def _lost(figures: dict[str, Any], scenario: Scenario) -> str:
    """Return the sentence about the calls lost during the fault and in its aftermath."""
    if not scenario.broken or figures["availability_after"] is None:
        return ""
    calm = figures["availability_calm"]
    text = (
        f"Calls lost: {figures['lost_fault']:,} while it lasted, {figures['lost_after']:,} in the aftermath"
    )
    if calm is not None and figures["lost_calm"]:
        text += f", {figures['lost_calm']:,} ({1 - calm:.2%}) in the calm before"
    return f"{text}."


def _load(figures: dict[str, Any], scenario: Scenario) -> str:
    peak, capacity = figures["peak_rps"], scenario.capacity_rps
    load = f"Peak load {peak:,.0f}/s, {peak / capacity:.1f} times what the backend can serve"
    after = figures["peak_rps_after"]
    if scenario.broken and after is not None and after < peak:
        load += f" ({after:,.0f}/s after the fault)"
    amplification = figures["amplification"]
    return (
        f"{load}."
        if amplification is None
        else f"{load}; {amplification:.2f} attempts per call over the run."
    )


def _calls(figures: dict[str, Any]) -> str:
    share = f"{figures['availability']:.1%} of {figures['calls']:,} calls succeeded"
    if figures["p50"] is None:
        return f"{share}."
    return f"{share}, half of them within {_seconds(figures['p50'])}, 99 % within {_seconds(figures['p99'])}."


def _seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
