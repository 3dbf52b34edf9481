"""The same GET in each HTTP client: bare, under Stormproof, and under the library most used with it.

All retry up to four attempts, would wait from 0.1 s on, and read the whole body.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import stormproof as sp

from .request_timing import Request, Talk

_ATTEMPTS = 4


def _policy() -> sp.Policy:
    return sp.Policy(sp.Retry(attempts=_ATTEMPTS), name="bench")


def _five() -> sp.Policy:
    """The policy that the README recommends."""
    parts = sp.Deadline(5), sp.Retry(attempts=_ATTEMPTS), sp.Breaker(), sp.Bulkhead(50), sp.Timeout(0.5)
    return sp.Policy(*parts, name="bench")


# httpx.


def _httpx(transport: Any) -> Talk:
    import httpx

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Request]:
        with httpx.Client(transport=transport, trust_env=False) as client:

            async def request() -> bytes:
                return client.get(url).content  # noqa: ASYNC212 - no loop runs here

            yield request

    return Talk(opened)


def _httpx_async(transport: Any) -> Talk:
    import httpx

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Request]:
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:

            async def request() -> bytes:
                return (await client.get(url)).content

            yield request

    return Talk(opened)


def httpx_bare() -> Talk:
    """httpx.Client(), its own transport."""
    import httpx

    return _httpx(httpx.HTTPTransport())


def httpx_stormproof() -> Talk:
    """stormproof.httpx.Transport(Policy(Retry())) around the same transport."""
    import httpx

    from stormproof.httpx import Transport

    return _httpx(Transport(_policy(), httpx.HTTPTransport()))


def httpx_five() -> Talk:
    """stormproof.httpx.Transport(Policy(Deadline, Retry, Breaker, Bulkhead, Timeout)) around the same."""
    import httpx

    from stormproof.httpx import Transport

    return _httpx(Transport(_five(), httpx.HTTPTransport()))


def httpx_retries() -> Talk:
    """httpx_retries.RetryTransport around the same transport."""
    import httpx
    from httpx_retries import Retry, RetryTransport

    return _httpx(RetryTransport(httpx.HTTPTransport(), Retry(total=_ATTEMPTS - 1, backoff_factor=0.1)))


def httpx_async_bare() -> Talk:
    """httpx.AsyncClient(), its own transport."""
    import httpx

    return _httpx_async(httpx.AsyncHTTPTransport())


def httpx_async_stormproof() -> Talk:
    """stormproof.httpx.AsyncTransport(Policy(Retry())) around the same transport."""
    import httpx

    from stormproof.httpx import AsyncTransport

    return _httpx_async(AsyncTransport(_policy(), httpx.AsyncHTTPTransport()))


def httpx_async_five() -> Talk:
    """The same with stormproof.httpx.AsyncTransport."""
    import httpx

    from stormproof.httpx import AsyncTransport

    return _httpx_async(AsyncTransport(_five(), httpx.AsyncHTTPTransport()))


def httpx_async_retries() -> Talk:
    """httpx_retries.RetryTransport around the same transport."""
    import httpx
    from httpx_retries import Retry, RetryTransport

    retry = Retry(total=_ATTEMPTS - 1, backoff_factor=0.1)
    return _httpx_async(RetryTransport(httpx.AsyncHTTPTransport(), retry))


# aiohttp.


def _aiohttp(make: Any) -> Talk:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Request]:
        async with make() as session:

            async def request() -> bytes:
                async with session.get(url) as response:
                    body: bytes = await response.read()
                    return body

            yield request

    return Talk(opened)


def aiohttp_bare() -> Talk:
    """aiohttp.ClientSession()."""
    import aiohttp

    return _aiohttp(aiohttp.ClientSession)


def aiohttp_stormproof() -> Talk:
    """ClientSession(middlewares=[stormproof.aiohttp.middleware(Policy(Retry()))])."""
    import aiohttp

    from stormproof.aiohttp import middleware

    return _aiohttp(lambda: aiohttp.ClientSession(middlewares=[middleware(_policy())]))


def aiohttp_retry() -> Talk:
    """aiohttp_retry.RetryClient with ExponentialRetry."""
    from aiohttp_retry import ExponentialRetry, RetryClient

    options = ExponentialRetry(attempts=_ATTEMPTS, start_timeout=0.1)
    return _aiohttp(lambda: RetryClient(retry_options=options))


# requests.


def _requests(adapter: Any) -> Talk:
    import requests

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Request]:
        with requests.Session() as session:
            session.trust_env = False
            if adapter is not None:
                session.mount("http://", adapter)

            async def request() -> bytes:
                body: bytes = session.get(url).content
                return body

            yield request

    return Talk(opened)


def requests_bare() -> Talk:
    """requests.Session() with its own adapter."""
    return _requests(None)


def requests_stormproof() -> Talk:
    """A Session with stormproof.requests.Adapter(Policy(Retry())) mounted."""
    from stormproof.requests import Adapter

    return _requests(Adapter(_policy()))


def requests_urllib3() -> Talk:
    """A Session with HTTPAdapter(max_retries=urllib3.Retry(status_forcelist=...)) mounted."""
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    retry = Retry(total=_ATTEMPTS - 1, backoff_factor=0.1, status_forcelist=[429, 500, 502, 503, 504])
    return _requests(HTTPAdapter(max_retries=retry))


# urllib3.


def _urllib3(make: Any) -> Talk:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Request]:
        pools = make()

        async def request() -> bytes:
            body: bytes = pools.request("GET", url).data
            return body

        yield request
        pools.clear()

    return Talk(opened)


def urllib3_bare() -> Talk:
    """urllib3.PoolManager(retries=False)."""
    import urllib3

    return _urllib3(lambda: urllib3.PoolManager(retries=False))


def urllib3_stormproof() -> Talk:
    """stormproof.urllib3.PoolManager(Policy(Retry()))."""
    from stormproof.urllib3 import PoolManager

    return _urllib3(lambda: PoolManager(_policy()))


def urllib3_retry() -> Talk:
    """urllib3.PoolManager(retries=urllib3.Retry(status_forcelist=...))."""
    import urllib3

    retry = urllib3.Retry(total=_ATTEMPTS - 1, backoff_factor=0.1, status_forcelist=[429, 500, 502, 503, 504])
    return _urllib3(lambda: urllib3.PoolManager(retries=retry))
