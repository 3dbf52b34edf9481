"""Checks of requests to the page's server, and headers that restrict what a browser allows.

A page on the web can send requests to a server on loopback, and can make a name of its own resolve to
127.0.0.1. So: the ``Host`` must be exactly ours, a ``POST`` must come from our own origin, every call of
the API carries a token that only the printed address holds, and ``GET`` changes nothing.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

TOKEN_HEADER = b"x-stormproof-token"
LARGEST_BODY = 256 * 1024

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-embedder-policy", b"require-corp"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
_NO_CONTENT_POLICY = b"default-src 'none'; frame-ancestors 'none'"


class RejectedRequest(Exception):
    """A refused request: its status and the reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def admit(scope: Any, hosts: frozenset[str], token: str) -> None:
    """Admit the request, or raise `RejectedRequest`. Pure: it reads only its arguments."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    host = _single(headers, b"host")
    if host is None or host.decode("latin-1").lower() not in hosts:
        raise RejectedRequest(421, "this host is not served here")
    if scope["method"] not in ("GET", "HEAD", "POST"):
        raise RejectedRequest(405, "only GET, HEAD and POST are served")
    if scope["method"] == "POST":
        _admit_post(headers, host)
    if scope["path"].startswith("/api/"):
        given = _single(headers, TOKEN_HEADER)
        if given is None or not hmac.compare_digest(given, token.encode()):
            raise RejectedRequest(
                403, "the token is missing or wrong: open the address that `stormproof lab` printed"
            )


def _admit_post(headers: list[tuple[bytes, bytes]], host: bytes) -> None:
    origin = _single(headers, b"origin")
    if origin is None or origin.lower() != b"http://" + host.lower():
        raise RejectedRequest(403, "this request comes from another page")
    kind = _single(headers, b"content-type")
    if kind is None or kind.partition(b";")[0].strip().lower() != b"application/json":
        raise RejectedRequest(415, "the body must be application/json")
    length = _single(headers, b"content-length")
    if length is None or not length.isdigit() or len(length) > 9 or int(length) > LARGEST_BODY:
        raise RejectedRequest(413, f"the body must announce its length, at most {LARGEST_BODY} bytes")


def _single(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the value of a header that occurs exactly once, else None."""
    values = [value for key, value in headers if key == name]
    return values[0] if len(values) == 1 else None


class Guard:
    """ASGI middleware: `admit` in front of every request, the same headers on every answer."""

    def __init__(self, app: Any, hosts: frozenset[str], token: str) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token

    async def __call__(self, scope: Any, receive: object, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _with_guard_headers(message["headers"])}
            await send(message)

        try:
            admit(scope, self._hosts, self._token)
        except RejectedRequest as refusal:
            return await _refuse(refusal, guarded)
        await self._app(scope, receive, guarded)


def _with_guard_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = {name.lower() for name, _ in headers}
    policy = (
        () if b"content-security-policy" in named else ((b"content-security-policy", _NO_CONTENT_POLICY),)
    )
    return [*((name, value) for name, value in headers if name.lower() != b"server"), *_HEADERS, *policy]


async def _refuse(refusal: RejectedRequest, send: Any) -> None:
    body = json.dumps({"error": {"message": refusal.message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    # The rest of the request is not read, so the connection cannot be used again.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
