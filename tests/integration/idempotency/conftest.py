"""Every store, behind one fixture: what holds for one holds for all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof.idempotency import MemoryStore, RedisStore, SqliteStore, Store
from stormproof.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """The time of every store that `make_store` makes."""
    return FakeClock(start=1000.0)


class TimedRedisStore(RedisStore):
    """A store whose time the test moves, in place of the server's."""

    def __init__(self, store: sp.redis.RedisStore, clock: FakeClock, **options: Any) -> None:
        super().__init__(store, **options)
        self.clock = clock

    def _now(self) -> str:
        return f"{self.clock.now() * 1e6:.0f}"


@pytest.fixture(scope="module")
def redis_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def make_store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> Iterator[Callable[..., Store]]:
    """``make_store(**options)``: a store of each kind, closed after the test."""
    made: list[Any] = []

    def make(**options: Any) -> Store:
        options.setdefault("clock", clock)
        if request.param == "memory":
            store: Store = MemoryStore(**options)
        elif request.param == "redis":
            url = request.getfixturevalue("redis_server").url
            shared = sp.redis.RedisStore(url, f"t{uuid.uuid4().hex}", timeout=2)
            made.append(shared)
            store = TimedRedisStore(shared, **options)
        else:
            store = SqliteStore(tmp_path / f"keys-{len(made)}.db", durable=False, **options)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    return make_store()
