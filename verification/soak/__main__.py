"""`python -m verification.soak`: the load, the table, and for a full run the figures and docs/soak.md."""

from __future__ import annotations

import argparse
import sys

from .acceptance import Bar, bars
from .page import figures, text, write
from .run import Setting, run

FULL = Setting(600.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=FULL.seconds / 60)
    parser.add_argument("--tasks", type=int, default=FULL.tasks)
    parser.add_argument("--threads", type=int, default=FULL.threads)
    parser.add_argument("--seed", type=int, default=FULL.seed)
    given = parser.parse_args()
    setting = Setting(given.minutes * 60, given.tasks, given.threads, given.seed, verbose=True)
    outcome = run(setting)
    found = bars(outcome)
    print(text(figures(outcome)))
    for failure in outcome.client["failures"]:
        print(failure, file=sys.stderr)
    _show(found)
    met = all(bar.met for bar in found)
    if not met:
        print(
            f"\nseed {setting.seed}: python -m verification.soak --minutes {given.minutes:g} "
            f"--tasks {setting.tasks} --threads {setting.threads} --seed {setting.seed}"
        )
    elif setting.seconds >= FULL.seconds and setting.tasks >= FULL.tasks and setting.threads >= FULL.threads:
        write(outcome)
    return 0 if met else 1


def _show(found: list[Bar]) -> None:
    width = max(len(bar.name) for bar in found)
    for bar in found:
        print(f"{'ok    ' if bar.met else 'MISSED'}  {bar.name:<{width}}  {bar.seen}")


if __name__ == "__main__":
    sys.exit(main())
