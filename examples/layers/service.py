"""One service of the chain: asks the next one, and answers with what it says.

Started by run.py as a process of its own: ``python service.py naive|stormproof|down PORT [NEXT_URL]``.
"""

from __future__ import annotations

import asyncio
import random
import sys

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stormproof import Exponential, Policy, Retry, transient
from stormproof.asgi import DeadlineMiddleware, RefusalMiddleware
from stormproof.httpx import AsyncTransport

ATTEMPTS = 4
seen = 0


async def count(request: Request) -> Response:
    """Return the number of requests that have arrived here."""
    return JSONResponse(seen)


async def down(request: Request) -> Response:
    """The end of the chain, which is down."""
    global seen
    seen += 1
    return Response(status_code=503)


def naive(next_url: str) -> Starlette:
    """Tries four times, as its neighbours do."""
    client = httpx.AsyncClient(timeout=60)  # what multiplies here is attempts, also on a slow machine

    async def ask(request: Request) -> Response:
        global seen
        seen += 1
        answer = Response(status_code=503)
        for attempt in range(ATTEMPTS):
            found = await client.get(next_url)
            answer = Response(found.content, found.status_code)
            if found.status_code < 500:
                break
            await asyncio.sleep(random.uniform(0, 0.002 * 2**attempt))
        return answer

    return Starlette(routes=[Route("/", ask), Route("/count", count)])


def with_stormproof(next_url: str) -> Starlette:
    """The same four attempts, under a policy; and the answer says when its caller need not try, too."""
    policy = Policy(Retry(on=transient, attempts=ATTEMPTS, backoff=Exponential(0.002, cap=0.02)), name="next")
    client = httpx.AsyncClient(transport=AsyncTransport(policy), timeout=60)

    async def ask(request: Request) -> Response:
        global seen
        seen += 1
        found = await client.get(next_url)
        found.raise_for_status()
        return Response(found.content)

    app = Starlette(routes=[Route("/", ask), Route("/count", count)])
    app.add_middleware(DeadlineMiddleware)
    app.add_middleware(RefusalMiddleware)
    return app


def main(kind: str, port: str, next_url: str = "") -> None:
    if kind == "down":
        app = Starlette(routes=[Route("/", down), Route("/count", count)])
    else:
        app = (naive if kind == "naive" else with_stormproof)(next_url)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="critical")


if __name__ == "__main__":
    main(*sys.argv[1:])
