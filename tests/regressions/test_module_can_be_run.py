"""``python -m stormproof`` did not exist."""

from __future__ import annotations

import subprocess
import sys

import stormproof as sp


def test_module_runs_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"stormproof {sp.__version__}\n")
