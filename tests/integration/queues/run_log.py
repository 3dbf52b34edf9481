"""A log of runs: every task of these tests first appends a line to it."""

from __future__ import annotations

import os


def ran(key: str) -> int:
    """Write the line of a run, and give how many there are with it."""
    path = os.environ["STORMPROOF_TEST_RUNS"]
    with open(path, "a", encoding="utf-8") as lines:
        lines.write(f"{key} {os.getpid()}\n")
    with open(path, encoding="utf-8") as lines:
        return sum(line.split()[0] == key for line in lines)
