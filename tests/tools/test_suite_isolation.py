"""A test that leaves something behind fails its own file, and no other test meets it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.tools.small_suite import SmallSuite

BYSTANDER = """
import gc

def test_bystander():
    gc.collect()
"""

SOCKET_GARBAGE = """
import socket

def test_leaves():
    cycle = [socket.socket()]
    cycle.append(cycle)
"""
SOCKET_IN_USE = """
import socket

kept = []

def test_leaves():
    kept.append(socket.socket())
"""
THREAD = """
import threading

def test_leaves():
    threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()
"""
CHILD = """
import subprocess, sys

kept = []

def test_leaves():
    kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(40)"]))
"""
SUBSCRIBER = """
import stormproof as sp

def test_leaves():
    sp.subscribe(print)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="other platform: no /proc")
def test_file_that_leaves_something_behind_fails(tmp_path: Path) -> None:
    sources = {
        "garbage": (SOCKET_GARBAGE, "unclosed <socket"),
        "socket": (SOCKET_IN_USE, "left behind: ['socket:"),
        "thread": (THREAD, "left behind: ['thread forgotten']"),
        "child": (CHILD, "left behind: ['child "),
        "subscriber": (SUBSCRIBER, "left subscribers behind"),
    }
    files = {name: source for name, (source, _) in sources.items()}
    bystanders = {f"{name}_bystander": BYSTANDER for name in sources}
    suite = SmallSuite(tmp_path, **files, **bystanders)
    code, out = suite.run(STORMPROOF_TEST_SEED="0", STORMPROOF_TEST_PATIENCE="0.1")
    assert code != 0
    assert "10 passed, 5 errors" in out, out
    for name, (_, message) in sources.items():
        assert f"ERROR test_{name}.py::test_leaves" in out
        assert message in out


STATE = """
import stormproof as sp
from stormproof.events import first_tries

POLICY = sp.retry(on=OSError, name="shared", clock=sp.testing.FakeClock())

def spend():
    budget = sp.retry(on=OSError, name="shared").strategies[0].budget
    before = budget.balance
    budget.withdraw()
    return before

def test_1(): assert spend() == sp.Budget().balance
def test_2(): assert spend() == sp.Budget().balance

def name_an_operation():
    assert "named elsewhere" not in first_tries()
    sp.retry(on=OSError, name="named elsewhere")(lambda: None)
    assert "named elsewhere" in first_tries()

def test_3(): name_an_operation()
def test_4(): name_an_operation()
"""


def test_tests_share_no_budgets_and_no_operations(tmp_path: Path) -> None:
    for seed in ("1", "2", "3"):
        code, out = SmallSuite(tmp_path, state=STATE).run(STORMPROOF_TEST_SEED=seed)
        assert code == 0, out


SIGNALS = """
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
os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
"""


@pytest.mark.skipif(os.name != "posix", reason="other platform: signals")
@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["one process", "xdist"])
def test_signals_ignored_by_a_background_job_are_reset(options: tuple[str, ...], tmp_path: Path) -> None:
    _, out = SmallSuite(tmp_path, signals=SIGNALS).run(*options, prefix=("-c", IGNORES))
    assert "2 passed" in out, out


@pytest.mark.skipif(os.name != "posix", reason="other platform: signals")
def test_signals_of_this_process_are_not_ignored() -> None:
    assert signal.SIG_IGN not in (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGQUIT))
