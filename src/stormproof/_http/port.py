"""The interface to a client library that the rest of this package works with."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol, TypeVar

    from .body import Replay
    from .draft import Draft

    RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
    ResponseT_contra = TypeVar("ResponseT_contra", contravariant=True)

    class Port(Protocol[RequestT_contra, ResponseT_contra]):
        """One client library. ``request`` and ``response`` are its own objects, or hold them.

        `fetch`, `buffer` and `discard` do the work; in an async client they give something to await.
        Everything else only looks, and is quick.
        """

        #: The name of the client, for errors and default operation names: "httpx".
        name: str

        #: Makes the response for an ``on_result``, whose body can be had at once if the attempt has read it;
        #: ``None`` where that is so in any case.
        @property
        def legible(self) -> Callable[[ResponseT_contra], object] | None: ...

        # Looking at a request.

        def native(self, request: RequestT_contra, /) -> object:
            """The library's own request, for hooks and keys: ``request`` itself unless it is a wrapper."""
            ...

        def method(self, request: RequestT_contra, /) -> str:
            """Its method in upper case."""
            ...

        def url(self, request: RequestT_contra, /) -> str:
            """Its absolute URL."""
            ...

        def headers(self, request: RequestT_contra, /) -> list[tuple[str, str]]:
            """Its header fields, in order."""
            ...

        def has_field(self, request: RequestT_contra, names: frozenset[str | bytes], /) -> bool:
            """Return True if a header field of these names, in lower case, has a value."""
            ...

        def simple(self, request: RequestT_contra, methods: frozenset[str], /) -> bool:
            """Return True if nothing has to be done before it is first sent: its method is one of
            ``methods``, and its body, if any, whole in memory. `replay` is then called only after a
            failure. A quick look; ``False`` is always right."""
            ...

        def replay(self, request: RequestT_contra, limit: int | None, /) -> Replay:
            """Return the rule for sending its body again (see `body.replay_of`). Called once, before the
            first attempt unless it is `simple`: the place to wrap a stream that can be read only once, so
            that `OneShot.touched` is set."""
            ...

        # Changing a request.

        def keep_header(self, request: RequestT_contra, name: str, value: str, /) -> None:
            """Set a header on the request itself: it stays through redirects and authentication."""
            ...

        def prepare(
            self,
            request: RequestT_contra,
            draft: Draft | None,
            extra: dict[str, str],
            limit_s: float | None,
            /,
        ) -> Any:
            """A request for one attempt: a copy of ``request`` with the draft's URL and headers (``None``:
            its own), then ``extra`` headers, and no timeout longer than ``limit_s``. ``request`` stays as it
            is."""
            ...

        # Doing (awaitable in an async client).

        def fetch(self, request: RequestT_contra, most: int, /) -> Any:
            """Send what `prepare` made, or the request itself. A response below 400 that announces a body of
            at most ``most`` bytes (0: none) is read as by `buffer`; another comes with its body unread, and
            so does a redirect whose body the client itself would not miss."""
            ...

        def buffer(self, response: ResponseT_contra, most: int, /) -> Any:
            """Read the body into memory if it ends within ``most`` bytes: then ``True``, the connection is
            free, and the caller can still read the response as if nothing had happened. Else ``False``, and
            the caller can still read all of it. On an error in the body: close, and raise it."""
            ...

        def discard(self, response: ResponseT_contra, most: int, /) -> Any:
            """Read at most ``most`` bytes so that the connection can be used again, then close. No
            ``Exception`` comes out of here."""
            ...

        # Looking at a response, and making the library's own errors.

        def status(self, response: ResponseT_contra, /) -> int: ...

        def fields(self, response: ResponseT_contra, /) -> Iterable[tuple[str | bytes, str | bytes]]:
            """The header fields, names and values as str or bytes."""
            ...

        def is_response(self, value: object, /) -> bool:
            """Return True if ``value``, which a `Fallback` gave, is a response of this library."""
            ...

        def status_error(self, request: RequestT_contra, response: ResponseT_contra, /) -> Exception:
            """Return the error of the library's ``raise_for_status()``, ``.response`` included: strategies
            classify this."""
            ...

        def timeout_error(self, request: RequestT_contra, message: str, /) -> Exception:
            """The library's own timeout, for an attempt that our `Timeout` or `Deadline` cut off."""
            ...
