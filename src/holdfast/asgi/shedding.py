"""So many requests at once; the rest are told when to come back, each at another time."""

from __future__ import annotations

from .. import bus
from .._drive import chance
from ..bulkhead import Bulkhead
from ..errors import BulkheadFull, Throttled
from ..options import hook, number, seconds
from ..serving import admission
from ..serving.arrivals import attempt_headers, attempt_number
from .messages import Watched, answer, application, finder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..adaptive import AdaptiveLimit
    from ..options import Seconds
    from .messages import App, Connection, Receive, Send


class SheddingMiddleware:
    """At most ``limit`` requests at once; others wait in the ``queue`` or get 503 with ``Retry-After``.

    ``limit`` is a number, a `Bulkhead` or an `AdaptiveLimit`, which learns it from how requests fare
    (a 503 or 504 of the application is a drop). A request counts until its answer is sent. ``max_wait``
    bounds the time in the queue; 0 leaves that to the deadline. Requests that are retries (by
    ``attempt_header`` and its usual relatives) never queue, and get in only while fewer than
    ``retry_share`` of the places are taken: 0 admits none, 1 makes no difference. The hint is drawn for
    each refusal from ``retry_after`` to ``retry_after * (1 + spread)`` seconds. ``exempt(scope)`` names
    requests that are never refused, such as health checks.
    """

    def __init__(
        self,
        app: App,
        limit: int | Bulkhead | AdaptiveLimit = 50,
        queue: int = 0,
        max_wait: Seconds | None = 0,
        retry_after: Seconds = 2.0,
        spread: float = 1.0,
        retry_share: float = 0.5,
        attempt_header: str | None = None,
        exempt: Callable[[Connection], bool] | None = None,
        rng: Any = None,
    ) -> None:
        owner = "SheddingMiddleware"
        self.app = application(owner, app)
        self.places = admission.places(limit, queue, max_wait)
        self.retry_after_s = seconds(owner, "retry_after", retry_after, above=0)
        self.spread = number(owner, "spread", spread, least=0)
        self.retry_share = admission.share(retry_share)
        self.attempt_headers = attempt_headers(owner, attempt_header)
        self.exempt = hook(owner, "exempt", exempt)
        self.draw = chance.source(rng, owner)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (self.exempt is not None and self.exempt(scope)):
            return await self.app(scope, receive, send)
        if attempt_number(finder(scope), self.attempt_headers) > 1:
            # Nothing is awaited between this look and taking the place.
            if not admission.room_for_a_retry(self.places, self.retry_share):
                return await self._shed(send, "retry")
        try:
            place = await self._enter()
        except (BulkheadFull, Throttled):
            return await self._shed(send, "full")
        watched = Watched(send, lambda: place.answered(watched.status))
        try:
            await self.app(scope, receive, watched)
        except BaseException as error:
            place.failed(error)
            raise
        place.answered(watched.status)

    async def _enter(self) -> admission.Place:
        if not isinstance(self.places, Bulkhead):
            return admission.Place(self.places.admit())
        await self.places._enter_async()
        return admission.Place(self.places)

    async def _shed(self, send: Send, reason: str) -> None:
        bus.publish("Shed", operation="request", reason=reason)
        await answer(send, admission.full(self.retry_after_s), self.draw, self.spread)
