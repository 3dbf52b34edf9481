"""Turns a handler's exhausted retries into an answer that says so."""

from __future__ import annotations

from .._events import bus, labels
from .._runtime import randomness
from .._server.application import ASGI, application
from .._server.refusals import refusal
from .messages import App, Connection, Receive, Send, WatchedSend, answer


class RefusalMiddleware:
    """Answers for a handler that gave up: budget, breaker, deadline, bulkhead, limit, or exhausted retries.

    The status is 503, 504 or 429, with ``Retry-After`` where it is known and ``x-should-retry: false``,
    so that the caller does not multiply what has been tried already. Other errors pass, and so does a
    refusal that comes after the answer has begun.
    """

    def __init__(self, app: App) -> None:
        self.app: App = application("RefusalMiddleware", ASGI, app)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        watched = WatchedSend(send)
        try:
            await self.app(scope, receive, watched)
        except Exception as error:
            problem = None if watched.began else refusal(error)
            if problem is None:
                raise
            bus.publish("Declined", operation="request", code=problem.code, error=labels.error_name(error))
            await answer(send, problem, randomness.draw)
