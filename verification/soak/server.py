"""A server on loopback, of HTTP/1.1 and on another port of HTTP/2, that misbehaves by the dice.

`python -m verification.soak.server SEED OUTAGE_EVERY OUTAGE`: every OUTAGE_EVERY seconds it answers nothing
but 503 for OUTAGE seconds. It prints its two ports. Over HTTP/1.1, ``GET /_mood/calm`` makes it answer well
from then on, ``GET /_told`` gives its counts.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys

from .h2_connection import H2Connection
from .treatments import Mind, body_of

#: A byte at a time goes on for so long: a thread that reads it cannot be stopped in between.
_DRIP_S = 3.0
_DRIP_EVERY_S = 0.1
#: A lingering of no time: the close is an RST.
_NO_LINGER = struct.pack("ii", 1, 0)
_MOST_HEAD = 1 << 16


class Connection(asyncio.Protocol):
    """One connection: a request at a time, as httpx sends them."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind
        self._received = bytearray()
        self._later: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._mind.open += 1
        if self._mind.resets():
            self._mind.counts["reset on accept"] += 1
            self._reset()

    def connection_lost(self, exc: Exception | None) -> None:
        self._mind.open -= 1
        if self._later is not None:
            self._later.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            if len(self._received) > _MOST_HEAD:
                self._reset()
            return
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(rest) >= length:
            self._received = rest[length:]
            self._answer(head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")[1], bytes(head.lower()))

    def _answer(self, path: str, head: bytes) -> None:
        mind = self._mind
        if path.startswith("/_"):
            self._obey(path)
            return
        mind.counts["requests"] += 1
        mind.counts["redirected"] += path.startswith("/there/")
        mind.counts["second and later attempts"] += b"\r\nx-request-attempt:" in head
        treatment = mind.treatment(path)
        name, _, delay = treatment.partition(" ")
        if name == "slow":
            mind.counts["slow"] += 1
            self._then(float(delay), self._say, 200, body_of(path))
            return
        mind.counts[treatment] += 1
        self._treat(treatment, path)

    def _obey(self, path: str) -> None:
        if path == "/_mood/calm":
            self._mind.calm = True
        # The connection that asks does not count.
        told = {"open": self._mind.open - 1, "counts": dict(self._mind.counts)}
        self._say(200, json.dumps(told).encode())

    def _treat(self, treatment: str, path: str) -> None:
        body = body_of(path)
        if treatment == "well":
            self._say(200, body)
        elif treatment == "outage":
            self._say(503, b"down")
        elif treatment == "redirect":
            self._say(302, b"", f"Location: /there{path}\r\n")
        elif treatment[0] in "45":
            self._fail(treatment)
        elif treatment == "chunked":
            self._write(self._chunked(body) + b"0\r\n\r\n")
        elif treatment == "half a chunked body, then reset":
            self._write(self._chunked(body[: len(body) // 2]))
            self._then(0.02, self._reset)
        elif treatment == "reset":
            self._reset()
        elif treatment == "no HTTP":
            self._write(b"\x00\xffSSH-2.0-nonsense\r\n\r\n")
            self._transport.close()
        elif treatment == "a byte at a time":
            self._write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
            self._drip(int(_DRIP_S / _DRIP_EVERY_S))
        elif treatment.startswith("half"):
            self._write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[: len(body) // 2])
            if treatment.endswith("reset"):
                # The bytes must have left before the reset overtakes them.
                self._then(0.02, self._reset)

    def _fail(self, treatment: str) -> None:
        status = int(treatment[:3])
        wait = "1000000000000" if treatment.endswith("10^12") else "1"
        more = f"Retry-After: {wait}\r\n" if "Retry-After" in treatment else ""
        self._say(status, b"no", more)

    @staticmethod
    def _chunked(body: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(body), body)

    def _drip(self, left: int) -> None:
        if left:
            self._write(b"x")
            self._then(_DRIP_EVERY_S, self._drip, left - 1)
        else:
            self._reset()

    def _say(self, status: int, body: bytes, more: str = "") -> None:
        self._write(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _then(self, delay_s: float, act: object, *args: object) -> None:
        assert callable(act)
        self._later = asyncio.get_running_loop().call_later(delay_s, act, *args)

    def _reset(self) -> None:
        own = self._transport.get_extra_info("socket")
        if own is not None and not self._transport.is_closing():
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()


async def serve(mind: Mind) -> None:
    """Serve until standard input ends, that is until whoever started it is gone."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(mind), "127.0.0.1", 0, backlog=4096)
    h2_server = await loop.create_server(lambda: H2Connection(mind), "127.0.0.1", 0, backlog=4096)
    print(*(each.sockets[0].getsockname()[1] for each in (server, h2_server)), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    h2_server.close()


if __name__ == "__main__":
    asyncio.run(serve(Mind(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))))
