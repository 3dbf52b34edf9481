"""A private Redis as the broker, real workers as processes, and a file in which every run writes a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.support.redis_servers import Server

ROOT = Path(__file__).parents[3]


class Runs:
    """The lines that the tasks have written: ``(task, key, pid)``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, key: str) -> list[int]:
        """The processes that ran ``key``, in order."""
        if not self.path.exists():
            return []
        lines = [line.split() for line in self.path.read_text(encoding="utf-8").splitlines()]
        return [int(pid) for name, pid in lines if name == key]


class Bench:
    """The place where the workers of one module run."""

    def __init__(self, folder: Path, url: str) -> None:
        self.redis = redis.Redis.from_url(url)
        self.runs = Runs(folder / "runs.txt")
        #: Addresses for the workers, and for the module of their tasks here.
        self.own = {
            "STORMPROOF_TEST_BROKER": url,
            "STORMPROOF_TEST_RUNS": str(self.runs.path),
            "STORMPROOF_TEST_KEYS": str(folder / "keys.sqlite"),
        }
        self.log = folder / "worker.log"

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env={**os.environ, **self.own, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a worker and whatever it started."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(15)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        bench = Bench(tmp_path_factory.mktemp("queue"), server.url)
        for name, value in bench.own.items():
            patch.setenv(name, value)
        yield bench
        bench.redis.close()
