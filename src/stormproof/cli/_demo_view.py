"""View of the demo: a live picture on a terminal, lines elsewhere, the verdict in both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ._demo_metrics import LaneVerdict, buckets_per_window, drain_floor, sentence, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ._demo_callers import Lane
    from ._demo_run import DemoRun
    from ._demo_scenario import DemoScenario

TALL = 30
GUTTER = 5
BLOCKS = " ▁▂▃▄▅▆▇█"
STYLES = {
    "healthy": "bold green",
    "recovering": "bold yellow",
    "overloaded": "bold red",
    "broken": "bold red",
    "over": "dim",
}
TITLES = {"naive": "Naive retries", "stormproof": "Stormproof"}
POLICIES = {"naive": "fixed doubling, no budget", "stormproof": "full jitter, retry budget"}
FAIR = "Same server, arrivals, timeout and attempts: only the retry policy differs."


def columns(values: Sequence[float], width: int, length: int) -> list[float | None]:
    """``values`` laid over an axis of ``length`` buckets that is at most ``width`` wide.

    Each bucket gets as many columns as fit; when not even one fits, neighbours share a
    column, which shows their mean. What lies ahead is None.
    """
    padded: list[float | None] = [*values[:length], *[None] * (length - len(values))]
    if width >= length:
        return [value for value in padded for _ in range(width // length)]
    share = math.ceil(length / width)
    groups = [padded[i : i + share] for i in range(0, length, share)]
    return [
        None if any(v is None for v in group) else sum(v for v in group if v is not None) / len(group)
        for group in groups
    ]


def block(value: float, row: int, unit: float) -> str:
    """The cell of a bar of ``value`` in ``row`` (0 at the bottom), each row worth ``unit``."""
    filled = round(8 * (value / unit - row))
    return BLOCKS[min(8, max(0, filled))]


def chart(values: Sequence[float | None], top: float, limit: float, per_limit: int) -> list[Text]:
    """Bars up to at least ``top``, the first row on top; a line at ``limit``, and red above it.

    ``per_limit`` rows make up ``limit``, so the line runs between two rows.
    """
    unit = limit / per_limit
    rows = []
    for row in reversed(range(math.ceil(top / unit))):
        text = Text(f"{(row + 1) * unit:>{GUTTER - 1}.0f} ", style="dim")
        for value in values:
            cell = " " if value is None else block(value, row, unit)
            if cell == " " and row == per_limit:
                text.append("_", "yellow")
            else:
                text.append(cell, "red" if row >= per_limit else "cyan")
        rows.append(text)
    return rows


def spark(values: Sequence[float | None], full: float) -> Text:
    """One row of bars: a whole block is ``full``."""
    text = Text()
    for value in values:
        text.append(" " if value is None else block(min(value, full), 0, full), "green")
    return text


def _outage_mark(scenario: DemoScenario, width: int) -> Text:
    length = round(scenario.seconds / scenario.bucket_s)
    hung = [
        float(scenario.outage_at_s <= i * scenario.bucket_s < scenario.outage_end_s) for i in range(length)
    ]
    cells = columns(hung, width, length)
    text = "".join("▔" if cell else " " for cell in cells)
    end = text.rstrip()
    return Text(" " * GUTTER + end + " server hangs" if end else "", style="red", no_wrap=True)


def lane_panel(
    lane: Lane, scenario: DemoScenario, now_s: float, width: int, per_limit: int
) -> RenderableType:
    """One lane: load on its server against the capacity, goodput, where it stands."""
    series, step = lane.series, scenario.bucket_s
    length, inner = round(scenario.seconds / step), width - GUTTER - 4
    full = min(length, len(series.received.counts))
    load = columns([n / step for n in series.received.upto(full)], inner, length)
    good = columns([n / step for n in series.good.upto(full)], inner, length)
    load_now, good_now = _last_window(lane, scenario)
    status = state(series, scenario, now_s)
    numbers = Text.assemble(
        (f"{status:<11}", STYLES[status]),
        f"load {load_now:>4.0f}/s = {load_now / scenario.offered_rps:.1f}x offered   ",
        f"served in time {good_now:>4.0f}/s   ",
        f"queue {series.queued[-1] if series.queued else 0}",
        no_wrap=True,
    )
    served = Text.assemble(("  ok ", "dim"), spark(good, scenario.offered_rps))
    top = 1.1 * scenario.attempts * scenario.offered_rps
    rows = chart(load, top, scenario.capacity_rps, per_limit)
    return Panel(
        Group(numbers, *rows, _outage_mark(scenario, inner), served),
        title=f"{TITLES[lane.name]} ({POLICIES[lane.name]}): requests/s on the server",
        title_align="left",
        box=box.ROUNDED,
        width=width,
    )


def picture(run: DemoRun, width: int, height: int) -> RenderableType:
    """The whole live view. Both lanes share one time axis; a tall terminal gets taller bars."""
    scenario, now_s = run.scenario, run.now()
    width, per_limit = min(width, 200), 2 if height >= TALL else 1
    clock = f"{min(now_s, scenario.seconds):4.1f} of {scenario.seconds:g} s"
    if now_s > scenario.seconds:
        clock += ", the last calls end"
    head = Text.assemble(
        (f"{clock}   ", "bold"),
        f"offered {scenario.offered_rps:g}/s  ",
        ("__", "yellow"),
        f" capacity {scenario.capacity_rps:g}/s",
        no_wrap=True,
    )
    lanes = (lane_panel(lane, scenario, now_s, width, per_limit) for lane in run.lanes)
    return Group(head, *lanes, Text(FAIR, style="dim", no_wrap=True))


def line(run: DemoRun) -> str:
    """One second of the run as a line of text."""
    scenario, now_s = run.scenario, run.now()
    parts = [f"{now_s:4.0f} s"]
    for lane in run.lanes:
        load, good = _last_window(lane, scenario)
        times, status = load / scenario.offered_rps, state(lane.series, scenario, now_s)
        parts.append(f"{lane.name} {load:4.0f}/s {times:3.1f}x {good:4.0f} ok/s {status:<10}")
    return " | ".join(parts).rstrip()


def _last_window(lane: Lane, scenario: DemoScenario) -> tuple[float, float]:
    """Load on the server and calls served, per second, over the last window the server has reported."""
    last = len(lane.series.received.counts)
    first = max(0, last - buckets_per_window(scenario.bucket_s))
    return lane.series.received.rate(first, last), lane.series.good.rate(first, last)


def setting(scenario: DemoScenario) -> str:
    """Return the introduction: the scenario, and the meaning of a line."""
    return (
        f"Two servers on loopback, each able to serve {scenario.capacity_rps:g} requests/s, get the same "
        f"{scenario.offered_rps:g} calls/s.\n"
        f"From second {scenario.outage_at_s:g} both hang for {scenario.outage_s:g} s. "
        f"Timeout {scenario.timeout_s:g} s, {scenario.attempts} attempts.\n{FAIR}\n"
        f"naive: {POLICIES['naive']}; stormproof: {POLICIES['stormproof']}.\n"
        "Each line: requests/s on the server, that over the offered load, calls served in time, state."
    )


def verdict_table(naive: LaneVerdict, stormproof: LaneVerdict, scenario: DemoScenario) -> Table:
    """The two lanes, number by number."""
    table = Table(box=box.SIMPLE_HEAD, title="Verdict", title_justify="left")
    table.add_column("")
    table.add_column(TITLES["naive"], justify="right")
    table.add_column(TITLES["stormproof"], justify="right")

    def row(label: str, template: str) -> None:
        cells = (template.format(lane=lane, back=_back(lane, scenario)) for lane in (naive, stormproof))
        table.add_row(label, *cells)

    row(f"calls offered ({scenario.offered_rps:g}/s)", "{lane.calls:,}")
    row("requests the server received", "{lane.requests:,}")
    row("peak load on the server, 1 s", "{lane.peak_rps:.0f}/s = {lane.peak_over_offered:.1f}x")
    row("work done for callers who had gone", "{lane.wasted:,}")
    row("calls succeeded", "{lane.succeeded:,}")
    row("calls failed", "{lane.failed:,}")
    row("served after the outage, of offered", "{lane.served_after:.0%}")
    row("95 % of offered served again after", "{back}")
    return table


def _back(lane: LaneVerdict, scenario: DemoScenario) -> str:
    if lane.recovery_s is None:
        return f"never (in {scenario.seconds - scenario.outage_end_s:g} s)"
    return f"{lane.recovery_s:.2f} s"


def verdict(naive: LaneVerdict, stormproof: LaneVerdict, run: DemoRun) -> RenderableType:
    """The end of the demo: table, sentence, and a warning when the machine was too slow to trust it."""
    floor = drain_floor(run.scenario)
    parts: list[RenderableType] = [
        verdict_table(naive, stormproof, run.scenario),
        Text(sentence(naive, stormproof, run.scenario), style="bold"),
        Text(f"(Working off the outage's queue would take {floor:.1f} s even without retries.)", style="dim"),
    ]
    if not run.reliable:
        late = f"Do not trust this run: the machine was busy, and a call began {run.lag_s:.1f} s late."
        parts.append(Text(late, style="yellow"))
    return Group(*parts)
