"""The servers that the fleet's tests start: each has a port of its own, although many start at once."""

from __future__ import annotations

import pytest
from tests.support import redis_servers as servers
from tests.support.redis_servers import Server

pytestmark = pytest.mark.redis


def test_server_whose_port_is_taken_starts_on_another(
    shared_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = iter([shared_server.port, servers.free_port()])
    monkeypatch.setattr(servers, "free_port", lambda: next(ports))
    with Server() as server:
        assert server.port != shared_server.port
        assert server.ask("INFO", "server")["process_id"] == server.pid
