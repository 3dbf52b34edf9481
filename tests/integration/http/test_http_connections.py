"""Nothing is left behind: discarded answers free their connections, for the next attempt and after."""

from __future__ import annotations

import gc
import warnings

from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, chunked, closing, half, hang, head, reset


@each_client
async def test_discarded_answer_frees_its_connection_for_the_next_attempt(http: Http) -> None:
    http.server.on("/", answer(503, b"x" * 1000), chunked(b"a", b"b", status=500), answer(200))
    assert (await http.client(retry(), connections=1).get("/")).status == 200
    assert [seen.connection for seen in http.server.seen] == [1, 1, 1]


@each_client
async def test_endless_discarded_answer_is_cut_off(http: Http) -> None:
    async def endless(exchange: object) -> None:
        await exchange.send(head(503, [("Transfer-Encoding", "chunked")]))  # type: ignore[attr-defined]
        while await exchange.wait(0):  # type: ignore[attr-defined]
            await exchange.send(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")  # type: ignore[attr-defined]

    http.server.on("/", endless, answer(200, b"ok"))
    assert (await http.client(retry(), connections=1).get("/")).body == b"ok"
    assert [seen.connection for seen in http.server.seen] == [1, 2]


@each_client
async def test_discarded_answer_that_stalls_does_not_block_the_next_attempt(http: Http) -> None:
    async def stalls(exchange: object) -> None:
        await exchange.send(head(503, [("Content-Length", "10")]) + b"xx")  # type: ignore[attr-defined]
        await exchange.wait()  # type: ignore[attr-defined]

    http.server.on("/", stalls, answer(200, b"ok"))
    assert (await http.client(retry(), connections=1).get("/", timeout=0.5)).body == b"ok"


@each_client
async def test_one_connection_suffices_for_any_mishap(http: Http) -> None:
    steps = [reset(), half(b"half"), closing(answer(503)), answer(429), reset(), answer(200, b"ok")]
    http.server.on("/", *steps)
    client = http.client(retry(attempts=9), connections=1)
    assert (await client.get("/")).body == b"ok"
    assert (await client.get("/")).body == b"ok"
    assert len(http.server.seen) == len(steps) + 1


@each_client
async def test_connection_closed_while_idle_costs_no_error(http: Http) -> None:
    http.server.on("/", closing(answer(200, b"one")), answer(200, b"two"))
    client = http.client(retry(), connections=1)
    assert (await client.get("/")).body == b"one"
    assert (await client.get("/")).body == b"two"


@each_client
async def test_responses_and_sockets_are_closed_not_collected(http: Http) -> None:
    http.server.on("/", answer(503), half(b"x"), answer(503, b"last"))
    http.server.on("/hang", hang())
    client = http.client(retry(attempts=3))
    with warnings.catch_warnings():
        # Anything the collector has to close warns, and pytest turns that into a failure.
        warnings.simplefilter("error")
        assert (await client.get("/")).status == 503
        try:
            await client.get("/hang", timeout=0.3)
        except http.kind.slow:
            pass
        gc.collect()
    assert len(http.server.seen) == 6
