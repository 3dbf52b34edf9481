"""Idempotency keys over HTTP: reading the key, storing an answer and replaying it. Pure."""

from __future__ import annotations

from .._http.headers import TOKEN
from ..idempotency.keys import MAX_KEY
from .problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..idempotency.keyed_run import Settlement

    Headers = list[tuple[bytes, bytes]]

MISSING = Problem(400, "idempotency_key_missing", "This request needs an Idempotency-Key", False)
MALFORMED = Problem(
    400,
    "idempotency_key_malformed",
    f"Idempotency-Key must be one string of 1 to {MAX_KEY} printable characters",
    False,
)
TOO_LARGE = Problem(
    413, "content_too_large", "The body is too large for a request with an Idempotency-Key", False
)

#: Says that an answer is one from before.
REPLAYED = (b"idempotency-replayed", b"true")

#: Never kept: of the connection, of the moment, or a secret that must not lie in a store.
NOT_KEPT = frozenset(
    b"connection content-length date keep-alive proxy-authenticate proxy-connection set-cookie te trailer "
    b"transfer-encoding upgrade".split()
)

#: The request was turned away before anything was done: by its credentials, or by load.
RELEASED = frozenset({401, 403, 407, 408, 421, 425, 429, 503})


def settlement(status: int) -> Settlement:
    """Return the effect of an answer of ``status`` on its key.

    "keep": replayed from now on. "release": nothing was done, the next request runs. "unknown": it
    failed halfway, and running it again might do its first half twice. So do 500, 502 and 504.
    """
    if status in RELEASED:
        return "release"
    return "keep" if status < 500 else "unknown"


def read_key(values: list[bytes]) -> str | Problem | None:
    """The key in the header's values; ``None`` without one, `MALFORMED` for anything but one good key.

    The draft makes it a quoted string; a bare one, as most clients send it, is the same key.
    """
    if not values:
        return None
    text = values[0].decode("latin-1").strip(" \t")
    if text[:1] == '"':
        text = _unquoted(text)
    fine = len(values) == 1 and 0 < len(text) <= MAX_KEY and text.isascii() and text.isprintable()
    return text if fine else MALFORMED


def _unquoted(text: str) -> str:
    """Return the content of a structured-field string; "" (not a key) if it is not a whole one."""
    inner: list[str] = []
    at = 1
    while at < len(text):
        character = text[at]
        if character == '"':
            return "".join(inner) if at == len(text) - 1 else ""
        if character == "\\":
            at += 1
            character = text[at : at + 1]
            if character not in ('"', "\\"):
                return ""
        inner.append(character)
        at += 1
    return ""


def keepable(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    """The headers that are kept, names in lower case."""
    pairs = [(bytes(name).lower(), bytes(value)) for name, value in headers]
    return [pair for pair in pairs if pair[0] not in dropped]


def pack(status: int, headers: Headers, body: bytes) -> bytes:
    """An answer as the bytes that a store keeps: one line of JSON, then the body."""
    import json

    head = [status, [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]]
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + body


def unpack(answer: bytes) -> tuple[int, Headers, bytes] | None:
    """Undo `pack`. ``None`` for anything that `pack` did not make, such as a header with a line break."""
    import json

    head, newline, body = answer.partition(b"\n")
    try:
        status, pairs = json.loads(head)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    is_packed = type(status) is int and 100 <= status <= 599 and newline
    if not is_packed or not all(_is_token(name) and _is_one_line(value) for name, value in headers):
        return None
    return status, headers, body


def replay(answer: bytes) -> tuple[int, Headers, bytes] | None:
    """Return the stored answer for replay, marked as such; ``None`` if it cannot be read."""
    stored = unpack(answer)
    if stored is None:
        return None
    status, headers, body = stored
    if status not in (204, 304):
        headers.append((b"content-length", str(len(body)).encode()))
    headers.append(REPLAYED)
    return status, headers, body


def _is_token(name: bytes) -> bool:
    return bool(name) and TOKEN.issuperset(name.decode("latin-1")) and name == name.lower()


def _is_one_line(value: bytes) -> bool:
    return not any(byte in b"\r\n\0" for byte in value)
