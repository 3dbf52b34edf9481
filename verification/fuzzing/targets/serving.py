"""What callers say to a server: idempotency keys, deadlines, attempts; and answers that a store kept."""

from __future__ import annotations

import math

from stormproof._server.problem import Problem
from stormproof._server.replay import MALFORMED, pack, read_key, replay, unpack
from stormproof._server.request_facts import ATTEMPT_HEADERS, attempt_number, time_left
from stormproof.asgi import DeadlineMiddleware
from stormproof.idempotency import keys

from ..model import Target, lines, must, text

_TIMEOUTS = ("x-request-timeout-ms", "grpc-timeout")


async def _app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("no request gets here")


_DEADLINES = DeadlineMiddleware(_app, header=_TIMEOUTS, max=30.0)


def check_key(data: bytes) -> None:
    """No value raises; a key is 1 to 255 printable ASCII characters, and is the same quoted; two values
    are no key; a key of a caller's own is accepted or refused by name, without being repeated.
    """
    key = read_key([data])
    must(isinstance(key, str) or key is MALFORMED, f"one value must be a key or malformed, got {key!r}")
    must(isinstance(read_key([data, data]), Problem), "two values must be no key")
    if isinstance(key, str):
        must(0 < len(key) <= keys.MAX_KEY and key.isascii() and key.isprintable(), f"no key: {key!r}")
        quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        must(read_key([quoted.encode()]) == key, f"{quoted!r} must be the same key")
        must(len(keys.digest("scope", key)) == 32, "a digest has 32 bytes")
    given = text(data)
    try:
        kept = keys.text("once", "key", given)
    except ValueError as error:
        must(str(error).startswith("once: key must"), f"an error without owner and rule: {error}")
        must(len(given) < 12 or given not in str(error), "a key must not be repeated in an error")
    else:
        must(kept == given and len(keys.digest("", kept)) == 32, "an accepted key must have a digest")


def check_answer(data: bytes) -> None:
    """None for what `pack` did not make; else the same answer packed again, and headers of one line each."""
    found = unpack(data)
    if found is None:
        must(replay(data) is None, "what cannot be read cannot be told again")
        return
    status, headers, body = found
    must(100 <= status <= 599, f"no status: {status!r}")
    for name, value in headers:
        must(
            name and name.lower() == name and not set(name) & set(b"\r\n\0: "), f"no header's name: {name!r}"
        )
        must(not set(value) & set(b"\r\n\0"), f"a value of several lines: {value!r}")
    must(unpack(pack(status, headers, body)) == found, "packed again it must be the same")


def check_arrival(data: bytes) -> None:
    """No headers raise; the time left is none or a number, the least of all that are said; the attempt is
    between 1 and 10**9 + 1, and one header more never lowers it.
    """
    headers = [(name.lower(), value) for name, value in lines(data)]

    def find(name: str) -> list[str]:
        return [value for key, value in headers if key == name]

    left = time_left(find, _TIMEOUTS)
    must(left is None or not math.isnan(left), f"no time: {left!r}")
    given = _DEADLINES.left(find)
    must(given is None or given <= 30.0, f"more than the most: {given!r}")
    number = attempt_number(find, ATTEMPT_HEADERS)
    must(1 <= number <= 10**9 + 1, f"no attempt: {number!r}")
    headers.append(("x-request-timeout-ms", "1000"))
    headers.append(("x-request-attempt", "2"))
    must(time_left(find, _TIMEOUTS) == min(1.0, 1.0 if left is None else left), "the least must count")
    must(attempt_number(find, ATTEMPT_HEADERS) == max(2, number), "the highest must count")


TARGETS = (
    Target(
        "idempotency-key",
        "Idempotency-Key headers, and keys given in code",
        check_key,
        (
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
            '"quoted"',
            '"a\\"b\\\\c"',
            '""',
            '"open',
            "a\tb",
            "ä",
            "x" * 256,
        ),
        ('"', "\\", '\\"', "\\\\", ";a=1", " ", "\t", "\x00", "\x7f", "é", ","),
        longest=300,
    ),
    Target(
        "kept-answer",
        "answers kept in an idempotency store",
        check_answer,
        (
            b'[200,[["content-type","text/plain"],["x-a","b"]]]\nhello',
            b"[204,[]]\n",
            b'[200,[["a\\r\\nb","c"]]]\n',
            b'{"a":1}\n',
            b'[200,{"ab":1}]\n',
            bytes((0xFE, 12)) + b"[",
        ),
        (
            "[",
            "]",
            ",",
            '"',
            "200",
            "204",
            "99",
            "1e2",
            "\n",
            "\\n",
            "\\u0000",
            "\\ud800",
            "null",
            "{",
            "}",
            ":",
        ),
    ),
    Target(
        "arrival-headers",
        "X-Request-Timeout-Ms, grpc-timeout and the headers that count attempts",
        check_arrival,
        (
            "x-request-timeout-ms: 1500\nx-request-attempt: 2",
            "grpc-timeout: 100m\ngrpc-previous-rpc-attempts: 1",
            "x-request-timeout-ms: -5, 1.25\nx-envoy-attempt-count: 99999999999",
            "grpc-timeout: 99999999H, 1n\nx-stainless-retry-count: 0",
        ),
        (
            "x-request-timeout-ms:",
            "grpc-timeout:",
            "x-request-attempt:",
            "x-envoy-attempt-count:",
            "x-stainless-retry-count:",
            "grpc-previous-rpc-attempts:",
            "\n",
            ",",
            "-",
            ".",
            "0",
            "1",
            "H",
            "M",
            "S",
            "m",
            "u",
            "n",
            "9" * 16,
            "\xb2",
            " ",
        ),
    ),
)
