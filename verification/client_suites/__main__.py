"""``python -m verification.client_suites [NAME ...]``: needs a package registry, and pip."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .run import Comparison, NoSuite, compare
from .suites import SUITES, Suite


def report(suite: Suite, found: Comparison) -> bool:
    """Print how it went; return whether nothing is broken but what is documented."""
    counts = {
        name: tuple(sum(how == kind for how in outcomes.values()) for kind in ("passed", "failed", "skipped"))
        for name, outcomes in (("plain", found.plain), ("with a policy", found.mounted))
    }
    print(f"{found.release}:")
    for name, (passed, failed, skipped) in counts.items():
        print(f"  {name}: {passed} passed, {failed} failed, {skipped} skipped")
    unexplained = 0
    for test in found.broken:
        why = next((why for end, why in suite.differences.items() if test.endswith(end)), None)
        unexplained += why is None
        print(f"  differs: {test}: {why or 'NOT EXPLAINED'}")
    return not unexplained


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.client_suites", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}; all of them if none"
    )
    parser.add_argument("--policy", choices=("retry", "timeout", "nothing"), default="retry")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in SUITES]
    if unknown:
        parser.error(f"no suite called {', '.join(unknown)}")
    good = True
    for name in given.names or SUITES:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                found = compare(SUITES[name], given.policy, Path(scratch))
            except NoSuite as error:
                print(error, file=sys.stderr)
                return 2
        good &= report(SUITES[name], found)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
