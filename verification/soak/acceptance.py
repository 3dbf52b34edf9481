"""What is asked of a run, and whether it was so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from .outcomes import TURNS
from .policies import RATIO, WINDOW_S
from .run import Outcome
from .treatments import MIX

#: Memory, and what comes and goes, is judged by runs that are long enough to have a warm-up: a fifth of them.
MEMORY_FROM_S, FLAT_FROM_S = 300.0, 60.0
WARM_UP = 0.2
_GROWTH = 0.02
#: What the server does or counts beside its mix.
OTHERS = ("outage", "reset on accept", "requests over HTTP/2", "silence for all at once")
#: A call may end so many seconds after its deadline, the machine's own lag aside.
_SLACK_S = 0.25
#: Connections, tasks and threads come and go: so many more on average at the end are still as many as before.
_SWAY, _SWAY_AT_LEAST = 0.15, 20.0


@dataclass(frozen=True)
class Bar:
    """One thing asked: what was seen, and whether it will do."""

    name: str
    seen: str
    met: bool


def bars(outcome: Outcome) -> list[Bar]:
    """All of them, in the order of the page."""
    return [*_ends(outcome), *_memory(outcome), *_flat(outcome), *_left(outcome), *_load(outcome)]


def _ends(outcome: Outcome) -> Iterator[Bar]:
    client = outcome.client
    calls, failed = sum(client["ended"].values()), client["failed"]
    yield Bar("every call ended as the docs say", f"{failed} of {calls:,} did not", failed == 0 and calls > 0)
    for who in ("tasks", "threads"):
        late = client["late"][who]
        worst, lag, name = late[0] if late else (0.0, 0.0, "none")
        met = worst <= _SLACK_S + TURNS[who] * lag
        seen = f"at worst {worst:.3f} s late ({name}), where the machine itself was {lag:.3f} s late"
        yield Bar(f"{who}: no call past its deadline", seen, met)


def _memory(outcome: Outcome) -> Iterator[Bar]:
    if outcome.setting.seconds < MEMORY_FROM_S:
        return
    resident, free = _at(outcome, 1, median), _at(outcome, 6, median)
    # What the program has given back and the C library keeps in pieces is in RAM, but nobody's.
    first, last = resident[0] - free[0], resident[1] - free[1]
    growth = last / first - 1
    seen = (
        f"{first:.1f} MB in use after the warm-up, {last:.1f} MB at the end: {growth:+.2%} "
        f"(resident {resident[0]:.1f} and {resident[1]:.1f} MB, of which the C library kept "
        f"{free[0]:.1f} and {free[1]:.1f} MB free)"
    )
    yield Bar(f"memory in use grows by at most {_GROWTH:.0%}", seen, growth <= _GROWTH)


def _flat(outcome: Outcome) -> Iterator[Bar]:
    if outcome.setting.seconds < FLAT_FROM_S:
        return
    for place, name in ((2, "descriptors beside the pools'"), (3, "asyncio tasks"), (4, "threads")):
        first, last = _at(outcome, place, fmean)
        most = max(sample[place] for sample in outcome.client["samples"])
        met = last <= max(first * (1 + _SWAY), first + _SWAY_AT_LEAST)
        yield Bar(f"{name} stay as many", f"{first:.0f}, then {last:.0f} on average; {most} at most", met)
    connections, lost = ([sample[place] for sample in outcome.client["samples"]] for place in (7, 8))
    seen = f"{fmean(connections):.0f} connections on average, {max(connections)} at most; {max(lost)} lost"
    yield Bar("no connection is lost", seen, max(lost) == 0)


def _at(outcome: Outcome, place: int, mean: Callable[[list[float]], float]) -> tuple[float, float]:
    """A column of the samples after the warm-up, and at the end: a fifth of the time each."""
    end = outcome.setting.seconds
    samples = outcome.client["samples"]
    first = [each[place] for each in samples if WARM_UP <= each[0] / end < 2 * WARM_UP]
    last = [each[place] for each in samples if each[0] / end >= 1 - WARM_UP]
    return mean(first), mean(last)


def _left(outcome: Outcome) -> Iterator[Bar]:
    for name, left in outcome.client["left"].items():
        yield Bar(f"{name} are gone at the end", _listed(left) or "none is left", not left)
    there = outcome.server["open"]
    yield Bar("the server has no connection left", f"{there} open", there == 0)
    held = outcome.client["held"]
    seen = "; ".join(held) or "all are back"
    yield Bar("places, tokens, probes and the budget are back", seen, not held)
    dead = outcome.client["slots"]
    yield Bar("every connection and stream of the pools serves again", "; ".join(dead) or "all do", not dead)
    heard = outcome.client["heard"]
    seen = "none" if not heard else f"{outcome.client['complaints']}, such as {heard[0]}"
    yield Bar("no warnings, no lost exceptions", seen, not heard)


def _load(outcome: Outcome) -> Iterator[Bar]:
    client, counts = outcome.client, outcome.server["counts"]
    spent = client["events"].get("Retrying", 0) + client["events"].get("Hedged", 0)
    good = client["ended"].get("200, whole", 0)
    # A store that is away, or comes back empty, may hand out the burst once more.
    allowed = RATIO * good + outcome.setting.retries * (1 + 2 * outcome.kills)
    seen = f"{spent:,} retries and hedges, {allowed:,.0f} allowed"
    yield Bar("retries and hedges stay within the budget", seen, spent <= allowed)
    down, up = (client["events"].get(name, 0) for name in ("StoreDown", "StoreUp"))
    due = int(outcome.setting.seconds / outcome.setting.kill_every_s)
    seen = f"killed {outcome.kills} times, found down {down} times, up again {up}"
    yield Bar("the Redis was killed as often as it should", seen, outcome.kills >= max(1, due - 1) <= down)
    broken = counts.get("HTTP/2 protocol errors", 0)
    yield Bar("no HTTP/2 connection was broken by a cut", f"{broken} protocol errors", not broken)
    opened, closed = (client["events"].get(f"BreakerChanged {state}", 0) for state in ("open", "closed"))
    if outcome.setting.seconds > outcome.setting.outage_every_s and outcome.setting.outage_s > WINDOW_S:
        seen = f"{opened} times, and closed {closed} times"
        yield Bar("the breaker opened, and closed again", seen, opened > 0 < closed)
    missing = sorted({*MIX, *OTHERS} - set(counts))
    yield Bar("the server did all that it can", f"not: {missing}" if missing else "all of it", not missing)


def _listed(found: dict[str, Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


def received(outcome: Outcome) -> int:
    """Requests that the server got, without those that it asked for itself by a redirect."""
    counts = outcome.server["counts"]
    return int(counts["requests"] + counts.get("reset on accept", 0) - counts.get("redirected", 0))
