"""The demo's server: HTTP/1.1 on loopback with a finite capacity, which hangs once.

Run as a script in a process of its own; only the standard library, nothing of Stormproof.
Requests wait in one FIFO queue and are answered one at a time, each taking
``1 / capacity`` seconds. A request whose caller has gone keeps its place and its share of
the work, as it does in most real servers. While it hangs, requests are accepted and
queued, and no work is done.

It prints its port as one JSON line, starts its clock when a line arrives on stdin, then
prints ``[bucket, received, served, abandoned, queued]`` per bucket. The end of stdin ends it
after a last line, so a parent that dies for any reason takes its servers with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import threading
from collections import deque

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEAD_LIMIT = 8192
BACKLOG = 4096


class FinishTimes:
    """Finish times of the one worker: FIFO, ``1 / capacity_rps`` seconds each, none during the hang.

    ``hang_s`` = 0 never hangs. Times are seconds since the clock started.
    """

    def __init__(self, capacity_rps: float, hang_at_s: float, hang_s: float) -> None:
        self.service_s = 1.0 / capacity_rps
        self.hang_at_s = hang_at_s
        self.hang_s = hang_s

    def finish(self, begin_s: float) -> float:
        """Return when work begun at ``begin_s`` ends. A hang stops the work, but requests still queue."""
        hang_end = self.hang_at_s + self.hang_s
        if begin_s >= hang_end:
            return begin_s + self.service_s
        if begin_s >= self.hang_at_s:
            return hang_end + self.service_s
        end = begin_s + self.service_s
        return end if end <= self.hang_at_s else end + self.hang_s


class DemoBackend:
    """The queue, its one worker and the counts."""

    def __init__(self, schedule: FinishTimes) -> None:
        self.schedule = schedule
        self.received = self.served = self.abandoned = 0
        self.queue: deque[DemoConnection] = deque()
        self._finish_s: float | None = None
        self.connections: set[asyncio.Transport] = set()
        self._loop = asyncio.get_running_loop()
        self._zero = self._loop.time()

    def start_clock(self) -> None:
        self._zero = self._loop.time()

    def now(self) -> float:
        return self._loop.time() - self._zero

    def enqueue(self, request: DemoConnection) -> None:
        self.received += 1
        self.queue.append(request)
        if self._finish_s is None:
            self._take_up(self.now())

    def _take_up(self, begin_s: float) -> None:
        self._finish_s = self.schedule.finish(begin_s)
        self._loop.call_at(self._zero + self._finish_s, self._work)

    def _work(self) -> None:
        # Late timers are caught up with: work is booked by the schedule, so the rate is the capacity.
        while self.queue and self._finish_s is not None and self._finish_s <= self.now():
            self.served += 1
            if not self.queue.popleft().answer(RESPONSE):
                self.abandoned += 1
            begin_s, self._finish_s = self._finish_s, None
            if self.queue:
                self._finish_s = self.schedule.finish(begin_s)
        if self._finish_s is not None:
            self._loop.call_at(self._zero + self._finish_s, self._work)


class DemoConnection(asyncio.Protocol):
    """One connection, which carries one request."""

    def __init__(self, backend: DemoBackend) -> None:
        self._backend = backend
        self._head: bytes | None = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._backend.connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._backend.connections.discard(self._transport)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            return
        self._head += data
        complete = b"\r\n\r\n" in self._head
        if not complete and len(self._head) <= HEAD_LIMIT:
            return
        good = complete and self._head.startswith(b"GET / HTTP/1.1\r\n")
        self._head = None
        if good:
            self._backend.enqueue(self)
        else:
            self.answer(REFUSED)

    def answer(self, response: bytes) -> bool:
        """Send the response and close; return False if the caller has left."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(response)
        self._transport.close()
        return True


def allow_open_files(wanted: int) -> int:
    """Return the number of files that may be open, at most ``wanted``; raise a lower limit if possible."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are not limited this way
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def _print_row(row: object) -> None:
    # Unbuffered, so that nothing is left to fail at exit when the reader has gone.
    try:
        os.write(sys.stdout.fileno(), json.dumps(row).encode() + b"\n")
    except BrokenPipeError:
        pass  # the end of stdin follows


async def _report(backend: DemoBackend, bucket_s: float, ended: asyncio.Event) -> None:
    """A line at the end of each bucket, the last one when the demo has ended."""
    bucket, last = 0, (0, 0, 0)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((bucket + 1) * bucket_s - backend.now()):
                await ended.wait()
        counts = (backend.received, backend.served, backend.abandoned)
        row = [bucket, *(new - old for new, old in zip(counts, last, strict=True)), len(backend.queue)]
        _print_row(row)
        bucket, last = bucket + 1, counts


async def serve(capacity_rps: float, hang_at_s: float, hang_s: float, bucket_s: float) -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    started, ended = asyncio.Event(), asyncio.Event()

    def watch_stdin() -> None:
        sys.stdin.readline()
        loop.call_soon_threadsafe(started.set)
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    backend = DemoBackend(FinishTimes(capacity_rps, hang_at_s, hang_s))
    server = await loop.create_server(lambda: DemoConnection(backend), "127.0.0.1", 0, backlog=BACKLOG)
    threading.Thread(target=watch_stdin, daemon=True).start()
    _print_row({"port": server.sockets[0].getsockname()[1]})

    await started.wait()
    backend.start_clock()
    await _report(backend, bucket_s, ended)
    server.close()
    # A transport left to the collector warns that its loop is closed.
    for transport in tuple(backend.connections):
        transport.abort()
    await asyncio.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="The demo's server.")
    for name in ("--capacity", "--hang-at", "--hang-for", "--bucket"):
        parser.add_argument(name, type=float, required=True)
    parser.add_argument("--files", type=int, required=True)
    options = parser.parse_args()
    allow_open_files(options.files)
    try:
        asyncio.run(serve(options.capacity, options.hang_at, options.hang_for, options.bucket))
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
