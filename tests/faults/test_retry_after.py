"""Unusable ``Retry-After``: 10^12, the past, garbage, 5,000 digits, -1, twice.

A legal one is a floor of the wait, one beyond `max_hint` ends the call with the server's own answer, and what
says nothing leaves our own wait. Whatever it says, no wait is shorter than ours and no call lasts longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer

import stormproof as sp

pytestmark = pytest.mark.proves("fault retry-after")

OWN = 0.25
PAST, FUTURE = "Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"
#: A wait of this length ends the call at once.
STOP = None

#: What the server sends, and the least and most to be waited; `STOP` for none, and no second attempt.
ODD: dict[str, tuple[list[str], tuple[float, float] | None]] = {
    "as long as it may be": (["60"], (60.0, 66.0)),
    "a second longer": (["61"], STOP),
    "10^12": ([str(10**12)], STOP),
    "5,000 digits": (["9" * 5000], STOP),
    "5,000 zeros and a 2": (["0" * 5000 + "2"], (2.0, 2.2)),
    "5,000 digits behind the point": (["2." + "0" * 4990 + "1"], (2.0, 2.21)),
    "the end of time": ([FUTURE], STOP),
    "the past": ([PAST], (OWN, OWN)),
    "before the epoch": (["Mon, 01 Jan 0001 00:00:00 GMT"], (OWN, OWN)),
    "-1": (["-1"], (OWN, OWN)),
    "-5,000 digits": (["-" + "9" * 5000], (OWN, OWN)),
    "-0": (["-0"], (OWN, OWN)),
    "nothing": ([""], (OWN, OWN)),
    "words": (["soon"], (OWN, OWN)),
    "NaN": (["nan"], (OWN, OWN)),
    "infinity": (["inf"], (OWN, OWN)),
    "powers": (["1e999"], (OWN, OWN)),
    "hexadecimal": (["0x10"], (OWN, OWN)),
    "underlined": (["1_000"], (OWN, OWN)),
    "a date that is none": (["Wed, 99 Foo 2015 25:61:61 GMT"], (OWN, OWN)),
    "code": (["__import__('os').abort()"], (OWN, OWN)),
    "markup": (["<script>1</script>"], (OWN, OWN)),
    "twice": (["1", "4"], (4.0, 4.4)),
    "twice, the other way round": (["4", "1"], (4.0, 4.4)),
    "twice, one of them garbage": (["garbage", "3"], (3.0, 3.3)),
    "twice, one of them too long": (["3", str(10**12)], STOP),
    "twice in one line": (["1, 4"], (4.0, 4.4)),
    "a hundred times": (["2"] * 60, (2.0, 2.2)),
}


@each_client
async def test_odd_retry_after_headers_are_ignored_or_bounded(
    http: Http, measured: Callable[[str], None]
) -> None:
    client = http.client(retry(attempts=2, backoff=sp.Constant(OWN), within=None))
    started, longest = time.process_time(), 0.0
    for name, (values, bounds) in ODD.items():
        path = "/" + "".join(c if c.isalnum() else "-" for c in name)
        headers = [("Retry-After", value) for value in values]
        http.server.on(path, answer(503, b"its own", headers), answer(200, b"ok"))
        with sp.testing.instant() as clock:
            got = await client.get(path)
            waits = list(clock.sleeps)
        if bounds is STOP:
            assert (got.status, got.body, waits) == (503, b"its own", []), name
        else:
            assert (got.status, got.body, len(waits)) == (200, b"ok", 1), name
            assert bounds[0] <= waits[0] <= bounds[1], (name, waits)
            longest = max(longest, waits[0])
    assert len(http.server.seen) == sum(1 if bounds is STOP else 2 for _, bounds in ODD.values())
    # 5,000 digits are read in no time: converting them in base 10 alone would be refused by int().
    spent = time.process_time() - started
    assert spent < 5
    measured(f"{http.kind.__name__}: {len(ODD)} headers, longest wait {longest:.2f} s")


@each_client
async def test_hint_adds_no_attempt_lifts_no_budget_and_passes_no_deadline(http: Http) -> None:
    for values in (["0"], ["1"], [PAST], ["1", "2"]):
        http.server.on("/", answer(503, headers=[("Retry-After", value) for value in values]))
        before = len(http.server.seen)
        with sp.testing.instant():
            assert (await http.client(retry(attempts=3)).get("/")).status == 503
            assert len(http.server.seen) == before + 3
            assert (await http.client(retry(budget=sp.Budget(burst=1))).get("/")).status == 503
            assert len(http.server.seen) == before + 5
    http.server.on("/", answer(503, headers=[("Retry-After", "30")]), answer(200))
    policy = sp.Policy(sp.Deadline(5), sp.Retry(backoff=sp.Constant(0), budget=None))
    before = len(http.server.seen)
    assert (await http.client(policy).get("/")).status == 503
    assert len(http.server.seen) == before + 1


@each_client
async def test_should_retry_header_changes_neither_attempts_nor_waits(http: Http) -> None:
    """``x-should-retry: true`` on every answer: still as many attempts as there are, and no 401 again."""
    http.server.on("/", answer(404, headers=[("x-should-retry", "true"), ("Retry-After", "0")]))
    with sp.testing.instant() as clock:
        assert (await http.client(retry(attempts=3, backoff=sp.Constant(OWN))).get("/")).status == 404
        assert clock.sleeps == [OWN, OWN]
    assert len(http.server.seen) == 3
    http.server.on("/who", answer(401, headers=[("x-should-retry", "true")]))
    assert (await http.client(retry()).get("/who")).status == 401
    assert len(http.server.requests("/who")) == 1
