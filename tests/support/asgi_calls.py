"""Calling an ASGI application without a server: one request, and every message of its answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any


class Answer:
    """The answer of an application. ``messages`` are the raw ones, in order."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(name.decode(), value.decode()) for name, value in self.messages[0]["headers"]]

    @property
    def headers(self) -> dict[str, str]:
        found = dict(self.pairs)
        assert len(found) == len(self.pairs), "a header is repeated"
        return found

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.headers["content-length"] == str(len(self.body))
        found: dict[str, Any] = json.loads(self.body)
        assert found["status"] == self.status
        return found


def http(
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | Iterable[tuple[str, str]] = (),
    query: str = "",
) -> dict[str, Any]:
    """An HTTP connection scope."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
    }


def incoming(*parts: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    """A ``receive`` that gives ``parts`` as the body, and then says that the caller has gone."""
    left = list(parts) or [b""]
    count = len(left)

    async def receive() -> dict[str, Any]:
        nonlocal count
        if not left:
            return {"type": "http.disconnect"}
        count -= 1
        return {"type": "http.request", "body": left.pop(0), "more_body": count > 0}

    return receive


async def call(
    app: Any,
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes | tuple[bytes, ...] = b"",
    query: str = "",
) -> Answer:
    """The answer of ``app`` to one request."""
    answer = Answer()

    async def send(message: dict[str, Any]) -> None:
        answer.messages.append(message)

    parts = body if isinstance(body, tuple) else (body,)
    await app(http(method, path, headers, query), incoming(*parts), send)
    return answer


async def read(receive: Any) -> bytes:
    """The whole body of a request."""
    parts = []
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def respond(
    send: Any, status: int = 200, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send an answer in one part."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})
