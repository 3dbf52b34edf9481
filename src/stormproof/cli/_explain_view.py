"""``stormproof explain`` for people: a table, a plot, the verdict."""

from __future__ import annotations

import math

from ._explain_facts import Facts, Step, advice, notes
from ._style import Style, in_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


HEAD = ("retry", "shortest", "mean", "longest", "starts by")
PLOT = 48


def lines(facts: Facts, style: Style) -> list[str]:
    """The whole answer about one policy."""
    out = [style.bold(facts.name) + style.dim("  " + outline(facts)), ""]
    if facts.schedule:
        out += [*table(facts.schedule, style), "", *plot(facts.schedule, style), ""]
    out += [*_worst(facts), *_verdict(facts, style)]
    for remarks, bullet in ((advice(facts), style.yellow("-")), (notes(facts), style.dim("note:"))):
        if remarks:
            out += ["", *(f"  {bullet} {line}" for line in remarks)]
    return out


def outline(facts: Facts) -> str:
    """The strategies, outermost first."""
    return " > ".join(type(s).__name__ for s in facts.policy.strategies) or "no strategies"


def table(steps: Sequence[Step], style: Style) -> list[str]:
    """The schedule, a row a retry, columns aligned."""
    rows = [
        (
            str(step.number),
            in_units(step.low),
            "?" if step.mean is None else in_units(step.mean),
            in_units(step.high),
            in_units(step.starts),
        )
        for step in steps
    ]
    widths = [max(len(row[i]) for row in (HEAD, *rows)) for i in range(len(HEAD))]

    def laid(row: Sequence[str]) -> str:
        return "  " + "   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))

    body = [
        laid(row) + (f"   never: {step.why_not}" if step.why_not else "")
        for row, step in zip(rows, steps, strict=True)
    ]
    return [style.dim(laid(HEAD)), *body]


def plot(steps: Sequence[Step], style: Style) -> list[str]:
    """Each wait on one axis: where it may end, and (o) its mean."""
    top = max((step.high for step in steps if math.isfinite(step.high)), default=0.0)
    if top <= 0:
        return ["  (no waits to draw)"]
    digits = len(str(steps[-1].number))
    rows = [
        f"  {step.number:>{digits}} |{style.cyan(_bar(step, top, '█░' if style.blocks else '#.'))}"
        for step in steps
    ]
    scale = f"0{in_units(top).rjust(PLOT)}"
    return [
        *rows,
        style.dim("  " + " " * digits + " +" + "-" * PLOT),
        style.dim("  " + " " * digits + " " + scale),
    ]


def _bar(step: Step, top: float, cell: str) -> str:
    last = PLOT - 1
    low = round(step.low / top * last)
    high = last if math.isinf(step.high) else round(step.high / top * last)
    cells = [" "] * low + [cell[low != high]] * (high - low + 1)
    if step.mean is not None and low != high:
        cells[min(high, max(low, round(step.mean / top * last)))] = "o"
    return "".join(cells)


def _worst(facts: Facts) -> list[str]:
    worst = facts.worst
    most = "no bound on attempts" if math.isinf(worst.attempts) else f"{worst.attempts:g} attempts"
    hint = ""
    if worst.hinted_seconds > worst.seconds:
        hint = f", {in_units(worst.hinted_seconds)} if the server asks for waits"
    return [
        f"  worst case     {most}, {in_units(worst.seconds)} per call{hint}",
        f"  retrying       at most {in_units(facts.retry_s)} after the first failure"
        + (", without the attempts themselves (no timeout)" if math.isinf(facts.timeout_s) else ""),
        f"  amplification  {_times(worst.amplification)} the load in the long run",
    ]


def _times(value: float) -> str:
    return "any multiple of" if math.isinf(value) else f"{value:.3g} times"


def _verdict(facts: Facts, style: Style) -> list[str]:
    if facts.allowed_s is None or facts.slo_s is None:
        return []
    verdict = style.green("fits") if facts.fits else style.red("does not fit")
    allowed, takes = in_units(facts.allowed_s), in_units(facts.retry_s)
    rule = f"retrying may take a third, {allowed}, and takes up to {takes}"
    return [f"  SLO {in_units(facts.slo_s):<10} {verdict}: {rule}"]
