"""A request on HTTP/2 that is cut off leaves its connection to the others, wherever the cut falls.

trio may deliver a cancellation at any checkpoint. One in the set-up of a connection closed it under the
requests that waited for it, or left its count of streams wrong; one before a write lost the headers that both
ends keep a common table of. And a connection that a request was cut off on while it connected was forgotten
by the pool, while the next request connected it: its socket was never closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing
from tests.regressions.test_http_pool_survives_an_overload import LIBRARIES, client_of, recover, run
from tests.support.http.h2_server import H2Server, say

import stormproof as sp

Send = Callable[[], Awaitable[None]]

#: The type of an HTTP/2 frame, its fourth byte.
WINDOW_UPDATE = 8

PLAIN = sp.Policy(sp.Retry(attempts=1))


@pytest.fixture
def server() -> Iterator[H2Server]:
    with H2Server(streams=100) as made:
        made.on("/", say(200, b"ok"))
        made.on("/silent", lambda request: None)
        yield made


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Stream:
    """A network stream whose writes and TLS handshake a test can watch and delay."""

    def __init__(self, inner: Any, network: Network) -> None:
        self._inner = inner
        self._network = network
        self.begun: list[bytes] = []
        self.sent: list[bytes] = []
        self.closed = False

    async def write(self, data: bytes, *args: Any) -> None:
        if data:
            self.begun.append(data)
            await self._network.on_write(self, lambda: self._inner.write(data, *args))
            self.sent.append(data)

    async def start_tls(self, **options: Any) -> Any:
        await self._network.on_wait("start_tls")

    async def aclose(self) -> None:
        self.closed = True
        await self._inner.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Network:
    """The network backend of a client's pool, which keeps its streams."""

    def __init__(self, client: Any) -> None:
        pool = client._transport._inner._pool
        self._inner, pool._network_backend = pool._network_backend, self
        self.streams: list[Stream] = []
        #: Given the stream of a write that has begun, and what does it.
        self.on_write: Callable[[Stream, Send], Awaitable[None]] = _send
        #: Called as a connection is made, and in its TLS handshake.
        self.on_wait: Callable[[str], Awaitable[None]] = _go_on

    async def connect_tcp(self, **options: Any) -> Stream:
        await self.on_wait("connect_tcp")
        self.streams.append(Stream(await self._inner.connect_tcp(**options), self))
        return self.streams[-1]


async def _send(stream: Stream, send: Send) -> None:
    await send()


async def _go_on(name: str) -> None:
    pass


def event(loop: str) -> Any:
    return trio.Event() if loop == "trio" else asyncio.Event()


async def settle(loop: str) -> None:
    """Let every other task run until it waits."""
    if loop == "trio":
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
    else:
        for _ in range(20):
            await asyncio.sleep(0)


class Background:
    """Requests in tasks of their own, under either loop, that can be cut off one by one."""

    def __init__(self, loop: str, client: Any, url: Callable[[str], str]) -> None:
        self._loop, self._client, self._url = loop, client, url
        self.outcomes: dict[str, Any] = {}
        self._scopes: dict[str, Any] = {}

    async def __aenter__(self) -> Background:
        self._group: Any = trio.open_nursery() if self._loop == "trio" else asyncio.TaskGroup()
        self._tasks: Any = await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._group.__aexit__(*exc)

    async def start(self, name: str, path: str = "/") -> None:
        """Send a request, and return when it waits."""
        if self._loop == "trio":
            self._scopes[name] = trio.CancelScope()
            self._tasks.start_soon(self._send, name, self._url(path))
        else:
            self._scopes[name] = self._tasks.create_task(self._send(name, self._url(path)))
        await settle(self._loop)

    def cut_off(self, name: str) -> None:
        self._scopes[name].cancel()

    async def _send(self, name: str, url: str) -> None:
        self.outcomes[name] = "cut off"
        try:
            if self._loop == "trio":
                with self._scopes[name]:
                    self.outcomes[name] = (await self._client.get(url)).status_code
            else:
                self.outcomes[name] = (await self._client.get(url)).status_code
        except Exception as error:
            self.outcomes[name] = error


@pytest.mark.parametrize("write", [1, 2], ids=["set-up", "headers"])
@pytest.mark.parametrize("before", [True, False], ids=["before it", "after it"])
def test_cut_around_a_write_leaves_the_connection_to_the_others(
    library: str, write: int, before: bool, server: H2Server
) -> None:
    async def main() -> None:
        async with client_of(library, 1, http2=True, policy=PLAIN) as client:
            network = Network(client)
            async with Background("trio", client, server.url) as requests:

                async def on_write(stream: Stream, send: Send) -> None:
                    if len(stream.begun) != write:
                        return await send()
                    await requests.start("second")
                    if before:
                        requests.cut_off("first")
                        await send()
                    else:
                        await send()
                        requests.cut_off("first")

                network.on_write = on_write
                await requests.start("first", "/silent")
            assert requests.outcomes == {"first": "cut off", "second": 200}
            assert await recover("trio", client, server.url("/"), 100) == [200] * 100

    trio.run(main)
    (link,) = server.links
    server.wait_for(lambda: link.resets == 1)


def test_connection_is_not_used_after_a_write_was_cut_off_half_way(library: str, server: H2Server) -> None:
    module, _ = LIBRARIES[library]

    async def main() -> None:
        async with client_of(library, 1, http2=True, policy=PLAIN) as client:
            network = Network(client)
            assert await recover("trio", client, server.url("/"), 1) == [200]
            (broken,) = network.streams
            before = len(broken.begun)

            async def on_write(stream: Stream, send: Send) -> None:
                if stream is broken and len(stream.begun) == before + 1:
                    await trio.sleep_forever()
                await send()

            network.on_write = on_write
            async with Background("trio", client, server.url) as requests:
                await requests.start("first")
                await requests.start("second")
                requests.cut_off("first")
            assert requests.outcomes["first"] == "cut off"
            assert isinstance(requests.outcomes["second"], module.WriteTimeout)
            assert len(broken.begun) == before + 1
            assert await recover("trio", client, server.url("/"), 2) == [200] * 2
            assert [stream.closed for stream in network.streams] == [True, False]

    trio.run(main)


def test_cut_before_a_write_that_widens_the_window_of_a_body_loses_nothing(
    library: str, server: H2Server
) -> None:
    # More than half of the window that httpcore gives a stream.
    server.on("/", say(200, bytes(9 << 20)))

    async def main() -> None:
        async with client_of(library, 1, http2=True, policy=PLAIN) as client:
            network = Network(client)
            async with Background("trio", client, server.url) as requests:

                async def on_write(stream: Stream, send: Send) -> None:
                    if len(stream.begun) > 2 and stream.begun[-1][3] == WINDOW_UPDATE:
                        requests.cut_off("first")
                    await send()

                network.on_write = on_write
                await requests.start("first")
            assert requests.outcomes == {"first": "cut off"}
            (stream,) = network.streams
            assert stream.sent == stream.begun

    trio.run(main)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("cut", ["connects", "waits"])
def test_connection_that_a_request_was_cut_off_on_stays_in_the_pool(
    library: str, loop: str, cut: str, server: H2Server
) -> None:
    async def main() -> None:
        async with client_of(library, 1, http2=True, policy=PLAIN) as client:
            network = Network(client)
            gate = event(loop)

            async def on_wait(name: str) -> None:
                await gate.wait()

            network.on_wait = on_wait
            async with Background(loop, client, server.url) as requests:
                await requests.start("connects")
                await requests.start("waits")
                requests.cut_off(cut)
                await settle(loop)
                gate.set()
            (other,) = {"connects", "waits"} - {cut}
            assert requests.outcomes == {cut: "cut off", other: 200}
            assert await recover(loop, client, server.url("/"), 1) == [200]
        assert [stream.closed for stream in network.streams] == [True]

    run(loop, main)
    assert len(server.links) == 1


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_socket_is_closed_when_a_request_is_cut_off_in_the_tls_handshake(
    library: str, loop: str, server: H2Server
) -> None:
    async def main() -> None:
        async with client_of(library, 1, http2=True, policy=PLAIN) as client:
            network = Network(client)
            handshake = event(loop)

            def secure(path: str) -> str:
                return server.url(path).replace("http:", "https:")

            async def on_wait(name: str) -> None:
                if name == "start_tls":
                    handshake.set()
                    await event(loop).wait()

            network.on_wait = on_wait
            async with Background(loop, client, secure) as requests:
                await requests.start("first")
                await handshake.wait()
                requests.cut_off("first")
            assert [stream.closed for stream in network.streams] == [True]

    run(loop, main)
    server.wait_for(lambda: len(server.links) == 1)
