"""examples/layers: three layers with four attempts each, and the backend sees at most 1.5 times the load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_layers_example_does_not_multiply_the_load() -> None:
    done = subprocess.run(
        [sys.executable, "examples/layers/run.py", "30"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = {
        line.split()[0]: [int(word.replace(",", "")) for word in line.split()[1:5]]
        for line in done.stdout.splitlines()
        if re.match(r"\s+(naive|stormproof) ", line)
    }
    assert rows["naive"] == [30, 120, 480, 1920]
    *layers, backend = rows["stormproof"]
    assert layers == [30, 30, 30]
    assert backend <= 45
