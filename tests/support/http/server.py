"""A real HTTP/1.1 server on loopback that misbehaves by script, and writes down what it is sent.

``server.on("/a", answer(503), reset(), answer(200, b"ok"))`` plays one step per request to that path;
the last step repeats. ``server.on_accept(RESET, RESET)`` plays one step per connection, before a byte
is read; connections beyond the script are served. Everything happens on sockets of the server's own
event loop, in its own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from tests.support.polling import TIMEOUT_S

_LIMIT = 1 << 20
#: Lingering for no time at all: the close is an RST, not a FIN.
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Seen:
    """One request as it arrived. ``connection`` counts the accepted connections from 1."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    at: float

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The value of a header sent once; None without it, an error if it was sent twice."""
        found = self.all(name)
        assert len(found) <= 1, f"{name} was sent {len(found)} times: {found}"
        return found[0] if found else None


@dataclass
class Exchange:
    """The request of a step, and the connection that it came by."""

    seen: Seen
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    closing: asyncio.Event
    #: Whether the connection can carry another request after this one.
    keep: bool = True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Cut the connection with an RST."""
        self.keep = False
        _reset(self.writer)

    async def wait(self, seconds: float | None = None) -> bool:
        """Send nothing for ``seconds`` (None: for ever). False if the client or the server went away."""
        if await _quiet(self.reader, self.closing, seconds):
            return True
        self.keep = False
        return False


Step = Callable[[Exchange], Awaitable[None]]
Headers = Iterable[tuple[str, str]]


def head(status: int | str, headers: Headers = ()) -> bytes:
    """A status line and headers, written as given: nothing is checked."""
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def answer(status: int = 200, body: bytes = b"", headers: Headers = ()) -> Step:
    """A whole answer with a Content-Length."""

    async def step(exchange: Exchange) -> None:
        own = [*headers, ("Content-Length", str(len(body)))]
        sent = b"" if exchange.seen.method == "HEAD" else body
        await exchange.send(head(status, own) + sent)

    return step


def chunked(*chunks: bytes, status: int = 200, headers: Headers = (), ends: bool = True) -> Step:
    """An answer without a length; with ``ends=False`` it is cut before its last chunk."""

    async def step(exchange: Exchange) -> None:
        await exchange.send(head(status, [*headers, ("Transfer-Encoding", "chunked")]))
        for chunk in chunks:
            await exchange.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if ends:
            await exchange.send(b"0\r\n\r\n")
        else:
            exchange.reset()

    return step


def half(body: bytes, status: int = 200, announced: int | None = None) -> Step:
    """Promises more than it sends, then resets: ``announced`` bytes, twice the body if not given."""

    async def step(exchange: Exchange) -> None:
        length = 2 * len(body) if announced is None else announced
        await exchange.send(head(status, [("Content-Length", str(length))]) + body)
        # The bytes must have left before the reset overtakes them.
        await asyncio.sleep(0.02)
        exchange.reset()

    return step


def reset() -> Step:
    """Reads the request and cuts the connection without a word."""

    async def step(exchange: Exchange) -> None:
        exchange.reset()

    return step


def hang() -> Step:
    """Reads the request and never answers."""

    async def step(exchange: Exchange) -> None:
        await exchange.wait()

    return step


def hang_in_body(sent: bytes, announced: int) -> Step:
    """Begins the body and stops there."""

    async def step(exchange: Exchange) -> None:
        await exchange.send(head(200, [("Content-Length", str(announced))]) + sent)
        await exchange.wait()

    return step


def garbage(data: bytes = b"\x00\xffSSH-2.0-nonsense\r\n\r\n") -> Step:
    """Answers bytes that are not HTTP."""

    async def step(exchange: Exchange) -> None:
        await exchange.send(data)
        exchange.keep = False

    return step


def drip(every: float = 0.05) -> Step:
    """A slow loris: one byte of the headers at a time, for ever."""

    async def step(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nX-Drip: ")
        while await exchange.wait(every):
            await exchange.send(b"x")

    return step


def late(seconds: float, then: Step) -> Step:
    """Waits, then goes on with ``then``, if the client is still there."""

    async def step(exchange: Exchange) -> None:
        if await exchange.wait(seconds):
            await then(exchange)

    return step


def once(condition: Callable[[], bool], then: Step) -> Step:
    """Waits until ``condition()``, then goes on with ``then``, if the client is still there."""

    async def step(exchange: Exchange) -> None:
        while not condition():
            if not await exchange.wait(0.005):
                return
        await then(exchange)

    return step


def closing(then: Step) -> Step:
    """Answers as if the connection could be used again, and closes it."""

    async def step(exchange: Exchange) -> None:
        await then(exchange)
        exchange.keep = False

    return step


async def _quiet(reader: asyncio.StreamReader, closing: asyncio.Event, seconds: float | None) -> bool:
    """Wait until the client goes, the server closes (False), or ``seconds`` are over (True)."""
    gone = asyncio.ensure_future(_until_gone(reader))
    over = asyncio.ensure_future(closing.wait())
    try:
        done, _ = await asyncio.wait([gone, over], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        over.cancel()
        await asyncio.gather(gone, over, return_exceptions=True)
    return not done


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


@dataclass
class _Script:
    steps: tuple[Step, ...]
    played: int = 0

    def next(self) -> Step:
        step = self.steps[min(self.played, len(self.steps) - 1)]
        self.played += 1
        return step


@dataclass
class Server:
    """``with Server() as server:``; ``server.url("/a")``; ``server.seen`` has the requests in order.

    ``otherwise`` answers paths without a script; it is given the request and returns the step.
    """

    otherwise: Callable[[Seen], Step] | None = None
    seen: list[Seen] = field(default_factory=list)
    #: Connections accepted so far, and those open now.
    accepted: int = 0
    open: int = 0
    port: int = 0
    faults: list[BaseException] = field(default_factory=list)
    _scripts: dict[str, _Script] = field(default_factory=dict)
    _accepts: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    # The test's side.

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def on(self, path: str, *steps: Step) -> None:
        assert steps, "a script has at least one step"
        self._scripts[path] = _Script(steps)

    def on_accept(self, *steps: str) -> None:
        """Set what the next connections meet: ``"reset"``, ``"hang"`` (never read) or ``"serve"``."""
        self._accepts.extend(steps)

    def requests(self, path: str) -> list[Seen]:
        return [seen for seen in list(self.seen) if seen.path == path]

    def is_quiet(self, seconds: float) -> bool:
        """Return True if every connection is closed, or is within the given seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.open == 0, seconds)

    def wait_for(self, holds: Callable[[Server], bool], seconds: float = TIMEOUT_S) -> None:
        """Wait until ``holds(server)``; the server's state is looked at whenever it changes."""
        with self._changed:
            came = self._changed.wait_for(lambda: holds(self), seconds)
        assert came, f"not so after {seconds} s: {self.open} open, seen {[s.target for s in self.seen]}"

    def no_connection_is_open(self) -> None:
        """Fails unless every connection is closed; a close may take a moment to arrive."""
        self.wait_for(lambda server: server.open == 0)

    def __enter__(self) -> Server:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="misbehaving-server")
        self._thread.start()
        assert started.wait(TIMEOUT_S), "the server did not start"
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not stop"
        if exc[0] is None and self.faults:
            raise self.faults[0]

    # The server's side, in its own thread.

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=_LIMIT, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._closing.wait()
        # Nothing more is accepted. What was, a moment ago, arrives within a few turns of the loop, as the end
        # of what is being closed does; a server that is closed before then loses what it has accepted.
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(5):
            for task, writer in list(self._connections.items()):
                # To close it would be to wait until a client has read what was written.
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await asyncio.sleep(0)
        server.close()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count(1)
        number = self.accepted
        task = asyncio.ensure_future(self._connection(reader, writer, number))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)
        # Cancelled before it has begun, it closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    def _count(self, change: int) -> None:
        with self._changed:
            self.open += change
            if change > 0:
                self.accepted += 1
            self._changed.notify_all()

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        step = self._accepts.pop(0) if self._accepts else "serve"
        try:
            if step == "reset":
                _reset(writer)
            elif step == "hang":
                await _quiet(reader, self._closing, None)
            else:
                await self._converse(reader, writer, number)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as fault:
            self.faults.append(fault)
        finally:
            writer.close()
            self._count(-1)
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        keep = True
        while keep:
            seen = await self._read(reader, writer, number)
            if seen is None:
                return
            with self._changed:
                self.seen.append(seen)
                self._changed.notify_all()
            exchange = Exchange(seen, reader, writer, self._closing)
            await self._step_for(seen)(exchange)
            keep = exchange.keep

    def _step_for(self, seen: Seen) -> Step:
        script = self._scripts.get(seen.path)
        if script is not None:
            return script.next()
        return answer(404) if self.otherwise is None else self.otherwise(seen)

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> Seen | None:
        try:
            block = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = block.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        found = {name.lower(): value for name, value in pairs}
        if found.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, found)
        return Seen(method, target, pairs, body, number, time.monotonic())


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readline()
        return b"".join(parts)
    length = int(headers.get("content-length", "0"))
    return await reader.readexactly(length) if length else b""


def unused_port() -> int:
    """A port without a listener, so that connecting to it is refused."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
