"""The verdict on a run, in words."""

from __future__ import annotations

from typing import Any

from ..model.scenario import Scenario


def verdict(figures: dict[str, Any], scenario: Scenario) -> str:
    """What happened, in three or four sentences."""
    if not figures["calls"]:
        return "No calls were made."
    said = [_recovery(figures, scenario), _lost(figures, scenario), _load(figures, scenario), _calls(figures)]
    said = [sentence for sentence in said if sentence]
    reasons = figures["failures"]
    if reasons:
        most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:3]
        said.append(
            "Failed calls: " + ", ".join(f"{count:,} {_REASONS.get(why, why)}" for why, count in most) + "."
        )
    return " ".join(said)


_REASONS = {
    "503": "on the first 503",
    "429": "on the first 429",
    "attempts": "after the last attempt",
    "budget": "for want of retry budget",
    "deadline": "at their deadline",
    "within": "at the end of the time for retrying",
    "timeout": "on the first timeout",
    "hint": "told to wait too long",
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
    got, asked = figures["goodput_after"], figures["offered_rps_after"]
    received, capacity = figures["received_rps_after"], scenario.capacity_rps
    over = received is not None and received > capacity
    what = "Collapsed" if broken else "Overloaded" if over else "Fell short"
    if got is None:
        return f"{what}."
    when = "after the fault" if broken else "all along"
    text = f"{what}: {when}, goodput was {got:,.0f}/s of {asked:,.0f}/s offered"
    if over:
        return f"{text}, while the backend received {received:,.0f}/s and can serve {capacity:,.0f}/s."
    return f"{text}."


def _lost(figures: dict[str, Any], scenario: Scenario) -> str:
    """Say which calls were lost while the fault lasted, and which to its aftermath."""
    if not scenario.broken or figures["availability_after"] is None:
        return ""
    calm = figures["availability_calm"]
    said = (
        f"Calls lost: {figures['lost_fault']:,} while it lasted, {figures['lost_after']:,} in the aftermath"
    )
    if calm is not None and figures["lost_calm"]:
        said += f", {figures['lost_calm']:,} ({1 - calm:.2%}) in the calm before"
    return f"{said}."


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
