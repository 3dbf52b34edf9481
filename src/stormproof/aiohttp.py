"""aiohttp under a policy: ``aiohttp.ClientSession(middlewares=[stormproof.aiohttp.middleware(policy)])``.

What a request goes through is in `stormproof._http`; here it meets its library.
"""

from __future__ import annotations

from contextlib import nullcontext
from contextvars import ContextVar

from ._primitives.extras import extra

with extra("aiohttp"):
    import aiohttp

from ._http.aiohttp_internals import timer_of
from ._http.aiohttp_port import AiohttpCall, AiohttpPort
from ._http.body import AsyncBody
from ._http.client import Client
from ._http.draft import Draft
from ._http.final_answer import NotRetried
from ._http.options import ClientOptions
from ._runtime.maps import Recent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from aiohttp.helpers import BaseTimerContext

    from ._policy.policy import Policy

__all__ = ["AsyncBody", "ClientOptions", "Draft", "Middleware", "NotRetried", "middleware"]


def middleware(policy: Policy, **options: Any) -> Middleware:
    """A client middleware that sends every request under ``policy``; keywords are those of `ClientOptions`.

    Given to a session it is for all its requests; ``session.get(url, middlewares=[...])`` is for one.
    Middlewares before it in the list see the call as a whole, those after it every attempt.
    """
    return Middleware(policy, ClientOptions(**options))


class Middleware:
    """The middleware that `middleware` returns."""

    __slots__ = ("_client",)

    def __init__(self, policy: Policy, options: ClientOptions) -> None:
        self._client = Client(policy, AiohttpPort(_Before.note_key), options, is_async=True)

    @property
    def policy(self) -> Policy:
        return self._client.policy

    @property
    def options(self) -> ClientOptions:
        return self._client.options

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        before = _before.get()
        if before is not None and before.is_of(request):
            before.repeat(request)
        try:
            # The session's total time runs while the policy waits between attempts, too.
            with timer_of(request) or nullcontext():
                response: ClientResponse = await self._client.send_async(AiohttpCall(request, handler))
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            # A policy that does not retry leaves it to aiohttp to replace a stale connection.
            is_resent = request.method in _RESENT and not isinstance(error, aiohttp.ClientConnectorError)
            if is_resent and self._client.retries:
                _Before.of(request).error = error
            raise
        if hasattr(response, "stormproof_mark") and not hasattr(response, "stormproof_marks"):
            response.__class__ = _marking_class(type(response))
        return response

    def __repr__(self) -> str:
        return f"middleware({self.policy!r})"


#: The methods of requests that aiohttp sends again by itself.
_RESENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


class _Before:
    """State of the call that a request belongs to, as far as the session has handled it.

    After some errors aiohttp sends an idempotent request once more by itself, through all middlewares:
    then the error that ended our attempts comes out again, without any more of them. And a redirected
    request keeps the idempotency key of the one before it.
    """

    __slots__ = ("error", "key", "timer")

    def __init__(self, timer: BaseTimerContext | None) -> None:
        self.timer = timer
        self.error: Exception | None = None
        self.key: tuple[str, str] | None = None

    def is_of(self, request: ClientRequest) -> bool:
        """Return True if this is the state of the call of ``request``. The timer is one object per call."""
        return self.timer is not None and self.timer is timer_of(request)

    @staticmethod
    def of(request: ClientRequest) -> _Before:
        """Return the mutable state of the call of ``request``."""
        state = _before.get()
        if state is None or not state.is_of(request):
            state = _Before(timer_of(request))
            _before.set(state)
        return state

    @staticmethod
    def note_key(request: ClientRequest, name: str, value: str) -> None:
        _Before.of(request).key = (name, value)

    def repeat(self, request: ClientRequest) -> None:
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback holds this frame.
                del error
        if self.key is not None and self.key[0] not in request.headers:
            request.headers[self.key[0]] = self.key[1]


_before: ContextVar[_Before | None] = ContextVar("stormproof.aiohttp", default=None)


#: Subclasses of response classes whose errors carry the mark of the response.
_marking_classes = Recent(64)


def _marking_class(kind: Any) -> Any:
    """Return a subclass of ``kind`` that attaches itself to its status error, for the layers around."""
    cached = _marking_classes.get(kind)
    if cached is not None:
        return cached

    def raise_for_status(self: ClientResponse) -> None:
        try:
            kind.raise_for_status(self)
        except aiohttp.ClientResponseError as error:
            error.response = self  # type: ignore[attr-defined]
            raise

    names = {"raise_for_status": raise_for_status, "__module__": kind.__module__, "stormproof_marks": True}
    return _marking_classes.put_first(kind, type(kind.__name__, (kind,), names))
