"""Elsewhere the wait is ``min(cap, 2**n)`` in whole numbers: a huge n burns CPU for days.

Stormproof: a wait costs the same for every n, and whole-number options are floats from the start.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import stormproof

# A child, because what is being ruled out cannot be interrupted: one C call that takes days.
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import stormproof as sp
n = 10**15
for rule in (
    sp.Exponential(1, factor=2, cap=60, jitter="none"),
    sp.Exponential(1, factor=3, cap=60, jitter="none"),
    sp.Linear(1, cap=60, jitter="none"),
    sp.Fibonacci(1, cap=60, jitter="none"),
):
    assert rule.delay(n, None, 0.5) == 60.0, rule
    assert rule.ceiling(n) == 60.0, rule
assert sp.Decorrelated(1, cap=60).delay(n, 60.0, 0.5) == 30.5
assert sp.Decorrelated(1, cap=60).bounds(n) == (1.0, 60.0)
assert sp.Schedule([1, 2]).delay(n, None, 0.5) == 2.0
"""


def test_wait_after_10_to_the_15_retries_is_computed_at_once():
    source = str(Path(stormproof.__file__).parents[1])
    subprocess.run([sys.executable, "-c", CODE, source], check=True, timeout=20)
