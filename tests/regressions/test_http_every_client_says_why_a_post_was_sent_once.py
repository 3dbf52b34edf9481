"""With requests, whose errors know their request, a POST that was reset did not say why it was sent once.

Holdfast: whatever the client, the error of a request that was worth retrying and must not be sent again says
so, and how often it was sent.
"""

from __future__ import annotations

import pytest
from tests.contract.http.contract import Http, each_client, retry
from tests.contract.http.server import answer, reset

import holdfast as hf

WHY = "stopped: not sent again: POST without an idempotency key may have been processed"


def told(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if note.startswith("holdfast: ")]


@each_client
async def test_a_post_that_was_reset(http: Http) -> None:
    http.server.on("/", reset())
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry()).post("/")
    (note,) = told(caught.value)
    assert note.startswith("holdfast: 1 attempt")
    assert note.endswith(WHY)


@each_client
async def test_a_post_that_was_reset_when_sent_again(http: Http) -> None:
    http.server.on("/", answer(429), reset())
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry()).post("/")
    (note,) = told(caught.value)
    assert note.startswith("holdfast: 2 attempts")
    assert note.endswith(WHY)


@each_client
async def test_nothing_is_said_where_nothing_is_retried(http: Http) -> None:
    http.server.on("/", reset())
    for policy in (hf.Policy(hf.Timeout(30)), hf.Policy(hf.Retry(on=KeyError))):
        with pytest.raises(http.kind.lost) as caught:
            await http.client(policy).post("/")
        assert told(caught.value) == []
