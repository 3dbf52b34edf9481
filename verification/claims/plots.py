"""The plots of the docs, drawn from runs of the lab. The same bytes on every run: no dates, fixed ids."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

import stormproof as sp
from stormproof import lab

from .experiments import crowd, received, retrying, simulate
from .layers import per_call
from .overload import BUDGETS, LOADS, SEEDS, collapse, once, recovered

INK, FAINT = "#333333", "#d9dde2"
RED, BLUE, GREEN, ORANGE = "#c0392b", "#1f6fb2", "#1d8a63", "#d9822b"
STYLE: dict[str, Any] = {
    "svg.hashsalt": "stormproof",
    "svg.fonttype": "path",
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "path.simplify": True,
    "path.simplify_threshold": 0.5,
}


def _save(figure: Figure, path: Path) -> None:
    """Write the figure; a path in an SVG keeps two decimals, which is a hundredth of a point."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".svg":
        figure.savefig(path, facecolor="white")
        return
    text = StringIO()
    figure.savefig(text, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    shorter = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text.getvalue())
    path.write_text(shorter, encoding="utf-8")


def _values(result: lab.Result, column: str, width: int = 1) -> tuple[list[float], list[float]]:
    """A column as (times, means over ``width`` steps)."""
    times, values = result.series["time"], result.series[column]
    groups = range(0, len(times) - width + 1, width)
    means = [sum(v or 0.0 for v in values[i : i + width]) / width for i in groups]
    return [float(times[i] or 0.0) for i in groups], means


def jitter(path: Path) -> None:
    """Retries of a crowd over time, one panel for each kind of jitter."""
    kinds: dict[str, tuple[Any, str]] = {
        "no jitter": (sp.Exponential(jitter="none"), RED),
        "equal jitter": (sp.Exponential(jitter="equal"), ORANGE),
        "full jitter": (sp.Exponential(), BLUE),
        "decorrelated jitter": (sp.Decorrelated(), GREEN),
    }
    top, step = 260, 0.01
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True, sharey=True)
    for axis, (kind, (backoff, colour)) in zip(axes, kinds.items(), strict=True):
        place = crowd(1000, 8.9, clients=100, duration=5, resolution=step)
        rows = received(simulate(retrying(attempts=6, backoff=backoff), place))
        counts = [round((v or 0.0) * step) for t, v in rows if t >= 1 - step / 2]
        counts[0] -= 1000  # The crowd's own first attempts are no retries.
        bars = [(round(n * step, 9), count) for n, count in enumerate(counts) if n * step < 3.4]
        edges = [t for t, _ in bars] + [bars[-1][0] + step]
        axis.stairs([n for _, n in bars], edges, fill=True, color=colour, linewidth=0)
        peak = max(n for _, n in bars)
        axis.set_title(f"{kind}: at most {peak:,.0f} retries in 10 ms")
        for t, n in bars:
            if n > top:
                axis.annotate(
                    f"{n:,.0f}", (t + step, 0.86 * top), xytext=(4, 0), textcoords="offset points", fontsize=8
                )
    axes[0].set_ylim(0, top)
    axes[0].set_xlim(-0.03, 3.4)
    axes[-1].set_xlabel("seconds since all failed")
    figure.supylabel("retries in 10 ms", fontsize=10)
    _save(figure, path)


def collapses(path: Path) -> None:
    """The collapse without a budget and with one: received load and goodput."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, (title, budget) in enumerate((("without a budget", None), ("with Budget()", sp.Budget()))):
        result = collapse(280, 200, once(budget))
        above, below = axes[0][column], axes[1][column]
        above.plot(*_values(result, "received", 2), color=BLUE, label="received")
        above.axhline(280, color=INK, linewidth=1, linestyle=":", label="offered, 280/s")
        above.axhline(300, color=INK, linewidth=1, linestyle="--", label="capacity, 300/s")
        below.plot(*_values(result, "goodput", 2), color=GREEN)
        above.set_title(f"One retry per timeout, {title}")
        for axis in (above, below):
            axis.axvspan(10, 20, color=FAINT, zorder=0, linewidth=0)
            axis.set_xlim(0, 200)
        below.set_xlabel("seconds")
    axes[0][0].set_ylim(0, 620)
    axes[1][0].set_ylim(0, 330)
    axes[0][0].set_ylabel("load, per second")
    axes[1][0].set_ylabel("goodput, per second")
    axes[0][1].legend(loc="upper right", fontsize=9)
    axes[1][0].annotate("outage", (15, 300), ha="center", fontsize=8.5)
    _save(figure, path)


def budgets(path: Path) -> None:
    """Received load and goodput under budgets that fill in different ways."""
    colours = {"none": INK, "by time": RED, "by call": ORANGE, "by success": BLUE}
    names = {
        "none": "no budget",
        "by time": "by time: RateBudget()",
        "by call": "by call: WindowBudget()",
        "by success": "by success: Budget()",
    }
    figure = Figure(figsize=(8.5, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for kind, budget in BUDGETS.items():
        result = collapse(280, 200, once(budget))
        above.plot(*_values(result, "received", 2), color=colours[kind], label=names[kind], linewidth=1.6)
        below.plot(*_values(result, "goodput", 2), color=colours[kind], linewidth=1.6)
    above.axhline(300, color=INK, linewidth=1, linestyle="--", label="(capacity)")
    above.set_title("280 calls/s on 300/s, hanging from 10 to 20 s, one retry per timeout")
    above.set_ylabel("received, per second")
    below.set_ylabel("goodput, per second")
    below.set_xlabel("seconds")
    for axis, top in ((above, 620), (below, 330)):
        axis.axvspan(10, 20, color=FAINT, zorder=0, linewidth=0)
        axis.set_xlim(0, 200)
        axis.set_ylim(0, top)
    below.legend(*above.get_legend_handles_labels(), loc="center", fontsize=9, title="budget earned")
    _save(figure, path)


def layers(path: Path) -> None:
    """Attempts on the backend per call, over the number of layers that retry."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axis = figure.subplots()
    series = (
        (True, RED, "every layer retries all"),
        (False, BLUE, "the mark of the innermost layer is honoured"),
    )
    for offset, (exhausted, colour, label) in zip((-0.2, 0.2), series, strict=True):
        heights = [per_call(4, count, exhausted) for count in (1, 2, 3)]
        bars = axis.bar(
            [count + offset for count in (1, 2, 3)], heights, width=0.38, color=colour, label=label
        )
        axis.bar_label(bars, fmt="{:.0f}", padding=2)
    axis.set_xticks([1, 2, 3], ["one layer", "two layers", "three layers"])
    axis.set_ylabel("attempts per call")
    axis.set_title("Four attempts at each layer, a database that is down")
    axis.set_ylim(0, 72)
    axis.legend(loc="upper left")
    _save(figure, path)


def threshold(path: Path) -> None:
    """The share of runs that recover, with its interval, over the offered load."""
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    axis = figure.subplots()
    shares = [recovered(load) for load in LOADS]
    middle = [share.value for share in shares]
    below = [share.value - share.low for share in shares]
    above = [share.high - share.value for share in shares]
    axis.axvline(150, color="#999999", linewidth=1, linestyle="--")
    axis.annotate("half the capacity", (150.6, 0.93), fontsize=9)
    axis.errorbar(
        LOADS,
        middle,
        yerr=[below, above],
        color=BLUE,
        marker="o",
        markersize=5,
        capsize=3,
        elinewidth=1,
        linewidth=1.6,
    )
    axis.set_ylim(-0.03, 1.05)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axis.set_xlabel("offered load, calls per second")
    axis.set_ylabel("runs that recover")
    axis.set_title(
        f"One retry per timeout, capacity 300/s, 2 s outage; {SEEDS} seeds each, intervals of 95 %"
    )
    _save(figure, path)


def _styled(draw: Callable[[Path], None]) -> Callable[[Path], None]:
    def styled(path: Path) -> None:
        with matplotlib.rc_context(STYLE):  # type: ignore[arg-type,unused-ignore]
            draw(path)

    return styled


#: What draws each file of ``docs/images``.
PLOTS: dict[str, Callable[[Path], None]] = {
    "plot-jitter": _styled(jitter),
    "plot-layers": _styled(layers),
    "plot-budgets": _styled(budgets),
    "plot-collapse": _styled(collapses),
    "plot-threshold": _styled(threshold),
}
