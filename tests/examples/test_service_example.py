"""``examples/service`` does what it says, in one command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_service_example_prints_its_outcomes() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.service"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    output = done.stdout
    assert "2 requests with one key -> 201 {'charged': 100, 'receipt': 1}" in output
    assert "replayed: true; charged 1 time(s)" in output
    turned_away = re.search(r"24 callers, (\d+) times asked to come back later, 24 served in the end", output)
    assert turned_away is not None and int(turned_away[1]) > 0, "8 places for 24 callers"
    left = re.search(r"5 s here, (\d+) ms left at the handler's start", output)
    assert left is not None and 3000 < int(left[1]) <= 5000
    assert "given up in time" in output
    assert "already late: 504, x-should-retry: false" in output
    assert "reports begun 2, done 1" in output
    assert "503 circuit_open, x-should-retry: false" in output
    assert "the bank was called 1 time(s), the service 2 times" in output
