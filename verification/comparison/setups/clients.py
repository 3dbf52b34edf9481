"""Retries inside an HTTP client: 3 attempts, no wait of the client's own, at most one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Body = Callable[[], Iterator[bytes]]


async def _as_async(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@dataclass(frozen=True)
class Ask:
    """One request. ``body`` may be a function that gives a generator.

    ``longest``: the cap on server hints, where there is one. ``timeout``: of one attempt.
    ``default_waits``: leave the waits as the library has them.
    """

    url: str
    method: str = "GET"
    body: bytes | Body | None = None
    longest: int | None = None
    timeout: float = 5.0
    default_waits: bool = False

    @property
    def content(self) -> Any:
        return self.body() if callable(self.body) else self.body


class Client:
    """What the probes ask of a library."""

    def send(self, ask: Ask) -> tuple[int, bytes]:
        """One request with retries on; the status and body of its answer."""
        raise NotImplementedError

    @contextmanager
    def recorded(self) -> Iterator[list[float]]:
        """Inside it waits are free, and listed."""
        from unittest import mock  # dear, and not every cell needs it

        waits: list[float] = []

        async def asleep(seconds: float, *_: Any) -> None:
            waits.append(seconds)

        with mock.patch("time.sleep", waits.append), mock.patch("asyncio.sleep", asleep):
            yield waits


class Stormproof(Client):
    @contextmanager
    def recorded(self) -> Iterator[list[float]]:
        import stormproof as sp

        with sp.testing.instant() as clock:
            yield clock.sleeps


def _policy(ask: Ask) -> Any:
    import stormproof as sp

    more: dict[str, Any] = {} if ask.default_waits else {"backoff": sp.Constant(0)}
    if ask.longest is not None:
        more["max_hint"] = ask.longest
    return sp.Policy(sp.Retry(attempts=3, **more))


class StormproofHttpx(Stormproof):
    def send(self, ask: Ask) -> tuple[int, bytes]:
        from stormproof.httpx import Transport

        return _httpx(ask, lambda pool: Transport(_policy(ask), pool))


def _httpx(ask: Ask, wrap: Callable[[Any], Any]) -> tuple[int, bytes]:
    import httpx

    pool = httpx.HTTPTransport(limits=httpx.Limits(max_connections=1))
    with httpx.Client(transport=wrap(pool), timeout=ask.timeout) as client:
        answer = client.request(ask.method, ask.url, content=ask.content)
        return answer.status_code, answer.content


class StormproofRequests(Stormproof):
    def send(self, ask: Ask) -> tuple[int, bytes]:
        import requests

        from stormproof.requests import Adapter

        with requests.Session() as session:
            session.mount("http://", Adapter(_policy(ask), pool_maxsize=1, pool_block=True))
            answer = session.request(ask.method, ask.url, data=ask.content, timeout=ask.timeout)
            return answer.status_code, answer.content


class StormproofAiohttp(Stormproof):
    def send(self, ask: Ask) -> tuple[int, bytes]:
        from stormproof.aiohttp import middleware

        guard = middleware(_policy(ask))
        return _aiohttp(ask, lambda session: session, middlewares=(guard,))


def _aiohttp(ask: Ask, wrap: Callable[[Any], Any], **options: Any) -> tuple[int, bytes]:
    import aiohttp

    async def send() -> tuple[int, bytes]:
        data = _as_async(ask.content) if callable(ask.body) else ask.body
        limit = aiohttp.ClientTimeout(sock_read=ask.timeout, sock_connect=ask.timeout)
        connector = aiohttp.TCPConnector(limit=1)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=limit, **options) as session,
            wrap(session).request(ask.method, ask.url, data=data) as answer,
        ):
            return answer.status, await answer.read()

    return asyncio.run(send())


class HttpxRetries(Client):
    def send(self, ask: Ask) -> tuple[int, bytes]:
        from httpx_retries import Retry, RetryTransport

        more: dict[str, Any] = {} if ask.longest is None else {"max_backoff_wait": ask.longest}
        return _httpx(ask, lambda pool: RetryTransport(transport=pool, retry=Retry(total=2, **more)))


class AiohttpRetry(Client):
    def send(self, ask: Ask) -> tuple[int, bytes]:
        import aiohttp
        from aiohttp_retry import ExponentialRetry, RetryClient

        waits = {} if ask.default_waits else {"start_timeout": 0.001}
        options = ExponentialRetry(
            attempts=3,
            statuses={429},
            exceptions={aiohttp.ClientError, asyncio.TimeoutError},
            **waits,  # type: ignore[arg-type]
        )
        return _aiohttp(ask, lambda session: RetryClient(client_session=session, retry_options=options))


class Urllib3(Client):
    def send(self, ask: Ask) -> tuple[int, bytes]:
        import urllib3

        more: dict[str, Any] = {} if ask.longest is None else {"retry_after_max": ask.longest}
        retries = urllib3.Retry(total=2, status_forcelist=[429, 502, 503, 504], raise_on_status=False, **more)
        with urllib3.PoolManager(maxsize=1, block=True, retries=retries, timeout=ask.timeout) as pool:
            answer = pool.request(ask.method, ask.url, body=ask.content)
            return answer.status, answer.data


CLIENTS: dict[str, Client] = {
    "stormproof": StormproofHttpx(),
    "stormproof.requests": StormproofRequests(),
    "stormproof.aiohttp": StormproofAiohttp(),
    "httpx-retries": HttpxRetries(),
    "aiohttp-retry": AiohttpRetry(),
    "urllib3": Urllib3(),
}
