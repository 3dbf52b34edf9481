"""Limit on concurrent requests; the rest get a Retry-After, each a different one."""

from __future__ import annotations

from .._server import admission
from .._server.application import ASGI
from .._server.request_facts import attempt_number
from .messages import App, Connection, Receive, Send, WatchedSend, answer, finder


class SheddingMiddleware(admission.Shedding):
    """At most ``limit`` requests at once; others wait in the ``queue`` or get 503 with ``Retry-After``.

    ``limit`` is a number, a `Bulkhead` or an `AdaptiveLimit`, which learns it from how requests fare
    (a 503 or 504 of the application is a drop). A request counts until its answer is sent. ``max_wait``
    bounds the time in the queue; 0 leaves that to the deadline. Requests that are retries (by
    ``attempt_header`` and its usual relatives) never queue, and get in only while fewer than
    ``retry_share`` of the places are taken: 0 admits none, 1 makes no difference. The hint is drawn for
    each refusal from ``retry_after`` to ``retry_after * (1 + spread)`` seconds. ``exempt(scope)`` names
    requests that are never refused, such as health checks.
    """

    kind = ASGI
    app: App

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (self.exempt is not None and self.exempt(scope)):
            return await self.app(scope, receive, send)
        is_retry = attempt_number(finder(scope), self.attempt_headers) > 1
        try:
            place = await admission.enter_async(self.places, self.retry_share, is_retry)
        except admission.TurnedAway:
            return await answer(send, self.full, self.draw, self.spread)
        watched = WatchedSend(send, lambda: place.answered(watched.status))
        try:
            await self.app(scope, receive, watched)
        except BaseException as error:
            place.failed(error)
            raise
        place.answered(watched.status)
