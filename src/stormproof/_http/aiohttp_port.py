"""The port of aiohttp: its requests and responses, under a middleware."""

from __future__ import annotations

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.payload import BytesPayload, Payload
from multidict import CIMultiDict
from yarl import URL

from .._primitives.errors import Permanent
from . import aiohttp_internals as internals
from .body import WHOLE, AsyncBody, NotRepeatable, OneShot, replay_of
from .headers import announced, has_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from .body import Replay
    from .draft import Draft


class AiohttpCall:
    """One request, and how to send it; ``sent`` if that has begun."""

    __slots__ = ("handler", "request", "sent")

    def __init__(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> None:
        self.request = request
        self.handler = handler
        self.sent = False


class _Payload(OneShot):
    """A payload that knows itself whether it can be written again."""

    __slots__ = ("_payload",)

    def __init__(self, payload: Payload) -> None:
        super().__init__()
        self._payload = payload

    def refusal(self) -> str | None:
        self.touched = self.touched or self._payload.consumed
        return super().refusal()


class _Watched:
    """The iterator of a payload, which records that reading has begun."""

    __slots__ = ("_inner", "_once")

    def __init__(self, inner: AsyncIterator[bytes], once: OneShot) -> None:
        self._inner = inner
        self._once = once

    def __aiter__(self) -> _Watched:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        self._once.touched = True
        return self._inner.__anext__()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class AiohttpPort:
    """See `port.Port`. The timeouts are the session's; a scope that ends cuts an attempt off itself."""

    name = "aiohttp"
    legible = None

    def __init__(self, on_key: Callable[[aiohttp.ClientRequest, str, str], object]) -> None:
        #: Called with the request, the name and the value of a key header that was added.
        self._on_key = on_key

    # Requests.

    def native(self, call: AiohttpCall) -> aiohttp.ClientRequest:
        return call.request

    def method(self, call: AiohttpCall) -> str:
        return call.request.method

    def url(self, call: AiohttpCall) -> str:
        return str(call.request.url)

    def headers(self, call: AiohttpCall) -> list[tuple[str, str]]:
        return list(call.request.headers.items())

    def has_field(self, call: AiohttpCall, names: frozenset[str | bytes]) -> bool:
        return has_field(call.request.headers.items(), names)

    def simple(self, call: AiohttpCall, methods: frozenset[str]) -> bool:
        request = call.request
        return request.method in methods and (not request.body or isinstance(request.body, BytesPayload))

    def replay(self, call: AiohttpCall, limit: int | None) -> Replay:
        payload = call.request.body
        if not payload:
            return WHOLE
        by_size = replay_of(b"", payload.size, limit)
        if (
            isinstance(by_size, NotRepeatable)
            or isinstance(payload, BytesPayload)
            or _made(payload) is not None
        ):
            return by_size
        once = _Payload(payload)
        # Older releases of aiohttp treat a payload that was read in part as unread.
        internals.wrap_iterator(payload, lambda inner: _Watched(inner, once))
        return once

    def keep_header(self, call: AiohttpCall, name: str, value: str) -> None:
        call.request.headers[name] = value
        self._on_key(call.request, name, value)

    def prepare(
        self, call: AiohttpCall, draft: Draft | None, extra: dict[str, str], limit_s: float | None
    ) -> AiohttpCall:
        request = internals.copy(call.request)
        if draft is None:
            request.headers = CIMultiDict(request.headers)
        else:
            request.headers = CIMultiDict(draft.headers.pairs)
            request.url = request.original_url = URL(draft.url)
            if draft.moved:
                request.server_hostname = None
        request.headers.update(extra)
        return AiohttpCall(request, call.handler)

    # Doing.

    async def fetch(self, call: AiohttpCall, most: int) -> aiohttp.ClientResponse:
        # Attempts may overlap, and a request remembers how it is being sent.
        request = internals.copy(call.request) if call.sent else call.request
        call.sent = True
        if request.body and (made := _made(request.body)) is not None:
            internals.set_body(request, made)
        try:
            response = await call.handler(request)
        except OSError as error:
            if isinstance(error, TimeoutError) and internals.is_over(internals.timer_of(call.request)):
                # The session's total time, for all attempts together.
                raise Permanent(error) from None
            if isinstance(error, (aiohttp.ClientError, TimeoutError)):
                raise
            raise aiohttp.ClientOSError(*error.args) from error
        # A redirect is followed even if its body is broken.
        is_redirect = 300 <= response.status < 400 and "Location" in response.headers
        if most and response.status < 400 and not is_redirect and not _has_arrived(response):
            await self.buffer(response, most)
        return response

    async def buffer(self, response: aiohttp.ClientResponse, most: int) -> bool:
        if _has_arrived(response):
            return True
        length = announced(response.raw_headers)
        if length is None or length > most:
            return False
        content = response.content
        try:
            if (broken := content.exception()) is not None:
                raise broken
            if length > internals.buffer_limit(content) or "Content-Encoding" in response.headers:
                internals.refill(response, await content.read())
            else:
                await content.wait_eof()
        except aiohttp.ClientPayloadError as error:
            if isinstance(error.__cause__, ContentEncodingError):
                # No retry makes it readable. The caller gets the error on reading the response.
                return False
            response.close()
            raise
        except BaseException:
            response.close()
            raise
        return True

    async def discard(self, response: aiohttp.ClientResponse, most: int) -> None:
        content = response.content
        try:
            left = most if (announced(response.raw_headers) or 0) <= most else 0
            while left > 0 and not content.is_eof():
                left -= len(await content.read(left))
        except Exception:
            # The response is discarded; an error while draining it says nothing about later attempts.
            pass
        finally:
            # Closes the connection unless the whole answer has come.
            response.release()

    # Responses.

    def status(self, response: aiohttp.ClientResponse) -> int:
        return response.status

    def fields(self, response: aiohttp.ClientResponse) -> Iterable[tuple[bytes, bytes]]:
        return response.raw_headers

    def is_response(self, value: object) -> bool:
        return isinstance(value, aiohttp.ClientResponse)

    def status_error(self, call: AiohttpCall, response: aiohttp.ClientResponse) -> Exception:
        error = aiohttp.ClientResponseError(
            response.request_info,
            response.history,
            status=response.status,
            message=response.reason or "",
            headers=response.headers,
        )
        error.response = response  # type: ignore[attr-defined]
        return error

    def timeout_error(self, call: AiohttpCall, message: str) -> Exception:
        return aiohttp.SocketTimeoutError(message)


def _has_arrived(response: aiohttp.ClientResponse) -> bool:
    """Return True if the whole body has arrived: it is read from memory, and the connection is free."""
    content = response.content
    return bool(content.is_eof()) and content.exception() is None


def _made(payload: object) -> AsyncBody | None:
    """The `AsyncBody` that a payload was made from, if it was."""
    value = internals.given_value(payload)
    return value if isinstance(value, AsyncBody) else None
