"""The time that a request gets. Pure."""

from __future__ import annotations

import math

from .._primitives.options import Seconds, seconds
from .application import application
from .problem import Problem
from .request_facts import TIMEOUT_HEADER, header_names, time_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .request_facts import Find

LATE = Problem(504, "deadline_exceeded", "The time allowed for this request is over", False)


class Timed:
    """The options of both servers' DeadlineMiddleware, described at `asgi.DeadlineMiddleware`."""

    #: Kind of application that it wraps.
    kind = ""

    def __init__(
        self,
        app: object,
        header: str | tuple[str, ...] = TIMEOUT_HEADER,
        max: Seconds | None = 3600.0,
        default: Seconds | None = None,
    ) -> None:
        owner = "DeadlineMiddleware"
        self.app = application(owner, self.kind, app)
        self.headers = header_names(owner, "header", header)
        self.max_s = None if max is None else seconds(owner, "max", max, above=0)
        self.default_s = None if default is None else seconds(owner, "default", default, above=0)

    def left(self, find: Find) -> float | None:
        """Seconds for the request whose headers ``find`` gives; ``None``: no deadline; <= 0: it is late."""
        asked_s = time_left(find, self.headers)
        given_s = self.default_s if asked_s is None else asked_s
        if self.max_s is not None and given_s is not None:
            given_s = min(given_s, self.max_s)
        return None if given_s == math.inf else given_s
