"""aiohttp under a policy: ``aiohttp.ClientSession(middlewares=[holdfast.aiohttp.middleware(policy)])``.

What a request goes through is in `holdfast.wire`; here it meets its library.
"""

from __future__ import annotations

from contextvars import ContextVar

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.payload import AsyncIterablePayload, BytesPayload
from multidict import CIMultiDict
from yarl import URL

from .keys import Recent
from .wire import AsyncBody, Client, ClientOptions, Draft, NotRetried
from .wire.body import WHOLE, Once, Refused, replay_of
from .wire.fields import announced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from .policy import Policy
    from .wire.body import Replay

__all__ = ["AsyncBody", "ClientOptions", "Draft", "Middleware", "NotRetried", "middleware"]


def middleware(policy: Policy, **options: Any) -> Middleware:
    """A client middleware that sends every request under ``policy``; keywords are those of `ClientOptions`.

    Given to a session it is for all its requests; ``session.get(url, middlewares=[...])`` is for one.
    Middlewares before it in the list see the call as a whole, those after it every attempt.
    """
    return Middleware(policy, ClientOptions(**options))


class Middleware:
    """What `middleware` makes."""

    __slots__ = ("_client",)

    def __init__(self, policy: Policy, options: ClientOptions) -> None:
        self._client = Client(policy, _Port(), options, is_async=True)

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
            response: ClientResponse = await self._client.send_async(_Call(request, handler))
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            if request.method in _RESENT and not isinstance(error, aiohttp.ClientConnectorError):
                _Before.note(request, error=error)
            raise
        if hasattr(response, "holdfast_mark") and not hasattr(response, "holdfast_tells"):
            response.__class__ = _telling(type(response))
        return response

    def __repr__(self) -> str:
        return f"middleware({self.policy!r})"


#: The methods of requests that aiohttp sends again by itself.
_RESENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


class _Before:
    """What the session may have done already in the very call that a request belongs to.

    After some errors aiohttp sends an idempotent request once more by itself, through all middlewares:
    then the error that ended our attempts comes out again, without any more of them. And a redirected
    request keeps the idempotency key of the one before it.
    """

    __slots__ = ("error", "key", "timer")

    def __init__(self, timer: Any) -> None:
        self.timer = timer
        self.error: Exception | None = None
        self.key: tuple[str, str] | None = None

    def is_of(self, request: Any) -> bool:
        """Whether this is about the call that ``request`` belongs to. The timer is one object per call."""
        return self.timer is not None and self.timer is getattr(request, "_timer", None)

    @staticmethod
    def note(request: Any, *, error: Exception | None = None, key: tuple[str, str] | None = None) -> None:
        found = _before.get()
        if found is None or not found.is_of(request):
            found = _Before(getattr(request, "_timer", None))
            _before.set(found)
        found.error = error
        found.key = key or found.key

    def repeat(self, request: Any) -> None:
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback holds this frame.
                del error
        if self.key is not None and self.key[0] not in request.headers:
            request.headers[self.key[0]] = self.key[1]


_before: ContextVar[_Before | None] = ContextVar("holdfast.aiohttp", default=None)


class _Call:
    """One request, and how to send it; ``sent`` if that has begun."""

    __slots__ = ("handler", "request", "sent")

    def __init__(self, request: Any, handler: Any) -> None:
        self.request = request
        self.handler = handler
        self.sent = False


class _Payload(Once):
    """A payload that knows itself whether it can be written again."""

    __slots__ = ("_payload",)

    def __init__(self, payload: Any) -> None:
        super().__init__()
        self._payload = payload

    def refusal(self) -> str | None:
        self.touched = self.touched or self._payload.consumed
        return super().refusal()


class _Watched:
    """The iterator of a payload, which notes when somebody begins to read it."""

    __slots__ = ("_inner", "_once")

    def __init__(self, inner: Any, once: Once) -> None:
        self._inner = inner
        self._once = once

    def __aiter__(self) -> _Watched:
        return self

    def __anext__(self) -> Any:
        self._once.touched = True
        return self._inner.__anext__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Port:
    """See `wire.port.Port`. The timeouts are the session's; a scope that ends cuts an attempt off itself."""

    name = "aiohttp"

    # Requests.

    def native(self, call: _Call) -> Any:
        return call.request

    def method(self, call: _Call) -> str:
        method: str = call.request.method
        return method

    def url(self, call: _Call) -> str:
        return str(call.request.url)

    def headers(self, call: _Call) -> list[tuple[str, str]]:
        return list(call.request.headers.items())

    def header(self, call: _Call, name: str) -> str | None:
        found: str | None = call.request.headers.get(name)
        return found

    def simple(self, call: _Call, methods: frozenset[str]) -> bool:
        request = call.request
        return request.method in methods and (not request.body or isinstance(request.body, BytesPayload))

    def replay(self, call: _Call, limit: int | None) -> Replay:
        payload: Any = call.request.body
        if not payload:
            return WHOLE
        by_size = replay_of(b"", payload.size, limit)
        if isinstance(by_size, Refused) or isinstance(payload, BytesPayload) or _made(payload) is not None:
            return by_size
        once = _Payload(payload)
        if isinstance(payload, AsyncIterablePayload) and hasattr(payload, "_iter"):
            # Older releases take one that was read in part for one that was not.
            payload._iter = _Watched(payload._iter, once)
        return once

    def keep_header(self, call: _Call, name: str, value: str) -> None:
        call.request.headers[name] = value
        _Before.note(call.request, key=(name, value))

    def prepare(
        self, call: _Call, draft: Draft | None, extra: dict[str, str], limit_s: float | None
    ) -> _Call:
        request = _copy(call.request)
        if draft is None:
            request.headers = CIMultiDict(request.headers)
        else:
            request.headers = CIMultiDict(draft.headers.pairs)
            request.url = request.original_url = URL(draft.url)
            if draft.moved:
                request.server_hostname = None
        request.headers.update(extra)
        return _Call(request, call.handler)

    # Doing.

    async def fetch(self, call: _Call, most: int) -> Any:
        # Attempts may overlap, and a request remembers how it is being sent.
        request = _copy(call.request) if call.sent else call.request
        call.sent = True
        if request.body and (made := _made(request.body)) is not None:
            request._body = AsyncIterablePayload(made, content_type="application/octet-stream")
        try:
            response = await call.handler(request)
        except OSError as error:
            if isinstance(error, (aiohttp.ClientError, TimeoutError)):
                raise
            raise aiohttp.ClientOSError(*error.args) from error
        if most and not _has_come(response):
            await self.buffer(response, most)
        return response

    async def buffer(self, response: Any, most: int) -> bool:
        if _has_come(response):
            return True
        length = announced(response.raw_headers)
        if length is None or length > most:
            return False
        content = response.content
        try:
            if (broken := content.exception()) is not None:
                raise broken
            if length > getattr(content, "_high_water", 0) or "Content-Encoding" in response.headers:
                # More than the reader takes in before it asks to be read.
                await _hold(response)
            else:
                await content.wait_eof()
        except BaseException:
            response.close()
            raise
        return True

    async def discard(self, response: Any, most: int) -> None:
        content = response.content
        try:
            left = most if (announced(response.raw_headers) or 0) <= most else 0
            while left > 0 and not content.is_eof():
                left -= len(await content.read(left))
        except Exception:
            # Nobody wants it; that it broke off says nothing about the attempts to come.
            pass
        finally:
            # Closes the connection unless the whole answer has come.
            response.release()

    # Responses.

    def status(self, response: Any) -> int:
        status: int = response.status
        return status

    def fields(self, response: Any) -> Any:
        return response.raw_headers

    def is_response(self, value: Any) -> bool:
        return isinstance(value, aiohttp.ClientResponse)

    def status_error(self, call: _Call, response: Any) -> Exception:
        error: Any = aiohttp.ClientResponseError(
            response.request_info,
            response.history,
            status=response.status,
            message=response.reason or "",
            headers=response.headers,
        )
        error.response = response
        return error  # type: ignore[no-any-return]

    def timeout_error(self, call: _Call, message: str) -> Exception:
        return aiohttp.SocketTimeoutError(message)


def _copy(request: Any) -> Any:
    """A request to be sent beside or after ``request``, without what that one remembers of being sent."""
    made = object.__new__(type(request))
    made.__dict__.update(request.__dict__)
    for name in ("response", "_ClientRequest__writer"):
        made.__dict__.pop(name, None)
    return made


def _has_come(response: Any) -> bool:
    """Whether the whole body is here; it is read from memory, and the connection is free."""
    content = response.content
    return bool(content.is_eof()) and content.exception() is None


def _made(payload: Any) -> AsyncBody | None:
    """The `AsyncBody` that a payload was made from, if it was."""
    value = getattr(payload, "_value", None)
    return value if isinstance(value, AsyncBody) else None


async def _hold(response: Any) -> None:
    """Read the body and put it back, decoded."""
    data = await response.content.read()
    loop = response.content._loop
    content = aiohttp.StreamReader(BaseProtocol(loop), max(1, len(data)), loop=loop)
    if data:
        content.feed_data(data)
    content.feed_eof()
    response.content = content


#: Subclasses of response classes whose errors carry the mark of the response.
_tellings = Recent(64)


def _telling(kind: Any) -> Any:
    """``kind``, whose ``raise_for_status()`` puts itself on its error: there layers around find the mark."""
    found = _tellings.get(kind)
    if found is not None:
        return found

    def raise_for_status(self: Any) -> None:
        try:
            kind.raise_for_status(self)
        except aiohttp.ClientResponseError as error:
            error.response = self  # type: ignore[attr-defined]
            raise

    names = {"raise_for_status": raise_for_status, "__module__": kind.__module__, "holdfast_tells": True}
    return _tellings.put_first(kind, type(kind.__name__, (kind,), names))
