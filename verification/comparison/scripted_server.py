"""A server on loopback that answers each request as its script says, and remembers what came."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What is sent back, ``after`` so many seconds. ``cut``: so many bytes of the body, then nothing more."""

    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    after: float = 0.0


@dataclass
class Request:
    at: float
    method: str
    body: bytes


class Server:
    """``answers(n)`` is the answer to the n-th request, from 1."""

    def __init__(self, answers: Callable[[int], Answer]) -> None:
        self.answers = answers
        self.requests: list[Request] = []
        self.url = ""

    @property
    def gap(self) -> float | None:
        """Seconds between the first request and the second; None when there was no second."""
        first_two = self.requests[:2]
        return first_two[1].at - first_two[0].at if len(first_two) == 2 else None


@contextlib.contextmanager
def serving(answers: Callable[[int], Answer]) -> Iterator[Server]:
    server = Server(answers)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/"
    try:
        yield server
    finally:
        http.shutdown()
        http.socket.close()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            arrived = time.monotonic()
            body = self.read_body()
            server.requests.append(Request(arrived, self.command, body))
            answer = server.answers(len(server.requests))
            if answer.after:
                time.sleep(answer.after)
            with contextlib.suppress(OSError):
                self.write(answer)

        do_GET = do_POST = do_PUT = answer  # noqa: N815

        def read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def write(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: answer.cut])
            if answer.cut is not None:
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    return Handler
