"""One layer retries: what a client gave up on is marked, and layers around it do not start over."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, reset

import stormproof as sp
from stormproof._classify.exhaustion import exhausted_by


async def _through(http: Http, policy: sp.Policy, **outer: object) -> Exception:
    """The error of a call that checks its status, retried by a layer of its own."""
    client = http.client(policy)

    async def checked() -> None:
        (await client.get("/")).raise_for_status()

    given = {"on": sp.transient, "backoff": sp.Constant(0), "budget": None, **outer}
    with pytest.raises(Exception) as caught:
        if http.kind.is_async:
            await sp.retry(**given)(checked)()
        else:
            sp.retry(**given)(lambda: _finish(checked()))()
    return caught.value


def _finish(coroutine: object) -> object:
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        return stop.value
    raise AssertionError("suspended")


@each_client
async def test_outer_layer_does_not_retry_an_exhausted_answer(http: Http) -> None:
    http.server.on("/", answer(503))
    error = await _through(http, retry(attempts=3), attempts=4)
    assert len(http.server.seen) == 3
    assert "503" in str(error)


@each_client
async def test_outer_layer_does_not_retry_an_exhausted_error(http: Http) -> None:
    http.server.on("/", reset())
    error = await _through(http, retry(attempts=3), attempts=4)
    assert isinstance(error, http.kind.lost)
    assert len(http.server.seen) == 3


@each_client
async def test_outer_layer_with_retry_exhausted_starts_over(http: Http) -> None:
    http.server.on("/", answer(503))
    await _through(http, retry(attempts=2), attempts=3, retry_exhausted=True, on=Exception)
    assert len(http.server.seen) == 6


@each_client
async def test_answer_that_was_not_retried_carries_no_mark(http: Http) -> None:
    http.server.on("/", answer(404))
    got = await http.client(retry()).get("/")
    assert exhausted_by(got.native) is None


@each_client
async def test_mark_names_the_layer_and_its_attempts(http: Http) -> None:
    http.server.on("/", answer(503))
    policy = sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None), name="billing")
    mark = exhausted_by((await http.client(policy).get("/")).native)
    assert mark is not None and (mark.layer, mark.attempts) == ("billing", 2)


def _unready(given: object) -> bool:
    return 202 in (getattr(given, "status_code", None), getattr(given, "status", None))


@each_client
async def test_answer_that_on_result_refused_to_the_end_is_marked(http: Http) -> None:
    http.server.on("/", answer(202))
    client = http.client(retry(attempts=3, on_result=_unready))

    async def native() -> object:
        return (await client.get("/")).native

    outer = sp.retry(on=OSError, on_result=_unready, backoff=sp.Constant(0), budget=None)
    got = await outer(native)() if http.kind.is_async else outer(lambda: _finish(native()))()
    mark = exhausted_by(got)
    assert mark is not None and (mark.attempts, mark.reason) == (3, "attempts used up")
    assert len(http.server.seen) == 3


@each_client
async def test_response_that_succeeded_after_retries_carries_no_mark(http: Http) -> None:
    http.server.on("/", answer(202), answer(200))
    client = http.client(retry(on_result=_unready))
    got = await client.get("/")
    assert (got.status, exhausted_by(got.native)) == (200, None)
