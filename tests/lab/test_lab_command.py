"""``stormproof lab``: how it begins, how it ends, and what it says when it cannot begin."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.lab_server import Served, built_page
from tests.support.polling import eventually

from stormproof.cli import main
from stormproof.lab.results import report


@pytest.fixture(autouse=True)
def page() -> Path:
    return built_page()


def test_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["lab", "--no-open", "--port", str(port)]) == 2
    said = capsys.readouterr()
    assert said.err == f"stormproof: cannot serve on 127.0.0.1:{port}: Address already in use\n"
    assert said.out == ""


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_invalid_port_is_a_usage_error(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--no-open", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


def test_missing_page_error_names_the_build_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "files", lambda package: tmp_path)
    report.page.cache_clear()
    try:
        assert main(["lab", "--no-open"]) == 2
    finally:
        report.page.cache_clear()
    assert "make page" in capsys.readouterr().err


@contextlib.contextmanager
def running_lab() -> Iterator[tuple[subprocess.Popen[str], Served]]:
    """A lab in a process of its own, killed at the end if it still runs."""
    command = [sys.executable, "-m", "stormproof.cli", "lab", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process, Served(process.stdout.readline().split()[-1])
    finally:
        process.kill()
        process.communicate()


def test_each_start_makes_a_new_token() -> None:
    tokens = set()
    for _ in range(2):
        with running_lab() as (process, served):
            tokens.add(served.token)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
    assert len(tokens) == 2


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="other platform: needs /proc")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_worker_processes_end_with_the_lab(ending: signal.Signals) -> None:
    with running_lab() as (process, _):
        eventually(lambda: len(children(process.pid)) == 2, "the processes for runs were not started")
        workers = children(process.pid)
        process.send_signal(ending)
        process.wait(20)
        eventually(lambda: all(map(is_gone, workers)), "a process for runs outlived the lab")
