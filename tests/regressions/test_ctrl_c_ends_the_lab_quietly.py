"""Ctrl-C in a terminal reaches the lab's processes for runs as well; none of them has anything to say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.lab_server import built_page


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="other platform: needs /proc")
def test_lab_ended_by_ctrl_c_has_printed_its_address_alone() -> None:
    built_page()
    process = subprocess.Popen(
        [sys.executable, "-m", "stormproof.cli", "lab", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert "The lab is at http://127.0.0.1:" in process.stdout.readline()
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        end = time.monotonic() + 30
        while len(listed.read_text().split()) < 2:
            assert time.monotonic() < end, "the processes for runs were not started"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert said == ""
