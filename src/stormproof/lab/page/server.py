"""The server of ``stormproof lab``: the page, and the few calls it makes. Loopback only.

No call fetches an address or opens a path; policies are read by the loader of policy files; runs happen
in processes of their own (`runs`); who may call at all is decided in `guard`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..._config.errors import ConfigError
from ..._version import __version__
from ..results import report
from . import policy as page_policy
from . import scenario
from .examples import EXAMPLES
from .guard import LARGEST_BODY, Guard
from .runs import Busy, Runs, text_of, to_policy_file

LOOPBACK = "127.0.0.1"


class Lab:
    """The calls of the page. One object per server."""

    def __init__(self) -> None:
        self.runs = Runs()

    async def page(self, request: Request) -> Response:
        policy = f"{report.content_policy()}; frame-ancestors 'none'"
        return HTMLResponse(report.page(), headers={"content-security-policy": policy})

    async def setup(self, request: Request) -> Response:
        return JSONResponse(
            {
                "version": __version__,
                "scenarios": scenario.describe_all(),
                "examples": EXAMPLES,
                "limits": scenario.LIMITS,
                "choices": {
                    "backoff": page_policy.BACKOFFS,
                    "jitter": page_policy.JITTERS,
                    "budget": page_policy.BUDGETS,
                },
                "seed": scenario.SEED,
            }
        )

    async def policy(self, request: Request) -> Response:
        """Describe the policy of a text, after turning one knob if the request says so."""
        body = await _body(request)
        sheet = page_policy.read(*text_of(body))
        edit = body.get("edit")
        if edit is not None:
            if not isinstance(edit, dict) or not all(isinstance(edit.get(k), str) for k in ("knob", "value")):
                raise scenario.BadValue("edit", "a table with knob and value", edit)
            sheet = page_policy.edit(sheet, edit["knob"], edit["value"])
        return JSONResponse(sheet.describe())

    async def open(self, request: Request) -> Response:
        """Describe the scenarios of a file whose text the page has read."""
        return JSONResponse(scenario.describe_file((await _body(request)).get("file")))

    async def save(self, request: Request) -> Response:
        """Return the request for a run as the text of a policy file."""
        return JSONResponse({"toml": to_policy_file(await _body(request))})

    async def story(self, request: Request) -> Response:
        return JSONResponse(await self.runs.story())

    async def run(self, request: Request) -> Response:
        body = await _body(request)
        await self.runs.story()
        run = self.runs.begin(body)
        return StreamingResponse(self.runs.messages(run), media_type="application/x-ndjson")

    async def cancel(self, request: Request) -> Response:
        body = await _body(request)
        return JSONResponse({"cancelled": self.runs.cancel(str(body.get("id")))})

    async def report(self, request: Request) -> Response:
        body = await _body(request)
        data = self.runs.result(str(body.get("id")))
        if data is None:
            return _problem(404, "this run has expired: run it again")
        headers = {"content-disposition": 'attachment; filename="stormproof-report.html"'}
        return HTMLResponse(report.render(data), headers=headers)


async def _body(request: Request) -> dict[str, Any]:
    raw = b""
    async for piece in request.stream():
        raw += piece
        if len(raw) > LARGEST_BODY:
            raise scenario.BadValue("body", f"at most {LARGEST_BODY} bytes", len(raw))
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise scenario.BadValue("body", "JSON", raw[:40]) from None
    if not isinstance(body, dict):
        raise scenario.BadValue("body", "a table", body)
    return body


def _problem(status: int, message: str, field: str | None = None, line: int | None = None) -> Response:
    return JSONResponse({"error": {"message": message, "field": field, "line": line}}, status)


async def _on_problem(request: Request, error: Exception) -> Response:
    if isinstance(error, ConfigError):
        return _problem(422, error.message, error.key, error.line)
    if isinstance(error, Busy):
        return _problem(409, str(error))
    return _problem(422, str(error), getattr(error, "field", None))


#: Longest wait, in seconds, for the story's run before the address is printed.
_STORY_LIMIT_S = 4.0


def application(hosts: frozenset[str], token: str, ready: Callable[[], None] | None = None) -> Any:
    """The ASGI application for the given ``Host`` values and token. ``ready`` is called once there is
    something to see.
    """
    lab = Lab()

    async def announce() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lab.runs.story(), _STORY_LIMIT_S)
        if ready is not None:
            ready()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        lab.runs.warm()
        announced = asyncio.create_task(announce())
        try:
            yield
        finally:
            announced.cancel()
            await lab.runs.close()

    routes = [
        Route("/", lab.page, methods=["GET"]),
        Route("/api/setup", lab.setup, methods=["GET"]),
        Route("/api/story", lab.story, methods=["GET"]),
    ]
    posted = (lab.policy, lab.open, lab.save, lab.run, lab.cancel, lab.report)
    routes += [Route(f"/api/{call.__name__}", call, methods=["POST"]) for call in posted]
    expected = (ValueError, TypeError, Busy)
    handlers: Any = dict.fromkeys(expected, _on_problem)
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers), hosts, token)


def serve(port: int = 0, *, ready: Callable[[str], None]) -> None:
    """Serve the page on 127.0.0.1 until interrupted. Port 0 takes a free one.

    ``ready`` is called with the page's address, token included, once there is something to see.
    """
    report.page()  # say now that it is not built
    token = secrets.token_urlsafe(24)
    with socket.create_server((LOOPBACK, port)) as listener:
        port = listener.getsockname()[1]
        hosts = frozenset({f"{LOOPBACK}:{port}", f"localhost:{port}"})
        config = uvicorn.Config(
            application(hosts, token, lambda: ready(f"http://{LOOPBACK}:{port}/#token={token}")),
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=64,
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[listener])
