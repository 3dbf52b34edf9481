"""Every example runs with its one command, and says what its page promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def output(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", f"examples/{name}/run.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_folder_is_listed_and_tested() -> None:
    folders = {
        path.name for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    listed = set(
        re.findall(r"^\| `(\w+)` \|", (ROOT / "examples/README.md").read_text("utf-8"), re.MULTILINE)
    )
    assert folders == listed


def test_http_client_example_loses_no_request() -> None:
    bare, ours = output("http_client").splitlines()
    assert "200 300" not in bare
    assert "200 300" in ours


@pytest.mark.long
def test_llm_batch_example_is_rarely_throttled() -> None:
    refused = [int(count) for count in re.findall(r"(\d+) times 429", output("llm_batch"))]
    assert refused[0] > 20
    assert refused[1] <= 5


def test_worker_pool_example_loses_no_job() -> None:
    assert "of 60 jobs none was lost" in output("worker_pool")


@pytest.mark.long
def test_websocket_fleet_example_spreads_its_reconnects() -> None:
    crowds = [int(count) for count in re.findall(r": (\d+) of 200", output("websocket_fleet"))]
    assert crowds[1] < crowds[0]


def test_fastapi_service_example_prints_its_outcomes() -> None:
    printed = output("fastapi_service")
    assert "{'number': 1}; the same key again: {'number': 1}" in printed
    assert "no time left: 504, x-should-retry: false" in printed
    assert "prices: 3 attempts, 2 retries" in printed
