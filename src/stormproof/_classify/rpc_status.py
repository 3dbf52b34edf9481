"""``google.rpc.RetryInfo`` in the trailers of a gRPC call, read without protobuf and without trusting it."""

from __future__ import annotations

import math

from .server_hints import FAR_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TRAILER = "grpc-status-details-bin"
_TYPE = b"type.googleapis.com/google.rpc.RetryInfo"
#: More than any status that a server sends in good faith.
_MAX_BYTES = 64 * 1024


def retry_info(trailers: Any) -> float | None:
    """Seconds that the server asks to wait; ``None`` without a `RetryInfo` that can be read."""
    try:
        for name, value in trailers or ():
            if name == _TRAILER and isinstance(value, bytes) and len(value) <= _MAX_BYTES:
                return _delay(value)
    except Exception:
        # Trailers of a broken or foreign kind.
        pass
    return None


def _delay(status: bytes) -> float | None:
    """``Status.details`` (3) holds messages of any type: ``type_url`` (1) and ``value`` (2)."""
    for number, detail in _fields(status):
        if number != 3 or not isinstance(detail, bytes):
            continue
        fields = dict(_fields(detail))
        if fields.get(1) == _TYPE and isinstance(fields.get(2), bytes):
            duration = dict(_fields(fields[2])).get(1)  # type: ignore[arg-type]
            return None if not isinstance(duration, bytes) else _seconds(duration)
    return None


def _seconds(duration: bytes) -> float | None:
    """``Duration``: ``seconds`` (1) and ``nanos`` (2); a negative one is ignored."""
    fields = dict(_fields(duration))
    seconds, nanos = fields.get(1, 0), fields.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or seconds >= 1 << 63 or nanos >= 1 << 31:
        return None
    wait_s = seconds + nanos / 1e9
    return wait_s if wait_s <= FAR_S else math.inf


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: whole numbers and bytes, in order. Raises on anything malformed."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        length = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise ValueError("not a protobuf message")
        yield tag >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("not a protobuf message")
