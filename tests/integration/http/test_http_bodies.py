"""Request bodies that are sent again, or cannot be; answers whose body is cut short."""

from __future__ import annotations

import io

import pytest
from tests.support.http.clients import OneShot
from tests.support.http.each_client import Http, each_client, each_client_that_takes_files, retry
from tests.support.http.server import answer, chunked, half, hang_in_body, reset


@each_client
async def test_bytes_are_sent_again(http: Http) -> None:
    http.server.on("/", answer(503), reset(), answer(200))
    assert (await http.client(retry()).request("PUT", "/", body=b"x" * 100_000)).status == 200
    assert [seen.body for seen in http.server.seen] == [b"x" * 100_000] * 3


@each_client_that_takes_files
async def test_file_is_sent_again_from_its_beginning(http: Http) -> None:
    http.server.on("/", answer(503), reset(), answer(200))
    assert (await http.client(retry()).request("PUT", "/", body=io.BytesIO(b"file"))).status == 200
    assert [seen.body for seen in http.server.seen] == [b"file"] * 3


@each_client
async def test_body_is_made_again_for_every_attempt(http: Http) -> None:
    http.server.on("/", answer(503), reset(), answer(200))
    made: list[io.BytesIO] = []

    def make() -> io.BytesIO:
        made.append(io.BytesIO(b"fresh"))
        return made[-1]

    assert (await http.client(retry()).request("PUT", "/", body=http.kind.body(make))).status == 200
    assert [seen.body for seen in http.server.seen] == [b"fresh"] * 3
    assert len(made) == 3 and all(file.closed for file in made)


@each_client
async def test_body_longer_than_replay_is_sent_once(http: Http) -> None:
    http.server.on("/", answer(503), answer(200))
    client = http.client(retry(), replay=10)
    assert (await client.request("PUT", "/", body=b"x" * 11)).status == 503
    http.server.on("/", answer(503), answer(200))
    assert (await client.request("PUT", "/", body=b"x" * 10)).status == 200
    assert [len(seen.body) for seen in http.server.seen] == [11, 10, 10]


@each_client
async def test_one_shot_body_is_not_sent_twice_nor_sent_empty(http: Http) -> None:
    http.server.on("/", answer(503, b"why"), answer(200))
    response = await http.client(retry()).request("PUT", "/", body=OneShot(b"on", b"ce"))
    assert (response.status, response.body) == (503, b"why")
    assert [seen.body for seen in http.server.seen] == [b"once"]


@each_client
async def test_one_shot_body_is_refused_with_a_reason(http: Http) -> None:
    http.server.on("/", reset())
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry()).request("PUT", "/", body=OneShot(b"once"))
    assert any("read only once" in note for note in caught.value.__notes__)
    assert len(http.server.seen) == 1


@each_client
async def test_answer_within_the_buffer_that_is_cut_short_is_retried(http: Http) -> None:
    http.server.on("/", half(b"half"), answer(200, b"whole"))
    assert (await http.client(retry()).get("/")).body == b"whole"
    assert len(http.server.seen) == 2


@each_client
async def test_answer_within_the_buffer_that_stalls_is_retried(http: Http) -> None:
    http.server.on("/", hang_in_body(b"ha", 4), answer(200, b"whole"))
    assert (await http.client(retry()).get("/", timeout=0.5)).body == b"whole"


@each_client
async def test_longer_answer_is_committed_at_its_headers(http: Http) -> None:
    http.server.on("/", half(b"half", announced=100), answer(200, b"whole"))
    with pytest.raises(http.kind.lost):
        await http.client(retry(), buffer=50).get("/")
    assert len(http.server.seen) == 1


@each_client
async def test_answer_without_a_length_is_committed_at_its_headers(http: Http) -> None:
    http.server.on("/", chunked(b"part", ends=False), answer(200, b"whole"))
    with pytest.raises(http.kind.lost):
        await http.client(retry()).get("/")
    assert len(http.server.seen) == 1


@each_client
async def test_answer_without_a_length_is_read_whole(http: Http) -> None:
    http.server.on("/", chunked(b"down", status=503), chunked(b"one", b"two"))
    response = await http.client(retry()).get("/")
    assert (response.status, response.body) == (200, b"onetwo")


@each_client
async def test_stream_is_handed_over_unread(http: Http) -> None:
    http.server.on("/", answer(503), hang_in_body(b"first", 100_000))
    response = await http.client(retry()).get("/", stream=True, timeout=0.5)
    assert (response.status, response.body) == (200, b"")
    with pytest.raises(Exception) as caught:
        await response.rest()
    assert isinstance(caught.value, http.kind.slow) or "timed out" in str(caught.value).lower()
    assert len(http.server.seen) == 2


@each_client
async def test_stream_can_be_read_to_its_end(http: Http) -> None:
    http.server.on("/", answer(503), answer(200, b"z" * 200_000))
    response = await http.client(retry()).get("/", stream=True)
    assert await response.rest() == b"z" * 200_000
