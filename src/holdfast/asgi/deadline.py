"""The caller's remaining time becomes the ambient deadline."""

from __future__ import annotations

from .. import deadlines
from .._drive import chance
from ..errors import DeadlineExceeded
from ..options import seconds
from ..serving.arrivals import TIMEOUT_HEADER, header_names, time_left
from ..serving.deadline import LATE, allowed
from .messages import Watched, answer, application, finder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Seconds
    from .messages import App, Connection, Receive, Send


class DeadlineMiddleware:
    """Runs each request under the time that its caller has left; late ones get 504 and are not run.

    ``header`` holds that time in milliseconds (``grpc-timeout`` in gRPC's own form); a tuple of names
    takes the least of them. What cannot be read counts as not given. ``max`` bounds what a caller may
    ask for, ``default`` is the time of a request that says nothing; ``None``: no bound, no deadline.
    A request that is cut off is answered with 504 if its answer has not begun. What goes on after the
    answer, such as background tasks, has no deadline. Websockets pass.
    """

    def __init__(
        self,
        app: App,
        header: str | tuple[str, ...] = TIMEOUT_HEADER,
        max: Seconds | None = 3600.0,
        default: Seconds | None = None,
    ) -> None:
        owner = "DeadlineMiddleware"
        self.app = application(owner, app)
        self.headers = header_names(owner, "header", header)
        self.max_s = None if max is None else seconds(owner, "max", max, above=0)
        self.default_s = None if default is None else seconds(owner, "default", default, above=0)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        left_s = allowed(time_left(finder(scope), self.headers), self.max_s, self.default_s)
        if left_s is None:
            return await self.app(scope, receive, send)
        if left_s <= 0:
            return await answer(send, LATE, chance.draw)
        limit = deadlines.deadline(left_s, "request")
        # Nobody waits for what is done after the answer.
        watched = Watched(send, limit.lift)
        try:
            with limit:
                await self.app(scope, receive, watched)
        except DeadlineExceeded as error:
            # A shorter deadline inside is the application's own matter.
            if watched.began or (error.scope != limit.name and limit.own_remaining()):
                raise
            await answer(send, LATE, chance.draw)
