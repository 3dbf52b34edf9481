"""``python -m verification.lint_precision NAME[==RELEASE] ...``: lint on packages of PyPI.

Prints each finding with the code around it and the verdict of ``verdicts.csv``, if there is one. ``--set P``
takes the releases of a set of docs/lint-precision.md; ``--tables P`` prints the page's tables of that set.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stormproof import lint
from stormproof.cli._lint_files import files, text_of

from . import sources, verdicts


@dataclass(frozen=True, slots=True)
class Seen:
    """One finding of lint in one release."""

    release: str
    place: str
    rule: str
    message: str
    code: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.release, self.place, self.rule


def look(folder: Path, settings: lint.Settings, around: int) -> tuple[list[Seen], int, bool]:
    """Lint the release unpacked in ``folder``; return the findings, the number of files, use of tenacity."""
    seen: list[Seen] = []
    looked, uses_tenacity = 0, False
    for path in files([str(folder)], settings):
        try:
            text = text_of(path)
        except (OSError, ValueError) as error:
            print(f"unread: {path}: {error}", file=sys.stderr)
            continue
        looked += 1
        uses_tenacity |= "import tenacity" in text or "from tenacity" in text
        short = Path(path).relative_to(folder).as_posix()
        for found in lint.check(text, path, settings):
            lines = text.split("\n")
            first = max(found.place.line - 1 - around, 0)
            code = "\n".join(
                f"{number:5}{'>' if number == found.place.line else ' '} {line}"
                for number, line in enumerate(lines[first : found.place.end_line + around], first + 1)
            )
            place = f"{short}:{found.place.line}"
            seen.append(Seen(folder.name, place, found.code, found.message, code))
    return seen, looked, uses_tenacity


def _fetched(requirements: list[str], into: Path) -> list[Path]:
    def attempt(requirement: str) -> Path | None:
        try:
            return sources.fetch(requirement, into)
        except sources.NoSource as error:
            print(error, file=sys.stderr)
            return None

    with ThreadPoolExecutor(6) as pool:
        return [folder for folder in pool.map(attempt, requirements) if folder is not None]


def run(requirements: list[str], into: Path, settings: lint.Settings, around: int, only_new: bool) -> int:
    """Print every finding and the counts; return how many findings have no verdict yet."""
    known = {row.key: row for row in verdicts.read()}
    folders = _fetched(requirements, into)
    seen: list[Seen] = []
    looked, users = 0, 0
    for folder in folders:
        found, count, uses_tenacity = look(folder, settings, around)
        seen += found
        looked += count
        users += uses_tenacity
    for each in seen:
        row = known.get(each.key)
        if row is not None and only_new:
            continue
        verdict = "NOT JUDGED" if row is None else f"{row.verdict} ({row.why})"
        print(f"== {each.release} {each.place} {each.rule} {verdict}\n   {each.message}\n{each.code}\n")
    judged = [known[each.key] for each in seen if each.key in known]
    wrong = sum(row.verdict == "false" for row in judged)
    print(
        f"{len(folders)} packages, {users} of them with tenacity, {looked} files: {len(seen)} findings, "
        f"{len(judged)} judged, {wrong} false"
    )
    return len(seen) - len(judged)


def main(arguments: list[str]) -> int:
    """Lint what is named; exit with 1 if a finding has no verdict."""
    parser = argparse.ArgumentParser(prog="python -m verification.lint_precision", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME[==RELEASE]")
    parser.add_argument("--set", action="append", default=[], metavar="SET", help="a set of the page")
    parser.add_argument("--tables", metavar="SET", help="print the page's tables of a set, and end")
    parser.add_argument("--around", type=int, default=20, help="lines of code before and after a finding")
    parser.add_argument("--only-new", action="store_true", help="print no finding that has a verdict")
    parser.add_argument("--strict", action="store_true", help="lint's strict tier")
    parser.add_argument("--keep", metavar="FOLDER", help="unpack here, and use what is here already")
    given = parser.parse_args(arguments)
    if given.tables:
        rows = [row for row in verdicts.read() if row.set == given.tables]
        print(verdicts.by_rule(rows), verdicts.by_finding(rows), sep="\n\n")
        return 0
    try:
        names = [*given.names, *(each for name in given.set for each in sources.listed_in_page(name))]
    except sources.NoSource as error:
        parser.error(str(error))
    if not names:
        parser.error("no package is named")
    settings = lint.Settings(strict=given.strict)
    with tempfile.TemporaryDirectory() as scratch:
        into = Path(given.keep or scratch)
        into.mkdir(parents=True, exist_ok=True)
        return 1 if run(names, into, settings, given.around, given.only_new) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
