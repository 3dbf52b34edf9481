"""Which answers are worth another attempt, in every client."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer

import stormproof as sp

RETRIED = [408, 425, 429, 500, 502, 503, 504, 507, 509, 599]
FINAL = [200, 204, 304, 400, 401, 403, 404, 409, 410, 418, 422, 451, 501, 505, 506, 508, 510, 511]


@each_client
async def test_statuses_are_retried_by_the_table(http: Http) -> None:
    client = http.client(retry(attempts=2))
    for status in RETRIED + FINAL:
        http.server.on(f"/{status}", answer(status))
        assert (await client.get(f"/{status}")).status == status
    tries = {status: len(http.server.requests(f"/{status}")) for status in RETRIED + FINAL}
    assert tries == {**dict.fromkeys(RETRIED, 2), **dict.fromkeys(FINAL, 1)}


@each_client
async def test_retried_failure_is_invisible_to_the_caller(http: Http) -> None:
    http.server.on("/", answer(503), answer(500), answer(200, b"good", [("X-Reply", "yes")]))
    got = await http.client(retry()).get("/", headers={"Authorization": "Bearer t", "X-Mine": "1"})
    assert (got.status, got.body, got.headers["x-reply"]) == (200, b"good", "yes")
    # What the user sent goes out unchanged every time, credentials included.
    for seen in http.server.seen:
        assert (seen.header("Authorization"), seen.header("X-Mine")) == ("Bearer t", "1")
    assert len(http.server.seen) == 3


@each_client
async def test_attempts_counts_the_first(http: Http) -> None:
    http.server.on("/", answer(503, b"down"))
    got = await http.client(retry(attempts=3)).get("/")
    assert (got.status, got.body) == (503, b"down")
    assert len(http.server.seen) == 3


@each_client
async def test_should_retry_header_wins_over_the_table(http: Http) -> None:
    http.server.on("/yes", answer(400, headers=[("X-Should-Retry", "true")]), answer(200))
    http.server.on("/no", answer(503, headers=[("x-should-retry", "false")]), answer(200))
    client = http.client(retry())
    assert (await client.get("/yes")).status == 200
    assert (await client.get("/no")).status == 503
    assert len(http.server.requests("/no")) == 1


@each_client
async def test_credentials_error_is_not_retried_despite_should_retry(http: Http) -> None:
    for status in (401, 403):
        http.server.on(f"/{status}", answer(status, headers=[("X-Should-Retry", "true")]), answer(200))
        assert (await http.client(retry()).get(f"/{status}")).status == status


@each_client
async def test_conflict_is_retried_on_request_only(http: Http) -> None:
    http.server.on("/", answer(409), answer(200))
    assert (await http.client(retry()).get("/")).status == 409
    wider = sp.transient.with_(statuses={409, *sp.transient.settings.statuses})
    http.server.on("/", answer(409), answer(200))
    assert (await http.client(retry(on=wider)).get("/")).status == 200


@each_client
async def test_redirects_are_left_to_the_client(http: Http) -> None:
    http.server.on("/from", answer(503), answer(302, headers=[("Location", "/to")]))
    http.server.on("/to", answer(503), answer(200, b"there"))
    client = http.client(retry(attempts=2))
    assert (await client.get("/from", redirects=True)).body == b"there"
    # Each hop has its own attempts.
    assert [seen.path for seen in http.server.seen] == ["/from", "/from", "/to", "/to"]
    http.server.on("/from", answer(302, headers=[("Location", "/to")]))
    assert (await client.get("/from")).status == 302


@each_client
async def test_budget_is_charged_for_every_retry(http: Http) -> None:
    http.server.on("/", answer(503))
    client = http.client(retry(budget=sp.Budget(ratio=0.1, burst=2)))
    # Inside a client the answer stays the client's own: the last response, not an error of ours.
    assert [(await client.get("/")).status for _ in range(3)] == [503, 503, 503]
    assert len(http.server.seen) == 3 + 2


@each_client
async def test_disabled_policy_does_not_retry_a_status(http: Http) -> None:
    http.server.on("/", answer(503))
    client = http.client(retry())
    with sp.disabled():
        assert (await client.get("/")).status == 503
    assert len(http.server.seen) == 1


@each_client
async def test_events_report_the_retries_and_no_secret(http: Http) -> None:
    http.server.on("/", answer(503), answer(200))
    events: list[object] = []
    stop = sp.subscribe(events.append)
    try:
        await http.client(retry()).get("/?token=hunter2", headers={"Authorization": "Bearer hunter3"})
    finally:
        stop()
    assert [type(event).__name__ for event in events] == ["Retrying", "Succeeded"]
    assert "hunter" not in repr(events)


@each_client
async def test_options_that_make_no_sense_are_refused(http: Http) -> None:
    for bad in ({"buffer": -1}, {"buffer": True}, {"idempotency_key": ""}, {"idempotency_key": 7}):
        (name,) = bad
        with pytest.raises((TypeError, ValueError), match=name):
            http.client(retry(), **bad)
    with pytest.raises(TypeError, match="policy"):
        http.client("retry")  # type: ignore[arg-type]


@each_client
async def test_do_not_retry_header_overrides_on(http: Http) -> None:
    http.server.on("/", answer(503, b"no", headers=[("x-should-retry", "false")]))
    rules = [{"on": Exception}, {"on": lambda error: True}, {"on_result": lambda response: True}]
    for rule in rules:
        assert (await http.client(retry(**rule)).get("/")).body == b"no"
    assert len(http.server.seen) == len(rules)
    await http.client(retry(attempts=2, on=lambda error: sp.Verdict(True))).get("/")
    assert len(http.server.seen) == len(rules) + 2


@each_client
async def test_do_not_retry_answer_counts_as_a_failure_of_the_breaker(http: Http) -> None:
    http.server.on("/", answer(503, headers=[("x-should-retry", "false")]))
    breaker = sp.Breaker()
    await http.client(sp.Policy(breaker)).get("/")
    assert breaker.counts.failures == 1
    # Its last failure would keep the client's pool from being collected.
    breaker.reset()
