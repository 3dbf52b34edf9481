"""`python -m verification.report`: run every test that is marked with what it proves, and write
docs/proof.md."""

from __future__ import annotations

import sys

from .collect import gather
from .markers import ROOT, marked
from .page import page
from .points import names

PAGE = ROOT / "docs" / "proof.md"


def main() -> int:
    """The command. 1, and the page as it was, when a point has no test, or a test fails or is skipped."""
    marks = marked()
    known, said = set(names()), {mark.point for mark in marks}
    for point in sorted(known ^ said):
        print(
            f"{point}: {'no test proves it' if point in known else 'there is no such point'}", file=sys.stderr
        )
    if known != said:
        return 1
    status, plugin = gather(dict.fromkeys(mark.file for mark in marks))
    for test, why in plugin.skipped.items():
        print(f"{test}: {why}", file=sys.stderr)
    if status or plugin.skipped:
        return 1
    PAGE.write_text(page(plugin.seen), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
