"""A raw HTTP server in a process of its own: whatever arrives is answered with the same few bytes.

It costs as little as a server can, so that what a client adds is not lost in it. It ends when its
standard input does: with the process that started it, at the latest.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

BODY = b'{"price": 42, "currency": "EUR"}'
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: raw\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


def _converse(connection: socket.socket) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(65536):
            connection.sendall(_ANSWER)


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_converse, args=(connection,), daemon=True).start()


def main() -> None:
    """Serve on a free port of loopback, and say which."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a server that runs while the block does."""
    command = [sys.executable, __file__]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


if __name__ == "__main__":
    main()
