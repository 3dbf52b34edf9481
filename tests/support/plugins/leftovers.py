"""A file of tests that leaves a thread, a socket or a child process behind fails, and not a later one."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Threads that are shared by the whole process and stay by design: pools of ours, and of libraries.
SHARED_THREADS = (
    "stormproof-worker",  # idle ones wait for the next call
    "stormproof-leases",  # ends when its last lease would have been renewed
    "stormproof-grpc",
    "Dask-Offload",
    "Trio thread",  # idle ones of trio's pool end after ten seconds
)

#: Helpers that the standard library starts once per process.
SHARED_CHILDREN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")

#: The thread of grpc.aio.
POLLER = "(_poll_wrapper)"

#: Libraries that keep sockets for the whole process, by what the files of their tests are called.
KEEP_SOCKETS = ("grpc", "celery", "dramatiq")

#: How long what is ending may take to end.
GRACE_S = float(os.environ.get("STORMPROOF_TEST_PATIENCE", "10"))


def freeze() -> None:
    """Collect what is left, and leave what stays to the end out of every later collection."""
    gc.collect()
    if hasattr(gc, "freeze"):  # PyPy has none
        gc.freeze()


def pytest_collection_finish() -> None:
    freeze()


def threads() -> set[str]:
    return {
        f"thread {thread.name}"
        for thread in threading.enumerate()
        if thread.is_alive() and not thread.name.startswith(SHARED_THREADS) and POLLER not in thread.name
    }


def children() -> set[str]:
    """Return the living child processes; none on systems without /proc."""
    found = set()
    for tasks in Path("/proc/self/task").glob("*/children"):
        try:
            pids = tasks.read_text().split()
        except OSError:
            # The thread has just ended.
            continue
        for pid in pids:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            text = command.decode(errors="replace").replace("\0", " ").strip()
            if not any(helper in text for helper in SHARED_CHILDREN):
                found.add(f"child {pid}: {text[:80]}")
    return found


def sockets() -> set[str]:
    """Return the open sockets by their number; none on systems without /proc."""
    found = set()
    for path in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def leftovers(path: Path) -> set[str]:
    return threads() | children() | (set() if any(name in path.name for name in KEEP_SOCKETS) else sockets())


@pytest.fixture(scope="module", autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the file's last test if what it started still runs, or what it opened is still open."""
    before = leftovers(request.path)
    yield
    freeze()
    end = time.monotonic() + GRACE_S
    while (left := leftovers(request.path) - before) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left, f"this file left behind: {sorted(left)}"
