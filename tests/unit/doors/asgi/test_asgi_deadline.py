"""The caller's remaining time: read, bounded, kept; late work is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.asgi_calls import call, respond
from tests.support.loops import Loop, each_loop

import stormproof as sp
from stormproof._server.request_facts import time_left
from stormproof.asgi import DeadlineMiddleware


def left(header: str, *values: str) -> float | None:
    return time_left(lambda name: values if name == header else (), [header])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1500", 1.5),
        (" 20 ", 0.02),
        ("0.5", 0.0005),
        ("0", 0.0),
        ("-5", -0.005),
        ("007", 0.007),
        ("1" * 5000, math.inf),
        ("100, 20", 0.02),
        ("", None),
        ("soon", None),
        ("1e3", None),
        ("0x10", None),
        ("1.", None),
        ("+5", None),
        ("٣", None),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
    ],
)
def test_millisecond_header_is_read(value: str, seconds: float | None) -> None:
    assert left("x-request-timeout-ms", value) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2H", 7200.0),
        ("3M", 180.0),
        ("4S", 4.0),
        ("250m", 0.25),
        ("10u", 1e-5),
        ("10n", 1e-8),
        ("0S", 0.0),
        ("99999999S", 99999999.0),
        ("100000000S", None),
        ("-1S", None),
        ("1", None),
        ("S", None),
        ("1s", None),
        ("", None),
    ],
)
def test_grpc_timeout_header_is_read(value: str, seconds: float | None) -> None:
    assert left("grpc-timeout", value) == (None if seconds is None else pytest.approx(seconds))


def test_smallest_of_all_headers_counts() -> None:
    values = {"x-request-timeout-ms": ["900", "garbage", "700"], "grpc-timeout": ["1S", "800m"]}
    assert time_left(lambda name: values[name], list(values)) == 0.7


def handler(seen: list[Any]) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(sp.remaining())
        await respond(send, 200, b"fine")

    return app


@each_loop
@pytest.mark.parametrize(
    ("options", "headers", "expected"),
    [
        ({}, {"X-Request-Timeout-Ms": "1500"}, 1.5),
        ({}, {}, None),
        ({"default": 7}, {}, 7.0),
        ({"default": 7}, {"X-Request-Timeout-Ms": "9000"}, 9.0),
        ({"default": 7}, {"X-Request-Timeout-Ms": "nonsense"}, 7.0),
        ({"max": 2}, {"X-Request-Timeout-Ms": "9000"}, 2.0),
        ({"max": 2, "default": 7}, {}, 2.0),
        ({}, {"X-Request-Timeout-Ms": "9" * 40}, 3600.0),
        ({"max": None}, {"X-Request-Timeout-Ms": "9" * 40}, None),
        ({"header": "X-Left"}, {"X-Left": "1000", "X-Request-Timeout-Ms": "5"}, 1.0),
        ({"header": ("grpc-timeout", "X-Left")}, {"X-Left": "1000", "grpc-timeout": "2S"}, 1.0),
    ],
)
def test_handler_has_the_callers_time(
    loop: Loop, options: dict[str, Any], headers: dict[str, str], expected: float | None
) -> None:
    seen: list[Any] = []
    answer = loop.run(lambda: call(DeadlineMiddleware(handler(seen), **options), headers=headers))
    assert (answer.status, answer.body) == (200, b"fine")
    assert seen == [expected if expected is None else pytest.approx(expected, abs=0.5)]


@each_loop
@pytest.mark.parametrize("late", ["0", "-1", "0.0"])
def test_late_work_is_refused_without_being_begun(loop: Loop, late: str) -> None:
    seen: list[Any] = []
    answer = loop.run(lambda: call(DeadlineMiddleware(handler(seen)), headers={"X-Request-Timeout-Ms": late}))
    assert seen == []
    assert answer.status == 504
    assert answer.headers["x-should-retry"] == "false"
    assert answer.problem["code"] == "deadline_exceeded"


def slow(loop: Loop, events: list[str], before: Any = None) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if before is not None:
            await send(before)
        try:
            await loop.sleep(1000)
        except BaseException as error:
            events.append(type(error).__name__)
            raise

    return app


@each_loop
def test_work_that_becomes_late_is_cancelled(loop: Loop) -> None:
    events: list[str] = []
    app = DeadlineMiddleware(slow(loop, events))
    answer = loop.run(lambda: call(app, headers={"X-Request-Timeout-Ms": "20"}))
    assert answer.status == 504
    assert len(answer.messages) == 2
    assert events and events[0] in ("CancelledError", "Cancelled")


@each_loop
def test_answer_that_has_begun_is_not_begun_again(loop: Loop) -> None:
    start = {"type": "http.response.start", "status": 200, "headers": []}
    app = DeadlineMiddleware(slow(loop, [], start))

    async def main() -> None:
        with pytest.raises(sp.DeadlineExceeded):
            await call(app, headers={"X-Request-Timeout-Ms": "20"})

    loop.run(main)


@each_loop
def test_work_after_the_answer_has_no_deadline(loop: Loop) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        seen.append(sp.remaining() is None)
        await send({"type": "http.response.body", "body": b"b"})
        await loop.sleep(1000)
        seen.append(sp.remaining() is None)

    answer = loop.run(lambda: call(DeadlineMiddleware(app), headers={"X-Request-Timeout-Ms": "20000"}))
    assert answer.body == b"ab"
    assert seen == [False, True]


@each_loop
def test_deadline_that_has_ended_is_not_lifted(loop: Loop) -> None:
    async def main() -> None:
        with pytest.raises(sp.DeadlineExceeded, match=r"of 0\.02 s exceeded"):
            with sp.deadline(0.02) as scope:
                try:
                    await loop.sleep(1000)
                finally:
                    scope.lift()

    loop.run(main)


@each_loop
def test_retry_that_would_end_too_late_is_a_504(loop: Loop) -> None:
    policy = sp.Policy(sp.Retry(on=ConnectionError, backoff=sp.Constant(30)))
    calls: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def fail() -> None:
            calls.append(1)
            raise ConnectionError

        await policy.acall(fail)

    answer = loop.run(lambda: call(DeadlineMiddleware(app), headers={"X-Request-Timeout-Ms": "5000"}))
    assert answer.status == 504
    assert calls == [1]


@each_loop
def test_shorter_deadline_inside_is_the_applications_own(loop: Loop) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with sp.deadline(0, "inner"):
            await sp.Policy(sp.Retry(on=OSError)).acall(loop.sleep, 1)

    async def main() -> None:
        with pytest.raises(sp.DeadlineExceeded):
            await call(DeadlineMiddleware(app), headers={"X-Request-Timeout-Ms": "5000"})

    loop.run(main)


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_connections_pass_through(kind: str) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["type"], sp.remaining()))

    middleware = DeadlineMiddleware(app, default=5)
    Loop("asyncio").run(lambda: middleware({"type": kind, "headers": []}, None, None))  # type: ignore[arg-type]
    assert seen == [(kind, None)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max": 0}, "DeadlineMiddleware: max must be > 0"),
        ({"default": 0}, "DeadlineMiddleware: default must be > 0"),
        ({"header": "a b"}, "header must be a header name, got 'a b'"),
        ({"header": ""}, "header must be a header name"),
    ],
)
def test_bad_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        DeadlineMiddleware(handler([]), **options)
    with pytest.raises(TypeError, match="app must be an ASGI application"):
        DeadlineMiddleware(None)  # type: ignore[arg-type]
