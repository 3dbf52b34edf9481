"""A real HTTP/2 server on loopback (clear text, prior knowledge) that can hang, and keeps a log.

``server.on("/a", say(200, b"ok"))`` sets what a path is answered with; ``server.hanging`` silences every path
until it is cleared. Each connection is a `Link`, which counts the streams that the server holds open.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from tests.support.polling import TIMEOUT_S


@dataclass
class Link:
    """One connection: the h2 state, and the streams that wait for an answer."""

    state: h2.connection.H2Connection
    writer: asyncio.StreamWriter
    number: int
    waiting: dict[int, Request] = field(default_factory=dict)
    resets: int = 0
    #: Bodies that wait for the client's window.
    unsent: dict[int, bytes] = field(default_factory=dict)

    def flush(self) -> None:
        if not self.writer.is_closing():
            self.writer.write(self.state.data_to_send())

    def pump(self) -> None:
        """Send as much of the unsent bodies as the client's window allows."""
        for stream, body in list(self.unsent.items()):
            try:
                room = min(self.state.local_flow_control_window(stream), self.state.max_outbound_frame_size)
                while body and room > 0:
                    part, body = body[:room], body[room:]
                    self.state.send_data(stream, part)
                    room = min(
                        self.state.local_flow_control_window(stream), self.state.max_outbound_frame_size
                    )
                if body:
                    self.unsent[stream] = body
                else:
                    self.state.end_stream(stream)
                    del self.unsent[stream]
            except (h2.exceptions.ProtocolError, KeyError):
                self.unsent.pop(stream, None)
        self.flush()


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    link: Link
    stream: int
    body: bytes = b""


Answer = Callable[[Request], None]


def say(status: int = 200, body: bytes = b"", **headers: str) -> Answer:
    """A whole answer; its body is sent as the client's window allows."""

    def answer(request: Request) -> None:
        fields = [(":status", str(status)), ("content-length", str(len(body)))]
        request.link.state.send_headers(request.stream, [*fields, *headers.items()], end_stream=not body)
        if body:
            request.link.unsent[request.stream] = body
        request.link.pump()

    return answer


def refuse(code: h2.errors.ErrorCodes = h2.errors.ErrorCodes.REFUSED_STREAM) -> Answer:
    """RST_STREAM instead of an answer."""

    def answer(request: Request) -> None:
        request.link.state.reset_stream(request.stream, code)
        request.link.flush()

    return answer


def go_away(last_stream_id: int) -> Answer:
    """GOAWAY instead of an answer, then the end of the connection."""

    def answer(request: Request) -> None:
        request.link.state.close_connection(last_stream_id=last_stream_id)
        request.link.flush()
        request.link.writer.close()

    return answer


@dataclass
class H2Server:
    """``with H2Server() as server:``; at most ``streams`` streams per connection."""

    streams: int = 100
    hanging: bool = False
    seen: list[Request] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    port: int = 0
    _answers: dict[str, list[Answer]] = field(default_factory=dict)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def on(self, path: str, *answers: Answer) -> None:
        """One answer per request to ``path``; the last one repeats."""
        self._answers[path] = list(answers)

    def held(self) -> int:
        """Streams that some connection of the server still holds open."""
        return sum(len(link.waiting) for link in self.links)

    def wait_for(self, holds: Callable[[], bool], seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"not so after {seconds} s: {self.held()} streams held"
            time.sleep(0.005)

    def __enter__(self) -> H2Server:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="h2-server")
        self._thread.start()
        assert started.wait(TIMEOUT_S), "the server did not start"
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not stop"

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._converse(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._closing.wait()
        server.close()
        for link in self.links:
            link.writer.transport.abort()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        link = Link(h2.connection.H2Connection(config), writer, len(self.links))
        self.links.append(link)
        link.state.local_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = self.streams
        link.state.initiate_connection()
        link.flush()
        try:
            while data := await reader.read(65536):
                try:
                    events = link.state.receive_data(data)
                except h2.exceptions.ProtocolError:
                    link.flush()
                    return
                for event in events:
                    self._handle(link, event)
                link.pump()
        except ConnectionError:
            pass
        finally:
            link.waiting.clear()
            writer.close()

    def _handle(self, link: Link, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            found = {str(name): str(value) for name, value in event.headers}
            request = Request(found[":method"], found[":path"], found, link, event.stream_id)
            link.waiting[event.stream_id] = request
        elif isinstance(event, h2.events.DataReceived):
            link.waiting[event.stream_id].body += event.data
            link.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            request = link.waiting[event.stream_id]
            self.seen.append(request)
            if not self.hanging:
                self._answer(request)
        elif isinstance(event, h2.events.StreamReset):
            link.resets += 1
            link.waiting.pop(event.stream_id, None)
            link.unsent.pop(event.stream_id, None)

    def _answer(self, request: Request) -> None:
        del request.link.waiting[request.stream]
        try:
            self._answer_for(request.path)(request)
        except h2.exceptions.ProtocolError:
            # Reset by the client meanwhile.
            pass

    def _answer_for(self, path: str) -> Answer:
        answers = self._answers.get(path)
        if answers is None:
            return say(404)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def answer_late(self) -> None:
        """Answer, now, everything that has been waiting."""

        def run() -> None:
            self.hanging = False
            for link in self.links:
                for request in list(link.waiting.values()):
                    self._answer(request)

        self._loop.call_soon_threadsafe(run)
