"""A `Timeout` or deadline did not bound requests' wait for a free connection of a blocking pool."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests
from tests.support.http.server import Server, answer, once

import stormproof as sp
import stormproof.requests

#: Much longer than the limits; a wait that is not bounded lasts until then.
HELD_S = 20.0
ONCE = sp.Policy(sp.Retry(attempts=1))


@contextmanager
def _busy(server: Server, policy: sp.Policy) -> Iterator[requests.Session]:
    """A session whose only connection is in use."""
    released = threading.Event()
    server.on("/held", once(released.is_set, answer(200, b"")))
    server.on("/", answer(200, b"ok"))
    session = requests.Session()
    adapter = stormproof.requests.Adapter(policy, pool_connections=1, pool_maxsize=1, pool_block=True)
    session.mount("http://", adapter)

    def hold() -> None:
        with stormproof.requests.override(policy=ONCE):
            session.get(server.url("/held"), timeout=HELD_S)

    holder = threading.Thread(target=hold)
    holder.start()
    server.wait_for(lambda server: bool(server.requests("/held")))
    try:
        yield session
    finally:
        released.set()
        holder.join()
        session.close()


def test_attempts_timeout_bounds_the_wait_for_a_connection() -> None:
    with Server() as server, _busy(server, sp.Policy(sp.Timeout(0.1))) as session:
        with pytest.raises(requests.Timeout):
            session.get(server.url("/"))
        assert not server.requests("/")
        assert server.open == 1, "the connection is still held"


def test_post_that_got_no_connection_is_retried() -> None:
    policy = sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None), sp.Timeout(0.1))
    with Server() as server, _busy(server, policy) as session:
        with pytest.raises(requests.Timeout) as caught:
            session.post(server.url("/"), data=b"order")
        assert "2 attempts" in caught.value.__notes__[0]


def test_deadline_bounds_the_wait_for_a_connection() -> None:
    with Server() as server, _busy(server, ONCE) as session:
        with sp.deadline(0.1), pytest.raises(requests.Timeout):
            session.get(server.url("/"))
        assert server.open == 1
