"""The ports of httpx, and of what has httpx's API under another name: one for threads, one for tasks."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter

from .._context.deadlines import remaining
from .._runtime.shielded_close import await_cancel_at_suspension, await_shielded
from .body import WHOLE, Files, NotRepeatable, OneShot, place, replay_of
from .headers import announced
from .httpcore_pool import await_on_shared_connection, is_multiplexed, repair, repair_sync
from .httpx_internals import clone, content_in_memory, content_length, given_stream, has_header, with_fields
from .streams import Broken, Guarded, Rest, Watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from typing import Any, Protocol

    import httpx

    from .body import Replay
    from .draft import Draft

    class Library(Protocol):
        """The module: httpx, or one with its API."""

        __name__: str
        AsyncBaseTransport: type[httpx.AsyncBaseTransport]
        AsyncByteStream: type[httpx.AsyncByteStream]
        AsyncHTTPTransport: type[httpx.AsyncHTTPTransport]
        BaseTransport: type[httpx.BaseTransport]
        ByteStream: type[httpx.ByteStream]
        DecodingError: type[httpx.DecodingError]
        HTTPStatusError: type[httpx.HTTPStatusError]
        HTTPTransport: type[httpx.HTTPTransport]
        Headers: type[httpx.Headers]
        ReadTimeout: type[httpx.ReadTimeout]
        Response: type[httpx.Response]
        SyncByteStream: type[httpx.SyncByteStream]
        TimeoutException: type[httpx.TimeoutException]
        TransportError: type[httpx.TransportError]
        URL: type[httpx.URL]


#: The timeouts of a client that has none.
_UNLIMITED: dict[str, float | None] = dict.fromkeys(("connect", "read", "write", "pool"))
#: A socket given no time at all does not time out but fails in another way.
_LEAST_S = 0.001
#: In a task, the end of a scope cuts the attempt off, and a phase must not end before that: on HTTP/2 the
#: client's own timeout takes the connection with it, and every other request on it.
_GRACE_S = 0.05


class Shrinking(dict[str, "float | None"]):
    """The caller's timeouts, each asked for when its phase begins: never more than is left by then.

    A body that is read after the attempt has only the caller's own time, and that of the scopes around it.
    """

    grace_s = 0.0

    def get(self, name: str, default: float | None = None) -> float | None:  # type: ignore[override]
        return self._least(super().get(name, default))

    def __getitem__(self, name: str) -> float | None:
        return self._least(super().__getitem__(name))

    def _least(self, own: float | None) -> float | None:
        left = remaining()
        if left is None:
            return own
        left = max(left + self.grace_s, _LEAST_S)
        return left if own is None else min(own, left)


class ShrinkingLate(Shrinking):
    """`Shrinking` in a task: the scope itself comes first, where it can."""

    grace_s = _GRACE_S


class HttpxPort:
    """The part that does not depend on threads or tasks; ``library`` is the httpx module."""

    #: The timeouts of an attempt inside a scope.
    shrinking = Shrinking

    def __init__(self, library: Library, transport: object, handle: Callable[[httpx.Request], Any]) -> None:
        self.name = library.__name__
        self._library = library
        self._bytes = library.ByteStream
        #: From a response to its status.
        self.status: Callable[[httpx.Response], int] = attrgetter("status_code")
        self.transport = transport
        #: Sends a request and gives the response: the wrapped transport's method.
        self._handle = handle
        bases = (library.SyncByteStream, library.AsyncByteStream)
        self._watched = type("Watched", (Watched, *bases), {})
        self._rest = type("Rest", (Rest, *bases), {})
        self._broken = type("Broken", (Broken, *bases), {})
        self._guarded = type("Guarded", (Guarded, library.AsyncByteStream), {})
        #: The streams of which we have read all that we wanted to.
        self._read = (self._rest, self._broken, self._bytes)

    # Requests.

    def native(self, request: httpx.Request) -> httpx.Request:
        return request

    def method(self, request: httpx.Request) -> str:
        return request.method

    def url(self, request: httpx.Request) -> str:
        return str(request.url)

    def headers(self, request: httpx.Request) -> list[tuple[str, str]]:
        encoding = request.headers.encoding
        return [(name.decode(encoding), value.decode(encoding)) for name, value in request.headers.raw]

    def has_field(self, request: httpx.Request, names: frozenset[str | bytes]) -> bool:
        return has_header(request.headers, names)

    def keep_header(self, request: httpx.Request, name: str, value: str) -> None:
        request.headers[name] = value

    def simple(self, request: httpx.Request, methods: frozenset[str]) -> bool:
        return request.method in methods and type(request.stream) is self._bytes

    def replay(self, request: httpx.Request, limit: int | None) -> Replay:
        stream = request.stream
        if isinstance(stream, self._bytes):
            content = content_in_memory(request)
            return WHOLE if not content else replay_of(content, len(content), limit)
        if isinstance(stream, Watched):
            return stream.once
        length = announced(request.headers.raw)
        fields = getattr(stream, "fields", None)
        if fields is not None:
            rule = _of_parts(fields, length, limit)
        else:
            rule = replay_of(given_stream(stream), length, limit)
        if isinstance(rule, OneShot):
            watched = self._watched()
            watched.inner, watched.once = stream, rule
            request.stream = watched
        return rule

    def prepare(
        self, request: httpx.Request, draft: Draft | None, extra: dict[str, str], limit_s: float | None
    ) -> httpx.Request:
        attempt = clone(request)
        attempt.extensions = extensions = dict(request.extensions)
        if limit_s is not None:
            extensions["timeout"] = self.shrinking(extensions.get("timeout") or _UNLIMITED)
        headers = request.headers
        if draft is not None:
            headers = self._library.Headers(draft.headers.pairs, encoding=headers.encoding)
            attempt.url = self._library.URL(draft.url)
            if draft.moved:
                extensions.pop("sni_hostname", None)
        attempt.headers = with_fields(headers, extra)
        return attempt

    # Responses.

    def fields(self, response: httpx.Response) -> Iterable[tuple[bytes, bytes]]:
        return response.headers.raw

    def legible(self, response: httpx.Response) -> httpx.Response:
        if type(response.stream) is not self._bytes:
            return response
        # A copy: the client must still find the body unread, to set the time that it took and to close it.
        try:
            return self._library.Response(
                response.status_code,
                headers=response.headers,
                content=b"".join(response.stream),
                request=response.request,
                extensions=response.extensions,
            )
        except self._library.DecodingError:
            return response

    def is_response(self, value: object) -> bool:
        return isinstance(value, self._library.Response)

    def status_error(self, request: httpx.Request, response: httpx.Response) -> Exception:
        response.request = request
        text = f"{response.status_code} {response.reason_phrase}"
        return self._library.HTTPStatusError(text, request=request, response=response)

    def timeout_error(self, request: httpx.Request, message: str) -> Exception:
        return self._library.ReadTimeout(message, request=request)

    def _whole(self, response: httpx.Response, chunks: list[bytes]) -> bool:
        response.stream = self._bytes(b"".join(chunks))
        return True

    def _rest_of(
        self, response: httpx.Response, chunks: list[bytes], iterator: Iterator[bytes] | AsyncIterator[bytes]
    ) -> bool:
        rest = self._rest()
        rest.chunks, rest.iterator, rest.inner = chunks, iterator, response.stream
        rest.ends = response.extensions.get("http_version", b"").startswith(b"HTTP/1")
        response.stream = rest
        return False

    def _broke(self, response: httpx.Response, chunks: list[bytes], error: Exception) -> None:
        broken = self._broken()
        broken.chunks, broken.error = chunks, error
        response.stream = broken

    def _drains(self, response: httpx.Response, most: int) -> bool:
        """Return True if the rest may be short enough to be worth reading."""
        if response.is_closed or isinstance(response.stream, self._read):
            return False
        return (announced(response.headers.raw) or 0) <= most


def _of_parts(parts: Iterable[object], length: int | None, limit: int | None) -> Replay:
    """A multipart body: its files go back to their beginning by themselves, if they can."""
    if limit is not None and (length or 0) > limit:
        return replay_of(b"", length, limit)
    if limit == 0:
        return NotRepeatable("its body cannot be sent again: replay=0")
    given = [getattr(part, "file", b"") for part in parts]
    files = [file for file in given if not isinstance(file, (str, bytes))]
    if any(place(file) is None for file in files):
        return OneShot()
    return Files([(file, 0) for file in files]) if files else WHOLE


class ThreadPort(HttpxPort):
    """The port of a sync transport."""

    def __init__(self, library: Library, transport: object, handle: Callable[[httpx.Request], Any]) -> None:
        super().__init__(library, transport, handle)
        #: The errors after which the pool may hold a connection that nothing can use.
        self._breaking = library.TransportError if is_multiplexed(transport) else library.TimeoutException

    def fetch(self, request: httpx.Request, most: int) -> httpx.Response:
        try:
            response: httpx.Response = self._handle(request)
            # The client does so later; `on_result` may want to know now.
            response.request = request
            if 0 < content_length(response.headers) <= most and response.status_code < 400:
                stream: httpx.SyncByteStream = response.stream  # type: ignore[assignment]
                try:
                    body = b"".join(stream)
                except BaseException:
                    with suppress(Exception):
                        stream.close()
                    raise
                stream.close()
                response.stream = self._bytes(body)
            return response
        except self._breaking:
            # A wait for a slot may end just as it is given one, and most errors break an HTTP/2 connection.
            repair_sync(self.transport)
            raise

    def buffer(self, response: httpx.Response, most: int) -> bool:
        stream: httpx.SyncByteStream = response.stream  # type: ignore[assignment]
        if isinstance(stream, self._bytes):
            return True
        chunks: list[bytes] = []
        size = 0
        iterator = iter(stream)
        try:
            for chunk in iterator:
                chunks.append(chunk)
                size += len(chunk)
                if size > most:
                    return self._rest_of(response, chunks, iterator)
        except BaseException as error:
            with suppress(Exception):
                stream.close()
            if isinstance(error, Exception):
                self._broke(response, chunks, error)
            raise
        stream.close()
        return self._whole(response, chunks)

    def discard(self, response: httpx.Response, most: int) -> None:
        try:
            if most and self._drains(response, most):
                self.buffer(response, most)
        except Exception:
            # The response is discarded; an error while draining it says nothing about later attempts.
            pass
        try:
            response.close()
        except Exception:
            pass
        if _is_http2(response):
            repair_sync(self.transport)


def _is_http2(response: httpx.Response) -> bool:
    return bool(response.extensions.get("http_version") == b"HTTP/2")


async def _close_anyhow(stream: httpx.AsyncByteStream) -> None:
    """Close a stream whose reading has ended in an error, which is the one to be raised."""
    with suppress(Exception):
        await await_shielded(stream.aclose())


async def _close(response: httpx.Response) -> None:
    stream: httpx.AsyncByteStream = response.stream  # type: ignore[assignment]
    await stream.aclose()


class TaskPort(HttpxPort):
    """The port of an async transport."""

    shrinking = ShrinkingLate

    def __init__(self, library: Library, transport: object, handle: Callable[[httpx.Request], Any]) -> None:
        super().__init__(library, transport, handle)
        self._wait: Callable[[Awaitable[Any], Callable[[Any], Awaitable[Any]]], Awaitable[Any]] = (
            await_on_shared_connection if is_multiplexed(transport) else await_cancel_at_suspension
        )

    async def fetch(self, request: httpx.Request, most: int) -> httpx.Response:
        try:
            response: httpx.Response = await self._wait(self._fetched(request, most), _close)
            return response
        except BaseException as error:
            # The one place where an attempt is cut off, by whatever scope or task. Or an error, perhaps of a
            # connection that broke as another attempt on it was cut off, and that the pool would keep.
            await repair(self.transport, None if isinstance(error, Exception) else error)
            raise

    async def _fetched(self, request: httpx.Request, most: int) -> httpx.Response:
        response: httpx.Response = await self._handle(request)
        response.request = request
        if 0 < content_length(response.headers) <= most and response.status_code < 400:
            stream: httpx.AsyncByteStream = response.stream  # type: ignore[assignment]
            try:
                body = b"".join([chunk async for chunk in stream])
            except BaseException:
                await _close_anyhow(stream)
                raise
            await stream.aclose()
            response.stream = self._bytes(body)
        else:
            guarded = self._guarded()
            guarded.inner = response.stream
            guarded.transport = self.transport if _is_http2(response) else None
            response.stream = guarded
        return response

    async def buffer(self, response: httpx.Response, most: int) -> bool:
        stream: httpx.AsyncByteStream = response.stream  # type: ignore[assignment]
        if isinstance(stream, self._bytes):
            return True
        chunks: list[bytes] = []
        size = 0
        iterator = stream.__aiter__()
        try:
            async for chunk in iterator:
                chunks.append(chunk)
                size += len(chunk)
                if size > most:
                    return self._rest_of(response, chunks, iterator)
        except BaseException as error:
            await _close_anyhow(stream)
            if isinstance(error, Exception):
                self._broke(response, chunks, error)
            raise
        await await_shielded(stream.aclose())
        return self._whole(response, chunks)

    async def discard(self, response: httpx.Response, most: int) -> None:
        try:
            if most and self._drains(response, most):
                await self.buffer(response, most)
        except Exception:
            # The response is discarded; an error while draining it says nothing about later attempts.
            pass
        try:
            await await_shielded(response.aclose())
        except Exception:
            pass
        if _is_http2(response):
            await repair(self.transport)
