"""Requests beyond the limit are refused with a Retry-After; retries are shed first."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.asgi_calls import Answer, call, http, incoming, respond
from tests.support.loops import Loop, each_loop

import stormproof as sp
from stormproof import events
from stormproof._server.request_facts import ATTEMPT_HEADERS, attempt_number
from stormproof.asgi import SheddingMiddleware


class Busy:
    """An application whose requests stay inside until `free`; each then gets 200."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.inside = 0
        self.most = 0
        self.open = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            while not self.open:
                await self.loop.sleep(1)
            await respond(send, 200, b"done")
        finally:
            self.inside -= 1


def together(loop: Loop, busy: Busy, requests: list[Callable[[], Awaitable[Answer]]]) -> list[Any]:
    """Sends all requests in turn, then lets those inside go on."""

    async def main() -> list[Any]:
        async def later(place: int, request: Callable[[], Awaitable[Answer]]) -> Answer:
            await loop.sleep(place)
            return await request()

        async def release() -> None:
            await loop.sleep(len(requests) + 1)
            busy.open = True

        starts = [lambda p=place, r=request: later(p, r) for place, request in enumerate(requests)]
        return (await loop.together(*starts, release))[:-1]

    answers: list[Any] = loop.run(main)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@each_loop
def test_beyond_the_limit_requests_are_shed(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=3)
    answers = together(loop, busy, [lambda: call(app)] * 5)
    assert [answer.status for answer in answers] == [200, 200, 200, 503, 503]
    assert busy.most == 3
    assert answers[3].problem["code"] == "overloaded"
    assert app.places.in_use == 0


@each_loop
def test_queue_waits_for_a_place(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=1, queue=2)
    answers = together(loop, busy, [lambda: call(app)] * 4)
    assert [answer.status for answer in answers] == [200, 200, 200, 503]
    assert busy.most == 1


@each_loop
def test_wait_in_the_queue_is_bounded(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=1, queue=2, max_wait=1.5)
    answers = together(loop, busy, [lambda: call(app)] * 4)
    assert [answer.status for answer in answers] == [200, 503, 503, 503]
    assert app.places.in_use == 0


@each_loop
@pytest.mark.parametrize("limit", [2, "adaptive"])
def test_application_that_fails_after_its_answer_gives_its_place_back_once(loop: Loop, limit: Any) -> None:
    places = sp.AdaptiveLimit(initial=2) if limit == "adaptive" else limit
    error = LookupError("in a background task")

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await respond(send)
        assert app.places.in_use == 0
        raise error

    app = SheddingMiddleware(inner, limit=places)

    async def main() -> None:
        with pytest.raises(LookupError) as caught:
            await call(app)
        assert caught.value is error

    loop.run(main)
    assert app.places.in_use == 0


@each_loop
def test_retries_are_shed_before_first_attempts(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=4, retry_share=0.5)
    retry = {"X-Request-Attempt": "2"}
    first = {"X-Request-Attempt": "1"}
    answers = together(
        loop, busy, [lambda headers=headers: call(app, headers=headers) for headers in (
            retry, first, retry, first, retry, first, first
        )],
    )  # fmt: skip
    assert [answer.status for answer in answers] == [200, 200, 503, 200, 503, 200, 503]


@each_loop
def test_retries_never_queue(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=1, queue=5, retry_share=1)
    retry = {"X-Request-Attempt": "3"}
    answers = together(loop, busy, [lambda: call(app), lambda: call(app), lambda: call(app, headers=retry)])
    assert [answer.status for answer in answers] == [200, 200, 503]


@pytest.mark.parametrize(
    ("share", "limit", "admitted"),
    [(0.0, 4, 0), (0.25, 4, 1), (0.5, 4, 2), (1.0, 4, 4), (0.01, 4, 1), (0.5, 1, 1)],
)
def test_retries_get_at_most_their_share_of_the_limit(share: float, limit: int, admitted: int) -> None:
    loop = Loop("asyncio")
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=limit, retry_share=share)
    answers = together(loop, busy, [lambda: call(app, headers={"X-Request-Attempt": "2"})] * 5)
    assert [answer.status for answer in answers].count(200) == admitted


@pytest.mark.parametrize(
    ("headers", "number"),
    [
        ({}, 1),
        ({"x-request-attempt": "1"}, 1),
        ({"x-request-attempt": "4"}, 4),
        ({"x-envoy-attempt-count": "2"}, 2),
        ({"x-stainless-retry-count": "0"}, 1),
        ({"x-stainless-retry-count": "1"}, 2),
        ({"grpc-previous-rpc-attempts": "2"}, 3),
        ({"x-request-attempt": "0"}, 1),
        ({"x-request-attempt": "-3"}, 1),
        ({"x-request-attempt": "two"}, 1),
        ({"x-request-attempt": "9" * 5000}, 10**9),
        ({"x-request-attempt": "1", "x-envoy-attempt-count": "3"}, 3),
    ],
)
def test_attempt_number_is_read_from_the_request(headers: dict[str, str], number: int) -> None:
    assert attempt_number(lambda name: [headers[name]] if name in headers else [], ATTEMPT_HEADERS) == number


def test_attempt_header_may_be_renamed() -> None:
    loop = Loop("asyncio")
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=4, retry_share=0, attempt_header="X-Try")
    answers = together(loop, busy, [lambda: call(app, headers={"X-Try": "2"}), lambda: call(app)])
    assert [answer.status for answer in answers] == [503, 200]


def hints(answers: list[Answer]) -> list[tuple[int, int]]:
    return [(int(a.headers["retry-after"]), int(a.headers["retry-after-ms"])) for a in answers]


def shed(count: int, **options: Any) -> list[Answer]:
    loop = Loop("asyncio")
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=1, **options)
    return together(loop, busy, [lambda: call(app)] * (count + 1))[1:]


def test_hints_are_spread() -> None:
    draws = itertools.cycle([0.0, 0.25, 0.5, 0.75])
    answers = shed(4, retry_after=10, spread=1.0, rng=lambda: next(draws))
    assert hints(answers) == [(10, 10_000), (13, 12_500), (15, 15_000), (18, 17_500)]


def test_hints_are_spread_by_default() -> None:
    found = hints(shed(30))
    assert len({ms for _, ms in found}) > 20
    assert all(2000 <= ms <= 4000 and 2 <= s <= 4 and ms <= s * 1000 for s, ms in found)


def test_short_hint_is_never_nothing() -> None:
    assert hints(shed(1, retry_after=0.0001, spread=0)) == [(1, 1)]


@each_loop
def test_place_is_held_until_the_answer_is_sent(loop: Loop) -> None:
    """Not until the headers are, and no longer: what runs in the background has been answered."""
    used: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        used.append(shedding.places.in_use)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        used.append(shedding.places.in_use)
        await send({"type": "http.response.body", "body": b"b"})
        used.append(shedding.places.in_use)

    shedding = SheddingMiddleware(app, limit=2)
    assert loop.run(lambda: call(shedding)).body == b"ab"
    assert used == [1, 1, 0]
    assert shedding.places.in_use == 0


@each_loop
def test_place_is_given_back_after_errors_and_cancels(loop: Loop) -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("mine")

    async def main() -> None:
        shedding = SheddingMiddleware(fails, limit=1)
        for _ in range(3):
            with pytest.raises(LookupError):
                await call(shedding)
        busy = SheddingMiddleware(Busy(loop), limit=1)
        for _ in range(3):
            assert await loop.cut(5, lambda: call(busy))
        assert (shedding.places.in_use, busy.places.in_use) == (0, 0)

    loop.run(main)


@each_loop
def test_caller_that_is_cancelled_in_the_queue_leaves_it(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=1, queue=1)
    answers = together(
        loop, busy, [lambda: call(app), lambda: loop.cut(0.5, lambda: call(app)), lambda: call(app)]
    )
    assert (answers[0].status, answers[1], answers[2].status) == (200, True, 200)
    assert (app.places.in_use, app.places.queued) == (0, 0)  # type: ignore[union-attr]


@each_loop
def test_adaptive_limit_learns_from_the_answers(loop: Loop) -> None:
    def limit_after(status: int) -> int:
        adaptive = sp.AdaptiveLimit("aimd", initial=10, max=20, decrease=0.5)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await respond(send, status)

        middleware = SheddingMiddleware(app, limit=adaptive)

        async def main() -> None:
            for _ in range(3):
                await call(middleware)

        loop.run(main)
        assert adaptive.in_use == 0
        return adaptive.limit

    assert limit_after(503) < 10
    assert limit_after(504) < 10
    assert limit_after(500) >= 10
    assert limit_after(200) >= 10


@each_loop
def test_adaptive_limit_as_a_limit_sheds_requests(loop: Loop) -> None:
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=sp.AdaptiveLimit("aimd", initial=2, max=2))
    answers = together(loop, busy, [lambda: call(app)] * 3)
    assert [answer.status for answer in answers] == [200, 200, 503]


@each_loop
def test_only_a_transient_error_lowers_the_adaptive_limit(loop: Loop) -> None:
    adaptive = sp.AdaptiveLimit("aimd", initial=10, max=20, decrease=0.5)
    errors: list[Exception] = [LookupError(), ConnectionResetError()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise errors.pop(0)

    async def main() -> list[int]:
        limits = []
        for _ in range(2):
            with pytest.raises((LookupError, ConnectionResetError)):
                await call(SheddingMiddleware(app, limit=adaptive))
            limits.append(adaptive.limit)
        return limits

    after_a_bug, after_a_drop = loop.run(main)
    assert after_a_bug == 10 > after_a_drop
    assert adaptive.in_use == 0


def test_bulkhead_may_be_shared() -> None:
    loop = Loop("asyncio")
    busy = Busy(loop)
    bulkhead = sp.Bulkhead(2)
    one, two = SheddingMiddleware(busy, bulkhead), SheddingMiddleware(busy, bulkhead)
    answers = together(loop, busy, [lambda: call(one), lambda: call(two), lambda: call(one)])
    assert [answer.status for answer in answers] == [200, 200, 503]


def test_some_requests_are_exempt() -> None:
    loop = Loop("asyncio")
    busy = Busy(loop)
    app = SheddingMiddleware(busy, limit=1, exempt=lambda scope: scope["path"] == "/health")
    answers = together(loop, busy, [lambda: call(app), lambda: call(app, path="/health"), lambda: call(app)])
    assert [answer.status for answer in answers] == [200, 200, 503]


def test_shed_requests_are_emitted_with_their_reason() -> None:
    seen: list[Any] = []
    unsubscribe = sp.subscribe(seen.append)
    try:
        loop = Loop("asyncio")
        busy = Busy(loop)
        app = SheddingMiddleware(busy, limit=1)
        retry = {"X-Request-Attempt": "2"}
        together(loop, busy, [lambda: call(app), lambda: call(app), lambda: call(app, headers=retry)])
    finally:
        unsubscribe()
    assert [event.reason for event in seen if isinstance(event, events.Shed)] == ["full", "retry"]


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_connections_pass_through(kind: str) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    shedding = SheddingMiddleware(app, limit=1)
    asyncio.run(shedding.places.enter_async())  # type: ignore[union-attr]
    asyncio.run(shedding({"type": kind}, None, None))  # type: ignore[arg-type, func-returns-value]
    assert seen == [kind]


def test_answer_that_cannot_be_sent_gives_its_place_back() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 200, b"x")

    async def broken(message: Any) -> None:
        raise OSError("gone")

    shedding = SheddingMiddleware(app, limit=1)
    with pytest.raises(OSError, match="gone"):
        asyncio.run(shedding(http(), incoming(), broken))  # type: ignore[arg-type, func-returns-value]
    assert shedding.places.in_use == 0


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"limit": 0}, ValueError, "limit must be >= 1"),
        ({"limit": "many"}, TypeError, "limit must be a whole number"),
        ({"limit": sp.Bulkhead(3), "queue": 3}, ValueError, "must be given to the Bulkhead itself"),
        ({"max_wait": 3}, ValueError, "max_wait needs a queue"),
        ({"retry_after": 0}, ValueError, "retry_after must be > 0"),
        ({"spread": -1}, ValueError, "spread must be >= 0"),
        ({"retry_share": 1.5}, ValueError, "retry_share must be <= 1"),
        ({"exempt": "/health"}, TypeError, "exempt must be callable or None"),
        ({"attempt_header": "a:b"}, ValueError, "attempt_header must be a header name"),
    ],
)
def test_bad_option_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        SheddingMiddleware(Busy(Loop("asyncio")), **options)
