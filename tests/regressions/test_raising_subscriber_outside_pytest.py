"""A subscriber that raises must not fail the user's call, in a program that replaces no hooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import stormproof as sp

PROGRAM = """
import stormproof as sp

def broken(event):
    raise ZeroDivisionError

sp.subscribe(broken)
assert sp.retry(on=ValueError)(lambda: 1)() == 1
"""


def test_raising_subscriber_is_reported_and_the_call_succeeds() -> None:
    source = str(Path(sp.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {source!r})\n" + PROGRAM
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "UnraisableHookArgs" not in done.stderr
