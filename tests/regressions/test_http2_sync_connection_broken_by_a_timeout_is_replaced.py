"""A sync HTTP/2 client, its only connection broken by a timeout or the server, got none any more (httpx2)."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest
from tests.support.http.h2_server import H2Server, Request, say

import stormproof as sp
import stormproof.httpx
import stormproof.httpx2

_DOORS = [(httpx, stormproof.httpx), (httpx2, stormproof.httpx2)]


@pytest.mark.parametrize(("library", "door"), _DOORS, ids=["httpx", "httpx2"])
def test_sync_http2_client_serves_after_a_timeout_broke_its_connection(library: Any, door: Any) -> None:
    with H2Server(hanging=True) as server:
        server.on("/", say(200, b"ok"))
        limits = library.Limits(max_connections=1)
        inner = library.HTTPTransport(limits=limits, http1=False, http2=True, verify=False)
        transport = door.Transport(sp.Policy(sp.Timeout(0.3)), inner)
        with library.Client(transport=transport, timeout=20, trust_env=False) as client:
            with pytest.raises(library.TimeoutException):
                client.get(server.url("/"))
            server.hanging = False
            own = {"stormproof": {"policy": sp.Policy(sp.Retry(attempts=1))}}
            assert client.get(server.url("/"), extensions=own).content == b"ok"


def _hang_up(request: Request) -> None:
    request.link.writer.close()


def _nonsense(request: Request) -> None:
    request.link.writer.write(b"nonsense" * 8)


def _half_an_answer(request: Request) -> None:
    request.link.state.send_headers(request.stream, [(":status", "200"), ("content-length", "10")])
    request.link.flush()
    request.link.writer.close()


@pytest.mark.parametrize("said", [_hang_up, _nonsense, _half_an_answer])
@pytest.mark.parametrize(("library", "door"), _DOORS, ids=["httpx", "httpx2"])
def test_sync_http2_client_serves_after_its_server_broke_the_connection(
    library: Any, door: Any, said: Any
) -> None:
    with H2Server() as server:
        server.on("/", said, say(200, b"ok"))
        limits = library.Limits(max_connections=1)
        inner = library.HTTPTransport(limits=limits, http1=False, http2=True, verify=False)
        transport = door.Transport(sp.Policy(sp.Retry(attempts=1)), inner)
        # No time for a slot: one that is free is given at once.
        timeout = library.Timeout(20, pool=0.001)
        with library.Client(transport=transport, timeout=timeout, trust_env=False) as client:
            with pytest.raises(library.TransportError):
                client.get(server.url("/"))
            assert client.get(server.url("/")).content == b"ok"
