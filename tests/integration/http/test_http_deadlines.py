"""A deadline bounds the whole call, and every attempt gets the smaller of its own time and what is left."""

from __future__ import annotations

import time

import pytest
import requests
import urllib3
from tests.support.http.each_client import Http, each_client, each_sync_client, retry
from tests.support.http.server import Exchange, Step, answer, hang, head, late

import stormproof as sp
from stormproof._classify.exhaustion import exhausted_by

Pairs = list[tuple[str, str]]

#: requests and urllib3 have no timeout error for sending, which a busy machine may not get done in time.
CUT_OFF_WHILE_SENDING = (requests.ConnectionError, urllib3.exceptions.ProtocolError)


def _bounded(seconds: float, **options: object) -> sp.Policy:
    return sp.Policy(sp.Deadline(seconds), *retry(**options).strategies)


@each_client
async def test_deadline_that_has_passed_makes_no_request(http: Http) -> None:
    http.server.on("/", answer(200))
    client = http.client(retry())
    with pytest.raises(TimeoutError), sp.deadline(0):
        await client.get("/")
    assert http.server.seen == []


@each_client
async def test_deadline_bounds_an_attempt_that_hangs(http: Http) -> None:
    http.server.on("/", hang())
    started = time.monotonic()
    with pytest.raises(Exception) as caught:
        await http.client(_bounded(0.2)).get("/", timeout=30)
    assert time.monotonic() - started < 20
    assert isinstance(caught.value, (TimeoutError, *http.kind.slow)), repr(caught.value)
    # On a busy machine the time is over before the request has arrived.
    assert len(http.server.seen) <= 1


@each_client
async def test_ambient_deadline_bounds_the_call(http: Http) -> None:
    http.server.on("/", hang())
    client = http.client(retry())
    started = time.monotonic()
    with pytest.raises(Exception) as caught, sp.deadline(0.2):
        await client.get("/", timeout=30)
    assert time.monotonic() - started < 20
    assert isinstance(caught.value, (TimeoutError, *http.kind.slow)), repr(caught.value)


@each_client
async def test_shorter_client_timeout_wins_over_the_deadline(http: Http) -> None:
    http.server.on("/", hang(), answer(200, b"ok"))
    assert (await http.client(_bounded(30, attempts=9)).get("/", timeout=0.5)).body == b"ok"
    first, second, *_ = http.server.seen
    assert second.at - first.at < 20


@each_client
async def test_attempts_timeout_is_the_policys_where_that_is_shorter(http: Http) -> None:
    http.server.on("/", hang(), answer(200, b"ok"))
    policy = sp.Policy(*retry(attempts=9).strategies, sp.Timeout(0.5))
    assert (await http.client(policy).get("/", timeout=30)).body == b"ok"
    first, second, *_ = http.server.seen
    assert second.at - first.at < 20


@each_client
async def test_no_wait_begins_that_would_end_past_the_deadline(http: Http) -> None:
    http.server.on("/", answer(503, b"now"))
    started = time.monotonic()
    got = await http.client(_bounded(15, backoff=sp.Constant(25))).get("/")
    assert (got.status, got.body) == (503, b"now")
    assert time.monotonic() - started < 14
    assert len(http.server.seen) == 1


@each_client
async def test_late_answer_within_the_deadline_is_an_answer(http: Http) -> None:
    http.server.on("/", late(0.05, answer(200, b"ok")))
    assert (await http.client(_bounded(30)).get("/")).body == b"ok"


def _pausing(seconds: float) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.send(head(200, [("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n")
        if await exchange.wait(seconds):
            await exchange.send(b"5\r\nworld\r\n0\r\n\r\n")

    return step


@each_client
@pytest.mark.parametrize("headers", [[], [("Connection", "close")]], ids=["kept", "closed"])
@pytest.mark.parametrize("stream", [True, False])
async def test_body_that_streams_has_the_callers_time(http: Http, stream: bool, headers: Pairs) -> None:
    http.server.on("/", _pausing(1.3))
    policy = sp.Policy(*retry().strategies, sp.Timeout(1))
    got = await http.client(policy).get("/", stream=stream, timeout=30, headers=dict(headers))
    # Every attempt's time is over before the body is; another one is made where even the head is late.
    assert (await got.rest() if stream else got.body) == b"helloworld"


@each_client
async def test_deadline_bounds_the_reading_of_a_stream(http: Http) -> None:
    http.server.on("/", _pausing(28))
    policy = sp.Policy(*retry().strategies, sp.Timeout(0.4))
    client = http.client(policy)
    started = time.monotonic()
    with pytest.raises(Exception) as caught, sp.deadline(0.6):
        await (await client.get("/", stream=True, timeout=30)).rest()
    assert 0.4 < time.monotonic() - started < 20
    # requests has no timeout error for bodies.
    assert isinstance(caught.value, (TimeoutError, *http.kind.slow, requests.ConnectionError))


@each_client
async def test_attempt_cut_off_is_the_clients_timeout_and_ours(http: Http) -> None:
    http.server.on("/", hang())
    slow = (*http.kind.slow, *CUT_OFF_WHILE_SENDING)
    again = retry(on=sp.AttemptTimeout, attempts=2)
    for policy, ours, attempts in (
        (sp.Policy(sp.Timeout(0.2)), sp.AttemptTimeout, None),
        (sp.Policy(*retry(attempts=2).strategies, sp.Timeout(0.2)), sp.AttemptTimeout, 2),
        (sp.Policy(*again.strategies, sp.Timeout(0.2)), sp.AttemptTimeout, 2),
        (sp.Policy(sp.Deadline(0.2)), sp.DeadlineExceeded, None),
        (_bounded(0.2), sp.DeadlineExceeded, 1),
        (_bounded(0.2, on=Exception), sp.DeadlineExceeded, 1),
    ):
        with pytest.raises(slow) as caught:
            await http.client(policy).get("/", timeout=30)
        assert isinstance(caught.value, ours), policy
        mark = exhausted_by(caught.value)
        assert attempts is None or (mark is not None and mark.attempts == attempts), policy


@each_client
async def test_clients_own_timeout_is_not_ours(http: Http) -> None:
    http.server.on("/", hang())
    with pytest.raises(http.kind.slow) as caught:
        await http.client(_bounded(30, attempts=1)).get("/", timeout=0.1)
    assert not isinstance(caught.value, sp.StormproofError)


# In async code a scope that has ended interrupts the first await inside, whatever that is.
@each_sync_client
async def test_disabled_client_ignores_an_ended_deadline(http: Http) -> None:
    http.server.on("/", answer(200, b"ok"))
    client = http.client(retry())
    with sp.deadline(0), sp.disabled():
        assert (await client.get("/")).body == b"ok"
    assert http.server.seen[0].header("X-Request-Timeout-Ms") is None
