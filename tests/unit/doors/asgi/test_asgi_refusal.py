"""Errors of a handler that gave up become the right status and x-should-retry."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest
from tests.support.asgi_calls import call, respond
from tests.support.loops import Loop, each_loop

import stormproof as sp
from stormproof._classify.exhaustion import Mark, mark
from stormproof._server.refusals import refusal
from stormproof.asgi import RefusalMiddleware
from stormproof.idempotency import (
    AnswerNotKept,
    IdempotencyConflict,
    IdempotencyMismatch,
    OutcomeUnknown,
    StoreUnavailable,
)

SECRET = "token=s3cret"


def marked(error: Exception) -> Exception:
    mark(error, Mark("inner", object(), 4))
    return error


def status_error(**headers: str) -> Exception:
    """The error that httpx raises for a response that an inner layer has retried to exhaustion."""
    response = httpx.Response(503, headers=headers, request=httpx.Request("GET", "http://a/?" + SECRET))
    mark(response, Mark("inner", object(), 4))
    return httpx.HTTPStatusError(SECRET, request=response.request, response=response)


def hinted(error: Exception, seconds: float) -> Exception:
    error.retry_after = seconds  # type: ignore[attr-defined]
    return error


CASES = [
    (sp.BudgetExhausted(SECRET), 503, "budget_exhausted", None),
    (sp.CircuitOpen(SECRET, retry_after=12.5), 503, "circuit_open", 12.5),
    (sp.CircuitOpen(SECRET), 503, "circuit_open", None),
    (sp.DeadlineExceeded(SECRET), 504, "deadline_exceeded", None),
    (hinted(sp.DeadlineExceeded(SECRET), 90), 504, "deadline_exceeded", 90),
    (sp.AttemptTimeout(SECRET), 504, "upstream_timeout", None),
    (sp.RateLimited(SECRET, retry_after=3), 429, "rate_limited", 3),
    (sp.BulkheadFull(SECRET), 503, "full", None),
    (sp.Throttled(SECRET), 503, "throttled", None),
    (sp.Cancelled(SECRET), 503, "cancelled", None),
    (marked(ConnectionError(SECRET)), 503, "exhausted", None),
    (marked(TimeoutError(SECRET)), 504, "upstream_timeout", None),
    (marked(httpx.ReadTimeout(SECRET)), 504, "upstream_timeout", None),
    (marked(LookupError(SECRET)), 503, "exhausted", None),
    (hinted(marked(ConnectionError(SECRET)), 7), 503, "exhausted", 7),
    (status_error(), 503, "exhausted", None),
    (status_error(**{"retry-after": "30"}), 503, "exhausted", 30),
    (ExceptionGroup(SECRET, [sp.CircuitOpen("", 5), sp.CircuitOpen("", 9)]), 503, "circuit_open", 9),
    (ExceptionGroup(SECRET, [sp.Throttled(), sp.DeadlineExceeded()]), 504, "deadline_exceeded", None),
]


@each_loop
@pytest.mark.parametrize(("error", "status", "code", "after"), CASES, ids=lambda value: repr(value)[:30])
def test_refusals_become_problem_answers(
    loop: Loop, error: Exception, status: int, code: str, after: float | None
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    answer = loop.run(lambda: call(RefusalMiddleware(app), path="/x"))
    assert answer.status == status
    assert answer.problem["code"] == code
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["cache-control"] == "no-store"
    if after is None:
        assert "retry-after" not in answer.headers and "retry-after-ms" not in answer.headers
    else:
        # A hint is a floor, stretched by at most a tenth.
        assert after * 1000 <= int(answer.headers["retry-after-ms"]) <= after * 1100 + 1
        assert after <= int(answer.headers["retry-after"]) <= after * 1.1 + 1
    assert SECRET not in repr(answer.messages)


@pytest.mark.parametrize(
    ("error", "status", "should_retry"),
    [
        (IdempotencyConflict(SECRET), 409, "true"),
        (IdempotencyMismatch(SECRET), 422, "false"),
        (OutcomeUnknown(SECRET), 409, "false"),
        (AnswerNotKept(SECRET), 409, "false"),
        (StoreUnavailable(SECRET), 503, None),
    ],
)
def test_idempotency_errors_become_problem_answers(
    error: Exception, status: int, should_retry: str | None
) -> None:
    problem = refusal(error)
    assert problem is not None
    headers = dict(problem.headers(lambda: 0.5))
    assert (problem.status, headers.get("x-should-retry")) == (status, should_retry)
    assert SECRET.encode() not in problem.body()


@pytest.mark.parametrize(
    "error",
    [
        LookupError("a bug"),
        ConnectionError("not marked"),
        TimeoutError("not marked"),
        ExceptionGroup("mixed", [sp.CircuitOpen(), LookupError("a bug")]),
        sp.StormproofError("of a kind of its own"),
    ],
    ids=repr,
)
@each_loop
def test_other_errors_reach_the_server(loop: Loop, error: Exception) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise error

    async def main() -> None:
        with pytest.raises(type(error)) as caught:
            await call(RefusalMiddleware(app))
        assert caught.value is error

    loop.run(main)


@each_loop
def test_answer_that_has_begun_is_not_begun_again(loop: Loop) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise sp.CircuitOpen("late")

    async def main() -> None:
        with pytest.raises(sp.CircuitOpen):
            await call(RefusalMiddleware(app))

    loop.run(main)


@each_loop
def test_policy_that_gives_up_inside_a_handler_becomes_a_503(loop: Loop) -> None:
    """Not a made-up error: a breaker that has opened, and a budget that is empty."""
    breaker = sp.Policy(sp.Breaker(consecutive=1, open_for=30))
    spent = sp.Policy(sp.Retry(on=ConnectionError, budget=sp.ThrottleBudget(max_tokens=1)))
    retried = sp.Policy(sp.Retry(on=ConnectionError, attempts=2, backoff=sp.Constant(0)))
    policies = {"/breaker": breaker, "/budget": spent, "/attempts": retried}

    async def fail() -> None:
        raise ConnectionError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await policies[scope["path"]].acall(fail)

    async def main() -> list[tuple[int, str]]:
        with pytest.raises(ConnectionError):
            await breaker.acall(fail)
        answers = [await call(RefusalMiddleware(app), path=path) for path in policies]
        return [(answer.status, answer.problem["code"]) for answer in answers]

    assert loop.run(main) == [(503, "circuit_open"), (503, "budget_exhausted"), (503, "exhausted")]


def test_refusal_is_emitted() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise sp.CircuitOpen(SECRET)

    seen: list[Any] = []
    unsubscribe = sp.subscribe(seen.append)
    try:
        Loop("asyncio").run(lambda: call(RefusalMiddleware(app)))
    finally:
        unsubscribe()
    assert [event.as_dict() for event in seen] == [
        {
            "event": "Declined",
            "operation": "request",
            "code": "circuit_open",
            "error": "stormproof.CircuitOpen",
        }
    ]


def test_infinite_hint_is_sent_as_one_day() -> None:
    problem = refusal(sp.CircuitOpen("", retry_after=float("inf")))
    assert problem is not None
    assert dict(problem.headers(lambda: 0.0))["retry-after"] == "86400"


def test_response_of_an_application_passes_through_refusal_middleware() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 200, b"fine")

    assert Loop("asyncio").run(lambda: call(RefusalMiddleware(app))).body == b"fine"


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_connections_pass_through(kind: str) -> None:
    error, sent = sp.CircuitOpen("down"), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(scope["type"])
        raise error

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        with pytest.raises(sp.CircuitOpen) as caught:
            await RefusalMiddleware(app)({"type": kind}, None, send)  # type: ignore[arg-type]
        assert caught.value is error

    Loop("asyncio").run(main)
    assert sent == [kind]


def test_body_is_a_problem_document() -> None:
    problem = refusal(sp.RateLimited("", 3))
    assert problem is not None
    assert json.loads(problem.body()) == {"title": "Too many requests", "status": 429, "code": "rate_limited"}


def test_middlewares_import_no_framework() -> None:
    code = "import sys, stormproof.asgi, stormproof.wsgi; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "stormproof.asgi" in loaded
    assert not loaded & {"starlette", "anyio", "uvicorn", "httpx"}
