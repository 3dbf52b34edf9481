"""``stormproof demo``: a real server breaks for a moment, seen with naive retries and with Stormproof."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._exit_codes import NEGATIVE, OK

if TYPE_CHECKING:
    from rich.console import Console

    from ._demo_metrics import LaneVerdict
    from ._demo_run import DemoRun

SHORTEST_S, LONGEST_S = 12.0, 300.0
FRAME_S = 0.25
NARROWEST = 60


def command(
    seconds: Annotated[
        float,
        typer.Option(
            min=SHORTEST_S, max=LONGEST_S, help="Seconds of traffic; the last calls end up to 5 s later."
        ),
    ] = 15.0,
    seed: Annotated[int, typer.Option(help="The arrivals' seed.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Only the verdict, as JSON.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="A line per second, no live view.")] = False,
) -> int:
    """A server breaks for a moment: naive retries against Stormproof, live, about 20 seconds.

    Needs nothing else running: two HTTP servers on loopback, real callers over real sockets.
    Exit code 1 if the Stormproof lane did not recover while it was watched.
    """
    from ._app import CommandError
    from ._demo_run import CannotRun, DemoRun
    from ._demo_scenario import Scenario

    run = DemoRun(Scenario(seconds=seconds, seed=seed))
    try:
        _, held = play(run, as_json=as_json, plain=plain)
    except CannotRun as problem:
        raise CommandError(str(problem)) from problem
    return NEGATIVE if held.recovery_s is None else OK


def play(run: DemoRun, *, as_json: bool, plain: bool) -> tuple[LaneVerdict, LaneVerdict]:
    """Play ``run`` and show it in the way asked for; the naive lane's verdict and Stormproof's."""
    from ._demo_metrics import lane_verdict

    if as_json:
        asyncio.run(run.play(lambda _: None, 1.0))
    else:
        _play_for_people(run, plain=plain)
    naive, held = (lane_verdict(lane.series, run.scenario) for lane in run.lanes)
    if as_json:
        print(json.dumps(as_data(run, naive, held), indent=2))
    else:
        from rich.console import Console

        from . import _demo_view

        Console(highlight=False).print(_demo_view.verdict(naive, held, run))
    return naive, held


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


def as_data(run: DemoRun, naive: LaneVerdict, held: LaneVerdict) -> dict[str, Any]:
    """The outcome as plain data: scenario, both verdicts, both series, the sentence."""
    from . import _demo_metrics

    verdicts = zip(run.lanes, (naive, held), strict=True)
    return {
        "scenario": run.scenario.describe(),
        "lanes": {lane.name: _demo_metrics.as_data(verdict) for lane, verdict in verdicts},
        "series": {lane.name: lane.series.describe() for lane in run.lanes},
        "begun_late_s": run.lag_s,
        "reliable": run.reliable,
        "verdict": _demo_metrics.sentence(naive, held, run.scenario),
    }
