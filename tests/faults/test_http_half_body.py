"""A server that sends part of an answer and resets: no part of an answer ever passes for all of it."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, half

pytestmark = pytest.mark.proves("fault http-half-body")

BODY = b"0123456789" * 10


@each_client
async def test_body_cut_at_any_byte_reaches_the_caller_whole(http: Http) -> None:
    for sent in (0, 1, 50, 99):
        http.server.on(f"/{sent}", half(BODY[:sent], announced=len(BODY)), answer(200, BODY))
        assert (await http.client(retry()).get(f"/{sent}")).body == BODY
        assert len(http.server.requests(f"/{sent}")) == 2


@each_client
async def test_answer_that_is_never_whole_is_the_clients_own_error(http: Http) -> None:
    http.server.on("/", half(BODY))
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry(attempts=3)).get("/")
    assert len(http.server.seen) == 3
    assert any("3 attempts" in note for note in caught.value.__notes__)


@each_client
async def test_unfinished_error_answer_is_still_an_answer_to_retry(http: Http) -> None:
    http.server.on("/", half(b"half", status=503), answer(200, BODY))
    assert (await http.client(retry()).get("/")).body == BODY


@each_client
async def test_post_whose_answer_was_cut_short_is_sent_again_only_with_a_key(http: Http) -> None:
    http.server.on("/bare", half(BODY), answer(200, BODY))
    with pytest.raises(http.kind.lost):
        await http.client(retry()).post("/bare")
    http.server.on("/keyed", half(BODY), answer(200, BODY))
    got = await http.client(retry(), idempotency_key="auto").post("/keyed")
    assert got.body == BODY
    assert (len(http.server.requests("/bare")), len(http.server.requests("/keyed"))) == (1, 2)
