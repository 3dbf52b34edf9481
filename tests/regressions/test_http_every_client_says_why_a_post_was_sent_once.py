"""With requests, whose errors know their request, a POST that was reset did not say why it was sent once.

Stormproof: whatever the client, the error of a request that was worth retrying and must not be sent again
says
so, and how often it was sent.
"""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, reset

import stormproof as sp

WHY = "stopped: not sent again: POST without an idempotency key may have been processed"


def notes_of(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if note.startswith("stormproof: ")]


@each_client
async def test_reset_post_has_a_note_with_the_reason(http: Http) -> None:
    http.server.on("/", reset())
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry()).post("/")
    (note,) = notes_of(caught.value)
    assert note.startswith("stormproof: 1 attempt")
    assert note.endswith(WHY)


@each_client
async def test_post_reset_on_its_retry_has_a_note_with_the_reason(http: Http) -> None:
    http.server.on("/", answer(429), reset())
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry()).post("/")
    (note,) = notes_of(caught.value)
    assert note.startswith("stormproof: 2 attempts")
    assert note.endswith(WHY)


@each_client
async def test_post_without_retries_has_no_note(http: Http) -> None:
    http.server.on("/", reset())
    for policy in (sp.Policy(sp.Timeout(30)), sp.Policy(sp.Retry(on=KeyError))):
        with pytest.raises(http.kind.lost) as caught:
            await http.client(policy).post("/")
        assert notes_of(caught.value) == []
