"""`python -m verification.budget_sweep`: run the sweep, write its tables and its picture into the docs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from .plot import draw
from .sweep import Sweep, run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "default-budget.md"
PICTURE = "images/budget-sweep.svg"


def main(docs: Path = DOCS, sweep: Callable[[Callable[[str], object]], Sweep] = run) -> int:
    """Run the sweep and put its results into ``docs``; tests give another place and a smaller grid."""
    found = sweep(lambda line: sys.stdout.write(line + "\n") and sys.stdout.flush())
    draw(found, docs / PICTURE)
    page = docs / PAGE
    page.write_text(filled(page.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0


def filled(text: str, found: Sweep) -> str:
    """Return ``text`` with each table between its marks replaced by the one of ``found``."""
    tables = {
        "fleets": found.fleet_table(False),
        "fleets-double": found.fleet_table(True),
        "quiet": found.quiet_table(False),
        "weeks": found.weekly_table(),
        "quiet-double": found.quiet_table(True),
    }
    for name, table in tables.items():
        mark = re.compile(rf"(<!-- sweep: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = mark.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)
    return text


if __name__ == "__main__":
    sys.exit(main())
