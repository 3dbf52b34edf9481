"""Real servers for the fleet's tests: each test has its own, or a fresh prefix on a shared one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.loops import watchdog
from tests.support.redis_servers import Cluster, Server

__all__ = ["watchdog"]


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    """One server for all tests that do it no harm; they keep apart by their prefixes."""
    with Server() as server:
        yield server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own, to be hurt."""
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three primaries."""
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.stop()
