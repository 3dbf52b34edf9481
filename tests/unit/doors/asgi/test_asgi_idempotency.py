"""One execution per Idempotency-Key: the draft's answers, replays, and what happens when things go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.asgi_calls import Answer, call, http, incoming, read, respond
from tests.support.loops import Loop, each_loop

import stormproof as sp
from stormproof._server import replay
from stormproof._server.problem import Problem
from stormproof.asgi import IdempotencyMiddleware
from stormproof.idempotency import MemoryStore, StoreUnavailable
from stormproof.idempotency.records import Begin, Finish
from stormproof.testing import FakeClock

KEY = {"Idempotency-Key": "order-1"}


class Handler:
    """Counts its runs; each answers with the next of ``outcomes``: a status, or something to raise."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes) or [201] * 10
        self.bodies: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"text/plain"),
            (b"location", b"/orders/1"),
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.bodies.append(await read(receive))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        await respond(send, outcome, f"run {len(self.bodies)}".encode(), self.headers)


def guard(app: Any, **options: Any) -> IdempotencyMiddleware:
    options.setdefault("store", MemoryStore(clock=FakeClock()))
    return IdempotencyMiddleware(app, **options)


def post(app: Any, **request: Any) -> Callable[[], Any]:
    request = {"method": "POST", "path": "/orders", "headers": KEY, "body": b"{}", **request}
    return lambda: call(app, **request)


def in_turn(loop: Loop, *requests: Callable[[], Any]) -> list[Answer]:
    async def main() -> list[Answer]:
        return [await request() for request in requests]

    answers: list[Answer] = loop.run(main)
    return answers


@each_loop
def test_repetition_gets_the_same_answer(loop: Loop) -> None:
    handler = Handler()
    app = guard(handler)
    first, second, third = in_turn(loop, post(app), post(app), post(app))
    assert (first.status, first.body) == (201, b"run 1")
    assert (second.status, second.body) == (201, b"run 1")
    assert "idempotency-replayed" not in first.headers
    assert second.headers == {
        "content-type": "text/plain",
        "location": "/orders/1",
        "content-length": "5",
        "idempotency-replayed": "true",
    }
    assert third.messages == second.messages
    assert handler.bodies == [b"{}"]


@each_loop
def test_other_keys_and_missing_keys_run(loop: Loop) -> None:
    handler = Handler()
    app = guard(handler)
    requests = [post(app, headers={"Idempotency-Key": f"order-{n}"}) for n in (1, 2)]
    answers = in_turn(loop, *requests, post(app, headers={}), post(app, headers={}))
    assert [answer.body for answer in answers] == [b"run 1", b"run 2", b"run 3", b"run 4"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_pass_through(method: str) -> None:
    handler = Handler()
    app = guard(handler, required=True)
    in_turn(Loop("asyncio"), post(app, method=method), post(app, method=method))
    assert len(handler.bodies) == 2


def test_idempotency_middleware_with_methods_replays_only_those() -> None:
    handler = Handler()
    app = guard(handler, methods=["put"])
    in_turn(Loop("asyncio"), post(app, method="PUT"), post(app, method="PUT"), post(app), post(app))
    assert len(handler.bodies) == 3


@each_loop
def test_key_may_be_required(loop: Loop) -> None:
    handler = Handler()
    for required in (True, lambda scope: scope["path"] == "/orders"):
        (answer,) = in_turn(loop, post(guard(handler, required=required), headers={}))
        assert answer.status == 400
        assert answer.problem["code"] == "idempotency_key_missing"
        assert answer.headers["x-should-retry"] == "false"
    assert handler.bodies == []
    (answer,) = in_turn(loop, post(guard(handler, required=lambda scope: False), headers={}))
    assert answer.status == 201


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("abc", "abc"),
        ('"abc"', "abc"),
        (' "a b" ', "a b"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("k" * 255, "k" * 255),
        ('a"b', 'a"b'),
        ("", None),
        ("  ", None),
        ('""', None),
        ('"abc', None),
        ('"a"b', None),
        (r'"a\b"', None),
        ('"abc"; v=1', None),
        ("k" * 256, None),
        ("a\tb", None),
        ("a\x01b", None),
        ("schlüssel", None),
    ],
)
def test_key_header_is_parsed(value: str, key: str | None) -> None:
    found = replay.read_key([value.encode("latin-1")])
    if key is None:
        assert isinstance(found, Problem) and found.status == 400
    else:
        assert found == key


def test_request_with_two_keys_is_a_problem() -> None:
    assert isinstance(replay.read_key([b"a", b"a"]), Problem)
    assert replay.read_key([]) is None


@each_loop
def test_malformed_key_is_a_400(loop: Loop) -> None:
    handler = Handler()
    (answer,) = in_turn(loop, post(guard(handler), headers={"Idempotency-Key": "k" * 256}))
    assert (answer.status, answer.problem["code"]) == (400, "idempotency_key_malformed")
    assert handler.bodies == []


@each_loop
@pytest.mark.parametrize(
    "change", [{"body": b"{ }"}, {"path": "/refunds"}, {"query": "a=1"}, {"method": "PATCH"}], ids=repr
)
def test_same_key_for_another_request_is_a_422(loop: Loop, change: dict[str, Any]) -> None:
    handler = Handler()
    app = guard(handler)
    _, other, again = in_turn(loop, post(app), post(app, **change), post(app))
    assert (other.status, other.problem["code"]) == (422, "idempotency_mismatch")
    assert other.headers["x-should-retry"] == "false"
    assert again.body == b"run 1"
    assert len(handler.bodies) == 1


def test_headers_are_not_part_of_the_payload() -> None:
    handler = Handler()
    app = guard(handler)
    again = {**KEY, "X-Request-Attempt": "2", "Content-Type": "application/json"}
    in_turn(Loop("asyncio"), post(app), post(app, headers=again))
    assert len(handler.bodies) == 1


@each_loop
def test_repetition_while_the_first_one_runs_is_a_409_worth_retrying(loop: Loop) -> None:
    seen: list[Answer] = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        seen.append(await post(app)())
        await respond(send, 201, b"done")

    app = guard(handler)
    first, after = in_turn(loop, post(app), post(app))
    (conflict,) = seen
    assert (conflict.status, conflict.problem["code"]) == (409, "idempotency_in_progress")
    assert conflict.headers["x-should-retry"] == "true"
    assert (first.body, after.body) == (b"done", b"done")


def test_bodies_in_parts_are_one_body() -> None:
    handler = Handler()
    app = guard(handler)
    in_turn(Loop("asyncio"), post(app, body=(b"ab", b"", b"cd")), post(app, body=b"abcd"))
    assert handler.bodies == [b"abcd"]


@each_loop
def test_request_body_that_is_too_large_is_a_413(loop: Loop) -> None:
    handler = Handler()
    app = guard(handler, max_request=10)
    large, fits = in_turn(loop, post(app, body=(b"x" * 6, b"x" * 6)), post(app, body=b"x" * 10))
    assert (large.status, large.problem["code"]) == (413, "content_too_large")
    assert fits.status == 201
    assert len(handler.bodies) == 1


def test_without_a_key_the_body_is_not_looked_at() -> None:
    handler = Handler()
    (answer,) = in_turn(Loop("asyncio"), post(guard(handler, max_request=10), headers={}, body=b"x" * 100))
    assert answer.status == 201


@each_loop
def test_caller_that_leaves_before_its_body_is_sent_runs_nothing(loop: Loop) -> None:
    handler = Handler()
    app = guard(handler)
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        raise AssertionError("the client has disconnected")

    loop.run(lambda: app(http("POST", "/orders", KEY), receive, send))
    assert handler.bodies == []
    assert len(app.store) == 0  # type: ignore[arg-type]


def streaming(*parts: bytes, status: int = 200) -> Any:
    runs: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        runs.append(1)
        await send({"type": "http.response.start", "status": status, "headers": []})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    app.runs = runs  # type: ignore[attr-defined]
    return app


@each_loop
def test_stream_within_the_bound_is_kept(loop: Loop) -> None:
    inner = streaming(b"a" * 10, b"b" * 10)
    app = guard(inner)
    first, second = in_turn(loop, post(app), post(app))
    assert [len(message.get("body", b"")) for message in first.messages[1:]] == [10, 10, 0]
    assert second.body == first.body == b"a" * 10 + b"b" * 10
    assert inner.runs == [1]


@each_loop
@pytest.mark.parametrize("length", [10, 500])
def test_headers_count_towards_the_size_of_an_answer(loop: Loop, length: int) -> None:
    handler = Handler()
    handler.headers = [(b"x-note", b"n" * length)]
    app = guard(handler, store=MemoryStore(max_answer=400))
    first, second = in_turn(loop, post(app), post(app))
    assert (first.status, first.body) == (201, b"run 1")
    if length == 10:
        assert (second.status, second.body) == (201, b"run 1")
    else:
        assert (second.status, second.problem["code"]) == (409, "idempotency_not_kept")
    assert handler.bodies == [b"{}"]


@each_loop
def test_stream_beyond_the_bound_is_passed_on_and_the_fact_is_kept(loop: Loop) -> None:
    inner = streaming(*[b"x" * 100] * 20)
    app = guard(inner, store=MemoryStore(max_answer=1000))
    first, second = in_turn(loop, post(app), post(app))
    assert first.body == b"x" * 2000
    assert (second.status, second.problem["code"]) == (409, "idempotency_not_kept")
    assert second.headers["x-should-retry"] == "false"
    assert inner.runs == [1]


def test_streamed_part_is_not_held_back() -> None:
    """Only the last part waits for the record."""
    sent: list[str] = []

    class Watching(MemoryStore):
        def run(self, operation: Any) -> Any:
            sent.append(type(operation).__name__)
            return super().run(operation)

    async def send(message: Any) -> None:
        sent.append(message.get("body", b"start").decode())

    app = guard(streaming(b"a", b"b"), store=Watching())
    Loop("asyncio").run(lambda: app(http("POST", "/", KEY), incoming(), send))
    assert sent == ["Begin", "start", "a", "b", "Finish", ""]


@pytest.mark.parametrize(
    ("status", "second"),
    [
        *((status, "replay") for status in (200, 201, 204, 301, 400, 404, 409, 422)),
        *((status, "run") for status in (401, 403, 408, 425, 429, 503)),
        *((status, "unknown") for status in (500, 501, 502, 504)),
    ],
)
def test_status_decides_the_fate_of_its_key(status: int, second: str) -> None:
    handler = Handler(status, 201)
    app = guard(handler)
    first, answer = in_turn(Loop("asyncio"), post(app), post(app))
    assert first.status == status
    if second == "replay":
        assert (answer.status, answer.body) == (status, b"run 1")
    elif second == "run":
        assert (answer.status, answer.body) == (201, b"run 2")
    else:
        assert (answer.status, answer.problem["code"]) == (409, "idempotency_unknown")
        assert answer.headers["x-should-retry"] == "false"
    assert len(handler.bodies) == (2 if second == "run" else 1)


def test_settle_chooses_the_fate_of_a_key_by_status() -> None:
    handler = Handler(500, 201)
    app = guard(handler, settle=lambda status: "release" if status >= 500 else "keep")
    answers = in_turn(Loop("asyncio"), post(app), post(app), post(app))
    assert [answer.status for answer in answers] == [500, 201, 201]
    assert len(handler.bodies) == 2


@each_loop
def test_handler_that_raises_is_not_run_again_in_silence(loop: Loop) -> None:
    handler = Handler(LookupError("bug"), 201)
    app = guard(handler)

    async def main() -> Answer:
        with pytest.raises(LookupError):
            await post(app)()
        return await post(app)()

    answer = loop.run(main)
    assert (answer.status, answer.problem["code"]) == (409, "idempotency_unknown")
    assert len(handler.bodies) == 1


@each_loop
@pytest.mark.parametrize(
    "error",
    [sp.CircuitOpen("x"), sp.RateLimited("x"), sp.DeadlineExceeded("x"), ConnectionError("x")],
    ids=repr,
)
def test_any_raised_error_leaves_the_outcome_unknown(loop: Loop, error: Exception) -> None:
    """Half of the work may have been done before a breaker or a limit said no to the rest."""
    handler = Handler(error, 201)
    app = guard(handler)

    async def main() -> Answer:
        with pytest.raises(type(error)):
            await post(app)()
        return await post(app)()

    answer = loop.run(main)
    assert (answer.status, answer.problem["code"]) == (409, "idempotency_unknown")
    assert len(handler.bodies) == 1


@each_loop
def test_settle_may_release_the_key_of_a_raised_error(loop: Loop) -> None:
    handler = Handler(sp.CircuitOpen("x"), 201)
    app = guard(handler, settle=lambda status: "keep" if status < 500 else "release")

    async def main() -> None:
        with pytest.raises(sp.CircuitOpen):
            await post(app)()
        await post(app)()

    loop.run(main)
    assert len(handler.bodies) == 2


@each_loop
def test_handler_that_fails_halfway_leaves_the_outcome_unknown(loop: Loop) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise sp.CircuitOpen("halfway")

    app = guard(handler)

    async def main() -> Answer:
        with pytest.raises(sp.CircuitOpen):
            await post(app)()
        return await post(app)()

    assert loop.run(main).problem["code"] == "idempotency_unknown"


@each_loop
def test_handler_that_never_answers_leaves_the_outcome_unknown(loop: Loop) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        return None

    app = guard(handler)
    _, second = in_turn(loop, post(app), post(app))
    assert second.problem["code"] == "idempotency_unknown"


@each_loop
def test_cancelled_handler_leaves_the_outcome_unknown(loop: Loop) -> None:
    runs: list[int] = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        runs.append(1)
        await loop.sleep(1000)

    app = guard(handler)

    async def main() -> Answer:
        assert await loop.cut(1, post(app))
        return await post(app)()

    assert loop.run(main).problem["code"] == "idempotency_unknown"
    assert runs == [1]


@each_loop
def test_unknown_outcome_may_be_run_again(loop: Loop) -> None:
    store = MemoryStore()
    handler = Handler(500, 201)
    first, second, third = in_turn(
        loop,
        post(guard(handler, store=store)),
        post(guard(handler, store=store, on_unknown="run")),
        post(guard(handler, store=store)),
    )
    assert (first.status, second.body, third.body) == (500, b"run 2", b"run 2")


@each_loop
def test_caller_that_leaves_does_not_lose_the_answer(loop: Loop) -> None:
    inner = streaming(b"a", b"b", status=201)
    app = guard(inner)

    async def gone(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise BrokenPipeError

    async def main() -> Answer:
        await app(http("POST", "/orders", KEY), incoming(b"{}"), gone)
        return await post(app)()

    answer = loop.run(main)
    assert (answer.status, answer.body) == (201, b"ab")
    assert inner.runs == [1]


def test_replayed_answer_leaves_out_cookies_dates_and_connection_headers() -> None:
    handler = Handler()
    handler.headers += [
        (b"Set-Cookie", b"session=s3cret"),
        (b"Date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"close"),
        (b"X-Trace", b"abc"),
        (b"X-Kept", b"1"),
        (b"X-Kept", b"2"),
    ]
    app = guard(handler, drop_headers=["X-Trace"])
    first, second = in_turn(Loop("asyncio"), post(app), post(app))
    assert ("Set-Cookie", "session=s3cret") in first.pairs
    assert second.pairs == [
        ("content-type", "text/plain"),
        ("location", "/orders/1"),
        ("x-kept", "1"),
        ("x-kept", "2"),
        ("content-length", "5"),
        ("idempotency-replayed", "true"),
    ]


def test_answer_without_a_body_has_no_length() -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 204)

    app = guard(handler)
    _, second = in_turn(Loop("asyncio"), post(app), post(app))
    assert (second.status, second.headers) == (204, {"idempotency-replayed": "true"})


class Failing(MemoryStore):
    down: tuple[type, ...] = ()

    def run(self, operation: Any) -> Any:
        if isinstance(operation, self.down):
            raise StoreUnavailable("gone")
        return super().run(operation)


@each_loop
def test_unavailable_store_lets_no_call_run(loop: Loop) -> None:
    store = Failing()
    store.down = (Begin,)
    handler = Handler()
    (answer,) = in_turn(loop, post(guard(handler, store=store)))
    assert (answer.status, answer.problem["code"]) == (503, "idempotency_store")
    assert int(answer.headers["retry-after"]) >= 1
    assert handler.bodies == []


@each_loop
def test_answer_that_cannot_be_recorded_is_still_given(loop: Loop) -> None:
    clock = FakeClock()
    store = Failing(clock=clock)
    store.down = (Finish,)
    handler = Handler()
    app = guard(handler, store=store, lease=10)
    seen: list[Any] = []
    unsubscribe = sp.subscribe(seen.append)
    try:
        first, second = in_turn(loop, post(app), post(app))
    finally:
        unsubscribe()
    assert (first.status, second.status) == (201, 409)
    assert [event.decision for event in seen] == ["new", "unrecorded", "in_progress"]
    clock.advance(11)
    (third,) = in_turn(loop, post(app))
    assert third.problem["code"] == "idempotency_unknown"


def test_key_is_kept_for_its_ttl() -> None:
    clock = FakeClock()
    handler = Handler()
    app = guard(handler, store=MemoryStore(clock=clock), ttl=60)
    loop = Loop("asyncio")
    in_turn(loop, post(app))
    clock.advance(59)
    in_turn(loop, post(app))
    assert len(handler.bodies) == 1
    clock.advance(1)
    in_turn(loop, post(app))
    assert len(handler.bodies) == 2


def test_extensions_that_bypass_the_record_are_hidden() -> None:
    seen: list[Any] = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["extensions"])
        await respond(send)

    offered = {"http.response.pathsend": {}, "http.response.trailers": {}, "http.response.debug": {}}
    scope = {**http("POST", "/", KEY), "extensions": offered}

    async def send(message: Any) -> None:
        return None

    Loop("asyncio").run(lambda: guard(handler)(scope, incoming(), send))
    assert seen == [{"http.response.debug": {}}]
    assert scope["extensions"] is offered


@each_loop
def test_message_of_another_kind_is_passed_on_and_not_replayed(loop: Loop) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.debug", "info": {"template": "order.html"}, "body": b"no"})
        await respond(send, 201, b"made")

    app = guard(handler)
    first, second = in_turn(loop, post(app), post(app))
    kinds = [message["type"] for message in first.messages]
    assert kinds == ["http.response.debug", "http.response.start", "http.response.body"]
    assert (second.status, second.body) == (201, b"made")


def test_receive_after_the_body_reaches_the_server() -> None:
    heard: list[str] = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await read(receive)
        heard.append((await receive())["type"])
        await respond(send)

    in_turn(Loop("asyncio"), post(guard(handler)))
    assert heard == ["http.disconnect"]


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_connections_pass_through(kind: str) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    Loop("asyncio").run(lambda: guard(app)({"type": kind}, None, None))  # type: ignore[arg-type]
    assert seen == [kind]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"store": None}, TypeError, "store must be a Store"),
        ({"methods": "POST"}, TypeError, "methods must be a collection"),
        ({"required": 1}, TypeError, "required must be True or False"),
        ({"header": "Idempotency Key"}, ValueError, "header must be a header name"),
        ({"scope": "tenant"}, TypeError, "scope must be callable or None"),
        ({"lease": 0}, ValueError, "lease must be > 0"),
        ({"ttl": 0}, ValueError, "ttl must be > 0"),
        ({"on_unknown": "maybe"}, ValueError, "on_unknown must be one of"),
        ({"settle": 3}, TypeError, "settle must be callable or None"),
        ({"max_request": -1}, ValueError, "max_request must be >= 0"),
        ({"drop_headers": "X-Trace"}, TypeError, "drop_headers must be a collection"),
        ({"drop_headers": ["X:Trace"]}, ValueError, "drop_headers must be a header name"),
    ],
)
def test_bad_option_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        IdempotencyMiddleware(Handler(), **{"store": MemoryStore(), **options})
