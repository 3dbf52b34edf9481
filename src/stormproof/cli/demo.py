"""``stormproof demo``: a real server breaks for a moment, seen with naive retries and with Stormproof."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from ._exit_codes import NEGATIVE, OK
from ._options import Option
from ._outcome import CommandError, print_json
from ._values import duration, whole

if TYPE_CHECKING:
    from rich.console import Console

    from ._demo_metrics import LaneVerdict
    from ._demo_run import DemoRun

SHORTEST_S, LONGEST_S = 12.0, 300.0
FRAME_S = 0.25
NARROWEST = 60


OPTIONS = (
    Option(
        "seconds",
        f"Seconds of traffic, {SHORTEST_S:g} to {LONGEST_S:g}; the last calls end up to 5 s later.",
        "--seconds",
        default="15",
        metavar="SECONDS",
    ),
    Option("seed", "The arrivals' seed.", "--seed", default="1", metavar="NUMBER"),
    Option("as_json", "Only the verdict, as JSON.", "--json", kind="flag"),
    Option("plain", "A line per second, no live view.", "--plain", kind="flag"),
)


def command(seconds: str, seed: str, as_json: bool, plain: bool) -> int:
    """A server breaks for a moment: naive retries against Stormproof, live, about 20 seconds.

    Needs nothing else running: two HTTP servers on loopback, real callers over real sockets.
    Exit code 1 if the Stormproof lane did not recover while it was watched.
    """
    from ._demo_run import CannotRun, DemoRun
    from ._demo_scenario import DemoScenario

    length = duration("--seconds", seconds)
    if length is None or not SHORTEST_S <= length <= LONGEST_S:
        raise CommandError(f"--seconds: must be from {SHORTEST_S:g} to {LONGEST_S:g}, got {seconds!r}")
    run = DemoRun(DemoScenario(seconds=length, seed=whole("--seed", seed, least=0)))
    try:
        _, stormproof = play(run, as_json=as_json, plain=plain)
    except CannotRun as problem:
        raise CommandError(str(problem)) from problem
    return NEGATIVE if stormproof.recovery_s is None else OK


def play(run: DemoRun, *, as_json: bool, plain: bool) -> tuple[LaneVerdict, LaneVerdict]:
    """Play ``run`` and show it in the way asked for; the naive lane's verdict and Stormproof's."""
    from ._demo_metrics import lane_verdict

    if as_json:
        asyncio.run(run.play(lambda _: None, 1.0))
    else:
        _play_for_people(run, plain=plain)
    naive, stormproof = (lane_verdict(lane.series, run.scenario) for lane in run.lanes)
    if as_json:
        print_json(as_data(run, naive, stormproof))
    else:
        from rich.console import Console

        from . import _demo_view

        Console(highlight=False).print(_demo_view.verdict(naive, stormproof, run))
    return naive, stormproof


def _play_for_people(run: DemoRun, *, plain: bool) -> None:
    from rich.console import Console

    from . import _demo_view

    console = Console(highlight=False)
    if plain or not can_draw(console):
        print(_demo_view.setting(run.scenario), flush=True)
        asyncio.run(run.play(lambda run: print(_demo_view.line(run), flush=True), 1.0))
        return
    from rich.live import Live

    def draw(run: DemoRun) -> None:
        live.update(_demo_view.picture(run, console.width, console.height), refresh=True)

    with Live(console=console, auto_refresh=False) as live:
        draw(run)
        asyncio.run(run.play(draw, FRAME_S))


def can_draw(console: Console) -> bool:
    """Return True if the live view can be shown: on a terminal, wide enough, with the block characters."""
    if not sys.stdout.isatty() or console.is_dumb_terminal or console.width < NARROWEST:
        return False
    return console.encoding.startswith("utf")


def as_data(run: DemoRun, naive: LaneVerdict, stormproof: LaneVerdict) -> dict[str, Any]:
    """The outcome as plain data: scenario, both verdicts, both series, the sentence."""
    from . import _demo_metrics

    verdicts = zip(run.lanes, (naive, stormproof), strict=True)
    return {
        "scenario": run.scenario.describe(),
        "lanes": {lane.name: _demo_metrics.as_data(verdict) for lane, verdict in verdicts},
        "series": {lane.name: lane.series.describe() for lane in run.lanes},
        "begun_late_s": run.lag_s,
        "reliable": run.reliable,
        "verdict": _demo_metrics.sentence(naive, stormproof, run.scenario),
    }
