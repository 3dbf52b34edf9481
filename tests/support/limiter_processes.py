"""Real processes that share one limiter: run as a script, prints a report of each.

``python -m tests.support.limiter_processes <url> <seconds> <rate> <burst> <callers in process 0> <in process
1> ...``
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


#: Bytes of a moment on the monotonic clock.
_STAMP = 24

#: The processes start twice: to count each other, and to work.
_STARTS = 2


def run_processes(
    url: str, seconds: float, rate: float, burst: int, callers: list[int]
) -> list[dict[str, Any]]:
    """Return the work of each process, each with ``callers`` that wait for their next token."""
    command = [
        sys.executable,
        "-m",
        "tests.support.limiter_processes",
        url,
        *map(str, (seconds, rate, burst, *callers)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return read_reports(done.stdout, len(callers))[1]


def read_reports(text: str, members: int) -> tuple[float, list[dict[str, Any]]]:
    """Return when the processes started to work, and what each of them did."""
    start, *found = [json.loads(line) for line in text.splitlines()]
    assert len(found) == members
    return start, found


def work(
    url: str, seconds: float, rate: float, burst: int, callers: int, members: int, start: Any
) -> dict[str, Any]:
    """Let ``callers`` tasks take one token after the other, once all ``members`` know of each other."""
    import asyncio

    from tests.support.polling import eventually

    import stormproof as sp

    # Room for a machine that is busy with eight of these.
    store = sp.redis.RedisStore(url, timeout=1.0)
    limiter = sp.Limiter(rate, burst, store=store, name="crew")
    assert store.settle(10)
    start()
    eventually(lambda: limiter._fleet is not None and limiter._fleet.bucket.instances >= members)
    began = start()
    end = began + seconds
    admitted = 0
    # How many in each tenth of a second, and when it began and ceased to decide alone.
    tenths = [0] * (int(seconds * 10) + 1)
    changes: list[float] = []
    # The longest time without an answer of the store, and the fewest instances that it spoke of.
    late, counted = 0.0, members

    async def call() -> None:
        nonlocal admitted
        while time.monotonic() < end:
            await limiter.wait_async()
            if (now := time.monotonic()) < end:
                admitted += 1
                tenths[int((now - began) * 10)] += 1

    async def watch() -> None:
        nonlocal late, counted
        fleet = limiter._fleet
        assert fleet is not None
        while (now := time.monotonic()) < end:
            late = max(late, now - max(began, fleet.answered_at or began))
            counted = min(counted, fleet.bucket.instances)
            if fleet.alone != bool(len(changes) % 2):
                changes.append(now - began)
            await asyncio.sleep(0.005)

    async def all_callers() -> None:
        await asyncio.gather(watch(), *(call() for _ in range(callers)))

    asyncio.run(all_callers())
    time.sleep(max(0.0, end - time.monotonic()))
    stats = store.stats()
    store.close()
    report = {"callers": callers, "admitted": admitted, "tenths": tenths, "changes": changes}
    return {**report, "late": late, "counted": counted, **stats}


def main(url: str, seconds: str, rate: str, burst: str, *callers: str) -> None:
    # Loaded once, before the processes fork: eight interpreters that import at once would take the machine.
    import asyncio  # noqa: F401

    import stormproof.redis  # noqa: F401

    here, ready = os.pipe()
    # One for each start, so that no process takes a message meant for another.
    words = [os.pipe() for _ in range(_STARTS)]
    left = iter(words)

    def start() -> float:
        """Say that this one is ready, and wait for all the others."""
        os.write(ready, b".")
        return float(os.read(next(left)[0], _STAMP))

    pids = []
    for each in callers:
        pid = os.fork()
        if pid == 0:
            signal.alarm(50)
            report = work(url, float(seconds), float(rate), int(burst), int(each), len(callers), start)
            os.write(1, (json.dumps(report) + "\n").encode())
            os._exit(0)
        pids.append(pid)
    for _, word in words:
        for _ in pids:
            os.read(here, 1)
        start_at = time.monotonic()
        os.write(word, f"{start_at:>{_STAMP}.6f}".encode() * len(pids))
    os.write(1, f"{start_at}\n".encode())
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
