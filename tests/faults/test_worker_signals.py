"""A worker in a process of its own gets real signals: it drains, it hurries, and it loses no job."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp

pytestmark = [
    pytest.mark.usefixtures("watchdog"),
    pytest.mark.skipif(os.name != "posix", reason="other platform: signals"),
]

#: The same program for every kind of worker: two jobs are in the queue, one is handled at a time.
PROGRAM = """
import asyncio, contextlib, os, queue, signal, sys, time
sys.path.insert(0, {source!r})
import stormproof as sp
from stormproof._context.deadlines import check
from stormproof._programs.worker import Worker

reported = False

def tick():
    # Says once that the signal was seen.
    global reported
    if worker.stopping and not reported:
        reported = True
        say("stopping")

def say(*words):
    print(*words, flush=True)

def buried(job, error):
    say("buried", job, type(error).__name__, getattr(error, "reason", None))

options = dict(dead_letter=buried, concurrency=1, drain={drain!r})
STEPS = {steps!r}
JOBS = {jobs!r}
"""

#: A job is a number of short waits, which a signal has to interrupt or wait for.
BODIES = {
    "threads": """
        def handle(job):
            say("began", job)
            for _ in range(STEPS):
                time.sleep(0.01)
                # As a client does that honours its scope.
                check()
                tick()
            say("ended", job)

        jobs = queue.Queue()
        for job in JOBS:
            jobs.put(job)
        worker = Worker(handle, **options)
        say("ready")
        stats = worker.run(jobs)
    """,
    "asyncio": """
        async def handle(job):
            say("began", job)
            for _ in range(STEPS):
                await asyncio.sleep(0.01)
                tick()
            say("ended", job)

        async def main():
            global jobs, worker
            jobs = asyncio.Queue()
            for job in JOBS:
                jobs.put_nowait(job)
            worker = Worker(handle, **options)
            say("ready")
            return await worker.run_async(jobs)

        stats = asyncio.run(main())
    """,
    "trio": """
        import trio

        async def handle(job):
            say("began", job)
            for _ in range(STEPS):
                await trio.sleep(0.01)
                tick()
            say("ended", job)

        jobs = queue.Queue()
        for job in JOBS:
            jobs.put(job)
        worker = Worker(handle, **options)
        say("ready")
        stats = trio.run(worker.run_async, jobs)
    """,
}
LAST = """
say("left", jobs.qsize())
say("stats", stats.taken, stats.succeeded, stats.failed, stats.unfinished)
say("handler", signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


class Child:
    """A process that says what happens to it, a line at a time."""

    def __init__(self, program: str) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.said: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.append(self._process.stderr.read())

    def until(self, line: str) -> None:
        """Wait until it has said ``line``."""
        while line not in self.said:
            said = self._lines.get(timeout=30)
            assert said is not None, f"it ended without {line!r}: {self.said}, {self._errors}"
            self.said.append(said)

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, float]:
        """Wait for its end: the exit code, and the seconds it took from now."""
        began = time.monotonic()
        while (said := self._lines.get(timeout=30)) is not None:
            self.said.append(said)
        code = self._process.wait(30)
        took = time.monotonic() - began
        for reader in self._readers:
            reader.join(30)
        return code, took

    @property
    def errors(self) -> str:
        return "".join(self._errors)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(5)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def start(
        body: str, *, drain: float = 30.0, steps: int = 30, jobs: tuple[str, ...] = ("a", "b")
    ) -> Child:
        source = str(Path(sp.__file__).parents[1])
        program = PROGRAM.format(source=source, drain=drain, steps=steps, jobs=jobs)
        child = Child(program + textwrap.dedent(body) + LAST)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()


Start = Callable[..., Child]
each_kind = pytest.mark.parametrize("kind", list(BODIES))
two_kinds = pytest.mark.parametrize("kind", ["threads", "asyncio"])


@each_kind
def test_sigterm_finishes_the_job_and_takes_no_more(start: Start, kind: str) -> None:
    child = start(BODIES[kind])
    child.until("began a")
    child.send(signal.SIGTERM)
    code, _ = child.end()
    assert (code, child.errors) == (0, "")
    assert child.said == [
        "ready",
        "began a",
        "stopping",
        "ended a",
        "left 1",
        "stats 1 1 0 0",
        "handler True",
    ]


@two_kinds
def test_sigterm_ends_an_idle_worker(start: Start, kind: str) -> None:
    # Nothing is in the queue after the first job, which takes no time.
    child = start(BODIES[kind], steps=0, jobs=("a",))
    child.until("ended a")
    child.send(signal.SIGTERM)
    code, took = child.end()
    assert (code, child.errors) == (0, "")
    assert "stats 1 1 0 0" in child.said
    assert took < 10  # far below the drain, which there is nothing to wait for in


@each_kind
def test_second_sigterm_does_not_wait(start: Start, kind: str) -> None:
    child = start(BODIES[kind], steps=100_000)
    child.until("began a")
    child.send(signal.SIGTERM)
    # Two signals that arrive together are one.
    child.until("stopping")
    child.send(signal.SIGTERM)
    code, took = child.end()
    assert (code, child.errors) == (0, "")
    assert child.said[3:] == [
        "buried a WorkerStopped shutdown",
        "left 1",
        "stats 1 0 0 1",
        "handler True",
    ]
    assert took < 10


@two_kinds
def test_job_that_outlasts_the_drain_becomes_a_dead_letter(start: Start, kind: str) -> None:
    child = start(BODIES[kind], steps=100_000, drain=0.1)
    child.until("began a")
    child.send(signal.SIGTERM)
    code, took = child.end()
    assert (code, child.errors) == (0, "")
    assert "buried a WorkerStopped shutdown" in child.said and "left 1" in child.said
    assert took < 10


@pytest.mark.parametrize("run", ["worker.run(jobs)", "asyncio.run(worker.run_async(jobs))"])
def test_job_that_does_not_stop_does_not_keep_the_process(start: Start, run: str) -> None:
    body = f"""
    def handle(job):
        say("began", job)
        while not worker.stopping:
            time.sleep(0.01)
        say("stopping")
        time.sleep(60)

    jobs = queue.Queue()
    jobs.put("a")
    worker = Worker(handle, **options)
    stats = {run}
    """
    child = start(body)
    child.until("began a")
    child.send(signal.SIGTERM)
    child.until("stopping")
    child.send(signal.SIGTERM)
    code, took = child.end()
    assert (code, child.errors) == (0, "")
    assert "buried a WorkerStopped shutdown" in child.said
    assert took < 10


@two_kinds
def test_ctrl_c_is_not_waited_for_and_loses_nothing(start: Start, kind: str) -> None:
    child = start(BODIES[kind], steps=100_000)
    child.until("began a")
    child.send(signal.SIGINT)
    code, took = child.end()
    assert code != 0 and "KeyboardInterrupt" in child.errors
    said = [line for line in child.said if line != "stopping"]  # the job may or may not notice first
    assert said == ["ready", "began a", "buried a WorkerStopped shutdown"]
    assert took < 10


@two_kinds
def test_ctrl_c_may_be_set_to_drain(start: Start, kind: str) -> None:
    child = start("options['signals'] = ('SIGTERM', 'SIGINT')\n" + textwrap.dedent(BODIES[kind]))
    child.until("began a")
    child.send(signal.SIGINT)
    code, _ = child.end()
    assert (code, child.errors) == (0, "")
    assert "ended a" in child.said and "left 1" in child.said


def test_server_beside_the_worker_gets_the_signal_as_well(start: Start) -> None:
    body = """
    async def handle(job):
        say("began", job)
        await asyncio.sleep(0.1)
        say("ended", job)

    async def main():
        global jobs
        jobs = asyncio.Queue()
        jobs.put_nowait("a")
        notified = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, notified.set)
        stats = await Worker(handle, **options).run_async(jobs)
        await asyncio.wait_for(notified.wait(), 5)
        say("notified")
        return stats

    signal.signal(signal.SIGUSR1, lambda *_: say("usr1"))
    options["signals"] = ("SIGTERM", "SIGUSR1")
    stats = asyncio.run(main())
    """
    child = start(body)
    child.until("began a")
    child.send(signal.SIGUSR1)
    child.until("usr1")
    child.send(signal.SIGTERM)
    code, _ = child.end()
    assert (code, child.errors) == (0, "")
    assert "notified" in child.said


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    from stormproof._programs.worker import Worker

    before = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []

    def run() -> None:
        Worker(lambda job: seen.append(signal.getsignal(signal.SIGTERM))).run([1])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert seen == [before]
    assert signal.getsignal(signal.SIGTERM) is before


def test_worker_in_the_main_thread_restores_signal_handlers() -> None:
    from stormproof._programs.worker import Worker

    before = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []
    Worker(lambda job: seen.append(signal.getsignal(signal.SIGTERM))).run([1])
    assert seen[0] is not before
    assert signal.getsignal(signal.SIGTERM) is before
    Worker(lambda job: seen.append(signal.getsignal(signal.SIGTERM)), signals=()).run([1])
    assert seen[1] is before
