from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.grpc_server import Aio, Future, Server, Sync


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


@pytest.fixture(params=[Sync, Future, Aio], ids=lambda kind: kind.name)
def connect(request: pytest.FixtureRequest, server: Server) -> Iterator[Callable[..., Any]]:
    """``connect(policy, **options)``: a client of the kind at hand, of ``server`` by default."""
    made: list[Any] = []

    def client(policy: Any, target: str | None = None, **options: Any) -> Any:
        made.append(request.param(target or server.target, policy, **options))
        return made[-1]

    yield client
    for one in made:
        one.close()
