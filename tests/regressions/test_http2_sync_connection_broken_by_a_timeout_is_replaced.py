"""A sync HTTP/2 client whose only connection a timeout had broken got no connection any more (httpx2)."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest
from tests.support.http.h2_server import H2Server, say

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
