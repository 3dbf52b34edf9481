"""The parts of `stormproof.urllib3` that are urllib3's own; the common ones are in tests/integration/http."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3
from tests.support.http.each_client import retry
from tests.support.http.server import Server, answer, hang, reset, unused_port

import stormproof as sp
import stormproof.urllib3


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def http() -> Iterator[stormproof.urllib3.PoolManager]:
    manager = stormproof.urllib3.PoolManager(retry())
    yield manager
    manager.clear()


def test_pool_manager_takes_the_keywords_of_urllib3() -> None:
    manager = stormproof.urllib3.PoolManager(retry(), 5, headers={"A": "b"}, maxsize=3, buffer=10)
    assert isinstance(manager, urllib3.PoolManager)
    assert manager.headers == {"A": "b"} and manager.options.buffer == 10
    assert manager.connection_from_url("http://x/").pool.maxsize == 3


def test_errors_are_the_librarys_own_not_those_of_its_retries(http: Any) -> None:
    with pytest.raises(urllib3.exceptions.NewConnectionError):
        http.request("GET", f"http://127.0.0.1:{unused_port()}/")


def test_error_of_tls_comes_as_the_reason_of_a_max_retry_error() -> None:
    manager = stormproof.urllib3.PoolManager(sp.Policy(sp.Retry(attempts=1)))
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:

        def speak_in_the_clear() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threads.submit(speak_in_the_clear)
        with pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
            manager.request("GET", f"https://127.0.0.1:{listener.getsockname()[1]}/", timeout=10)
    assert isinstance(caught.value.reason, urllib3.exceptions.SSLError)
    manager.clear()


def _chain(server: Server, length: int) -> None:
    for hop in range(length):
        server.on(f"/{hop}", answer(302, headers=[("Location", f"/{hop + 1}")]))
    server.on(f"/{length}", answer(200, b"there"))


def test_redirects_are_counted_as_in_urllib3(server: Server, http: Any) -> None:
    _chain(server, 4)
    assert http.request("GET", server.url("/1")).data == b"there"
    with pytest.raises(urllib3.exceptions.MaxRetryError, match="too many redirects"):
        http.request("GET", server.url("/0"))
    assert http.request("GET", server.url("/0"), retries=False).status == 302
    assert http.request("GET", server.url("/0"), retries=urllib3.Retry(redirect=9)).data == b"there"
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        http.request("GET", server.url("/0"), retries=urllib3.Retry(redirect=1))


def test_own_retries_of_the_library_stay_off(server: Server, http: Any) -> None:
    server.on("/", answer(503))
    many = urllib3.Retry(10, status_forcelist=[503], backoff_factor=0)
    assert http.request("GET", server.url(), retries=many).status == 503
    assert len(server.seen) == 4
    server.on("/", reset())
    with pytest.raises(urllib3.exceptions.ProtocolError):
        http.request("GET", server.url(), retries=many)
    assert len(server.seen) == 8


def test_pool_used_directly_uses_the_policy_too(server: Server, http: Any) -> None:
    server.on("/", answer(503), answer(302, headers=[("Location", "/to")]))
    server.on("/to", answer(200, b"there"))
    pool = http.connection_from_url(server.url())
    assert pool.request("GET", "/").data == b"there"
    assert [seen.path for seen in server.seen] == ["/", "/", "/to"]


def test_hop_that_the_pool_follows_is_part_of_its_attempt(server: Server, http: Any) -> None:
    server.on("/", answer(302, headers=[("Location", "/to")]))
    server.on("/to", answer(503), answer(200, b"there"))
    assert http.connection_from_url(server.url()).request("GET", "/").data == b"there"
    assert [seen.path for seen in server.seen] == ["/", "/to", "/", "/to"]


def test_shared_headers_are_not_written_to(server: Server) -> None:
    server.on("/", answer(503), answer(200))
    shared = {"X-Mine": "1"}
    manager = stormproof.urllib3.PoolManager(retry(), headers=shared, idempotency_key="auto")
    assert manager.request("POST", server.url(), body=b"x").status == 200
    assert shared == {"X-Mine": "1"}
    assert [seen.header("X-Mine") for seen in server.seen] == ["1", "1"]
    assert server.seen[0].header("Idempotency-Key") == server.seen[1].header("Idempotency-Key") is not None
    manager.clear()


def test_redirected_post_keeps_its_key(server: Server, http: Any) -> None:
    server.on("/a", answer(503), answer(307, headers=[("Location", "/b")]))
    server.on("/b", answer(503), answer(201))
    shared = {"X-Mine": "1"}
    options = {"idempotency_key": "auto"}
    assert (
        http.request("POST", server.url("/a"), body=b"once", headers=shared, stormproof=options).status == 201
    )
    keys = {seen.header("Idempotency-Key") for seen in server.seen}
    assert len(server.seen) == 4 and len(keys) == 1 and None not in keys
    assert shared == {"X-Mine": "1"}


def test_repeated_request_headers_go_out_as_bare_urllib3_sends_them(server: Server, http: Any) -> None:
    server.on("/", answer(200), answer(503), answer(200))
    headers = urllib3.HTTPHeaderDict([("Accept", "a"), ("Accept", "b")])
    with urllib3.PoolManager() as bare:
        bare.request("GET", server.url(), headers=headers)
    http.request("GET", server.url(), headers=headers)
    sent = [seen.all("accept") for seen in server.seen]
    assert len(sent) == 3 and sent[0] == sent[1] == sent[2]


def test_stream_is_left_to_the_caller(server: Server, http: Any) -> None:
    server.on("/", answer(503), answer(200, b"abcdef"))
    response = http.request("GET", server.url(), preload_content=False)
    assert b"".join(response.stream(2)) == b"abcdef"
    response.release_conn()


def test_file_is_sent_again_from_where_it_stood(server: Server, http: Any) -> None:
    server.on("/", answer(503), reset(), answer(200))
    file = io.BytesIO(b"skipped|sent")
    file.seek(8)
    assert http.request("PUT", server.url(), body=file).status == 200
    assert [seen.body for seen in server.seen] == [b"sent"] * 3


class Pipe:
    """A file that can be read and not rewound."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)


def test_pipe_is_not_sent_twice(server: Server, http: Any) -> None:
    server.on("/", answer(503, b"why"), answer(200))
    response = http.request("PUT", server.url(), body=Pipe(b"once"))
    assert (response.status, response.data) == (503, b"why")
    assert [seen.body for seen in server.seen] == [b"once"]
    assert "read only once" in response.stormproof_mark.reason


def test_waiting_for_a_connection_is_part_of_the_deadline(server: Server) -> None:
    server.on("/", hang())
    manager = stormproof.urllib3.PoolManager(retry(), maxsize=1, block=True)
    held = manager.connection_from_url(server.url())._get_conn()
    with sp.deadline(0.1), pytest.raises((urllib3.exceptions.EmptyPoolError, TimeoutError)):
        manager.request("GET", server.url())
    held.close()
    manager.clear()


def test_requests_through_a_proxy_are_retried(server: Server) -> None:
    server.on("http://example.test/", answer(503), answer(200, b"by proxy"))
    proxy = stormproof.urllib3.ProxyManager(retry(), server.url())
    assert proxy.request("GET", "http://example.test/").data == b"by proxy"
    assert [seen.target for seen in server.seen] == ["http://example.test/"] * 2
    proxy.clear()


def test_pool_refuses_another_origin(server: Server) -> None:
    server.on("/", answer(200))
    manager = stormproof.urllib3.PoolManager(retry(before_attempt=_elsewhere))
    pool = manager.connection_from_url(server.url())
    del manager
    with pytest.raises(ValueError, match="own origin"):
        pool.request("GET", "/")
    pool.close()


def _elsewhere(attempt: Any) -> None:
    attempt.request.host = "127.0.0.1:1"
