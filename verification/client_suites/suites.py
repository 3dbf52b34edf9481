"""Which suites there are, what they need, and what a policy changes in them, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """One library's own suite.

    ``differences``: tests that pass plain and fail with a policy, by the end of their id, and where that is
    documented. ``tests`` are the files that make requests with a client.
    """

    name: str
    requirement: str
    needs: tuple[str, ...]
    tests: tuple[str, ...]
    #: Folders of the source distribution that the tests read.
    folders: tuple[str, ...] = ("tests",)
    differences: dict[str, str] = field(default_factory=dict)


#: docs/requests.md, "urllib3": the library's own retries are off, and errors come out as they are.
_NO_MAX_RETRY_ERROR = "urllib3's own retries are off: the error itself is raised, without MaxRetryError"

_SCHEMES = ("http", "https", "ws", "wss")

_ALL = (
    Suite(
        "httpx",
        "httpx[brotli,cli,http2,socks,zstd]==0.28.*",
        ("uvicorn", "trustme", "chardet", "trio"),
        ("tests",),
    ),
    Suite("requests", "requests[socks]==2.34.*", ("pytest-httpbin", "pytest-mock", "trustme"), ("tests",)),
    Suite(
        "urllib3",
        "urllib3[brotli,h2,socks,zstd]==2.8.*",
        (
            *("trio", "quart", "quart-trio", "hypercorn", "trustme", "cryptography", "pyOpenSSL"),
            *("idna", "httpx", "coverage"),
        ),
        (
            "test/test_poolmanager.py",
            "test/test_proxymanager.py",
            "test/with_dummyserver/test_poolmanager.py",
            "test/with_dummyserver/test_proxy_poolmanager.py",
            "test/with_dummyserver/test_socketlevel.py",
            "test/with_dummyserver/test_https.py",
            "test/with_dummyserver/test_chunked_transfer.py",
        ),
        ("test", "dummyserver"),
        dict.fromkeys(
            (
                "::test_proxy_connect_retry",
                "::test_raise_on_status",
                "::test_forwarding_proxy_request_timeout[http-http-False]",
                "::test_forwarding_proxy_request_timeout[https-http-False]",
                "::test_forwarding_proxy_request_timeout[https-https-True]",
                "::test_tunneling_proxy_request_timeout[http-https]",
                "::test_tunneling_proxy_request_timeout[https-https]",
                "::test_proxy_conn_fail_from_dns[http-http]",
                "::test_proxy_conn_fail_from_dns[http-https]",
                "::test_proxy_conn_fail_from_dns[https-http]",
                "::test_proxy_conn_fail_from_dns[https-https]",
                "TestProxyManager::test_debuglevel",
                "TestProxyManager::test_early_eof_doesnt_cause_infinite_loop",
                "TestProxyManager::test_header_longer_than_maxline",
                "TestProxyManager::test_tunnel_sets_http_11_alpn",
            ),
            _NO_MAX_RETRY_ERROR,
        ),
    ),
    Suite(
        "aiohttp",
        "aiohttp==3.14.*",
        (
            *("pytest-mock", "freezegun", "time-machine", "re-assert", "blockbuster", "proxy.py", "trustme"),
            *("pytest-codspeed", "isal", "zlib-ng", "python-on-whales", "coverage", "pytest-cov"),
        ),
        (
            "tests/test_client_functional.py",
            "tests/test_client_session.py",
            "tests/test_client_middleware.py",
            "tests/test_client_middleware_digest_auth.py",
            "tests/test_client_ws.py",
            "tests/test_client_ws_functional.py",
            "tests/test_client_request.py",
            "tests/test_client_response.py",
            "tests/test_connector.py",
            "tests/test_proxy.py",
            "tests/test_proxy_functional.py",
            "tests/test_tracing.py",
        ),
        ("tests",),
        {
            **dict.fromkeys(
                (
                    "::test_connection_timeout_error[pyloop]",
                    "::test_upload_tracker_connect_error[pyloop]",
                    "::test_upload_tracker_redirect_to_unreachable_host[pyloop]",
                    "::test_proxy_https_bad_response[pyloop]",
                    "::test_proxy_from_env_auth_scoped_to_redirect_selected_proxy[pyloop]",
                ),
                "counts connects or requests: the policy makes two attempts",
            ),
            **dict.fromkeys(
                (
                    "::test_reraise_os_error[pyloop]",
                    "::test_close_conn_on_error[pyloop]",
                    *(f"::test_ws_connect_allowed_protocols[pyloop-{scheme}]" for scheme in _SCHEMES),
                    *(
                        f"::test_ws_connect_unix_socket_allowed_protocols[pyloop-{scheme}]"
                        for scheme in (*_SCHEMES, "unix")
                    ),
                ),
                "has a mock in place of aiohttp's request or response, without status or timer",
            ),
        },
    ),
)
SUITES = {suite.name: suite for suite in _ALL}
