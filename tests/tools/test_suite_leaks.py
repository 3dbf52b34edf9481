"""A socket that a test leaves open fails the file of that test, not the file that happens to run next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parent.parent / "conftest.py"
LEAKS = """
import socket

def test_leaks():
    cycle = [socket.socket()]
    cycle.append(cycle)
"""
COLLECTS = """
import gc

def test_collects():
    gc.collect()
"""


def test_the_file_that_left_a_socket_open_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = redis\nfilterwarnings = error\n")
    (tmp_path / "test_1.py").write_text(LEAKS)
    (tmp_path / "test_2.py").write_text(COLLECTS)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "ERROR test_1.py::test_leaks" in done.stdout
