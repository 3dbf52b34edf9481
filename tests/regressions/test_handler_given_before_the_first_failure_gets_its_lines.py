"""A handler of the logger ``stormproof`` that is there before our log has a line to write gets its lines.

The log took the handlers it met when it was first needed for "logging is not configured", so an application
whose only handler is on this logger got no line at all.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging
{first}
handler = logging.StreamHandler()
logging.getLogger("stormproof").addHandler(handler)
{second}
from stormproof import Constant, retry

failures = [OSError("refused")]


@retry(on=OSError, backoff=Constant(0), name="fetch")
def fetch():
    if failures:
        raise failures.pop()


logging.getLogger("stormproof").setLevel(logging.DEBUG)
fetch()
"""


def lines(first: str, second: str) -> list[str]:
    program = PROGRAM.format(first=first, second=second)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [line.partition(" (")[0].partition(", ")[0] for line in ended.stderr.splitlines()]


EXPECTED = ["fetch failed at attempt 1", "fetch succeeded at attempt 2"]


def test_handler_added_before_the_import_gets_its_lines() -> None:
    assert lines("", "import stormproof") == EXPECTED


def test_handler_added_after_the_import_gets_its_lines() -> None:
    assert lines("import stormproof", "") == EXPECTED


def test_root_handler_gets_the_same_lines() -> None:
    assert lines("logging.basicConfig(format='%(message)s')", "import stormproof") == [
        line for line in EXPECTED for _ in range(2)
    ]
