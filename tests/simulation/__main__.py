"""``python -m tests.simulation``: one seed with its log, or many seeds in two processes."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from pathlib import Path

from .run import play
from .seed_tally import TWICE, tally

#: What counts as the whole: only this many write ``--figures``.
FULL = 10_000


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def many(seeds: range, figures_file: Path | None) -> int:
    """Play them all; return how many failed."""
    began = time.monotonic()
    failed = calls = attempts = turns = 0
    virtual_s = 0.0
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for wrong, *counts in pool.imap(tally, seeds, chunksize=50):
            if wrong:
                failed += 1
                say(*wrong)
            calls, attempts, turns = calls + counts[0], attempts + counts[1], turns + counts[2]
            virtual_s += counts[3]
    took = time.monotonic() - began
    seen = [
        f"{len(seeds):,} seeds, {failed} failed",
        f"{calls:,} calls, {attempts:,} attempts, {turns:,} changes of turn",
        f"{virtual_s / 3600:,.0f} hours of virtual time",
        f"every {TWICE}th seed played twice: the same log, byte for byte",
        f"{len(seeds) / took:.0f} seeds a second in two processes",
    ]
    say(*seen)
    if figures_file is not None and len(seeds) >= FULL and not failed:
        figures = {
            "title": "Deterministic simulation of whole pipelines",
            "command": "make soak",
            "seen": seen,
            "machine": f"{os.cpu_count()} cores, CPython {platform.python_version()}",
        }
        figures_file.parent.mkdir(parents=True, exist_ok=True)
        figures_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return failed


def one(seed: int, log: bool) -> int:
    report = play(seed)
    if log:
        say(*report.log)
    well = f"seed {seed}: nothing wrong, {report.calls} calls, log {report.digest}"
    say(str(report) if report.faults else well)
    return len(report.faults)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--log", action="store_true", help="every step of that one")
    parser.add_argument("--figures", type=Path, help="where a whole run writes its figures")
    given = parser.parse_args()
    if given.seed is not None:
        sys.exit(min(1, one(given.seed, given.log)))
    sys.exit(min(1, many(range(given.first, given.first + given.seeds), given.figures)))


if __name__ == "__main__":
    main()
