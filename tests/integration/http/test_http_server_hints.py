"""``Retry-After`` and its relatives: a floor of the wait, or a reason to stop."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer

import stormproof as sp

PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
Pairs = list[tuple[str, str]]


async def _waits(http: Http, headers: Pairs, **options: object) -> tuple[list[float], int]:
    """The waits of one GET that is answered 503 with ``headers``, then 200; and its last status."""
    http.server.on("/", answer(503, headers=headers), answer(200))
    with sp.testing.instant() as clock:
        got = await http.client(retry(**options)).get("/")
        return list(clock.sleeps), got.status


#: The answer's headers, and the least and most to be waited.
HINTS: list[tuple[Pairs, float, float]] = [
    ([("Retry-After", "2")], 2.0, 2.2),
    ([("retry-after-ms", "1500")], 1.5, 1.65),
    ([("x-amz-retry-after", "3000")], 3.0, 3.3),
    ([("Retry-After", "1"), ("Retry-After", "4")], 4.0, 4.4),
    ([("Retry-After", PAST)], 0.0, 0.0),
    ([("Retry-After", "soon")], 0.0, 0.0),
    ([("Retry-After", "-1")], 0.0, 0.0),
    ([("Retry-After", "")], 0.0, 0.0),
    ([("Retry-After", "Wed, 99 Foo 2015")], 0.0, 0.0),
]


@each_client
async def test_hint_is_a_floor_and_an_invalid_one_is_ignored(http: Http) -> None:
    for headers, least, most in HINTS:
        waits, status = await _waits(http, headers)
        assert (status, len(waits)) == (200, 1), headers
        assert least <= waits[0] <= most, headers


@each_client
async def test_hint_never_shortens_our_own_wait(http: Http) -> None:
    waits, status = await _waits(http, [("Retry-After", "1")], backoff=sp.Constant(7))
    assert (waits, status) == ([7.0], 200)


@each_client
async def test_longer_than_max_hint_stops_with_the_servers_answer(http: Http) -> None:
    client = http.client(retry())
    for value in ("61", str(10**12), "9" * 5000):
        http.server.on("/", answer(429, b"busy", [("Retry-After", value)]), answer(200))
        got = await client.get("/")
        assert (got.status, got.body) == (429, b"busy")
        with pytest.raises(Exception) as caught:
            got.raise_for_status()
        after = sp.transient(caught.value).after
        assert after is not None and after > 60
    assert len(http.server.seen) == 3


@each_client
async def test_max_hint_is_the_policys(http: Http) -> None:
    waits, status = await _waits(http, [("Retry-After", "90")], max_hint=100, within=None)
    assert status == 200 and 90 <= waits[0] <= 99
    waits, status = await _waits(http, [("Retry-After", "2")], max_hint=1)
    assert (waits, status) == ([], 503)


@each_client
async def test_hint_past_the_deadline_stops_at_once(http: Http) -> None:
    http.server.on("/", answer(503, headers=[("Retry-After", "30")]), answer(200))
    policy = sp.Policy(sp.Deadline(5), sp.Retry(backoff=sp.Constant(0), budget=None))
    assert (await http.client(policy).get("/")).status == 503
    assert len(http.server.seen) == 1


@each_client
async def test_hint_adds_no_attempts_and_lifts_no_budget(http: Http) -> None:
    http.server.on("/", answer(503, headers=[("Retry-After", "0")]))
    client = http.client(retry(attempts=2))
    assert (await client.get("/")).status == 503
    assert len(http.server.seen) == 2
    client = http.client(retry(budget=sp.Budget(burst=1)))
    assert (await client.get("/")).status == 503
    assert len(http.server.seen) == 2 + 2
