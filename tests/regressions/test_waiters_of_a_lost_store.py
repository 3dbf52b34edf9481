"""A call that waited for a fleet's limiter when the store was found down went on waiting for an answer that
could not come, for as long as the store's timeout; and one that left gave tokens of the lease to the
process's own share, so that calls got through where ``on_failure="closed"`` allows none.

Stormproof: they use the process's own share from that moment on, and what was leased is not given back to
it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.support.polling import eventually

import stormproof as sp
from stormproof.redis import RedisStore

#: Far longer than any test may take.
TIMEOUT = 600.0


class Hanging:
    """A server that takes a connection and says nothing, until it is gone."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def accept(self) -> None:
        self._taken, _ = self._listener.accept()

    def vanish(self) -> None:
        self._listener.close()
        self._taken.close()


@pytest.fixture
def server() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging._listener.close()


@pytest.mark.parametrize("mode", ["local", "open"])
def test_waiters_go_on_when_the_store_is_lost(server: Hanging, mode: str):
    with RedisStore(server.url, timeout=TIMEOUT, on_failure=mode) as store:
        limiter = sp.Limiter(100, 5, store=store, name="x")
        server.accept()
        waiters = [threading.Thread(target=limiter.wait, daemon=True) for _ in range(10)]
        for waiter in waiters:
            waiter.start()
        # One goes on credit.
        eventually(lambda: limiter.tokens() == -9)
        server.vanish()
        for waiter in waiters:
            waiter.join(10)
        assert not any(waiter.is_alive() for waiter in waiters)


def test_booked_tokens_of_waiters_are_not_spent_twice(server: Hanging):
    with RedisStore(server.url, timeout=TIMEOUT) as store:
        limiter = sp.Limiter(0.001, 5, store=store, name="x")
        server.accept()
        assert limiter.reserve(3).ok
        server.vanish()
        eventually(lambda: store.state == "down" and limiter._fleet is not None and limiter._fleet.alone)
        assert [limiter.allow() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(("mode", "there"), [("closed", 0), ("local", 2)])
def test_waiter_that_leaves_gives_no_leased_tokens_to_the_share(server: Hanging, mode: str, there: int):
    with RedisStore(server.url, timeout=TIMEOUT, on_failure=mode) as store:
        limiter = sp.Limiter(0.001, 5, store=store, name="x")
        server.accept()
        waiting = limiter.enqueue(3, None)
        assert waiting.ok
        server.vanish()
        eventually(lambda: store.state == "down" and limiter._fleet is not None and limiter._fleet.alone)
        waiting.leave()
        assert sum(limiter.allow() for _ in range(10)) == there


@pytest.mark.parametrize("name", ["x", "y"])
def test_slow_subscriber_does_not_delay_the_local_mode(server: Hanging, name: str):
    heard, over = threading.Event(), threading.Event()

    def slow(event: sp.events.Event) -> None:
        if isinstance(event, sp.events.StoreDown):
            heard.set()
            over.wait(30)

    with RedisStore(server.url, timeout=TIMEOUT, on_failure="open") as store:
        limiters = {each: sp.Limiter(0.001, 1, store=store, name=each) for each in "xy"}
        server.accept()
        stop = sp.subscribe(slow)
        try:
            server.vanish()
            assert heard.wait(10)
            assert sum(limiters[name].allow() for _ in range(5)) == 5
        finally:
            stop()
            over.set()
