"""Elsewhere the wait is ``min(cap, 2**n)`` in whole numbers: a huge n burns CPU for days.

Holdfast: a wait costs the same for every n, and whole-number options are floats from the start.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import holdfast

# A child, because what is being ruled out cannot be interrupted: one C call that takes days.
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import holdfast as hf
n = 10**15
for rule in (
    hf.Exponential(1, factor=2, cap=60, jitter="none"),
    hf.Exponential(1, factor=3, cap=60, jitter="none"),
    hf.Linear(1, cap=60, jitter="none"),
    hf.Fibonacci(1, cap=60, jitter="none"),
):
    assert rule.delay(n, None, 0.5) == 60.0, rule
    assert rule.ceiling(n) == 60.0, rule
assert hf.Decorrelated(1, cap=60).delay(n, 60.0, 0.5) == 30.5
assert hf.Decorrelated(1, cap=60).bounds(n) == (1.0, 60.0)
assert hf.Schedule([1, 2]).delay(n, None, 0.5) == 2.0
"""


def test_the_wait_after_10_to_the_15_retries():
    source = str(Path(holdfast.__file__).parents[1])
    subprocess.run([sys.executable, "-c", CODE, source], check=True, timeout=20)
