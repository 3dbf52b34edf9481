"""URLs: an error in one is raised when the store is made, and its TLS options are applied."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import redis.sentinel
from tests.support.polling import eventually

import stormproof as sp
from stormproof._fleet.address import Address
from stormproof.redis import RedisStore, StoreUnavailable

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h:bad/0", r"url port must be a whole number from 1 to 65535, got 'bad'"),
        ("redis://h:99999999", r"url port must be a whole number from 1 to 65535, got '99999999'"),
        ("redis://h:0", r"url port must be a whole number from 1 to 65535, got '0'"),
        ("redis+sentinel://h:bad/mymaster", r"url port must be .*, got 'bad'"),
        ("redis+sentinel://h:1,g:x/mymaster", r"url port must be .*, got 'x'"),
        ("redis+sentinel://,h:1/mymaster", r"url host must not be empty"),
        ("redis+sentinel://h:1/mymaster/xx", r"url database must be a whole number >= 0, got 'xx'"),
        ("redis+sentinel://h:1/mymaster/-1", r"url database must be a whole number >= 0, got '-1'"),
        ("redis://h/abc", r"url database must be a whole number >= 0, got 'abc'"),
        ("redis+cluster://h:1/abc", r"url database must be .*, got 'abc'"),
        ("redis://h/0?db=x", r"url option 'db' .*"),
        ("redis://h/0?socket_timeout=abc", r"url option 'socket_timeout' .*, got 'abc'"),
        (
            "redis+sentinel://h:1/m?health_check_interval=abc",
            r"url option 'health_check_interval' .*, got 'abc'",
        ),
        ("redis+cluster://h:1?socket_timeout=abc", r"url option 'socket_timeout' .*, got 'abc'"),
        ("redis://h/0?no_such_thing=1", r"url option 'no_such_thing' must be one that redis-py takes"),
        ("redis+sentinel://h:1/m/0?no_such_thing=1", r"url option 'no_such_thing' must be one that redis-py"),
    ],
)
def test_invalid_url_is_refused_without_its_password(url: str, said: str) -> None:
    scheme, _, rest = url.partition("://")
    for given in (url, f"{scheme}://user:{SECRET}@{rest}"):
        with pytest.raises(ValueError, match=rf"^RedisStore: {said}") as caught:
            RedisStore(given)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://[::1]:6379/3?socket_keepalive=true",
        "redis://h/?db=2",
        "rediss://h:1/0?ssl_cert_reqs=none",
        "unix:///tmp/redis.sock?db=1",
        "redis+sentinel://h/mymaster",
        "redis+sentinel://[::1]:26379,h:26380/mymaster/2?client_name=x",
        "redis+cluster://h:7000",
        "valkey://h:1/1",
    ],
)
def test_valid_url_is_accepted(url: str) -> None:
    RedisStore(url).close()


def test_sentinels_of_a_url_are_read() -> None:
    client = Address("redis+sentinel://u:p%40@[::1]:26379,h/mymaster/2?client_name=x").connect(SETTINGS)
    pool = client.connection_pool
    seen = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
    assert [(each["host"], each["port"]) for each in seen] == [("::1", 26379), ("h", 26379)]
    assert (pool.connection_kwargs["db"], pool.connection_kwargs["client_name"]) == (2, "x")
    assert (pool.connection_kwargs["username"], pool.connection_kwargs["password"]) == ("u", "p@")


SETTINGS = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5, "retry": None}


class Listener:
    """Takes connections, and keeps the first bytes of each. ``answer`` is what it says to anything."""

    def __init__(self, answer: bytes = b"") -> None:
        self._answer = answer
        self.heard: list[bytes] = []
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._socket.accept()
            except OSError:
                return
            with taken:
                taken.settimeout(2)
                try:
                    self.heard.append(taken.recv(4096))
                    if self._answer:
                        taken.sendall(self._answer)
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)


@pytest.fixture
def listener(request: pytest.FixtureRequest) -> Iterator[Listener]:
    listener = Listener(getattr(request, "param", b""))
    yield listener
    listener.close()


def test_sentinels_and_their_server_are_reached_by_tls(listener: Listener) -> None:
    """Both the sentinels and the server that they name: a password must not go over the wire in the open."""
    url = f"rediss+sentinel://:{SECRET}@127.0.0.1:{listener.port}/mymaster/0?ssl_cert_reqs=none"
    with RedisStore(url, timeout=0.5) as store:
        with pytest.raises(StoreUnavailable):
            store.call("probe", "x")
        pool = store._link.client().connection_pool
        assert pool.connection_class is redis.sentinel.SentinelManagedSSLConnection
        assert pool.make_connection().cert_reqs == 0
    # What begins a TLS handshake.
    assert listener.heard and all(heard[:1] == b"\x16" for heard in listener.heard)


@pytest.mark.parametrize("listener", [b"HTTP/1.1 400 Bad Request\r\n\r\n"], indirect=True)
def test_server_that_does_not_speak_redis_counts_as_a_store_that_is_down(listener: Listener) -> None:
    with RedisStore(f"redis://127.0.0.1:{listener.port}/0", timeout=0.5, on_failure="open") as store:
        limiters = [sp.Limiter(1, 1, store=store, name=name) for name in "ab"]
        eventually(lambda: store.state == "down")
        assert all(eventually(lambda each=each: each._fleet.alone) for each in limiters)
        assert all(limiter.allow() for limiter in limiters for _ in range(5))


def test_store_with_an_internal_error_stops_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any reason: without an answer the store is not reported as up, and the asking ends."""
    asked = 0

    def connect(self: Address, settings: object) -> None:
        nonlocal asked
        asked += 1
        raise ValueError("a detail")

    monkeypatch.setattr(Address, "connect", connect)
    with RedisStore("redis://127.0.0.1:1/0", on_failure="open") as store:
        limiters = [sp.Limiter(1, 1, store=store, name=name) for name in "ab"]
        eventually(lambda: store.state == "down")
        assert all(eventually(lambda each=each: each._fleet.alone) for each in limiters)
        assert all(limiter.allow() for limiter in limiters for _ in range(5))
        before = asked
        time.sleep(0.5)
        # At most one after 25 ms, 50 ms, 100 ms and so on.
        assert asked - before <= 8
        with pytest.raises(StoreUnavailable):
            store.call("probe", "x")
