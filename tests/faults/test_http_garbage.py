"""Answers that are not HTTP, or barely: an answer or the client's own error, always soon, never a crash."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, garbage

pytestmark = pytest.mark.proves("fault http-garbage")

GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "binary": b"\x16\x03\x01\x00\xff\x00\x01\x02\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "status in words": b"HTTP/1.1 fine OK\r\n\r\n",
    "endless status": b"HTTP/1.1 " + b"2" * 5000 + b" OK\r\n\r\n",
    "header without colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "endless header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    "length in words": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "length below zero": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "nothing": b"",
}


@each_client
async def test_garbage_is_an_error_of_the_client_or_an_answer(http: Http) -> None:
    client = http.client(retry(attempts=2))
    for name, data in GARBAGE.items():
        path = "/" + name.replace(" ", "-")
        http.server.on(path, garbage(data))
        error: Exception | None = None
        try:
            await client.get(path, timeout=2)
        except http.kind.family as raised:
            error = raised
        tries = len(http.server.requests(path))
        assert 1 <= tries <= 2, name
        if error is not None and tries == 2:
            assert any("2 attempts" in note for note in error.__notes__), name


@each_client
@pytest.mark.parametrize("name", ["no HTTP", "nothing"])
async def test_answer_that_is_not_http_is_retried(http: Http, name: str) -> None:
    http.server.on("/", garbage(GARBAGE[name]), answer(200, b"ok"))
    assert (await http.client(retry()).get("/")).body == b"ok"
