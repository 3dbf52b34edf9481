"""httpx-retries#29: an answer whose body broke off was not retried, because its headers had come.

Stormproof: an answer that announces a short body is read within the attempt, so that a body cut short is
a failed attempt. A longer or streamed one is the caller's from its headers on.
"""

from __future__ import annotations

import httpx
import pytest
from tests.support.http.server import Server, answer, chunked, half, hang_in_body

import stormproof as sp
import stormproof.httpx


def client(**options):
    policy = sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=None))
    return httpx.Client(transport=stormproof.httpx.Transport(policy, **options), trust_env=False, timeout=0.5)


@pytest.mark.parametrize("step", [half(b"ha"), hang_in_body(b"ha", 4)], ids=["cut", "stalled"])
def test_body_cut_short_is_retried(step):
    with Server() as server, client() as http:
        server.on("/", step, answer(200, b"whole"))
        assert http.get(server.url("/")).text == "whole"
        assert len(server.seen) == 2


def test_post_with_a_cut_body_is_sent_once_with_a_note():
    with Server() as server, client() as http:
        server.on("/", half(b"ha"))
        with pytest.raises(httpx.TransportError) as caught:
            http.post(server.url("/"))
        assert "may have been processed" in caught.value.__notes__[0]
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "step",
    [half(b"x" * 10, announced=65537), chunked(b"ha", ends=False)],
    ids=["longer than the buffer", "without a length"],
)
def test_streamed_body_cut_short_is_not_retried(step):
    with Server() as server, client() as http:
        server.on("/", step)
        with pytest.raises(httpx.TransportError):
            http.get(server.url("/"))
        assert len(server.seen) == 1


def test_stream_delivers_the_received_part_before_the_error():
    with Server() as server, client() as http:
        server.on("/", half(b"first", announced=100_000))
        got = []
        with pytest.raises(httpx.TransportError), http.stream("GET", server.url("/")) as response:
            got.extend(response.iter_bytes())
        assert got == [b"first"]
