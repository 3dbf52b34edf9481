"""The classifier against the exceptions that real libraries raise.

Each library meets a real refused connection, a real server that misbehaves, or a real lock; an
instance is built by hand only where nothing less than a whole database would raise it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import shutil
import socket
import sqlite3
import ssl
import struct
import subprocess
import threading
import types
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stormproof._classify.classifier import transient
from stormproof._classify.exhaustion import Mark, exhausted_by, mark
from stormproof._classify.verdict import Verdict

pytestmark = [
    # A client that failed leaves its sockets to the collector; that is its affair, not ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:botocore.*"),
]


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed (the dev extra has it)")


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("the call was expected to fail")


def raised_async(call: Callable[[], Awaitable[Any]]) -> BaseException:
    async def run() -> BaseException:
        try:
            await call()
        except Exception as error:
            return error
        pytest.fail("the call was expected to fail")

    return asyncio.run(run())


def verdict(error: BaseException) -> tuple[bool, str]:
    found = transient(error)
    return found.retry, found.kind


RETRY, TIMEOUT, THROTTLE, FATAL = (True, "transient"), (True, "timeout"), (True, "throttle"), (False, "fatal")
PUSHED_BACK = (False, "pushback")


#: Long enough never to expire by itself on a busy machine; short where the expiry is what is wanted
#: (for reading only, where the library distinguishes reading from connecting).
LONG, SHORT = 10.0, 0.1


# --- servers that misbehave -----------------------------------------------------------------------


@contextlib.contextmanager
def serving(answer: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on loopback that treats every connection to ``answer``; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def loop() -> None:
        while not done.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), peer:
                peer.settimeout(LONG)
                if context is not None:
                    with context.wrap_socket(peer, server_side=True) as secure:
                        answer(secure)
                else:
                    answer(peer)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        done.set()
        with contextlib.suppress(OSError):
            socket.create_connection(listener.getsockname(), timeout=1).close()
        thread.join(30)
        listener.close()
        assert not thread.is_alive()


def reads_then(act: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def answer(peer: socket.socket) -> None:
        if peer.recv(65536):
            act(peer)

    return answer


def hang(peer: socket.socket) -> None:
    while peer.recv(65536):
        pass


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def close(peer: socket.socket) -> None:
    pass


def says(*payload: bytes) -> Callable[[socket.socket], None]:
    def act(peer: socket.socket) -> None:
        peer.sendall(b"".join(payload))

    return act


def responds(status: str, *headers: str, body: bytes = b"") -> Callable[[socket.socket], None]:
    lines = [f"HTTP/1.1 {status}", "Connection: close", f"Content-Length: {len(body)}", *headers, "", ""]
    return reads_then(says("\r\n".join(lines).encode(), body))


HALF_A_BODY = reads_then(says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"))
GARBAGE = reads_then(says(b"\x00\x01\x02 this is not HTTP\r\n\r\n"))


@pytest.fixture
def refused() -> int:
    """A port on loopback where no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make every look-up of a host name fail with the given code."""

    def fail_with(code: int) -> None:
        def getaddrinfo(*args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror(code, "look-up failed")

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return fail_with


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's TLS context whose certificate no client trusts."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not on PATH; it makes the certificate that clients must refuse")
    folder: Path = tmp_path_factory.mktemp("tls")
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run([openssl, "req", "-x509", *curve, *subject, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


# --- HTTP clients: one row per client, the same faults for all ------------------------------------


def _urllib(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    body = b"x" if method == "POST" else None
    request = urllib.request.Request(url, method=method, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            response.read()
    except urllib.error.HTTPError as error:
        error.close()  # it holds the response, and with it the socket
        raise


def _http_client(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    scheme, _, place = url.rstrip("/").partition("://")
    host, _, port = place.partition(":")
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    with contextlib.closing(kind(host, int(port), timeout=timeout)) as connection:
        connection.request(method, "/", headers=headers)
        response = connection.getresponse()
        response.read()
        if response.status >= 400:
            # The library has no exception for a status: the response itself is the outcome.
            raise _Refused(response)


class _Refused(Exception):
    """An application's own error around a response."""

    def __init__(self, response: Any) -> None:
        super().__init__("refused")
        self.response = response


def _urllib3(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    urllib3 = library("urllib3")
    with urllib3.PoolManager(retries=False, timeout=timeout) as pool:
        response = pool.request(method, url, headers=headers)
        if response.status >= 400:
            raise _Refused(response)


def _requests(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    library("requests").request(method, url, headers=headers, timeout=(LONG, timeout)).raise_for_status()


def _httpx(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    httpx = library("httpx")
    httpx.request(
        method, url, headers=headers, timeout=httpx.Timeout(LONG, read=timeout), trust_env=False
    ).raise_for_status()


def _httpx_async(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    httpx = library("httpx")

    async def call() -> None:
        async with httpx.AsyncClient(timeout=httpx.Timeout(LONG, read=timeout), trust_env=False) as client:
            (await client.request(method, url, headers=headers)).raise_for_status()

    asyncio.run(call())


def _aiohttp(method: str, url: str, headers: dict[str, str], timeout: float = LONG) -> None:
    aiohttp = library("aiohttp")
    limits = aiohttp.ClientTimeout(sock_connect=LONG, sock_read=timeout)

    async def call() -> None:
        async with aiohttp.ClientSession(timeout=limits) as session:
            async with session.request(method, url, headers=headers) as response:
                await response.read()
                response.raise_for_status()

    asyncio.run(call())


Client = Callable[..., None]
CLIENTS: list[Client] = [_urllib, _http_client, _urllib3, _requests, _httpx, _httpx_async, _aiohttp]
#: These name the request's method on transport errors; the others lose it, and are retried.
METHOD_KNOWN = (_requests, _httpx, _httpx_async)

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.strip("_"))


def fails(
    client: Client,
    port: int,
    method: str = "GET",
    *,
    scheme: str = "http",
    timeout: float = LONG,
    **headers: str,
) -> BaseException:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return raised(lambda: client(method, f"{scheme}://127.0.0.1:{port}/", named, timeout))


@every_client
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refused_connection_is_retried_for_any_method(client: Client, method: str, refused: int) -> None:
    assert verdict(fails(client, refused, method)) == RETRY


@every_client
@pytest.mark.parametrize("act", [reset, close, "half", "garbage"], ids=["reset", "close", "half", "garbage"])
def test_lost_connection_is_retried(client: Client, act: Any) -> None:
    answer = {"half": HALF_A_BODY, "garbage": GARBAGE}.get(act) if isinstance(act, str) else reads_then(act)
    assert answer is not None
    with serving(answer) as port:
        assert verdict(fails(client, port)) == RETRY


@every_client
def test_read_timeout_is_a_timeout(client: Client) -> None:
    with serving(hang) as port:
        assert verdict(fails(client, port, timeout=SHORT)) == TIMEOUT


@pytest.mark.parametrize("client", METHOD_KNOWN, ids=lambda client: client.__name__.strip("_"))
@pytest.mark.parametrize(
    ("act", "timeout"), [(hang, SHORT), (reads_then(close), LONG)], ids=["timeout", "lost"]
)
def test_post_that_may_have_been_processed_needs_a_key(client: Client, act: Any, timeout: float) -> None:
    with serving(act) as port:
        error = fails(client, port, "POST", timeout=timeout)
        keyed = fails(client, port, "POST", timeout=timeout, Idempotency_Key="k-1")
    assert verdict(error) == FATAL
    assert "POST without an idempotency key" in transient(error).reason
    assert transient(keyed).retry


@every_client
@pytest.mark.parametrize(
    ("status", "retry"), [(500, True), (503, True), (501, False), (404, False), (401, False)]
)
def test_http_statuses_are_judged_by_the_table(client: Client, status: int, retry: bool) -> None:
    with serving(responds(f"{status} X")) as port:
        error = fails(client, port)
    assert verdict(error) == (RETRY if retry else FATAL)
    assert str(status) in transient(error).reason


@every_client
def test_throttled_post_is_retried_when_the_server_says(client: Client) -> None:
    with serving(responds("429 Slow Down", "Retry-After: 7")) as port:
        error = fails(client, port, "POST")
    assert transient(error) == Verdict(True, 7.0, "throttle", "HTTP 429")


@every_client
def test_longer_of_two_hints_counts(client: Client) -> None:
    with serving(responds("503 X", "Retry-After: 2", "Retry-After: 9")) as port:
        assert transient(fails(client, port)).after == 9.0


@every_client
def test_failed_post_is_not_repeated(client: Client) -> None:
    with serving(responds("503 X")) as port:
        assert verdict(fails(client, port, "POST")) == FATAL
        assert verdict(fails(client, port, "PUT")) == RETRY


@pytest.mark.parametrize(
    "client", [_requests, _httpx, _httpx_async, _aiohttp], ids=lambda c: c.__name__.strip("_")
)
def test_failed_post_with_a_key_is_repeated(client: Client) -> None:
    with serving(responds("503 X")) as port:
        assert verdict(fails(client, port, "POST", idempotency_key="k-1")) == RETRY


@every_client
def test_should_retry_header_wins_over_the_status(client: Client) -> None:
    with serving(responds("503 X", "X-Should-Retry: false")) as port:
        assert verdict(fails(client, port)) == PUSHED_BACK
    with serving(responds("404 X", "X-Should-Retry: true")) as port:
        assert verdict(fails(client, port)) == RETRY


@every_client
def test_untrusted_certificate_is_never_retried(client: Client, self_signed: ssl.SSLContext) -> None:
    with serving(reads_then(close), self_signed) as port:
        error = fails(client, port, scheme="https")
    assert verdict(error) == FATAL
    assert transient(error).reason == "TLS failure"


@every_client
def test_tls_to_a_server_that_speaks_none_is_not_retried(client: Client) -> None:
    with serving(reads_then(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"))) as port:
        assert verdict(fails(client, port, scheme="https")) == FATAL


@every_client
@pytest.mark.parametrize(
    ("code", "expected"), [(socket.EAI_AGAIN, RETRY), (socket.EAI_NONAME, FATAL)], ids=["again", "no-name"]
)
def test_only_a_temporary_dns_failure_is_retried(
    client: Client, code: int, expected: tuple[bool, str], dns: Callable[[int], None]
) -> None:
    dns(code)
    assert verdict(raised(lambda: client("POST", "http://service.example:80/", {}))) == expected


@pytest.mark.parametrize(
    "client", [_urllib, _urllib3, _requests, _httpx, _aiohttp], ids=lambda c: c.__name__.strip("_")
)
@pytest.mark.parametrize("url", ["nonsense", "ftp9://127.0.0.1/", "http://"])
def test_malformed_url_is_not_retried(client: Client, url: str) -> None:
    assert verdict(raised(lambda: client("GET", url, {}))) == FATAL


def test_redirect_loop_is_not_retried() -> None:
    with serving(responds("302 Found", "Location: /")) as port:
        for client in (_requests, _aiohttp):
            assert verdict(fails(client, port)) == FATAL
        httpx = library("httpx")
        with httpx.Client(follow_redirects=True, trust_env=False) as session:
            assert verdict(raised(lambda: session.get(f"http://127.0.0.1:{port}/"))) == FATAL


# --- responses as results -------------------------------------------------------------------------


def test_responses_are_judged_as_results() -> None:
    httpx, requests, urllib3 = library("httpx"), library("requests"), library("urllib3")
    with serving(responds("503 X", "Retry-After: 3")) as port:
        url = f"http://127.0.0.1:{port}/"
        expected = Verdict(True, 3.0, "transient", "HTTP 503")
        assert transient(httpx.get(url, trust_env=False)) == expected
        assert transient(requests.get(url, timeout=5)) == expected
        with urllib3.PoolManager(retries=False) as pool:
            assert transient(pool.request("GET", url)) == expected
        assert not transient(httpx.post(url, trust_env=False))
        assert not transient(requests.post(url, timeout=5))
    with serving(responds("200 OK")) as port:
        url = f"http://127.0.0.1:{port}/"
        assert not transient(httpx.get(url, trust_env=False))
        assert not transient(requests.get(url, timeout=5))


def test_aiohttp_response_is_judged_as_a_result() -> None:
    aiohttp = library("aiohttp")

    async def call(port: int, method: str) -> Verdict:
        async with aiohttp.ClientSession() as session:
            async with session.request(method, f"http://127.0.0.1:{port}/") as response:
                return transient(response)

    with serving(responds("503 X", "Retry-After: 3")) as port:
        assert asyncio.run(call(port, "GET")) == Verdict(True, 3.0, "transient", "HTTP 503")
        assert not asyncio.run(call(port, "POST"))


def test_mark_on_a_response_survives_raise_for_status() -> None:
    httpx, requests = library("httpx"), library("requests")
    with serving(responds("503 X")) as port:
        for get in (lambda url: httpx.get(url, trust_env=False), lambda url: requests.get(url, timeout=5)):
            response = get(f"http://127.0.0.1:{port}/")
            token = Mark("inner", object(), 4)
            mark(response, token)
            error = raised(response.raise_for_status)
            assert exhausted_by(error) is token
            assert exhausted_by(response) is token
            assert transient(error).reason == transient(response).reason == "exhausted by inner"
            assert not transient(error)


def test_httpx_errors_without_a_request_are_judged_by_their_type() -> None:
    httpx = library("httpx")
    assert verdict(httpx.ReadTimeout("x")) == TIMEOUT
    assert verdict(httpx.PoolTimeout("x", request=httpx.Request("POST", "http://h/"))) == TIMEOUT
    assert verdict(httpx.ConnectTimeout("x", request=httpx.Request("POST", "http://h/"))) == TIMEOUT
    assert verdict(httpx.UnsupportedProtocol("x")) == FATAL
    assert verdict(httpx.LocalProtocolError("x")) == FATAL
    assert verdict(httpx.DecodingError("x")) == FATAL
    assert verdict(httpx.ProxyError("503 Service Unavailable")) == RETRY
    assert verdict(httpx.ProxyError("407 Proxy Authentication Required")) == FATAL
    assert not transient(httpx.Response(200))


def test_tunnel_that_the_proxy_refuses_is_judged_by_its_status() -> None:
    urllib3, httpx = library("urllib3"), library("httpx")
    for status, expected in ((503, RETRY), (407, FATAL)):
        with serving(responds(f"{status} No")) as port:
            with urllib3.ProxyManager(f"http://127.0.0.1:{port}", retries=False) as pool:
                assert (
                    verdict(raised(lambda pool=pool: pool.request("POST", "https://h.example/"))) == expected
                )
            with httpx.Client(proxy=f"http://127.0.0.1:{port}") as client:
                assert verdict(raised(lambda client=client: client.post("https://h.example/"))) == expected


def test_error_that_urllib3_has_retried_is_final() -> None:
    urllib3 = library("urllib3")
    retries = urllib3.Retry(total=1, status_forcelist=[503], backoff_factor=0)
    with serving(responds("503 X")) as port, urllib3.PoolManager(retries=retries) as pool:
        error = raised(lambda: pool.request("GET", f"http://127.0.0.1:{port}/"))
    assert verdict(error) == FATAL
    assert "already retried" in transient(error).reason


def test_empty_urllib3_pool_is_busy_before_anything_was_sent() -> None:
    urllib3 = library("urllib3")
    with urllib3.HTTPConnectionPool("127.0.0.1", 1, maxsize=1, block=True) as pool:
        pool._get_conn()
        error = raised(lambda: pool.request("POST", "/", pool_timeout=0.01, retries=False))
    assert verdict(error) == TIMEOUT


# --- asyncio and trio -----------------------------------------------------------------------------


def test_several_refused_addresses_are_one_refusal(refused: int) -> None:
    async def connect() -> None:
        await asyncio.open_connection("localhost", refused)

    assert verdict(raised_async(connect)) == RETRY


def test_trio_errors_are_judged() -> None:
    trio = library("trio")

    async def connect(port: int) -> None:
        await trio.open_tcp_stream("localhost", port)

    async def too_slow() -> None:
        with trio.fail_after(0):
            await trio.sleep_forever()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert verdict(raised(lambda: trio.run(connect, port))) == RETRY
    assert verdict(raised(lambda: trio.run(too_slow))) == TIMEOUT


def test_asyncio_timeouts_and_cut_streams_are_judged() -> None:
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    async def cut(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await reader.readexactly(10)
        finally:
            writer.close()

    assert verdict(raised_async(slow)) == TIMEOUT
    with serving(says(b"abc")) as port:
        assert verdict(raised_async(lambda: cut(port))) == RETRY


# --- websockets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (1000, FATAL),
        (1001, RETRY),
        (1008, FATAL),
        (1011, RETRY),
        (1012, RETRY),
        (1013, THROTTLE),
        (4001, FATAL),
    ],
)
def test_websocket_close_codes_are_judged(code: int, expected: tuple[bool, str]) -> None:
    library("websockets")
    from websockets.sync.client import connect
    from websockets.sync.server import serve

    with serve(lambda peer: peer.close(code), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.socket.getsockname()[1]
            with connect(f"ws://127.0.0.1:{port}", proxy=None) as client:
                error = raised(client.recv)
        finally:
            server.shutdown()
            thread.join(30)
    assert verdict(error) == expected


def test_websocket_handshake_errors_are_judged(refused: int) -> None:
    library("websockets")
    from websockets.sync.client import connect

    def fail(port: int) -> BaseException:
        return raised(lambda: connect(f"ws://127.0.0.1:{port}", proxy=None, open_timeout=1))

    assert verdict(fail(refused)) == RETRY
    with serving(responds("503 X", "Retry-After: 4")) as port:
        assert transient(fail(port)) == Verdict(True, 4.0, "transient", "HTTP 503")
    with serving(responds("403 X")) as port:
        assert verdict(fail(port)) == FATAL
    with serving(reads_then(close)) as port:
        assert verdict(fail(port)) == RETRY
    with serving(GARBAGE) as port:
        assert verdict(fail(port)) == FATAL
    assert verdict(raised(lambda: connect("http://127.0.0.1/", proxy=None))) == FATAL


# --- gRPC -----------------------------------------------------------------------------------------


def _grpc_failing(code: str, *trailers: tuple[str, str]) -> BaseException:
    grpc = library("grpc")
    from concurrent.futures import ThreadPoolExecutor

    def handle(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata(trailers)
        context.abort(grpc.StatusCode[code], "no")
        return b""

    handlers = {"Call": grpc.unary_unary_rpc_method_handler(handle)}
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                return raised(lambda: channel.unary_unary("/t.T/Call")(b"", timeout=5))
        finally:
            server.stop(0).wait(5)


PUSHBACK = "grpc-retry-pushback-ms"


@pytest.mark.parametrize(
    ("code", "trailers", "expected"),
    [
        ("UNAVAILABLE", (), Verdict(True, None, "transient", "gRPC UNAVAILABLE")),
        ("UNAVAILABLE", ((PUSHBACK, "250"),), Verdict(True, 0.25, "transient", "gRPC UNAVAILABLE")),
        ("RESOURCE_EXHAUSTED", (), Verdict(False, None, "fatal", "gRPC RESOURCE_EXHAUSTED")),
        ("RESOURCE_EXHAUSTED", ((PUSHBACK, "0"),), Verdict(True, 0.0, "throttle", "gRPC RESOURCE_EXHAUSTED")),
        ("DEADLINE_EXCEEDED", (), Verdict(False, None, "fatal", "gRPC DEADLINE_EXCEEDED")),
        ("INTERNAL", ((PUSHBACK, "5"),), Verdict(False, 0.005, "fatal", "gRPC INTERNAL")),
    ],
)
def test_grpc_codes_are_judged(code: str, trailers: tuple[tuple[str, str], ...], expected: Verdict) -> None:
    assert transient(_grpc_failing(code, *trailers)) == expected


@pytest.mark.parametrize("trailers", [((PUSHBACK, "-1"),), ((PUSHBACK, "x"),)])
def test_grpc_do_not_retry_pushback_is_fatal(trailers: tuple[tuple[str, str], ...]) -> None:
    assert verdict(_grpc_failing("UNAVAILABLE", *trailers)) == (False, "pushback")


def test_wide_grpc_codes_are_opt_in() -> None:
    wide = transient.with_(grpc_codes="wide")
    assert wide(_grpc_failing("DEADLINE_EXCEEDED")).kind == "timeout"
    assert wide(_grpc_failing("RESOURCE_EXHAUSTED")).kind == "throttle"
    assert not wide(_grpc_failing("INTERNAL"))


def test_grpc_without_a_server_is_retryable(refused: int) -> None:
    grpc = library("grpc")
    with grpc.insecure_channel(f"127.0.0.1:{refused}") as channel:
        assert verdict(raised(lambda: channel.unary_unary("/t.T/Call")(b"", timeout=5))) == RETRY
        streamed = channel.unary_stream("/t.T/Call")(b"", timeout=5)
        assert verdict(raised(lambda: list(streamed))) == RETRY

    async def call() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{refused}") as channel:
            await channel.unary_unary("/t.T/Call")(b"", timeout=5)

    assert verdict(raised_async(call)) == RETRY


def test_grpc_aio_pushback_is_read() -> None:
    grpc = library("grpc")

    def fails_with(*trailers: tuple[str, str]) -> BaseException:
        metadata = grpc.aio.Metadata(*trailers)
        return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), metadata, "down")

    assert transient(fails_with((PUSHBACK, "40"))).after == 0.04
    assert verdict(fails_with((PUSHBACK, "-1"))) == (False, "pushback")
    assert verdict(fails_with((PUSHBACK, "1"), (PUSHBACK, "2"))) == (False, "pushback")


def test_grpc_to_an_untrusted_server_is_fatal(self_signed: ssl.SSLContext) -> None:
    grpc = library("grpc")
    self_signed.set_alpn_protocols(["h2"])
    with serving(hang, self_signed) as port:
        with grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials()) as channel:
            error = raised(lambda: channel.unary_unary("/t.T/Call")(b"", timeout=5))
    assert verdict(error) == FATAL
    assert transient(error).reason == "TLS failure"


# --- databases ------------------------------------------------------------------------------------


def postgres_says(state: str, text: str) -> Callable[[socket.socket], None]:
    """Answer a start-up message as PostgreSQL refuses one."""

    def answer(peer: socket.socket) -> None:
        asked = peer.recv(65536)
        if asked[4:8] == struct.pack("!I", 80877103):  # first: "may we speak TLS?"
            peer.sendall(b"N")
            peer.recv(65536)
        fields = f"SFATAL\0VFATAL\0C{state}\0M{text}\0\0".encode()
        peer.sendall(b"E" + struct.pack("!I", len(fields) + 4) + fields)

    return answer


def _psycopg(port: int) -> BaseException:
    psycopg = library("psycopg")
    return raised(
        lambda: psycopg.connect(host="127.0.0.1", port=port, user="u", dbname="d", connect_timeout=5)
    )


def _psycopg2(port: int) -> BaseException:
    psycopg2 = library("psycopg2")
    return raised(
        lambda: psycopg2.connect(host="127.0.0.1", port=port, user="u", dbname="d", connect_timeout=5)
    )


def _asyncpg(port: int) -> BaseException:
    asyncpg = library("asyncpg")
    return raised_async(
        lambda: asyncpg.connect(host="127.0.0.1", port=port, user="u", database="d", timeout=5)
    )


def _sqlalchemy(port: int) -> BaseException:
    sqlalchemy = library("sqlalchemy")
    library("psycopg")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://u@127.0.0.1:{port}/d")
    try:
        return raised(engine.connect)
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    "connect", [_psycopg, _psycopg2, _asyncpg, _sqlalchemy], ids=lambda c: c.__name__.strip("_")
)
def test_unreachable_postgres_is_retried(connect: Callable[[int], BaseException], refused: int) -> None:
    assert verdict(connect(refused)) == RETRY
    with serving(reads_then(close)) as port:
        assert verdict(connect(port)) == RETRY


@pytest.mark.parametrize(
    "connect", [_psycopg, _psycopg2, _asyncpg, _sqlalchemy], ids=lambda c: c.__name__.strip("_")
)
@pytest.mark.parametrize(
    ("state", "text", "retry"),
    [
        ("57P03", "the database system is starting up", True),
        ("53300", "sorry, too many clients already", True),
        ("28P01", 'password authentication failed for user "u"', False),
        ("3D000", 'database "d" does not exist', False),
    ],
)
def test_refusals_of_postgres_are_judged_by_sqlstate(
    connect: Callable[[int], BaseException], state: str, text: str, retry: bool
) -> None:
    with serving(postgres_says(state, text)) as port:
        assert transient(connect(port)).retry is retry


@pytest.mark.parametrize(
    ("name", "retry"),
    [
        ("SerializationFailure", True),
        ("DeadlockDetected", True),
        ("LockNotAvailable", True),
        ("AdminShutdown", True),
        ("UniqueViolation", False),
        ("QueryCanceled", False),
        ("SyntaxError", False),
        ("InvalidPassword", False),
    ],
)
def test_postgres_errors_are_judged_by_class(name: str, retry: bool) -> None:
    for driver in ("psycopg.errors", "psycopg2.errors"):
        library(driver.partition(".")[0])
        error = getattr(pytest.importorskip(driver), name)("no")
        assert transient(error).retry is retry


def test_asyncpg_errors_are_judged_by_class() -> None:
    errors = library("asyncpg").exceptions
    assert verdict(errors.SerializationError("x")) == RETRY
    assert verdict(errors.DeadlockDetectedError("x")) == RETRY
    assert verdict(errors.ConnectionDoesNotExistError("x")) == RETRY
    assert verdict(errors.InterfaceError("cannot perform operation: connection is closed")) == RETRY
    assert verdict(errors.TooManyConnectionsError("x")) == THROTTLE
    assert verdict(errors.UniqueViolationError("x")) == FATAL
    assert verdict(errors.InterfaceError("the statement takes 1 argument")) == FATAL


def test_locked_sqlite_is_retried(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with (
        contextlib.closing(sqlite3.connect(path)) as one,
        contextlib.closing(sqlite3.connect(path, timeout=0)) as two,
    ):
        one.execute("create table t (x)")
        one.execute("begin immediate")
        error = raised(lambda: two.execute("insert into t values (1)"))
        one.rollback()
        assert verdict(error) == RETRY
        assert verdict(raised(lambda: two.execute("insert into nowhere values (1)"))) == FATAL
        two.execute("create unique index i on t (x)")
        two.execute("insert into t values (1)")
        assert verdict(raised(lambda: two.execute("insert into t values (1)"))) == FATAL
    assert verdict(sqlite3.OperationalError("database is locked")) == RETRY
    assert verdict(sqlite3.OperationalError("no such table: locked")) == FATAL


def test_sqlalchemy_errors_of_a_locked_sqlite_are_judged(tmp_path: Path) -> None:
    sqlalchemy = library("sqlalchemy")
    path = tmp_path / "db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
    with contextlib.closing(sqlite3.connect(path)) as one:
        one.execute("create table t (x)")
        one.execute("begin immediate")
        with engine.connect() as two:
            error = raised(lambda: two.execute(sqlalchemy.text("insert into t values (1)")))
            wrong = raised(lambda: two.execute(sqlalchemy.text("insert into nowhere values (1)")))
    engine.dispose()
    assert verdict(error) == RETRY
    assert verdict(wrong) == FATAL


def test_sqlalchemy_pool_errors_and_disconnects_are_judged() -> None:
    sqlalchemy = library("sqlalchemy")
    engine = sqlalchemy.create_engine(
        "sqlite://", poolclass=sqlalchemy.pool.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    with engine.connect():
        assert verdict(raised(engine.connect)) == TIMEOUT
    engine.dispose()
    exc = sqlalchemy.exc
    driver = RuntimeError("gone")
    assert verdict(exc.OperationalError("select 1", {}, driver)) == FATAL
    assert verdict(exc.OperationalError("select 1", {}, driver, connection_invalidated=True)) == RETRY
    assert verdict(exc.InvalidRequestError("x")) == FATAL


def mysql_says(number: int, text: str) -> Callable[[socket.socket], None]:
    """Greet as MySQL does when it will not talk: an error packet instead of a handshake."""
    payload = b"\xff" + struct.pack("<H", number) + text.encode()
    return says(struct.pack("<I", len(payload))[:3] + b"\x00" + payload)


def _pymysql(port: int) -> BaseException:
    pymysql = library("pymysql")
    return raised(
        lambda: pymysql.connect(host="127.0.0.1", port=port, user="u", password="p", connect_timeout=5)
    )


def _mysql_connector(port: int) -> BaseException:
    connector = library("mysql.connector")
    given = {"host": "127.0.0.1", "port": port, "user": "u", "password": "p", "connection_timeout": 5}
    return raised(lambda: connector.connect(**given, use_pure=True))


@pytest.mark.parametrize("connect", [_pymysql, _mysql_connector], ids=lambda c: c.__name__.strip("_"))
def test_mysql_errors_are_judged(connect: Callable[[int], BaseException], refused: int) -> None:
    assert verdict(connect(refused)) == RETRY
    with serving(close) as port:
        assert verdict(connect(port)) == RETRY
    with serving(mysql_says(1040, "Too many connections")) as port:
        assert verdict(connect(port)) == THROTTLE
    with serving(mysql_says(1130, "Host is not allowed to connect")) as port:
        assert verdict(connect(port)) == FATAL


def test_mysql_with_an_unknown_host_is_fatal(dns: Callable[[int], None]) -> None:
    pymysql = library("pymysql")

    def connect() -> BaseException:
        return raised(lambda: pymysql.connect(host="db.example", user="u", password="p"))

    dns(socket.EAI_NONAME)
    assert verdict(connect()) == FATAL
    dns(socket.EAI_AGAIN)
    assert verdict(connect()) == RETRY


@pytest.mark.parametrize(
    ("number", "retry"),
    [(1213, True), (1205, True), (2006, True), (2013, True), (1062, False), (1045, False), (1064, False)],
)
def test_mysql_errors_are_judged_by_number(number: int, retry: bool) -> None:
    pymysql, connector = library("pymysql"), library("mysql.connector")
    assert transient(pymysql.err.OperationalError(number, "no")).retry is retry
    assert transient(connector.errors.get_mysql_exception(number, "no")).retry is retry


def test_errors_of_mysql_clients_are_judged() -> None:
    pymysql, connector = library("pymysql"), library("mysql.connector")
    assert verdict(pymysql.err.InterfaceError(0, "")) == RETRY
    assert verdict(connector.errors.PoolError("Failed getting connection; pool exhausted")) == THROTTLE
    assert verdict(connector.errors.PoolError("Connection configuration not valid")) == FATAL
    assert verdict(connector.errors.ReadTimeoutError()) == TIMEOUT
    assert verdict(connector.errors.ConnectionTimeoutError()) == TIMEOUT


# --- Redis ----------------------------------------------------------------------------------------


def redis_says(reply: bytes) -> Callable[[socket.socket], None]:
    def answer(peer: socket.socket) -> None:
        while asked := peer.recv(65536):
            peer.sendall(reply * max(1, asked.count(b"*")))

    return answer


def _redis(port: int, timeout: float = LONG, **options: Any) -> BaseException:
    redis = library("redis")
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    given = {"socket_timeout": timeout, "retry": retry, "protocol": 2}
    with redis.Redis(host="127.0.0.1", port=port, **given, **options) as client:
        return raised(lambda: client.get("key"))


def test_redis_errors_are_judged(refused: int) -> None:
    assert verdict(_redis(refused)) == RETRY
    with serving(reads_then(close)) as port:
        assert verdict(_redis(port)) == RETRY
    with serving(hang) as port:
        assert verdict(_redis(port, SHORT)) == TIMEOUT
    with serving(redis_says(b"-LOADING Redis is loading the dataset in memory\r\n")) as port:
        assert verdict(_redis(port)) == THROTTLE
    with serving(redis_says(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")) as port:
        assert verdict(_redis(port, password="p")) == FATAL
    with serving(
        redis_says(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
    ) as port:
        assert verdict(_redis(port)) == FATAL


def test_redis_errors_are_judged_by_class() -> None:
    errors = library("redis").exceptions
    assert issubclass(errors.AuthenticationError, errors.ConnectionError)
    assert verdict(errors.AuthenticationError("x")) == FATAL
    assert verdict(errors.AuthorizationError("x")) == FATAL
    assert verdict(errors.ResponseError("x")) == FATAL
    assert verdict(errors.ClusterDownError("x")) == THROTTLE
    assert verdict(errors.TryAgainError("x")) == THROTTLE


def test_redis_tls_and_dns_errors_are_fatal(self_signed: ssl.SSLContext, dns: Callable[[int], None]) -> None:
    with serving(close, self_signed) as port:
        assert verdict(_redis(port, ssl=True)) == FATAL
    dns(socket.EAI_NONAME)
    assert verdict(_redis(1)) == FATAL


# --- AWS ------------------------------------------------------------------------------------------


def _aws(port: int, scheme: str = "http", timeout: float = LONG) -> BaseException:
    session = library("botocore.session")
    config = library("botocore.config").Config(
        retries={"total_max_attempts": 1}, read_timeout=timeout, connect_timeout=timeout, proxies={}
    )
    client = session.Session().create_client(
        "dynamodb",
        region_name="eu-west-1",
        endpoint_url=f"{scheme}://127.0.0.1:{port}",
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        config=config,
    )
    try:
        return raised(client.list_tables)
    finally:
        client.close()
        gc.collect()


def aws_says(status: int, code: str, *headers: str) -> Callable[[socket.socket], None]:
    body = f'{{"__type":"com.amazonaws.dynamodb#{code}","message":"no"}}'.encode()
    return responds(f"{status} X", "Content-Type: application/x-amz-json-1.0", *headers, body=body)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "ThrottlingException", THROTTLE),
        (400, "ProvisionedThroughputExceededException", THROTTLE),
        (400, "RequestTimeoutException", RETRY),
        (500, "InternalServerError", RETRY),
        (503, "ServiceUnavailable", RETRY),
        (400, "ValidationException", FATAL),
        (400, "AccessDeniedException", FATAL),
        (400, "ResourceNotFoundException", FATAL),
    ],
)
def test_aws_error_codes_are_judged(status: int, code: str, expected: tuple[bool, str]) -> None:
    with serving(aws_says(status, code)) as port:
        assert verdict(_aws(port)) == expected


def test_aws_hint_and_connection_errors_are_judged(refused: int, self_signed: ssl.SSLContext) -> None:
    with serving(aws_says(400, "ThrottlingException", "x-amz-retry-after: 1500")) as port:
        assert transient(_aws(port)).after == 1.5
    assert verdict(_aws(refused)) == RETRY
    with serving(reads_then(close)) as port:
        assert verdict(_aws(port)) == RETRY
    with serving(hang) as port:
        assert verdict(_aws(port, timeout=SHORT)) == TIMEOUT
    with serving(close, self_signed) as port:
        assert verdict(_aws(port, "https")) == FATAL
    assert verdict(library("botocore.exceptions").NoCredentialsError()) == FATAL


def test_aws_dns_error_is_fatal(dns: Callable[[int], None]) -> None:
    dns(socket.EAI_NONAME)
    assert verdict(_aws(1)) == FATAL


# --- OpenAI and Anthropic -------------------------------------------------------------------------


def _openai(port: int, scheme: str = "http", timeout: float = LONG) -> BaseException:
    openai = library("openai")
    base = f"{scheme}://127.0.0.1:{port}/v1"
    with openai.OpenAI(api_key="k", base_url=base, max_retries=0, timeout=timeout) as client:
        return raised(lambda: client.chat.completions.create(model="m", messages=[]))


def _anthropic(port: int, scheme: str = "http", timeout: float = LONG) -> BaseException:
    anthropic = library("anthropic")
    base = f"{scheme}://127.0.0.1:{port}"
    with anthropic.Anthropic(api_key="k", base_url=base, max_retries=0, timeout=timeout) as client:
        return raised(lambda: client.messages.create(model="m", max_tokens=1, messages=[]))


SDKS = pytest.mark.parametrize("sdk", [_openai, _anthropic], ids=lambda sdk: sdk.__name__.strip("_"))


@SDKS
def test_sdk_posts_are_repeated(sdk: Callable[..., BaseException], refused: int) -> None:
    assert verdict(sdk(refused)) == RETRY
    with serving(reads_then(close)) as port:
        assert verdict(sdk(port)) == RETRY
    with serving(hang) as port:
        assert verdict(sdk(port, timeout=SHORT)) == TIMEOUT
    with serving(responds("529 Overloaded", "retry-after-ms: 250", "retry-after: 9")) as port:
        assert transient(sdk(port)) == Verdict(True, 0.25, "transient", "HTTP 529")
    with serving(responds("429 X", "retry-after: 9")) as port:
        assert transient(sdk(port)) == Verdict(True, 9.0, "throttle", "HTTP 429")


@SDKS
def test_sdk_refusals_are_fatal(sdk: Callable[..., BaseException], self_signed: ssl.SSLContext) -> None:
    for status in (400, 401, 403, 404, 409, 422):
        with serving(responds(f"{status} X")) as port:
            assert verdict(sdk(port)) == FATAL
    with serving(responds("500 X", "x-should-retry: false")) as port:
        assert verdict(sdk(port)) == PUSHED_BACK
    with serving(responds("409 X", "x-should-retry: true")) as port:
        assert verdict(sdk(port)) == RETRY
    with serving(close, self_signed) as port:
        assert verdict(sdk(port, "https")) == FATAL


def test_sdk_errors_inside_a_stream_are_judged() -> None:
    anthropic = library("anthropic")
    body = b'event: error\ndata: {"type":"error","error":{"type":"%s","message":"no"}}\n\n'
    for name, expected in ((b"overloaded_error", RETRY), (b"invalid_request_error", FATAL)):
        with serving(responds("200 OK", "Content-Type: text/event-stream", body=body % name)) as port:
            with anthropic.Anthropic(
                api_key="k", base_url=f"http://127.0.0.1:{port}", max_retries=0
            ) as client:
                stream = client.messages.create(model="m", max_tokens=1, messages=[], stream=True)
                assert verdict(raised(lambda stream=stream: list(stream))) == expected


# --- names only -----------------------------------------------------------------------------------


def test_valkey_is_known_by_the_same_names() -> None:
    """valkey-py is a fork of redis-py with the same exceptions; this checks the table, not the library."""
    module = types.ModuleType("valkey.exceptions")
    exec("class ValkeyError(Exception): ...\nclass ConnectionError(ValkeyError): ...", module.__dict__)
    assert verdict(module.ConnectionError("x")) == RETRY
    assert verdict(module.ValkeyError("x")) == FATAL
