"""urllib3's bodies, responses and timeouts, for the ports of urllib3 and of requests."""

from __future__ import annotations

from urllib3.util.timeout import Timeout

from .headers import announced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any

    from urllib3 import BaseHTTPResponse

    from .body import OneShot

    #: As urllib3 takes it.
    TimeoutValue = Timeout | float | None

_CHUNK = 16384


class WatchedBody:
    """A request body that can be read once, and records that reading has begun."""

    def __init__(self, inner: Iterable[bytes] | IO[bytes], once: OneShot) -> None:
        self._inner = inner
        self._once = once

    def __iter__(self) -> Iterator[bytes]:
        self._once.touched = True
        return iter(self._inner)


class WatchedFile(WatchedBody):
    """`WatchedBody`, for what is read and not iterated."""

    _inner: IO[bytes]

    def read(self, size: int = -1) -> bytes:
        self._once.touched = True
        return self._inner.read(size)


def watched(body: Iterable[bytes] | IO[bytes], once: OneShot) -> WatchedBody:
    return (WatchedFile if hasattr(body, "read") else WatchedBody)(body, once)


def drain(response: BaseHTTPResponse, most: int) -> None:
    """Read what is left of a urllib3 response, if it is at most ``most`` bytes, and close it."""
    try:
        left = most if (announced(response.headers.items()) or 0) <= most else 0
        while left > 0:
            data = response.read(min(left, _CHUNK), decode_content=False)
            if not data:
                break
            left -= len(data)
    except Exception:
        # The response is discarded; an error while draining it says nothing about later attempts.
        pass
    put_back(response)


def put_back(response: BaseHTTPResponse) -> None:
    """Close a urllib3 response, and give its connection's place in the pool free."""
    response.close()
    response.release_conn()


def within(timeout: TimeoutValue, limit_s: float) -> Timeout:
    """``timeout``, one of urllib3's kinds, with at most ``limit_s`` seconds in all."""
    bounded = timeout.clone() if isinstance(timeout, Timeout) else Timeout.from_float(timeout)
    bounded.total = min(bounded.total, limit_s) if isinstance(bounded.total, (int, float)) else limit_s
    return bounded


def hand_over(response: object, timeout: TimeoutValue) -> None:
    """Let what is left of a urllib3 response be read with its caller's own ``timeout``, not the attempt's.

    What is left of a deadline around the caller is looked at by each read (`bounded_sockets`).
    """
    # A connection that is not to be used again has let go of its socket; the reader has it in any case.
    sock: Any = response
    for name in ("_fp", "fp", "raw", "_sock"):
        sock = getattr(sock, name, None)
    if sock is None:
        return
    own = timeout.clone() if isinstance(timeout, Timeout) else Timeout.from_float(timeout)
    own.start_connect()
    sock.settimeout(own.read_timeout)
