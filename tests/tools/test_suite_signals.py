"""The suite as a background job, which has SIGINT and SIGQUIT ignored: its tests get the defaults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent.parent / "conftest.py"
SUITE = """
import signal, subprocess, sys

def test_own_process():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL

def test_child():
    code = "from signal import *; print(getsignal(SIGINT).__name__, getsignal(SIGQUIT).name)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "default_int_handler SIG_DFL\\n"
"""
IGNORES = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *sys.argv[1:]])
"""


@pytest.mark.skipif(os.name != "posix", reason="other platform: signals")
@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["one process", "xdist"])
def test_ignored_signals_are_reset(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = redis\n")
    (tmp_path / "test_signals.py").write_text(SUITE)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-c", IGNORES, *options, str(tmp_path)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(os.name != "posix", reason="other platform: signals")
def test_signals_of_this_process_are_not_ignored() -> None:
    assert signal.SIG_IGN not in (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGQUIT))
