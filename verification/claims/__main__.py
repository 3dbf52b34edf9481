"""`python -m verification.claims`: run every claim, write the page and the plots; or run the claims that are
named."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .pages import page, section
from .topics import TOPICS, by_name

DOCS = Path(__file__).parents[2] / "docs"


def main(argv: Sequence[str] | None = None, docs: Path = DOCS) -> int:
    """The command. ``docs`` is where the page and ``images`` are; tests give another place."""
    named = by_name()
    parser = argparse.ArgumentParser(prog="python -m verification.claims", description=__doc__)
    parser.add_argument("name", nargs="*", help="run only these claims, and print what comes out")
    parser.add_argument("--plots", action="store_true", help="make the plots only")
    options = parser.parse_args(argv)
    for unknown in (name for name in options.name if name not in named):
        parser.error(f"no claim is called {unknown!r}; docs/claims.md has the names in its links")
    if options.name:
        for name in options.name:
            sys.stdout.write(section(named[name], named[name].check()) + "\n")
        return 0
    if not options.plots:
        _write_page(docs)
    from .plots import PLOTS

    for name, draw in PLOTS.items():
        draw(docs / "images" / f"{name}.svg")
        sys.stdout.write(f"docs/images/{name}.svg\n")
    return 0


def _write_page(docs: Path) -> None:
    results = {}
    for name, claim in by_name().items():
        began = time.perf_counter()
        results[name] = claim.check()
        sys.stdout.write(f"{time.perf_counter() - began:6.2f} s  {results[name].verdict:<18} {claim.title}\n")
        sys.stdout.flush()
    (docs / "claims.md").write_text(page(TOPICS, results), encoding="utf-8")
    sys.stdout.write("docs/claims.md\n")


if __name__ == "__main__":
    sys.exit(main())
