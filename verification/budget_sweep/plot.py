"""The picture of the sweep. The same bytes on every run: no dates, fixed ids."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from .sweep import QUIET, Sweep

COLOURS = ("#1f6fb2", "#c0392b")
STYLE: dict[str, Any] = {
    "svg.hashsalt": "stormproof",
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def draw(sweep: Sweep, path: Path) -> None:
    """Draw what a quiet caller loses against how long the sparsest fleet takes, one point per burst."""
    fleet = max(sweep.fleets)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        axis = figure.subplots()
        for double, colour in zip((False, True), COLOURS, strict=True):
            points = [
                (burst, sweep.recovery[fleet, burst, double], sweep.refused[(*QUIET, burst, double)])
                for burst in sweep.bursts
            ]
            known = [(burst, after, 100 * share) for burst, after, share in points if after is not None]
            label = "a timeout costs 2" if double else "every retry costs 1"
            axis.plot([p[1] for p in known], [p[2] for p in known], "o-", color=colour, label=label)
            for burst, after, share in known:
                axis.annotate(f"{burst:g}", (after, share), (5, 5), textcoords="offset points", color=colour)
        axis.set_xlabel(f"seconds until {fleet:,} processes have recovered")
        axis.set_ylabel("% of a quiet caller's retries refused")
        axis.set_title("one point per burst; lower left is better", loc="left")
        axis.legend()
        text = StringIO()
        figure.savefig(text, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    path.write_text(text.getvalue(), encoding="utf-8")
