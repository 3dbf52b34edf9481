"""`stormproof.wsgi`: the same rules as `stormproof.asgi`, in a WSGI server's threads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

import stormproof as sp
from stormproof.testing import FakeClock, instant
from stormproof.wsgi import DeadlineMiddleware, RefusalMiddleware, SheddingMiddleware


class Got:
    def __init__(self, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status = int(status[:3])
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        return str(json.loads(self.body)["code"])


def call(app: Any, **headers: str) -> Got:
    """One request, as a server makes it. wsgiref's validator watches both sides."""
    environ: dict[str, Any] = {"QUERY_STRING": ""}
    setup_testing_defaults(environ)
    environ.update({f"HTTP_{name.upper()}": value for name, value in headers.items()})
    started: list[Any] = []

    def start_response(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Any:
        assert not started or exc_info is not None, "started twice without an error"
        started[:] = [status, fields]
        return lambda data: None

    parts = validator(app)(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        parts.close()  # type: ignore[attr-defined]
    return Got(*started, body)


def fine(seen: list[Any] | None = None) -> Any:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        if seen is not None:
            seen.append(sp.remaining())
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"fine"]

    return app


def lazily(first: Callable[[], Any], second: Callable[[], Any] = lambda: b"") -> Any:
    """An application that works while its answer is iterated."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield first() or b""
        yield second() or b""

    return app


def fails(error: BaseException) -> Callable[[], Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ({}, "1500", 1.5),
        ({}, None, None),
        ({"default": 7}, None, 7.0),
        ({"max": 2}, "9000", 2.0),
        ({}, "nonsense", None),
    ],
)
def test_handler_has_the_callers_time(
    options: dict[str, Any], value: str | None, expected: float | None
) -> None:
    seen: list[Any] = []
    headers = {} if value is None else {"x_request_timeout_ms": value}
    assert call(DeadlineMiddleware(fine(seen), **options), **headers).body == b"fine"
    assert seen == [expected if expected is None else pytest.approx(expected, abs=0.5)]
    assert sp.remaining() is None, "the server's thread has no deadline of its own"


def test_deadline_holds_while_the_answer_is_iterated() -> None:
    seen: list[Any] = []

    def look() -> bytes:
        seen.append(sp.remaining())
        return b"x"

    call(DeadlineMiddleware(lazily(look, look)), x_request_timeout_ms="5000")
    assert [value is not None for value in seen] == [True, True]
    assert sp.remaining() is None


def test_late_work_is_refused_without_being_begun() -> None:
    seen: list[Any] = []
    got = call(DeadlineMiddleware(fine(seen)), x_request_timeout_ms="0")
    assert (got.status, got.code, got.headers["x-should-retry"]) == (504, "deadline_exceeded", "false")
    assert seen == []


@pytest.mark.parametrize("lazy", [False, True])
def test_work_that_becomes_late_is_a_504(lazy: bool) -> None:
    def work() -> Any:
        return sp.Policy(sp.Retry(on=OSError, backoff=sp.Constant(30))).call(fails(ConnectionError()))

    def eager(environ: Any, start_response: Any) -> Iterable[bytes]:
        return [work()]

    got = call(DeadlineMiddleware(lazily(work) if lazy else eager), x_request_timeout_ms="5000")
    assert (got.status, got.code) == (504, "deadline_exceeded")


def test_deadline_after_the_first_part_is_an_error() -> None:
    app = DeadlineMiddleware(lazily(lambda: b"part", fails(sp.DeadlineExceeded("late", "request"))))
    with pytest.raises(sp.DeadlineExceeded):
        call(app, x_request_timeout_ms="5000")


def test_other_errors_pass_through() -> None:
    for middleware in (DeadlineMiddleware, RefusalMiddleware, SheddingMiddleware):
        for app in (fails(LookupError("mine")), lazily(fails(LookupError("mine")))):
            with pytest.raises(LookupError, match="mine"):
                call(middleware(app), x_request_timeout_ms="5000")


@pytest.mark.parametrize("lazy", [False, True])
def test_refusals_become_problem_answers(lazy: bool) -> None:
    error = sp.CircuitOpen("token=s3cret", retry_after=10)
    fail = fails(error)
    app = lazily(fail) if lazy else fail
    got = call(RefusalMiddleware(app))
    assert (got.status, got.code, got.headers["x-should-retry"]) == (503, "circuit_open", "false")
    assert 10 <= int(got.headers["retry-after"]) <= 12
    assert b"s3cret" not in got.body


def test_answer_that_was_begun_but_not_sent_is_replaced() -> None:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        raise sp.RateLimited("x", retry_after=3)

    assert call(RefusalMiddleware(app)).status == 429


class Crowd:
    """Requests that stay inside until `done` is set."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.done = threading.Event()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        self.inside.release()
        assert self.done.wait(60)
        return [b"done"]


def test_beyond_the_limit_requests_are_shed_and_retries_sooner() -> None:
    crowd = Crowd()
    app = SheddingMiddleware(crowd, limit=4, retry_after=10)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(call, app) for _ in range(2)]
        for _ in range(2):
            assert crowd.inside.acquire(timeout=60)
        shed = call(app, x_request_attempt="2")
        assert (shed.status, shed.code) == (503, "overloaded")
        assert 10 <= int(shed.headers["retry-after"]) <= 20
        running += [pool.submit(call, app) for _ in range(2)]
        for _ in range(2):
            assert crowd.inside.acquire(timeout=60)
        assert call(app).status == 503
        crowd.done.set()
        assert [request.result().status for request in running] == [200] * 4
    assert app.places.in_use == 0
    assert call(app, x_request_attempt="2").status == 200


def test_place_is_held_until_the_answer_is_closed() -> None:
    used: list[int] = []
    app = SheddingMiddleware(lazily(lambda: used.append(app.places.in_use)), limit=2)
    call(app)
    assert used == [1]
    assert app.places.in_use == 0


def test_error_gives_the_place_back() -> None:
    app = SheddingMiddleware(lazily(fails(LookupError())), limit=1)
    for _ in range(3):
        with pytest.raises(LookupError):
            call(app)
    assert app.places.in_use == 0


def test_adaptive_limit_learns() -> None:
    def overloaded(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
        return [b""]

    adaptive = sp.AdaptiveLimit("aimd", initial=10, max=20, decrease=0.5, clock=FakeClock())
    for _ in range(3):
        call(SheddingMiddleware(overloaded, adaptive))
    assert adaptive.limit < 10
    assert adaptive.in_use == 0


def test_some_requests_are_exempt() -> None:
    app = SheddingMiddleware(fine(), limit=1, exempt=lambda environ: "HTTP_X_HEALTH" in environ)
    with instant():
        app.places.enter()  # type: ignore[union-attr]
    assert call(app).status == 503
    assert call(app, x_health="1").status == 200


def test_wsgi_middleware_without_an_application_is_refused() -> None:
    for middleware in (DeadlineMiddleware, RefusalMiddleware, SheddingMiddleware):
        with pytest.raises(TypeError, match="app must be a WSGI application"):
            middleware(None)  # type: ignore[arg-type]
