"""``python -m verification.compat_suites [NAME ...]``: needs a package registry, and pip."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .run import NoSuite, Verdict, fetch, run
from .suites import SUITES, Suite


def report(suite: Suite, verdict: Verdict) -> bool:
    """Print how it went; return whether it is as good as we say."""
    print(f"{verdict.release}: {verdict.passed} of {verdict.total} passed, {verdict.skipped} skipped")
    unexplained = 0
    for test in verdict.failed:
        reason = next((why for end, why in suite.misses.items() if test.endswith(end)), None)
        unexplained += reason is None
        print(f"  failed: {test}: {reason or 'NOT EXPLAINED'}")
    return verdict.passed >= suite.least and not unexplained


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.compat_suites", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}; all of them if none"
    )
    parser.add_argument("--show", action="store_true", help="let pytest print")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in SUITES]
    if unknown:
        parser.error(f"no suite called {', '.join(unknown)}")
    good = True
    for name in given.names or SUITES:
        with tempfile.TemporaryDirectory() as scratch:
            source, tests = Path(scratch, "source"), Path(scratch, "run")
            source.mkdir()
            tests.mkdir()
            try:
                verdict = run(SUITES[name], fetch(SUITES[name].requirement, source), tests, given.show)
            except NoSuite as error:
                print(error, file=sys.stderr)
                return 2
            good &= report(SUITES[name], verdict)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
