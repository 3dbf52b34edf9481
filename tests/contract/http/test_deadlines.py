"""A deadline bounds the whole call, and every attempt gets the smaller of its own time and what is left."""

from __future__ import annotations

import time

import pytest
from tests.contract.http.contract import Http, each_client, retry
from tests.contract.http.server import answer, hang, late

import holdfast as hf


def _bounded(seconds: float, **options: object) -> hf.Policy:
    return hf.Policy(hf.Deadline(seconds), *retry(**options).strategies)


@each_client
async def test_a_deadline_that_has_passed_makes_no_request(http: Http) -> None:
    http.server.on("/", answer(200))
    client = http.client(retry())
    with pytest.raises(TimeoutError), hf.deadline(0):
        await client.get("/")
    assert http.server.seen == []


@each_client
async def test_the_deadline_bounds_an_attempt_that_hangs(http: Http) -> None:
    http.server.on("/", hang())
    started = time.monotonic()
    with pytest.raises(Exception) as caught:
        await http.client(_bounded(0.2)).get("/", timeout=30)
    assert time.monotonic() - started < 5
    assert isinstance(caught.value, (TimeoutError, *http.kind.slow)), repr(caught.value)
    assert len(http.server.seen) == 1


@each_client
async def test_an_ambient_deadline_bounds_it_too(http: Http) -> None:
    http.server.on("/", hang())
    client = http.client(retry())
    started = time.monotonic()
    with pytest.raises(Exception) as caught, hf.deadline(0.2):
        await client.get("/", timeout=30)
    assert time.monotonic() - started < 5
    assert isinstance(caught.value, (TimeoutError, *http.kind.slow)), repr(caught.value)


@each_client
async def test_the_clients_own_timeout_stands_where_it_is_shorter(http: Http) -> None:
    http.server.on("/", hang(), answer(200, b"ok"))
    assert (await http.client(_bounded(30)).get("/", timeout=0.1)).body == b"ok"
    first, second = http.server.seen
    assert second.at - first.at < 5


@each_client
async def test_the_attempts_timeout_is_the_policys_where_that_is_shorter(http: Http) -> None:
    http.server.on("/", hang(), answer(200, b"ok"))
    policy = hf.Policy(*retry().strategies, hf.Timeout(0.1))
    assert (await http.client(policy).get("/", timeout=30)).body == b"ok"
    first, second = http.server.seen
    assert second.at - first.at < 5


@each_client
async def test_no_wait_begins_that_would_end_past_the_deadline(http: Http) -> None:
    http.server.on("/", answer(503, b"now"))
    started = time.monotonic()
    got = await http.client(_bounded(5, backoff=hf.Constant(60))).get("/")
    assert (got.status, got.body) == (503, b"now")
    assert time.monotonic() - started < 4
    assert len(http.server.seen) == 1


@each_client
async def test_a_late_answer_within_the_deadline_is_an_answer(http: Http) -> None:
    http.server.on("/", late(0.05, answer(200, b"ok")))
    assert (await http.client(_bounded(30)).get("/")).body == b"ok"
