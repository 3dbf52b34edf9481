"""`python -m verification.comparison [PROBE ...]`: run the probes and print what was seen; all of them write
the page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from .catalog import GAPS, GROUPS, PROBES
from .model import AS_IT_SHOULD, BROKEN, Cell
from .page import page, text
from .run import ROOT, Key, keys, run

PAGE = ROOT / "docs" / "comparison.md"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.comparison", description=__doc__)
    libraries = list(dict.fromkeys(column for group in GROUPS for column in group.columns))
    parser.add_argument("probe", nargs="*", help="only these; --list names them")
    parser.add_argument("--library", action="append", default=[], choices=libraries, metavar="NAME")
    parser.add_argument("--jobs", type=int, help="processes at once (default: two per processor)")
    parser.add_argument("--json", action="store_true", help="one line of JSON per cell")
    parser.add_argument("--list", action="store_true", help="the probes and what they ask")
    options = parser.parse_args(argv)
    unknown = [name for name in options.probe if name not in PROBES]
    if unknown:
        parser.error(f"no probe called {unknown[0]!r}; --list names them")
    return options


def faults(cells: dict[Key, Cell]) -> list[str]:
    """What must not happen: a broken experiment, or Stormproof breaking a rule it is not known to break."""
    return [
        f"{name} {library}: {cell.judgement}: {cell.fact}"
        for (name, library), cell in cells.items()
        if cell.judgement == BROKEN
        or (library.startswith("stormproof") and (cell.judgement == AS_IT_SHOULD) == (name in GAPS))
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """The command. 1 when an experiment broke or Stormproof is not as the page says."""
    options = _arguments(argv)
    if options.list:
        for probe in PROBES.values():
            print(f"{probe.name:26}{probe.asks}")
        return 0
    cells: dict[Key, Cell] = {}
    for (name, library), cell in run(keys(options.probe, options.library), options.jobs):
        cells[name, library] = cell
        if options.json:
            print(json.dumps({"probe": name, "library": library, **asdict(cell)}), flush=True)
        else:
            print(f"{name:26}{library:19}{text(cell)}", flush=True)
    if not options.probe and not options.library:
        PAGE.write_text(page(cells), encoding="utf-8")
    wrong = faults(cells)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
