"""Which request gets in: a bounded number at once, and retries only while there is room to spare."""

from __future__ import annotations

from .._events import bus
from .._primitives.errors import BulkheadFull, Throttled
from .._primitives.options import Seconds, hook, number, seconds
from .._runtime import randomness
from .._strategies.adaptive.limit import AdaptiveLimit, LimitTicket
from .._strategies.bulkhead.bulkhead import Bulkhead
from .application import application
from .problem import Problem
from .request_facts import attempt_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from .._runtime.randomness import Rng

#: Answers of the application by which an adaptive limit knows that it does not cope.
DROPPED = (503, 504)


class Shedding:
    """The options of both servers' SheddingMiddleware, described at `asgi.SheddingMiddleware`."""

    #: Kind of application that it wraps.
    kind = ""

    def __init__(
        self,
        app: object,
        limit: int | Bulkhead | AdaptiveLimit = 50,
        queue: int = 0,
        max_wait: Seconds | None = 0,
        retry_after: Seconds = 2.0,
        spread: float = 1.0,
        retry_share: float = 0.5,
        attempt_header: str | None = None,
        exempt: Callable[[Any], bool] | None = None,
        rng: Rng | None = None,
    ) -> None:
        owner = "SheddingMiddleware"
        self.app = application(owner, self.kind, app)
        if not isinstance(limit, (Bulkhead, AdaptiveLimit)):
            limit = Bulkhead(limit, queue=queue, max_wait=max_wait, name=owner)
        elif queue or max_wait:
            raise ValueError(
                f"{owner}: queue and max_wait must be given to the {type(limit).__name__} itself, "
                f"got queue={queue!r}, max_wait={max_wait!r}"
            )
        self.places: Bulkhead | AdaptiveLimit = limit
        after_s = seconds(owner, "retry_after", retry_after, above=0)
        #: The answer to a request that did not get in. Nothing was done, so it may be sent again.
        self.full = Problem(503, "overloaded", "This service is at its limit", None, after_s)
        self.spread = number(owner, "spread", spread, least=0)
        #: 0 admits no retry at all, 1 makes no difference between the two.
        self.retry_share = number(owner, "retry_share", retry_share, least=0, most=1)
        self.attempt_headers = attempt_headers(owner, attempt_header)
        self.exempt = hook(owner, "exempt", exempt)
        self.draw = randomness.source(rng, owner)


class TurnedAway(Exception):
    """A request that did not get in, already emitted as an event; never seen outside."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        bus.publish("Shed", operation="request", reason=reason)


def enter(among: Bulkhead | AdaptiveLimit, share: float, is_retry: bool) -> AdmittedPlace:
    """A place for one request, or `TurnedAway`."""
    _stop_a_retry(among, share, is_retry)
    try:
        if not isinstance(among, Bulkhead):
            return AdmittedPlace(among.admit())
        among.enter()
    except (BulkheadFull, Throttled):
        raise TurnedAway("full") from None
    return AdmittedPlace(among)


async def enter_async(among: Bulkhead | AdaptiveLimit, share: float, is_retry: bool) -> AdmittedPlace:
    """`enter`, awaited in the queue."""
    # Nothing is awaited between this look and taking the place.
    _stop_a_retry(among, share, is_retry)
    try:
        if not isinstance(among, Bulkhead):
            return AdmittedPlace(among.admit())
        await among.enter_async()
    except (BulkheadFull, Throttled):
        raise TurnedAway("full") from None
    return AdmittedPlace(among)


def _stop_a_retry(among: Bulkhead | AdaptiveLimit, share: float, is_retry: bool) -> None:
    """Raise `TurnedAway` for a retry unless fewer than ``share`` of the places are in use.

    A retry is work that has failed once already; when the service is short of places, those go to
    requests that have not been tried. One place is always within the share, unless it is 0. A retry
    never queues: as long as a request waits, no place is free.
    """
    if is_retry and not (share > 0 and among.in_use < max(1.0, share * among.limit)):
        raise TurnedAway("retry")


class AdmittedPlace:
    """One admitted request. The first of `answered` and `failed` gives the place back, the rest nothing.

    As a context manager, leaving without an error is an answer of success.
    """

    __slots__ = ("_place",)

    def __init__(self, place: Bulkhead | LimitTicket) -> None:
        self._place: Bulkhead | LimitTicket | None = place

    def answered(self, status: int) -> None:
        """The answer is sent, or the application is done (``status`` 0: it said nothing)."""
        place, self._place = self._place, None
        if isinstance(place, Bulkhead):
            place.leave()
        elif place is not None:
            (place.dropped if status in DROPPED else place.success if status else place.cancel)()

    def failed(self, error: BaseException) -> None:
        """The application raised. An adaptive limit classifies the error by its own ``on``."""
        place, self._place = self._place, None
        if isinstance(place, Bulkhead):
            place.leave()
        elif place is not None:
            place.__exit__(type(error), error, error.__traceback__)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.answered(200) if error is None else self.failed(error)
