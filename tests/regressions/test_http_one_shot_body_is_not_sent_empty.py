"""fetch-retry#99: a body that can be read once was sent empty on the retry, 18,000 times in production.

Stormproof: it is sent once, the answer comes back as it is and says why; a body that can be had again is
sent again, whole.
"""

from __future__ import annotations

import io

import httpx
import pytest
from tests.support.http.server import Server, answer, reset

import stormproof as sp
import stormproof.httpx

POLICY = sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=None))


def lines():
    yield b"line 1\n"
    yield b"line 2\n"


def put(server, body, **options):
    transport = stormproof.httpx.Transport(POLICY, **options)
    with httpx.Client(transport=transport, trust_env=False) as client:
        return client.put(server.url("/"), content=body)


def test_one_shot_body_is_sent_once_and_the_mark_gives_the_reason():
    with Server() as server:
        server.on("/", answer(503, b"busy"), answer(200))
        got = put(server, lines())
        assert (got.status_code, got.text) == (503, "busy")
        assert "a stream is read only once" in got.extensions["stormproof"].reason
        assert [seen.body for seen in server.seen] == [b"line 1\nline 2\n"]


def test_error_of_a_one_shot_body_has_a_note_with_the_reason():
    with Server() as server:
        server.on("/", reset(), answer(200))
        with pytest.raises(httpx.TransportError) as caught:
            put(server, lines())
        assert "a stream is read only once" in caught.value.__notes__[0]
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"line 1\nline 2\n",
        lambda: io.BytesIO(b"line 1\nline 2\n"),
        lambda: stormproof.httpx.Body(lines),
        lambda: [b"line 1\n", b"line 2\n"],
    ],
    ids=["bytes", "file", "made anew", "list"],
)
def test_repeatable_body_is_sent_again_whole(make):
    with Server() as server:
        server.on("/", answer(503), reset(), answer(200))
        assert put(server, make()).status_code == 200
        assert [seen.body for seen in server.seen] == [b"line 1\nline 2\n"] * 3
