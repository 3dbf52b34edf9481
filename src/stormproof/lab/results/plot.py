"""The columns of one or several runs as a picture (matplotlib)."""

from __future__ import annotations

import os
from typing import Any

_PANELS = (
    (("offered", "received", "capacity"), "load, per second"),
    (("goodput",), "goodput, per second"),
    (("p50", "p99"), "latency, s"),
    (("queue",), "waiting"),
    (("budget", "breaker_open"), "budget held, breakers open"),
    (("amplification",), "attempts per call"),
)


def draw(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Draw ``data`` (see `Result.to_data`) into the file ``path``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 12), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(_PANELS), 1, sharex=True)
    several = len(data["runs"]) > 1
    for axis, (columns, label) in zip(axes, _PANELS, strict=True):
        for run in data["runs"]:
            for column in columns:
                values = [float("nan") if v is None else v for v in run["series"][column]]
                axis.plot(
                    run["series"]["time"],
                    values,
                    label=f"{run['name']}: {column}" if several else column,
                    linewidth=1,
                    linestyle="--" if column == "capacity" else "-",
                )
        for fault in [*data["scenario"]["outages"], *data["scenario"]["faults"]]:
            axis.axvspan(fault["at"], fault["at"] + fault.get("lasts", 0.0), color="0.9", zorder=0)
        axis.set_ylabel(label, fontsize=8)
        axis.legend(fontsize=7, loc="upper right")
    axes[-1].set_xlabel("seconds")
    title = "\n".join(run["verdict"] for run in data["runs"][:2])
    figure.suptitle(title, fontsize=8, wrap=True)
    figure.savefig(os.fspath(path))
