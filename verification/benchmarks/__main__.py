"""`python -m verification.benchmarks`: measure, print the tables, and fail when one of our own bars is
missed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import stormproof

from . import render
from .call_timing import Calls
from .contenders import OTHERS, RIVALS
from .model import FULL, QUICK, Group, Outcome
from .run import run
from .suites import SUITES, load


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: bars are shown, not enforced")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables as Markdown")
    parser.add_argument(
        "--cpu", action="store_true", help="time calls by the CPU time of their thread, on a busy machine"
    )
    parser.add_argument(
        "--suite", action="append", choices=SUITES, help="only this suite (may be given more than once)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None, groups: Sequence[Group] | None = None) -> int:
    """The command. ``groups`` replaces the suites, for tests. Returns the exit code."""
    options = _arguments(argv)
    if groups is None:
        groups = [group for name in options.suite or SUITES for group in load(name)]
    for group in groups:
        if options.cpu and isinstance(group.meter, Calls):
            group.meter.timer = time.thread_time
    facts = render.machine([stormproof.__name__, *RIVALS, *OTHERS])
    print(render.header(facts))
    outcomes = []
    for group in groups:
        outcome = run(group, QUICK if options.quick else FULL, enforce=not options.quick)
        outcomes.append(outcome)
        print(f"\n{render.table(outcome)}", flush=True)
    if options.json is not None:
        results = {"cpu": options.cpu, **render.as_data(facts, outcomes)}
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.markdown is not None:
        options.markdown.write_text(render.markdown(facts, outcomes))
    return _conclude(outcomes, enforce=not options.quick)


def _conclude(outcomes: list[Outcome], enforce: bool) -> int:
    """Print how the bars came out; 1 if one was missed, or if a case of our own did not run."""
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    if verdicts:
        print("\nBars" if enforce else "\nBars (too short a run to judge them)")
        for verdict in verdicts:
            print(f"  {render.verdict_line(verdict)}")
    failed = [f"{out.group.name}: {row.name} failed" for out in outcomes for row in out.broken]
    if enforce:
        failed += [f"{out.group.name}: {v.bar.what} missed" for out in outcomes for v in out.missed]
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
