"""A page about this process: what its policies are doing now."""

from __future__ import annotations

import base64
import hashlib
import json

from .._primitives.options import count
from .._telemetry.status import STYLE, Status, page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .messages import Connection, Receive, Send

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class StatusApp:
    """An ASGI application to be mounted: a page at its root, the same as JSON at ``data.json``.

    It counts from the moment it is made until `close`; ``recent`` is how many troubles it keeps,
    ``refresh`` after how many seconds the page asks again. It shows names, counts and states, never
    arguments or texts of errors; who may see it is for the application around it to decide.
    """

    def __init__(self, *, recent: int = 100, refresh: int = 5) -> None:
        self._refresh = count("StatusApp", "refresh", refresh)
        self._status = Status(count("StatusApp", "recent", recent, most=100_000))

    def close(self) -> None:
        """Count no further."""
        self._status.close()

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _lifespan(receive, send)
        if scope["type"] != "http":
            raise RuntimeError(f"StatusApp: scope must be http or lifespan, got {scope['type']!r}")
        status, kind, body = self._answer(scope)
        headers = {**_HEADERS, "content-type": kind, "content-length": str(len(body))}
        if status == 405:
            headers["allow"] = "GET, HEAD"
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, scope: Connection) -> tuple[int, str, bytes]:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "text/plain", b"read only\n"
        # Frameworks differ in whether a mounted application's path begins with where it is mounted.
        path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        if path == "":
            return 200, "text/html; charset=utf-8", page(self._status.read(), self._refresh).encode()
        if path == "data.json":
            return 200, "application/json", json.dumps(self._status.read()).encode()
        return 404, "text/plain", b"not found\n"


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
