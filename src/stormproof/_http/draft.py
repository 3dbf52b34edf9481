"""The request of one attempt, open to change: another address, other headers."""

from __future__ import annotations

from .headers import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Default port by scheme.
_PORTS = {"http": 80, "https": 443}

#: Characters that would end a URL's host, or begin it anew.
_NOT_IN_HOST = frozenset("/?#@\\ \t\r\n")


class Draft:
    """The request about to be sent: ``method``, ``url`` and ``headers``, for a hook to change.

    Every attempt starts from the request as the client made it. Giving ``url`` (or ``host``) another
    origin drops the credentials from ``headers``; what the hook sets after that is sent as it is.
    """

    __slots__ = ("_credentials", "_home", "_url", "headers", "method", "moved", "number")

    def __init__(
        self,
        number: int,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        credentials: frozenset[str],
    ) -> None:
        #: The attempt's number, from 1.
        self.number = number
        self.method = method
        self.headers = Fields(headers)
        self._url = url
        self._home = origin(url)
        self._credentials = credentials
        #: True if the request is sent to another origin than the client meant.
        self.moved = False

    @property
    def url(self) -> str:
        return self._url

    @url.setter
    def url(self, url: str) -> None:
        if not isinstance(url, str):
            raise TypeError(f"draft: url must be a string, got a {type(url).__name__}")
        target = origin(url)
        if target is None:
            raise ValueError("draft: url must be absolute, with http or https, a host and a valid port")
        before = origin(self._url)
        if target != before:
            self._drop_credentials(netloc(self._url), netloc(url))
        self._url = url
        self.moved = target != self._home

    @property
    def host(self) -> str:
        """The host and port of ``url``, without credentials."""
        return netloc(self._url)

    @host.setter
    def host(self, host: str) -> None:
        from urllib.parse import urlsplit

        if not isinstance(host, str):
            raise TypeError(f"draft: host must be a string, got a {type(host).__name__}")
        wrong = next((sign for sign in host if sign in _NOT_IN_HOST), "")
        if not host or wrong:
            # What is wrong with it, and not the whole: before an @ there may be a password.
            got = f"one with {wrong!r} in it" if host else "''"
            raise ValueError(f"draft: host must be a host with or without a port, got {got}")
        self.url = urlsplit(self._url)._replace(netloc=host).geturl()

    def _drop_credentials(self, old: str, new: str) -> None:
        for name in [name for name in self.headers if name.lower() in self._credentials]:
            del self.headers[name]
        # A Host that is not the URL's own was chosen by the caller, who may want it everywhere.
        if self.headers.get("host", "").lower() == old.lower():
            self.headers["Host"] = new

    def __repr__(self) -> str:
        return f"<draft {self.number}: {self.method} {self.host}>"


def origin(url: str) -> tuple[str, str, int] | None:
    """(scheme, host, port) of an absolute http(s) URL, else ``None``."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in _PORTS or not host:
        return None
    return scheme, host.lower(), _PORTS[scheme] if port is None else port


def netloc(url: str) -> str:
    """The host and port of ``url`` as a Host header has them: neither userinfo nor the usual port."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    usual = f":{_PORTS.get(parts.scheme.lower())}"
    return host.removesuffix(usual)
