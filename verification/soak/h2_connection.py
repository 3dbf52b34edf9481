"""One HTTP/2 connection of the server (clear text, prior knowledge): each stream is treated by the dice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from .treatments import Mind, body_of

#: Streams that a client may have open at once; on fewer connections than it has callers they are scarce.
STREAMS = 20
_DRIP_EVERY_S, _DRIPS = 0.1, 30


class H2Connection(asyncio.Protocol):
    """Answers each stream by itself; what has waited when the connection ends is forgotten."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._state = h2.connection.H2Connection(config)
        self._later: dict[int, asyncio.TimerHandle] = {}
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._mind.open += 1
        if self._mind.resets():
            self._mind.counts["reset on accept"] += 1
            transport.abort()
            return
        # A value that is set later would hold, here, before the client knows of it.
        limit = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS}
        self._state.local_settings = h2.settings.Settings(client=False, initial_values=limit)
        self._state.initiate_connection()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._mind.open -= 1
        for timer in self._later.values():
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._state.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            # What the client has got wrong is a fault of a run, not of this server.
            self._mind.counts["HTTP/2 protocol errors"] += 1
            print(f"HTTP/2: {error!r}", file=sys.stderr, flush=True)
            self._flush()
            self._transport.close()
            return
        for event in events:
            if self._transport.is_closing():
                return
            if isinstance(event, h2.events.RequestReceived):
                fields = {str(name): str(value) for name, value in event.headers}
                # The client may have reset it already, in what was received together with it.
                with suppress(h2.exceptions.ProtocolError):
                    self._answer(event.stream_id, fields)
            elif isinstance(event, h2.events.DataReceived):
                self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self._mind.counts["HTTP/2 streams cut off"] += 1
                self._forget(event.stream_id)
        self._flush()

    def _answer(self, stream: int, fields: dict[str, str]) -> None:
        path, mind = fields[":path"], self._mind
        mind.counts["requests"] += 1
        mind.counts["requests over HTTP/2"] += 1
        mind.counts["redirected"] += path.startswith("/there/")
        mind.counts["second and later attempts"] += "x-request-attempt" in fields
        treatment = mind.treatment(path)
        name, _, delay = treatment.partition(" ")
        mind.counts["slow" if name == "slow" else treatment] += 1
        if name == "slow":
            self._then(stream, float(delay), lambda: self._say(stream, 200, body_of(path)))
        else:
            self._treat(stream, treatment, body_of(path), path)

    def _treat(self, stream: int, treatment: str, body: bytes, path: str) -> None:
        half = body[: len(body) // 2]
        if treatment in ("well", "chunked"):
            self._say(stream, 200, body)
        elif treatment == "outage":
            self._say(stream, 503, b"down")
        elif treatment == "redirect":
            self._say(stream, 302, b"", ("location", f"/there{path}"))
        elif treatment[0] in "45":
            hint = ("retry-after", "1000000000000" if treatment.endswith("10^12") else "1")
            self._say(stream, int(treatment[:3]), b"no", *([hint] if "Retry-After" in treatment else []))
        elif treatment == "reset":
            self._state.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        elif treatment == "no HTTP":
            self._state.close_connection(last_stream_id=stream - 2)
            self._flush()
            self._transport.close()
        elif treatment == "a byte at a time":
            self._head(stream, 200, len(body))
            self._drip(stream, _DRIPS)
        elif treatment.startswith("half"):
            self._head(stream, 200, len(body))
            self._state.send_data(stream, half)
            if treatment.endswith("reset"):
                self._then(stream, 0.02, lambda: self._reset(stream))

    def _head(
        self, stream: int, status: int, length: int, *fields: tuple[str, str], ends: bool = False
    ) -> None:
        head = [(":status", str(status)), ("content-length", str(length)), *fields]
        self._state.send_headers(stream, head, end_stream=ends)

    def _say(self, stream: int, status: int, body: bytes, *fields: tuple[str, str]) -> None:
        self._head(stream, status, len(body), *fields, ends=not body)
        if body:
            self._state.send_data(stream, body, end_stream=True)

    def _drip(self, stream: int, left: int) -> None:
        if not left:
            self._reset(stream)
            return
        self._state.send_data(stream, b"x")
        self._then(stream, _DRIP_EVERY_S, lambda: self._drip(stream, left - 1))

    def _reset(self, stream: int) -> None:
        self._state.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)

    def _then(self, stream: int, delay_s: float, act: Callable[[], None]) -> None:
        def run() -> None:
            self._forget(stream)
            # Reset by the client, or the connection is closing.
            with suppress(h2.exceptions.ProtocolError):
                act()
            self._flush()

        self._later[stream] = asyncio.get_running_loop().call_later(delay_s, run)

    def _forget(self, stream: int) -> None:
        timer = self._later.pop(stream, None)
        if timer is not None:
            timer.cancel()

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._state.data_to_send())
