"""The classifier: the tables, the rules around them, and objects that misbehave.

Libraries are imitated by name here; `tests/integration` has the real ones.
"""

from __future__ import annotations

import abc
import asyncio
import concurrent.futures
import copy
import errno
import gc
import http.client
import json
import math
import os
import pickle
import socket
import sqlite3
import ssl
import urllib.error
import weakref
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from tests.support.http_errors import http_error

from stormproof._classify.classifier import Classifier, ClassifierSettings, transient
from stormproof._classify.exhaustion import Mark, exhausted_by, mark
from stormproof._classify.verdict import Verdict
from stormproof._primitives import errors

RETRY, TIMEOUT, FATAL = (True, "transient"), (True, "timeout"), (False, "fatal")


def verdict(outcome: object) -> tuple[bool, str]:
    found = transient(outcome)
    return found.retry, found.kind


def imitate(name: str, *bases: type, **members: Any) -> Any:
    """A class as if ``name`` ("httpx.Response") came from that library."""
    module, _, qualname = name.rpartition(".")
    kind = type(qualname, bases or (Exception,), {**members, "__module__": module})
    return kind


class Request:
    def __init__(self, method: Any = "GET", headers: Any = None) -> None:
        self.method = method
        self.headers = {} if headers is None else headers


class Body:
    """The state of an imitated response."""

    def __init__(self, status: Any, headers: Any = None, request: Any = None) -> None:
        self.status_code = status
        self.headers = {} if headers is None else headers
        self.request = request
        self.extensions: dict[str, Any] = {}


Response = imitate("httpx.Response", Body)
ReadError = imitate("httpx.ReadError")
ConnectError = imitate("httpx.ConnectError")


class StatusError(imitate("httpx.HTTPStatusError")):  # type: ignore[misc]
    def __init__(self, response: Any) -> None:
        super().__init__("status")
        self.response = response


# --- verdicts -------------------------------------------------------------------------------------


def test_verdict_is_true_when_it_says_retry() -> None:
    assert Verdict(True) and Verdict.RETRY
    assert not Verdict(False) and not Verdict.FATAL
    assert (Verdict.RETRY.kind, Verdict.FATAL.kind) == ("transient", "fatal")
    assert Verdict.RETRY.after is None and Verdict.RETRY.reason == ""


def test_verdict_is_a_frozen_value() -> None:
    made = Verdict(True, 2, "throttle", "HTTP 429")
    assert made == Verdict(True, timedelta(seconds=2), "throttle", "HTTP 429")
    assert hash(made) == hash(Verdict(True, 2.0, "throttle", "HTTP 429"))
    assert eval(repr(made), {"Verdict": Verdict}) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert Verdict(True, math.inf).after == math.inf
    with pytest.raises(AttributeError):
        made.retry = False


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((1,), "retry"),
        ((None,), "retry"),
        ((True, -1), "after"),
        ((True, math.nan), "after"),
        ((True, True), "after"),
        ((True, "5"), "after"),
        ((True, None, "odd"), "kind"),
        ((True, None, "fatal"), "kind"),
        ((True, None, "pushback"), "kind"),
        ((True, None, None, 5), "reason"),
    ],
)
def test_bad_verdict_is_refused_by_name(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Verdict: {named}"):
        Verdict(*arguments)


# --- network --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(), RETRY),
        (ConnectionResetError(), RETRY),
        (ConnectionAbortedError(), RETRY),
        (BrokenPipeError(), RETRY),
        (ConnectionError("custom"), RETRY),
        (TimeoutError(), TIMEOUT),
        (concurrent.futures.TimeoutError(), TIMEOUT),
        (OSError(errno.ETIMEDOUT, "x"), TIMEOUT),
        (OSError(errno.ECONNREFUSED, "x"), RETRY),
        (OSError(errno.EHOSTUNREACH, "x"), RETRY),
        (OSError(errno.ENETUNREACH, "x"), RETRY),
        (OSError(errno.ENETDOWN, "x"), RETRY),
        (socket.gaierror(socket.EAI_AGAIN, "x"), RETRY),
        (http.client.RemoteDisconnected("x"), RETRY),
        (http.client.IncompleteRead(b"x"), RETRY),
        (http.client.BadStatusLine("x"), RETRY),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), RETRY),
        (urllib.error.URLError(ConnectionRefusedError()), RETRY),
        (urllib.error.URLError(TimeoutError()), TIMEOUT),
        (urllib.error.ContentTooShortError("x", None), RETRY),  # type: ignore[arg-type]
        (asyncio.IncompleteReadError(b"x", 5), RETRY),
    ],
)
def test_transient_network_errors_are_retried(error: Exception, expected: tuple[bool, str]) -> None:
    assert verdict(error) == expected


@pytest.mark.parametrize(
    "error",
    [
        Exception("x"),
        ValueError("x"),
        KeyError("x"),
        RuntimeError("x"),
        EOFError("x"),
        OSError("nothing is known"),
        OSError(errno.ENOSPC, "x"),
        OSError(errno.EMFILE, "x"),
        FileNotFoundError(errno.ENOENT, "x"),
        PermissionError(errno.EACCES, "x"),
        InterruptedError(errno.EINTR, "x"),
        BlockingIOError(errno.EAGAIN, "x"),
        IsADirectoryError(errno.EISDIR, "x"),
        socket.gaierror(socket.EAI_NONAME, "x"),
        socket.gaierror("x"),
        socket.herror(2, "x"),
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
        ssl.CertificateError("hostname mismatch"),
        ssl.SSLError(1, "wrong version number"),
        http.client.InvalidURL("x"),
        http.client.CannotSendRequest(),
        http.client.LineTooLong("x"),
        urllib.error.URLError("unknown url type: ftp9"),
        urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "x")),
        urllib.error.URLError(ssl.SSLCertVerificationError(1, "x")),
        urllib.error.URLError(FileNotFoundError(errno.ENOENT, "x")),
        StopIteration(),
        AssertionError(),
        NotImplementedError(),
        RecursionError(),
        MemoryError(),
        concurrent.futures.CancelledError(),
    ],
)
def test_fatal_error_is_not_retried(error: Exception) -> None:
    assert verdict(error) == FATAL


def test_dns_code_is_not_mistaken_for_an_errno() -> None:
    for number in (errno.ECONNRESET, errno.ECONNREFUSED, errno.ETIMEDOUT):
        assert verdict(socket.gaierror(number, "x")) == FATAL
        assert verdict(ssl.SSLError(number, "x")) == FATAL


def test_subclass_is_judged_as_its_nearest_known_base() -> None:
    class Backend(ConnectionError): ...

    class Slow(Backend, TimeoutError): ...

    assert verdict(Backend("x")) == RETRY
    assert verdict(Slow("x")) == RETRY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] a, [Errno {errno.ENETUNREACH}] b", RETRY),
        (f"Multiple exceptions: [Errno {errno.ETIMEDOUT}] a", TIMEOUT),
        (f"Multiple exceptions: [Errno {errno.ETIMEDOUT}] a, [Errno {errno.ECONNREFUSED}] b", RETRY),
        (f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] a, [Errno {errno.EACCES}] b", FATAL),
        ("Multiple exceptions: [Errno x] a", FATAL),
        ("Multiple exceptions: [Errno ²] a", FATAL),
        ("Multiple exceptions: ", FATAL),
        (f"Other: [Errno {errno.ECONNREFUSED}] a", FATAL),
        ("Tunnel connection failed: 503 Service Unavailable", RETRY),
        ("Tunnel connection failed: 407 Proxy Authentication Required", FATAL),
        ("Tunnel connection failed: ³²¹", FATAL),
    ],
)
def test_os_error_without_a_number_is_judged_by_its_text(text: str, expected: tuple[bool, str]) -> None:
    assert verdict(OSError(text)) == expected


def chained(outer: BaseException, *causes: BaseException) -> BaseException:
    error = outer
    for cause in causes:
        error.__cause__ = cause
        error = cause
    return outer


def test_wrapped_tls_failure_is_found_in_cause_and_context() -> None:
    refused = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert verdict(ConnectError("x")) == RETRY
    assert verdict(chained(ConnectError("x"), RuntimeError("between"), refused)) == FATAL
    inside = ConnectError("x")
    inside.__context__ = refused
    assert verdict(inside) == FATAL
    inside.__suppress_context__ = True
    assert verdict(inside) == RETRY


def test_unrelated_error_being_handled_is_not_the_cause() -> None:
    try:
        raise ssl.SSLCertVerificationError(1, "another call's")
    except ssl.SSLError:
        try:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "ours")
        except OSError as refused:
            error = chained(ConnectError("x"), refused)
    assert error.__cause__ is not None and isinstance(error.__cause__.__context__, ssl.SSLError)
    assert verdict(error) == RETRY


def test_error_and_its_cause_are_judged_together() -> None:
    lost, refused = ConnectionResetError(), ConnectionRefusedError()
    for outer, inner, expected in (
        (ConnectError, lost, RETRY),
        (ReadError, refused, RETRY),
        (ReadError, lost, FATAL),
    ):
        error = chained(outer("x"), inner)
        error.request = Request("POST")  # type: ignore[attr-defined]
        assert verdict(error) == expected
    slow = chained(ConnectError("x"), TimeoutError())
    assert verdict(slow) == TIMEOUT


def test_unlisted_os_error_beneath_is_judged_by_its_wrapper() -> None:
    assert verdict(chained(ConnectError("x"), FileNotFoundError(errno.ENOENT, "x"))) == RETRY


def test_addresses_that_failed_together_are_judged_together() -> None:
    def group(*faults: Exception) -> ExceptionGroup[Exception]:
        return ExceptionGroup("all attempts failed", list(faults))

    refused, slow = ConnectionRefusedError(), TimeoutError()
    assert verdict(chained(OSError("all failed"), group(refused, slow))) == RETRY
    assert verdict(chained(OSError("all failed"), group(slow, slow))) == TIMEOUT
    assert verdict(chained(OSError("all failed"), group(refused, ValueError()))) == FATAL
    for second, expected in ((refused, RETRY), (ConnectionResetError(), FATAL)):
        post = chained(ReadError("x"), group(refused, second))
        post.request = Request("POST")  # type: ignore[attr-defined]
        assert verdict(post) == expected
    assert (
        verdict(chained(OSError("all failed"), group(refused, ssl.SSLCertVerificationError(1, "x")))) == FATAL
    )


# --- HTTP -----------------------------------------------------------------------------------------

RETRYABLE = {408, 425, 429, *range(500, 600)} - {501, 505, 506, 508, 510, 511}


def test_every_status_is_judged_by_the_table() -> None:
    assert {status for status in range(100, 1000) if transient(Response(status))} == RETRYABLE
    assert {status for status in range(100, 1000) if transient(StatusError(Response(status)))} == RETRYABLE


def test_status_decides_the_kind_of_the_verdict() -> None:
    assert transient(Response(429)) == Verdict(True, None, "throttle", "HTTP 429")
    assert transient(Response(503)) == Verdict(True, None, "transient", "HTTP 503")
    assert transient(Response(404)) == Verdict(False, None, "fatal", "HTTP 404")
    assert transient(Response(HTTPStatus.BAD_GATEWAY)).reason == "HTTP 502"


@pytest.mark.parametrize("status", [None, "503", 503.0, True, b"503", object(), -503, 10**30])
def test_odd_statuses_are_not_retried(status: Any) -> None:
    assert verdict(Response(status)) == FATAL


@pytest.mark.parametrize(
    ("status", "header", "retry"),
    [
        (503, "false", False),
        (429, "FALSE", False),
        (404, "true", True),
        (409, "true", True),
        (501, "true", True),
        (503, "perhaps", True),
        (404, "perhaps", False),
        (401, "true", False),
        (403, "true", False),
        (200, "true", False),
    ],
)
def test_should_retry_wins_over_the_table(status: int, header: str, retry: bool) -> None:
    assert transient(Response(status, {"X-Should-Retry": header})).retry is retry


def test_hint_comes_with_the_verdict_even_when_it_refuses() -> None:
    assert transient(Response(503, {"retry-after": "7"})).after == 7.0
    assert transient(Response(429, {"retry-after": "9" * 5000})).after == math.inf
    assert transient(Response(404, {"retry-after": "7"})) == Verdict(False, 7.0, "fatal", "HTTP 404")
    assert transient(Response(400, {"retry-after": "7"})).after == 7.0
    assert transient(Response(399, {"retry-after": "7"})).after is None


@pytest.mark.parametrize("method", ["GET", "head", "OPTIONS", "TRACE", "PUT", "DELETE", b"GET"])
def test_safe_methods_are_retried(method: Any) -> None:
    assert transient(Response(503, request=Request(method)))


@pytest.mark.parametrize("method", ["POST", "PATCH", "post", b"POST", "CONNECT", "LOCK"])
def test_unsafe_methods_are_retried_only_with_proof_or_a_key(method: Any) -> None:
    assert verdict(Response(503, request=Request(method))) == FATAL
    assert verdict(Response(429, request=Request(method)))[0]
    assert verdict(Response(425, request=Request(method)))[0]
    for name in ("Idempotency-Key", "idempotency-key", "X-Idempotency-Key", b"IDEMPOTENCY-KEY"):
        assert verdict(Response(503, request=Request(method, {name: "k"}))) == RETRY
    for key in ("", "  "):
        assert verdict(Response(503, request=Request(method, {"Idempotency-Key": key}))) == FATAL


def test_should_retry_header_does_not_make_a_post_safe() -> None:
    assert not transient(Response(503, {"x-should-retry": "true"}, Request("POST")))


def test_transport_errors_are_judged_by_method() -> None:
    for kind, expected in (
        (ReadError, FATAL),
        (ConnectError, RETRY),
        (imitate("httpx.ConnectTimeout"), TIMEOUT),
    ):
        error = kind("x")
        error.request = Request("POST")
        assert verdict(error) == expected
        error.request = Request("POST", {"idempotency-key": "k"})
        assert transient(error)
    assert verdict(imitate("httpx.PoolTimeout")("x")) == TIMEOUT


def test_unknown_method_does_not_prevent_a_verdict() -> None:
    for method in (None, "", 5, object()):
        assert transient(Response(503, request=Request(method)))


def test_fatal_verdict_of_a_post_gives_the_reason() -> None:
    reason = transient(Response(503, request=Request("POST"))).reason
    assert reason == "HTTP 503; POST without an idempotency key may have been processed"
    assert len(transient(Response(503, request=Request("P" * 5000))).reason) < 100


def test_urllib_errors_are_judged_by_status() -> None:
    error = http_error(503, retry_after="3")
    assert transient(error) == Verdict(True, 3.0, "transient", "HTTP 503")
    assert not transient(http_error(404, retry_after="3"))


def test_own_error_around_a_response_is_judged_by_its_status() -> None:
    class Refused(Exception):
        def __init__(self, response: Any) -> None:
            self.response = response

    assert verdict(Refused(Response(503))) == RETRY
    assert verdict(Refused(Response(503, request=Request("POST")))) == FATAL
    assert verdict(Refused(Response(404))) == FATAL
    assert verdict(Refused(Body(503))) == RETRY
    assert verdict(Refused(Body(404))) == FATAL
    assert verdict(Refused(None)) == FATAL


@pytest.mark.parametrize(
    "outcome", [None, True, 503, "503", object(), {}, Body(503), ConnectionError, [ConnectionError()]]
)
def test_other_results_are_not_retried(outcome: Any) -> None:
    assert verdict(outcome) == FATAL


# --- AWS, gRPC, databases: what needs no library ---------------------------------------------------


def client_error(response: Any) -> Exception:
    error: Exception = imitate("botocore.exceptions.ClientError")("x")
    error.response = response  # type: ignore[attr-defined]
    return error


def test_aws_errors_of_odd_shapes_are_judged() -> None:
    assert verdict(client_error({"Error": {"Code": "SlowDown"}})) == (True, "throttle")
    for response in (
        None,
        5,
        {},
        {"Error": None},
        {"Error": {"Code": None}},
        {"Error": {"Code": ["SlowDown"]}},
    ):
        assert verdict(client_error(response)) == FATAL
    assert verdict(client_error({"ResponseMetadata": {"HTTPStatusCode": 503}})) == RETRY
    assert verdict(client_error({"ResponseMetadata": {"HTTPStatusCode": 200}})) == FATAL
    throttled = {"ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "2"}}}
    assert transient(client_error(throttled)) == Verdict(True, 2.0, "throttle", "HTTP 429")


def rpc_error(code: Any, metadata: Any = ()) -> Exception:
    members = {
        "code": lambda self: code,
        "trailing_metadata": lambda self: metadata,
        "details": lambda self: "x",
    }
    error: Exception = imitate("grpc._channel.RpcError", **members)("x")
    return error


class Code:
    def __init__(self, name: Any) -> None:
        self.name = name


def test_grpc_errors_of_odd_shapes_are_judged() -> None:
    assert verdict(imitate("grpc.RpcError")("bare")) == FATAL
    for code in (None, 14, "UNAVAILABLE", Code(None), Code(14)):
        assert verdict(rpc_error(code)) == FATAL
    assert verdict(rpc_error(Code("UNAVAILABLE"), None)) == RETRY
    assert verdict(rpc_error(Code("UNAVAILABLE"), 42)) == RETRY

    def broken(self: Any) -> Any:
        raise RuntimeError("the call is not done")

    known = {"code": lambda self: Code("UNAVAILABLE"), "trailing_metadata": broken, "details": broken}
    assert verdict(imitate("grpc.RpcError", **known)("x")) == RETRY
    assert verdict(imitate("grpc.RpcError", code=broken)("x")) == FATAL


def test_grpc_codes_may_be_chosen() -> None:
    class Numbered:
        name, value = "ABORTED", 10

    for codes in (["aborted"], ["ABORTED"], [10], [Numbered]):
        chosen = transient.with_(grpc_codes=codes)
        assert chosen(rpc_error(Code("ABORTED"))).retry
        assert not chosen(rpc_error(Code("UNAVAILABLE"))).retry
    assert transient.with_(grpc_codes="wide").settings.grpc_codes == {
        "UNAVAILABLE",
        "DEADLINE_EXCEEDED",
        "RESOURCE_EXHAUSTED",
    }


PUSHBACK = "grpc-retry-pushback-ms"


def test_grpc_pushback_is_read() -> None:
    exhausted = Code("RESOURCE_EXHAUSTED")
    assert verdict(rpc_error(exhausted)) == FATAL
    assert transient(rpc_error(exhausted, ((PUSHBACK, "20"),))) == Verdict(
        True, 0.02, "throttle", f"gRPC {exhausted.name}"
    )
    assert not transient(rpc_error(Code("ABORTED"), ((PUSHBACK, "20"),)))
    for code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"):
        assert verdict(rpc_error(Code(code), ((PUSHBACK, "-1"),))) == (False, "pushback")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("503 Service Unavailable", RETRY),
        ("407 Proxy Authentication Required", FATAL),
        ("Proxy Server could not connect: Connection refused.", RETRY),
        ("Invalid username/password", FATAL),
        ("³²¹", FATAL),
        ("", FATAL),
    ],
)
def test_proxy_error_is_judged_by_its_text(text: str, expected: tuple[bool, str]) -> None:
    error = imitate("httpx.ProxyError")(text)
    error.request = Request("POST")
    assert verdict(error) == expected


def sdk_error(kind: str, status: int | None, body: Any = None, **headers: str) -> Exception:
    error: Exception = imitate(f"openai.{kind}")("x")
    error.request = Request("POST")  # type: ignore[attr-defined]
    error.body = body  # type: ignore[attr-defined]
    if status is not None:
        error.response = Response(status, headers, Request("POST"))  # type: ignore[attr-defined]
    return error


def test_sdk_posts_are_repeated() -> None:
    assert verdict(sdk_error("APIConnectionError", None)) == RETRY
    assert verdict(sdk_error("APITimeoutError", None)) == TIMEOUT
    assert verdict(sdk_error("APIStatusError", 500)) == RETRY
    assert verdict(sdk_error("APIStatusError", 409)) == FATAL
    assert (
        verdict(chained(sdk_error("APIConnectionError", None), ssl.SSLCertVerificationError(1, "x"))) == FATAL
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"type": "error", "error": {"type": "overloaded_error"}}, RETRY),
        ({"type": "server_error", "code": None}, RETRY),
        ({"type": "requests", "code": "rate_limit_exceeded"}, (True, "throttle")),
        ({"type": "error", "error": {"type": "invalid_request_error"}}, FATAL),
        ({"type": ["overloaded_error"]}, FATAL),
        ("overloaded_error", FATAL),
        (None, FATAL),
    ],
)
def test_sdk_errors_inside_a_stream_are_judged(body: Any, expected: tuple[bool, str]) -> None:
    assert verdict(sdk_error("APIStatusError", 200, body)) == expected
    assert verdict(sdk_error("APIError", None, body)) == expected


def test_aws_posts_are_repeated() -> None:
    for response in ({"Error": {"Code": "SlowDown"}}, {"ResponseMetadata": {"HTTPStatusCode": 500}}):
        error = client_error(response)
        error.request = Request("POST")  # type: ignore[attr-defined]
        assert transient(error)
    lost = imitate("botocore.exceptions.HTTPClientError")("x")
    lost.request = Request("POST")
    assert verdict(lost) == RETRY
    lost.kwargs = {"error": ssl.SSLCertVerificationError(1, "x")}
    assert verdict(lost) == FATAL
    unknown = client_error({"ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"retry-after": "5"}}})
    assert transient(unknown) == Verdict(False, 5.0, "fatal", "HTTP 400")


def test_unparsable_http_answer_counts_as_a_lost_connection() -> None:
    error = imitate("aiohttp.ClientResponseError")("x")
    error.status = 400
    assert verdict(error) == FATAL
    assert verdict(chained(error, imitate("aiohttp.http_exceptions.HttpProcessingError")("x"))) == RETRY
    assert verdict(chained(error, ValueError())) == FATAL


def test_websocket_close_frames_are_judged() -> None:
    def closed(rcvd: int | None, sent: int | None) -> Exception:
        error: Exception = imitate("websockets.exceptions.ConnectionClosed")("x")
        for name, code in (("rcvd", rcvd), ("sent", sent)):
            frame = type("Close", (), {"code": code})() if code is not None else None
            setattr(error, name, frame)
        return error

    assert verdict(closed(None, None)) == RETRY
    assert verdict(closed(None, 1011)) == RETRY
    assert verdict(closed(None, 1009)) == FATAL
    assert verdict(closed(1012, 1012)) == RETRY
    assert verdict(closed(1000, 1000)) == FATAL
    assert verdict(closed(1008, 1011)) == FATAL


def test_mysql_errors_of_odd_shapes_are_judged() -> None:
    def failed(kind: str, *args: Any) -> Exception:
        error: Exception = imitate(f"pymysql.err.{kind}", imitate("pymysql.err.Error"))(*args)
        return error

    assert verdict(failed("OperationalError", 1213, "x")) == RETRY
    assert verdict(failed("InterfaceError", 0, "")) == RETRY
    assert verdict(failed("OperationalError", 0, "")) == FATAL
    assert verdict(failed("InterfaceError", 1, "")) == FATAL
    for args in ((), ("1213",), (True,), (None,)):
        assert verdict(failed("OperationalError", *args)) == FATAL
    wrong_host = failed("OperationalError", 2003, "x")
    wrong_host.original_exception = socket.gaierror(socket.EAI_NONAME, "x")  # type: ignore[attr-defined]
    assert verdict(wrong_host) == FATAL
    pool = imitate("mysql.connector.errors.PoolError")
    assert transient(pool("Failed getting connection; pool exhausted")) and not transient(pool("bad name"))


def test_sqlalchemy_errors_are_judged_by_the_driver_error() -> None:
    def failed(driver: Any, invalidated: Any = False) -> Exception:
        error: Exception = imitate("sqlalchemy.exc.OperationalError", imitate("sqlalchemy.exc.DBAPIError"))(
            "x"
        )
        error.orig, error.connection_invalidated = driver, invalidated  # type: ignore[attr-defined]
        return error

    adapted = imitate("sqlalchemy.dialects.postgresql.asyncpg.Error")
    assert verdict(failed(imitate("psycopg.Error", sqlstate="40001")("x"))) == RETRY
    assert verdict(failed(imitate("psycopg.Error", sqlstate="23505")("x"))) == FATAL
    assert (
        verdict(failed(chained(adapted("x"), imitate("asyncpg.PostgresError", sqlstate="40P01")("x"))))
        == RETRY
    )
    with_state = adapted("x")
    with_state.sqlstate = "40P01"
    assert verdict(failed(with_state)) == RETRY
    assert verdict(failed(ValueError("x"), True)) == RETRY
    assert verdict(failed(ssl.SSLCertVerificationError(1, "x"), True)) == RETRY
    assert verdict(failed(ssl.SSLCertVerificationError(1, "x"))) == FATAL
    assert transient(failed(TimeoutError(), True)).kind == "timeout"
    for odd in (None, 5, "40001"):
        assert verdict(failed(odd)) == FATAL
    assert verdict(failed(None, "yes")) == FATAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connection to server at 127.0.0.1 failed: Connection refused", RETRY),
        ("connection failed: timeout expired", TIMEOUT),
        ("server closed the connection unexpectedly", RETRY),
        ("FATAL:  the database system is starting up", RETRY),
        ('FATAL:  password authentication failed for user "u"', FATAL),
        ('a: Connection refused\nb: FATAL:  database "d" does not exist', FATAL),
        ("SSL error: certificate verify failed: connection refused", FATAL),
        ("could not translate host name: Temporary failure in name resolution", RETRY),
        ("could not translate host name: Name or service not known", FATAL),
        ("", FATAL),
    ],
)
def test_libpq_error_is_judged_by_its_text(text: str, expected: tuple[bool, str]) -> None:
    assert verdict(imitate("psycopg2.OperationalError", imitate("psycopg2.Error"))(text)) == expected


def test_sqlite_errors_are_judged_by_their_code() -> None:
    assert verdict(sqlite3.OperationalError("database table is locked: t")) == RETRY
    assert verdict(sqlite3.OperationalError("no such table: locked")) == FATAL

    def failed(code: int) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError("x")
        error.sqlite_errorcode = code
        return error

    busy, locked, snapshot, readonly = 5, 6, 517, 8
    assert [transient(failed(code)).retry for code in (busy, locked, snapshot, readonly)] == [
        True,
        True,
        True,
        False,
    ]


# --- Stormproof's own, groups, interrupts -----------------------------------------------------------


def test_own_refusals_are_final() -> None:
    refusals = [
        errors.StormproofError("x"),
        errors.BudgetExhausted("x"),
        errors.DeadlineExceeded("x"),
        errors.CircuitOpen("x", 5.0),
        errors.RateLimited("x", 5.0),
        errors.BulkheadFull("x"),
        errors.Throttled("x"),
        errors.Cancelled("x"),
        errors.Permanent(ConnectionError()),
    ]
    assert [verdict(error) for error in refusals] == [FATAL] * len(refusals)
    assert isinstance(errors.DeadlineExceeded("x"), TimeoutError)


def test_attempts_timeout_is_transient() -> None:
    assert verdict(errors.AttemptTimeout("x")) == TIMEOUT


def test_retry_after_error_is_judged_by_its_cause() -> None:
    assert transient(errors.RetryAfter(3)) == Verdict(True, 3.0, "transient")
    assert transient(errors.RetryAfter(3, TimeoutError())) == Verdict(True, 3.0, "timeout", "timed out")
    assert transient(errors.RetryAfter(0)).after == 0.0
    assert not transient(errors.RetryAfter(3, ValueError()))
    assert not transient(chained(errors.RetryAfter(3), ValueError()))
    hinted = StatusError(Response(503, {"retry-after": "9"}))
    assert transient(errors.RetryAfter(3, hinted)).after == 9.0
    assert transient(errors.RetryAfter(30, hinted)).after == 30.0


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseException(),
        BaseExceptionGroup("x", [ConnectionError(), KeyboardInterrupt()]),
    ],
)
def test_base_exceptions_are_never_retried(error: BaseException) -> None:
    assert verdict(error) == FATAL
    with pytest.raises(ValueError, match="never retried"):
        Classifier().register(type(error), True)
    assert not Classifier().register(Exception, True).register("builtins.BaseException", True)(error)


def test_group_is_retried_if_every_leaf_is() -> None:
    def group(*leaves: Exception) -> ExceptionGroup[Exception]:
        return ExceptionGroup("x", list(leaves))

    lost, slow, wrong = ConnectionResetError(), TimeoutError(), ValueError()
    assert verdict(group(lost, slow)) == RETRY
    assert verdict(group(slow, group(slow))) == TIMEOUT
    assert verdict(group(lost, group(slow, wrong))) == FATAL
    assert transient(group(lost, StatusError(Response(404)))).reason == "HTTP 404"
    hinted = [StatusError(Response(503, {"retry-after": str(wait)})) for wait in (2, 8, 5)]
    assert transient(group(lost, *hinted)).after == 8.0


def test_pushback_in_a_group_is_not_lost() -> None:
    stop = rpc_error(Code("UNAVAILABLE"), (("grpc-retry-pushback-ms", "-1"),))
    found = transient(ExceptionGroup("x", [ValueError(), stop, ConnectionError()]))
    assert (found.retry, found.kind) == (False, "pushback")


def test_groups_without_end_are_given_up_on() -> None:
    deep: Exception = ConnectionError()
    for _ in range(5000):
        deep = ExceptionGroup("x", [deep])
    assert verdict(deep) == RETRY
    asked = errors.RetryAfter(1)
    asked.cause = ExceptionGroup("x", [asked])
    assert verdict(asked) == FATAL
    assert verdict(ExceptionGroup("x", [ConnectionError()] * 20_000)) == FATAL


# --- objects that misbehave -----------------------------------------------------------------------


class Hostile:
    """Raises whatever is read of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is not to be had")


def hostile_error(name: str, *bases: type) -> BaseException:
    def refuse(self: Any, *args: Any) -> Any:
        raise RuntimeError("no")

    members = {
        **dict.fromkeys(("__str__", "__repr__", "__bool__", "__eq__", "__len__"), refuse),
        **{
            attribute: property(refuse)
            for attribute in (
                *(
                    "request",
                    "request_info",
                    "response",
                    "headers",
                    "status_code",
                    "status",
                    "code",
                    "errno",
                    "args",
                ),
                *(
                    "reason",
                    "original_error",
                    "os_error",
                    "kwargs",
                    "orig",
                    "body",
                    "rcvd",
                    "sent",
                    "sqlstate",
                ),
                *("pgcode", "sqlite_errorcode", "trailing_metadata", "details", "connection_invalidated"),
                *("__cause__", "__context__", "__suppress_context__", "extensions", "stormproof_mark"),
            )
        },
        "__hash__": object.__hash__,
    }
    error: BaseException = imitate(name, *bases, **members)()
    return error


@pytest.mark.parametrize(
    "name",
    [
        *("app.Own", "httpx.HTTPStatusError", "httpx.ConnectError", "httpx.ProxyError", "httpx.ReadError"),
        *(
            "requests.exceptions.ConnectionError",
            "requests.exceptions.HTTPError",
            "urllib3.exceptions.MaxRetryError",
        ),
        *("aiohttp.ClientConnectorError", "aiohttp.ClientResponseError", "websockets.ConnectionClosed"),
        *(
            "websockets.InvalidMessage",
            "botocore.exceptions.ClientError",
            "botocore.exceptions.HTTPClientError",
        ),
        *(
            "grpc.RpcError",
            "openai.APIStatusError",
            "anthropic.APIError",
            "psycopg.Error",
            "sqlite3.OperationalError",
        ),
        *(
            "pymysql.err.Error",
            "mysql.connector.errors.PoolError",
            "sqlalchemy.exc.DBAPIError",
            "redis.ConnectionError",
        ),
    ],
)
def test_classifier_never_raises_on_a_hostile_error(name: str) -> None:
    for base in (Exception, OSError):
        error = hostile_error(name, base)
        assert isinstance(transient(error), Verdict)
        assert exhausted_by(error) is None


def test_classifier_never_raises_on_a_hostile_response() -> None:
    assert verdict(Hostile()) == FATAL
    assert verdict(imitate("httpx.Response", Hostile)()) == FATAL
    assert verdict(Response(503, Hostile(), Hostile())) == RETRY
    assert exhausted_by(Hostile()) is None


def test_exception_that_is_false_is_still_a_cause() -> None:
    class Falsy(ssl.SSLCertVerificationError):
        def __bool__(self) -> bool:
            return False

    assert verdict(chained(ConnectError("x"), Falsy(1, "x"))) == FATAL


def test_cycle_of_causes_ends() -> None:
    one, two = ConnectError("x"), RuntimeError("x")
    one.__cause__, two.__cause__ = two, one
    assert verdict(one) == RETRY
    assert exhausted_by(one) is None
    unknown = RuntimeError("x")
    unknown.__cause__ = unknown
    assert verdict(unknown) == FATAL
    assert exhausted_by(unknown) is None


def test_cycles_that_branch_end_soon() -> None:
    group = ExceptionGroup("x", [OSError("one of many") for _ in range(50)])
    for leaf in group.exceptions:
        leaf.__cause__ = group
    assert verdict(group) == FATAL
    assert verdict(chained(ConnectError("x"), group)) == RETRY
    asked = [errors.RetryAfter(1) for _ in range(50)]
    again = ExceptionGroup("x", asked)
    for mark_ in asked:
        mark_.cause = again
    assert verdict(again) == FATAL
    itself = imitate("sqlalchemy.exc.DBAPIError")("x")
    itself.orig = itself
    assert verdict(itself) == FATAL


def test_long_chain_of_causes_ends() -> None:
    for steps, expected in ((15, FATAL), (16, RETRY), (5000, RETRY)):
        error = ConnectError("x")
        chained(error, *(RuntimeError("x") for _ in range(steps)), ssl.SSLCertVerificationError(1, "x"))
        assert verdict(error) == expected


def test_many_types_do_not_pile_up() -> None:
    from stormproof._classify import lookup

    own = Classifier().register(ConnectionError, True)
    for number in range(3000):
        error = type(f"Made{number}", (ConnectionError,), {})()
        assert own(error) and transient(error)
    assert len(lookup._rows) <= 1024
    assert len(own._plans) <= 1024


def test_odd_module_name_does_not_prevent_a_verdict() -> None:
    odd = type("Odd", (ConnectionError,), {"__module__": None})
    assert verdict(odd()) == RETRY
    assert Classifier().register(ValueError, True)(odd()).retry


# --- rules of one's own ---------------------------------------------------------------------------


class Base(Exception): ...


class Derived(Base): ...


def test_rules_may_be_bools_verdicts_or_callables() -> None:
    asked: list[object] = []

    def rule(error: object) -> Verdict:
        asked.append(error)
        return Verdict(True, 5, "throttle")

    own = Classifier()
    error = Base("x")
    assert not own(error)
    assert own.register(Base, True)(error) == Verdict.RETRY
    assert own.register(Base, False)(error) == Verdict.FATAL
    assert own.register(Base, Verdict(True, 2))(error).after == 2.0
    assert own.register(Base, rule)(error).after == 5.0
    assert asked == [error]
    assert not own.unregister(Base)(error)
    own.unregister(Base)


def test_most_specific_rule_wins_in_any_order() -> None:
    assert not Classifier().register(Base, True).register(Derived, False)(Derived())
    assert not Classifier().register(Derived, False).register(Base, True)(Derived())
    assert Classifier().register(Base, True)(Derived())
    assert not Classifier().register(Derived, True)(Base())


def test_registered_rules_win_over_the_tables() -> None:
    assert not Classifier().register(OSError, False)(ConnectionResetError())
    assert Classifier().register(ValueError, True)(ValueError())
    assert Classifier().register(errors.CircuitOpen, True)(errors.CircuitOpen())
    assert Classifier().register(Response, True)(Response(404))
    assert Classifier().register(ExceptionGroup, True)(ExceptionGroup("x", [ValueError()]))
    assert Classifier().register(ValueError, True)(ExceptionGroup("x", [ValueError(), TimeoutError()]))


def test_rule_that_returns_none_leaves_the_verdict_to_the_next() -> None:
    own = Classifier().register(Derived, lambda error: None).register(Base, lambda error: True)
    assert own(Derived())
    assert Classifier().register(TimeoutError, lambda error: None)(TimeoutError()).kind == "timeout"


@pytest.mark.parametrize("answer", [1, 0, "yes", object(), []])
def test_rule_that_answers_something_else_counts_by_its_truth(answer: Any) -> None:
    assert Classifier().register(Base, lambda error: answer)(Base()).retry is bool(answer)


def test_error_of_a_rule_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Classifier().register(Base, lambda error: 1 // 0)(Base())


def test_rules_may_name_types_by_text() -> None:
    kind = imitate("shop.client.errors.Busy")
    assert Classifier().register("shop.client.errors.Busy", True)(kind())
    assert Classifier().register("shop.Busy", True)(kind())
    assert not Classifier().register("shop.errors.Busy", True)(kind())
    assert not Classifier().register("other.Busy", True)(kind())
    assert Classifier().register("builtins.ValueError", True)(UnicodeDecodeError("utf-8", b"", 0, 1, "x"))


def test_virtual_subclass_does_not_match() -> None:
    class Meta(abc.ABCMeta): ...

    class Virtual(Exception, metaclass=Meta): ...

    Virtual.register(ValueError)
    assert issubclass(ValueError, Virtual)
    assert not Classifier().register(Virtual, True)(ValueError())


@pytest.mark.parametrize(
    "kind", [None, 5, "", "Busy", "shop.", ".Busy", "shop.<locals>.Busy", "a b.C", (Base, Derived), Base("x")]
)
def test_bad_kind_is_refused(kind: Any) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"Classifier: kind must be a class or 'module\.QualName'"
    ):
        Classifier().register(kind, True)


@pytest.mark.parametrize("rule", [None, 1, "yes", object()])
def test_bad_rule_is_refused(rule: Any) -> None:
    with pytest.raises(TypeError, match="Classifier: rule must be"):
        Classifier().register(Base, rule)


def test_number_of_rules_is_bounded() -> None:
    own = Classifier()
    for number in range(1024):
        own.register(f"shop.E{number}", True)
    with pytest.raises(ValueError, match="at most 1024"):
        own.register("shop.OneMore", True)
    own.register("shop.E5", False)


# --- copies ---------------------------------------------------------------------------------------


def test_copy_does_not_change_the_original() -> None:
    one = Classifier().register(Base, True)
    two = one.with_(statuses={409})
    two.register(Base, False)
    assert one(Base()) and not two(Base())
    assert two(Response(409)) and not one(Response(409))
    assert not two(Response(503)) and one(Response(503))
    assert not transient(Base()) and not transient(Response(409))
    one.unregister(Base)
    assert one.with_().register(Derived, True)(Derived()) and not one(Derived())


def test_tables_may_be_chosen() -> None:
    also = transient.with_(statuses={409, *transient.settings.statuses})
    assert also(Response(409)) and also(Response(503))
    assert not transient.with_(never={503})(Response(503, {"x-should-retry": "true"}))
    assert transient.with_(never=())(Response(401, {"x-should-retry": "true"}))
    assert transient.with_(methods={"post"})(Response(503, request=Request("POST")))
    assert not transient.with_(methods=())(Response(503, request=Request("GET")))
    keyed = transient.with_(key_headers=["PayPal-Request-Id"])
    assert keyed(Response(503, request=Request("POST", {"paypal-request-id": "k"})))
    assert not keyed(Response(503, request=Request("POST", {"idempotency-key": "k"})))
    assert transient.with_(statuses={202})(Response(202)).reason == "HTTP 202"
    assert transient.with_(errnos={errno.EMFILE})(OSError(errno.EMFILE, "x"))
    assert not transient.with_(errnos=())(OSError(errno.EHOSTUNREACH, "x"))
    assert transient.with_(mysql_errors={1062})(imitate("pymysql.err.Error")(1062, "x"))
    assert transient.with_(sqlstates=["23505"])(imitate("psycopg.Error", sqlstate="23505")("x"))


@pytest.mark.parametrize(
    "given",
    [
        {"statuses": {99}},
        {"statuses": {True}},
        {"statuses": {"503"}},
        {"statuses": 503},
        {"statuses": {1000}},
        {"never": {99}},
        {"never": {1000}},
        {"methods": "GET"},
        {"methods": {""}},
        {"methods": {5}},
        {"key_headers": [" "]},
        {"grpc_codes": "UNAVAILABLE"},
        {"grpc_codes": ["SOMETIMES"]},
        {"grpc_codes": ["OK"]},
        {"grpc_codes": [0]},
        {"grpc_codes": [17]},
        {"grpc_codes": [True]},
        {"errnos": [0]},
        {"mysql_errors": [0]},
        {"mysql_errors": [1.5]},
        {"sqlstates": "40001"},
    ],
)
def test_bad_table_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Classifier: {next(iter(given))} must"):
        transient.with_(**given)


def test_bounds_of_a_table_are_legal() -> None:
    made = transient.with_(
        statuses={100, 999}, never={100, 999}, errnos={1}, mysql_errors={1}, grpc_codes=[1, 16]
    )
    assert made.settings.grpc_codes == {"CANCELLED", "UNAUTHENTICATED"}
    assert made.settings.statuses == {100, 999}


def test_classifier_takes_settings_only() -> None:
    assert Classifier(ClassifierSettings(statuses={409}))(Response(409))
    with pytest.raises(TypeError, match="Classifier: settings must be"):
        Classifier({"statuses": {409}})  # type: ignore[arg-type]


def is_odd(error: object) -> bool:
    return "odd" in str(error)


def test_classifiers_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(transient)) is transient
    assert copy.copy(transient) is transient and copy.deepcopy(transient) is transient
    own = transient.with_(statuses={409}).register("shop.Busy", True).register(ValueError, is_odd)
    again = pickle.loads(pickle.dumps(own))
    assert again == own and hash(again) == hash(own) and again is not own
    assert again(ValueError("odd")) and not again(ValueError("even"))
    assert again != transient and again != "again"
    assert again != transient.with_(statuses={409}) and again != transient.with_()
    assert transient.with_() == transient.with_() == transient


def test_classifier_describes_its_options() -> None:
    assert repr(transient) == "transient"
    own = transient.with_(statuses={503, 409}, methods=())
    assert repr(own) == "transient.with_(statuses=(409, 503), methods=())"
    assert eval(repr(own), {"transient": transient}) == own
    assert "1 registered" in repr(own.register(Base, True))
    described = json.loads(json.dumps(own.describe()))
    assert described["statuses"] == [409, 503]
    assert described["rules"] == [f"{Base.__module__}.Base"]


# --- marks ----------------------------------------------------------------------------------------


def test_mark_is_found_on_the_error_and_on_its_causes() -> None:
    token = Mark("inner", object(), 4)
    error = ConnectionError("x")
    assert exhausted_by(error) is None
    mark(error, token)
    assert exhausted_by(error) is token
    assert exhausted_by(chained(ValueError("x"), RuntimeError("x"), error)) is token
    assert exhausted_by(chained(ValueError("x"), *(RuntimeError() for _ in range(15)), error)) is token
    assert exhausted_by(chained(ValueError("x"), *(RuntimeError() for _ in range(16)), error)) is None
    assert repr(token) == "Mark('inner', attempts=4)"


def test_context_is_not_a_cause() -> None:
    marked, after = ConnectionError("x"), ValueError("x")
    mark(marked, Mark("inner", None, 4))
    after.__context__ = marked
    assert exhausted_by(after) is None


def test_nearest_mark_counts_and_a_new_one_replaces_it() -> None:
    far, near = Mark("far", None, 4), Mark("near", None, 2)
    inner, outer = ConnectionError("x"), RuntimeError("x")
    mark(inner, far)
    mark(outer, near)
    assert exhausted_by(chained(outer, inner)) is near
    mark(inner, near)
    assert exhausted_by(inner) is near


def test_mark_on_one_leaf_exhausts_the_group() -> None:
    token, leaf = Mark("inner", None, 4), ConnectionError("x")
    group = ExceptionGroup("x", [ValueError(), ExceptionGroup("y", [leaf])])
    assert exhausted_by(group) is None
    mark(leaf, token)
    assert exhausted_by(group) is token
    other = Mark("outer", None, 1)
    mark(group, other)
    assert exhausted_by(group) is other


def test_mark_travels_on_responses() -> None:
    token = Mark("inner", None, 4)
    response = Response(503, {"retry-after": "5"})
    mark(response, token)
    assert response.extensions == {"stormproof": token}
    assert exhausted_by(response) is exhausted_by(StatusError(response)) is token
    assert transient(StatusError(response)) == Verdict(False, 5.0, "fatal", "exhausted by inner")
    assert transient(response) == Verdict(False, 5.0, "fatal", "exhausted by inner")
    plain = imitate("requests.models.Response", object)()
    plain.status_code = 503
    mark(plain, token)
    assert plain.stormproof_mark is token
    assert exhausted_by(plain) is token and not transient(plain)


def test_classifier_ignores_the_mark_on_the_error_itself() -> None:
    error = ConnectionError("x")
    mark(error, Mark("inner", None, 4))
    assert transient(error)


def test_foreign_value_in_the_place_of_a_mark_is_ignored() -> None:
    response = Response(503)
    response.extensions["stormproof"] = "inner"
    response.stormproof_mark = "inner"
    error = StatusError(response)
    error.__stormproof_mark__ = "inner"
    assert exhausted_by(error) is None
    assert transient(error)


def test_object_that_refuses_a_mark_is_left_alone() -> None:
    class Sealed(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("sealed")

    error = Sealed("x")
    mark(error, Mark("inner", None, 4))
    assert exhausted_by(error) is None
    mark(object(), Mark("inner", None, 4))
    mark(None, Mark("inner", None, 4))


def test_marked_error_can_be_pickled() -> None:
    error = ConnectionError("x")
    mark(error, Mark("inner", lambda: None, 4))
    again = exhausted_by(pickle.loads(pickle.dumps(error)))
    assert again is not None
    assert (again.layer, again.owner, again.attempts) == ("inner", None, 4)


# --- cost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["app.Own", "httpx.ConnectError", "grpc.RpcError", "sqlalchemy.exc.DBAPIError"]
)
def test_judging_an_error_keeps_nothing_of_it(name: str) -> None:
    def hostile() -> BaseException:
        return hostile_error(name, Exception)

    def caused() -> BaseException:
        return chained(imitate(name)("x"), ConnectionResetError("y"))

    gc.disable()
    try:
        for make in (hostile, caused):
            error = make()
            gone = weakref.ref(error)
            transient(error)
            exhausted_by(error)
            del error
            assert gone() is None
    finally:
        gc.enable()


def test_no_library_is_imported_to_recognise_its_errors() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from stormproof._classify.classifier import transient\n"
        "for name in ('httpx.ReadError', 'grpc.RpcError', 'redis.RedisError', 'sqlalchemy.DBAPIError'):\n"
        "    module, _, kind = name.rpartition('.')\n"
        "    transient(type(kind, (Exception,), {'__module__': module})('x'))\n"
        "heavy = {'httpx', 'grpc', 'redis', 'sqlalchemy', 'ssl', 'socket', 'asyncio', 're', 'datetime'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
