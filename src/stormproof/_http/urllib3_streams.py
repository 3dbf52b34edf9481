"""The half of a port that urllib3 and requests share: bodies, responses and timeouts of urllib3."""

from __future__ import annotations

from urllib3.util.timeout import Timeout

from .body import OneShot, replay_of
from .headers import announced, has_field, length_of, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO, Any, Protocol

    from urllib3 import BaseHTTPResponse

    from .body import Replay

    class Urllib3Request(Protocol):
        """A request with the arguments that it is sent with."""

        body: Any

        @property
        def method(self) -> str: ...
        @property
        def headers(self) -> Mapping[str | bytes, str | bytes]: ...

    #: As urllib3 takes it.
    TimeoutValue = Timeout | float | None

_CHUNK = 16384


class Urllib3Port:
    """See `port.Port`: all but what a library does in a way of its own."""

    legible = None

    def method(self, call: Urllib3Request) -> str:
        return call.method.upper()

    def headers(self, call: Urllib3Request) -> list[tuple[str, str]]:
        return [(text(name), text(value)) for name, value in call.headers.items()]

    def has_field(self, call: Urllib3Request, names: frozenset[str | bytes]) -> bool:
        return has_field(call.headers.items(), names)

    def simple(self, call: Urllib3Request, methods: frozenset[str]) -> bool:
        return call.method in methods and (call.body is None or isinstance(call.body, (bytes, str)))

    def replay(self, call: Urllib3Request, limit: int | None) -> Replay:
        rule = replay_of(call.body, announced(self.headers(call)), limit)
        if isinstance(rule, OneShot):
            call.body = (WatchedFile if hasattr(call.body, "read") else WatchedBody)(call.body, rule)
        return rule

    def buffer(self, response: Any, most: int) -> bool:
        # urllib3 has read the header; other makes of responses have not.
        length: int | None = getattr(getattr(response, "raw", response), "length_remaining", None)
        if length is None:
            length = length_of(response.headers.get("content-length", ""))
        if response.stormproof_streams or length is None or length > most:
            # A body that the caller reads piece by piece could not be put back, so it is not read here.
            return False
        try:
            self.read(response)
        except BaseException as error:
            response.stormproof_broken = error
            self.discard(response, 0)
            raise
        response.stormproof_whole = True
        return True

    def read(self, response: Any) -> object:
        """Read the body of ``response``, which keeps it."""
        return response.data

    def discard(self, response: Any, most: int) -> None:
        drain(response, most)


def answer(response: Any) -> Any:
    """``response`` for the caller; the error of a body that broke as it was read is raised."""
    broken: BaseException | None = getattr(response, "stormproof_broken", None)
    if broken is not None:
        raise broken
    return response


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
    response.close()
    # Its place in the pool.
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
