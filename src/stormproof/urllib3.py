"""urllib3 under a policy: ``stormproof.urllib3.PoolManager(policy)`` in place of ``urllib3.PoolManager()``.

What a request goes through is in `stormproof._http`; here it meets its library. urllib3's own retries
are off; ``retries=`` still says how many redirects are followed.
"""

from __future__ import annotations

import weakref
from copy import copy
from functools import lru_cache

from ._primitives.extras import extra

with extra("urllib3"):
    import urllib3
    from urllib3.util.retry import Retry as _Retry
    from urllib3.util.url import parse_url

from ._http.body import Body
from ._http.bounded_sockets import BoundedPool
from ._http.client import Client
from ._http.draft import Draft
from ._http.final_answer import NotRetried
from ._http.options import ClientOptions
from ._http.urllib3_streams import Urllib3Port, answer, hand_over, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ._policy.policy import Policy

__all__ = ["Body", "ClientOptions", "Draft", "NotRetried", "PoolManager", "ProxyManager", "StatusError"]

#: urllib3's word for the timeout of the pool.
_UNSET: Any = urllib3.Timeout.DEFAULT_TIMEOUT


class StatusError(Exception):
    """Stands for a failed ``response`` inside the policy; urllib3 itself has no such error."""

    def __init__(self, request: Any, response: urllib3.BaseHTTPResponse) -> None:
        super().__init__(f"HTTP {response.status}")
        self.request = request
        self.response = response


class _Hops(_Retry):
    """Counts redirects and retries nothing: errors come out as they are, bad answers as answers."""

    @classmethod
    @lru_cache(64)
    def of(cls, given: _Retry) -> _Retry:
        """The rules for the redirects that ``given`` follows; kept, as most requests bring the same."""
        if given.total is False:
            return given
        return cls(
            total=None,
            connect=False,
            read=False,
            status=0,
            other=0,
            redirect=given.total if given.redirect is None else given.redirect,
            raise_on_redirect=given.raise_on_redirect,
            remove_headers_on_redirect=given.remove_headers_on_redirect,
            respect_retry_after_header=False,
        )


def _followed(given: _Retry, response: Any) -> _Retry:
    """``given``, with the redirects in its history that the pool has followed by itself."""
    hops = getattr(response.retries, "history", ())
    return given.new(history=(*given.history, *hops)) if hops else given


class _OwnHeaders(urllib3.HTTPHeaderDict):
    """The headers of one request through all its redirects, to be written to."""


class _Urllib3Call:
    """One request to a pool, as `urlopen` got it."""

    #: Those of `urlopen` that are the same in all attempts.
    options: dict[str, Any]
    #: True if the caller reads the body.
    streams: bool
    timeout: Any

    def __init__(self, pool: Any, method: str, target: str, body: Any, headers: Any) -> None:
        self.pool = pool
        self.method = method
        self.target = target
        self.body = body
        self.headers = pool.headers if headers is None else headers


class _Urllib3Port(Urllib3Port):
    """See `_http.port.Port`."""

    name = "urllib3"

    # Requests.

    def native(self, call: _Urllib3Call) -> Any:
        return call

    def url(self, call: _Urllib3Call) -> str:
        pool = call.pool
        if not call.target.startswith("/"):
            return call.target
        port = "" if pool.port is None else f":{pool.port}"
        return f"{pool.scheme}://{pool.host}{port}{call.target}"

    def keep_header(self, call: _Urllib3Call, name: str, value: str) -> None:
        if not isinstance(call.headers, _OwnHeaders):
            # The mapping is the caller's, or the manager's for all requests.
            call.headers = urllib3.HTTPHeaderDict(call.headers)
        call.headers[name] = value

    def prepare(
        self, call: _Urllib3Call, draft: Draft | None, extra: dict[str, str], limit_s: float | None
    ) -> _Urllib3Call:
        attempt = copy(call)
        attempt.headers = urllib3.HTTPHeaderDict(call.headers if draft is None else None)
        if draft is not None:
            for name, value in draft.headers.pairs:
                attempt.headers.add(name, value)
            attempt.pool, attempt.target = _place(call, draft)
        for name, value in extra.items():
            attempt.headers[name] = value
        if limit_s is not None:
            attempt.timeout = within(call.timeout, limit_s)
            waits = call.options.get("pool_timeout")
            attempt.options = {
                **call.options,
                "pool_timeout": limit_s if waits is None else min(waits, limit_s),
            }
        return attempt

    # Doing.

    def fetch(self, call: _Urllib3Call, most: int) -> Any:
        response = call.pool.open_once(
            call.method,
            call.target,
            call.body,
            call.headers,
            timeout=call.timeout,
            preload_content=False,
            release_conn=False,
            **call.options,
        )
        response.stormproof_streams = call.streams
        if most and response.status < 400:
            self.buffer(response, most)
        return response

    # Responses.

    def status(self, response: Any) -> int:
        status: int = response.status
        return status

    def fields(self, response: Any) -> Iterable[tuple[str, str]]:
        pairs: Iterable[tuple[str, str]] = response.headers.items()
        return pairs

    def is_response(self, value: Any) -> bool:
        return isinstance(value, urllib3.BaseHTTPResponse)

    def status_error(self, call: _Urllib3Call, response: Any) -> Exception:
        return StatusError(call, response)

    def timeout_error(self, call: _Urllib3Call, message: str) -> Exception:
        return urllib3.exceptions.ReadTimeoutError(call.pool, call.target, message)


def _place(call: _Urllib3Call, draft: Draft) -> tuple[Any, str]:
    """The pool and the target for the draft's URL."""
    url = parse_url(draft.url)
    pool = call.pool
    if draft.moved:
        manager = pool.manager()
        if manager is None:
            raise ValueError("draft: url must be of the pool's own origin without a PoolManager")
        pool = manager.connection_from_url(draft.url)
    return pool, url.request_uri if call.target.startswith("/") else draft.url


class _Pooled(BoundedPool):
    """A connection pool that sends requests under the policy of its manager."""

    client: Client
    manager: Any
    retries: Any
    timeout: Any
    #: Sends once: `urlopen` of the class of urllib3's.
    open_once: Any

    def urlopen(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        retries: Any = None,
        redirect: bool = True,
        assert_same_host: bool = True,
        timeout: Any = _UNSET,
        *,
        stormproof: Any = None,
        release_conn: bool | None = None,
        preload_content: bool = True,
        **options: Any,
    ) -> Any:
        options["redirect"] = redirect
        options["assert_same_host"] = assert_same_host
        if redirect and isinstance(retries, _Hops):
            # The next hop of a redirect that the pool itself follows: part of the current attempt.
            options.update(timeout=timeout, release_conn=release_conn, preload_content=preload_content)
            return self.open_once(method, url, body, headers, retries, **options)
        given = retries
        if not isinstance(given, _Retry):
            given = _Retry.from_int(retries, redirect=redirect, default=self.retries)
        options["retries"] = _Hops.of(given)
        call = _Urllib3Call(self, method, url, body, headers)
        call.timeout = self.timeout if timeout is _UNSET else timeout
        call.streams = not preload_content
        call.options = options
        response = answer(self.client.send(call, stormproof))
        response.retries = _followed(given, response)
        if getattr(response, "stormproof_whole", False):
            return response
        hand_over(response, call.timeout)
        if preload_content:
            response.data  # noqa: B018
        elif release_conn:
            response.release_conn()
        return response


class _HTTPPool(_Pooled, urllib3.HTTPConnectionPool):  # type: ignore[misc]
    open_once = urllib3.HTTPConnectionPool.urlopen


class _HTTPSPool(_Pooled, urllib3.HTTPSConnectionPool):  # type: ignore[misc]
    open_once = urllib3.HTTPSConnectionPool.urlopen


class _Managing:
    """A pool manager whose pools send under ``policy``."""

    headers: Any
    pool_classes_by_scheme: Any

    def __init__(self, policy: Policy, *args: Any, **options: Any) -> None:
        own = ClientOptions.taken_from(options)
        self._client = Client(policy, _Urllib3Port(), own)
        self._adds_keys = own.idempotency_key is not None
        super().__init__(*args, **options)
        self.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    @property
    def policy(self) -> Policy:
        """The policy that requests go through unless they bring their own."""
        return self._client.policy

    @property
    def options(self) -> ClientOptions:
        return self._client.options

    def urlopen(self, method: str, url: str, redirect: bool = True, **options: Any) -> Any:
        """Send as ``urllib3.PoolManager.urlopen`` does; ``stormproof=`` are the options of this request."""
        if self._adds_keys or options.get("stormproof") is not None:
            headers = options.get("headers")
            if not isinstance(headers, _OwnHeaders):
                options["headers"] = _OwnHeaders(self.headers if headers is None else headers)
        return super().urlopen(method, url, redirect=redirect, **options)  # type: ignore[misc]

    def _new_pool(self, *args: Any, **options: Any) -> Any:
        pool = super()._new_pool(*args, **options)  # type: ignore[misc]
        pool.client = self._client
        # Not the manager itself: a cycle would keep the connections open until it is collected.
        pool.manager = weakref.ref(self)
        return pool


class PoolManager(_Managing, urllib3.PoolManager):  # type: ignore[misc]
    """A ``urllib3.PoolManager`` that sends every request under ``policy``.

    The keywords are those of ``urllib3.PoolManager`` and those of `ClientOptions`. A request may bring
    its own ``stormproof={"policy": ..., "idempotency_key": ..., "retry": False}``. With
    ``preload_content=False`` the answer is committed at its headers, however short it is.
    """


class ProxyManager(_Managing, urllib3.ProxyManager):  # type: ignore[misc]
    """`PoolManager` for requests through a proxy: ``ProxyManager(policy, proxy_url)``."""
