"""Measures groups and holds them against their bars."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from .model import Bar, Case, Comparison, Effort, Figures, Group, Outcome, Ready, Row, Verdict


def run(group: Group, effort: Effort, *, enforce: bool = True) -> Outcome:
    """Measure ``group``; if a bar is missed, measure it once more, and the second time counts.

    Noise can miss a bar; a real regression misses it twice. Without ``enforce`` nothing is repeated.
    """
    outcome = _once(group, effort)
    if not enforce or not outcome.missed:
        return outcome
    again = _once(group, effort)
    return Outcome(group, again.rows, again.verdicts, repeated=True)


def _once(group: Group, effort: Effort) -> Outcome:
    ready, rows = _prepare(group)
    try:
        figures = group.meter.measure(ready, effort) if ready else {}
    except Exception as error:
        figures = {}
        rows.update((each.case.name, _failed(each.case, error)) for each in ready)
    main = group.meter.units[0]
    base = figures.get(group.baseline)
    for case in group.cases:
        if case.name in figures:
            own = figures[case.name]
            compared = None if base is None else _compared(group.compare, own[main], base[main])
            rows[case.name] = _row(case, own, compared)
    ordered = {case.name: rows[case.name] for case in group.cases}
    return Outcome(group, tuple(ordered.values()), tuple(_judge(group, ordered)))


def _prepare(group: Group) -> tuple[list[Ready], dict[str, Row]]:
    """The cases that can be measured, and the rows of those that cannot."""
    ready: list[Ready] = []
    rows: dict[str, Row] = {}
    for case in group.cases:
        if case.needs is not None and find_spec(case.needs) is None:
            rows[case.name] = Row(case.name, "not installed", setup=case.setup, ours=False)
            continue
        try:
            made = Ready(case, case.make())
            group.meter.check(made)
        except Exception as error:
            rows[case.name] = _failed(case, error)
        else:
            ready.append(made)
    return ready, rows


def _failed(case: Case, error: Exception) -> Row:
    text = f"{type(error).__name__}: {error}"
    return Row(case.name, "failed", error=text, setup=case.setup, ours=case.needs is None)


def _row(case: Case, figures: Figures, compared: float | None) -> Row:
    return Row(case.name, "measured", figures, compared, setup=case.setup, ours=case.needs is None)


def _compared(how: Comparison, own: float, base: float) -> float | None:
    if how == "ratio":
        return own / base if base else None
    return own - base if how == "excess" else own


def _judge(group: Group, rows: dict[str, Row]) -> Iterator[Verdict]:
    for bar in group.bars:
        yield _verdict(bar, rows[bar.case], rows[bar.against or group.baseline], group.meter.units[0])


def _verdict(bar: Bar, row: Row, base: Row, main: str) -> Verdict:
    """A library that is not installed leaves a bar unjudged; a case that broke misses it."""
    wanted = (row,) if bar.of == "value" else (row, base)
    for each in wanted:
        if each.state == "not installed":
            return Verdict(bar, "not judged", why=f"{each.name} is not installed")
        if each.state == "failed":
            return Verdict(bar, "missed", why=f"{each.name} failed: {each.error}")
    unit = bar.unit or main
    measured = _compared(bar.of, row.figures[unit], base.figures.get(unit, 0.0))
    if measured is None:
        return Verdict(bar, "not judged", why=f"{base.name} measured 0 {unit}")
    return Verdict(bar, "met" if measured <= bar.limit else "missed", measured)
