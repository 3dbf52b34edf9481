"""The caller's remaining time becomes the ambient deadline."""

from __future__ import annotations

from .._context import deadlines
from .._primitives.errors import DeadlineExceeded
from .._runtime import randomness
from .._server.application import ASGI
from .._server.deadline import LATE, Timed
from .messages import App, Connection, Receive, Send, WatchedSend, answer, finder


class DeadlineMiddleware(Timed):
    """Runs each request under the time that its caller has left; late ones get 504 and are not run.

    ``header`` holds that time in milliseconds (``grpc-timeout`` in gRPC's own form); a tuple of names
    takes the least of them. What cannot be read counts as not given. ``max`` bounds what a caller may
    ask for, ``default`` is the time of a request that says nothing; ``None``: no bound, no deadline.
    A request that is cut off is answered with 504 if its answer has not begun. What goes on after the
    answer, such as background tasks, has no deadline. Websockets pass.
    """

    kind = ASGI
    app: App

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        left_s = self.left(finder(scope))
        if left_s is None:
            return await self.app(scope, receive, send)
        if left_s <= 0:
            return await answer(send, LATE, randomness.draw)
        limit = deadlines.deadline(left_s, "request")
        # No caller waits for work after the answer.
        watched = WatchedSend(send, limit.lift)
        try:
            with limit:
                await self.app(scope, receive, watched)
        except DeadlineExceeded as error:
            # A shorter deadline inside is the application's own matter.
            if watched.began or (error.scope != limit.name and limit.own_remaining()):
                raise
            await answer(send, LATE, randomness.draw)
