"""The misbehaving server itself, met by bare clients: each step is what it says."""

from __future__ import annotations

import gc
import socket
import sys
import time

import pytest
from tests.support.http import server as s
from tests.support.http.clients import OneShot
from tests.support.http.each_client import Http, each_client


@each_client
async def test_script_plays_one_step_per_request_and_repeats_the_last(http: Http) -> None:
    http.server.on("/a", s.answer(503), s.answer(200, b"ok", [("X-Reply", "1")]))
    client = http.client()
    answers = [await client.get("/a") for _ in range(3)]
    assert [(answer.status, answer.body) for answer in answers] == [(503, b""), (200, b"ok"), (200, b"ok")]
    assert answers[1].headers["x-reply"] == "1"
    assert (await client.get("/b")).status == 404
    assert [seen.path for seen in http.server.seen] == ["/a", "/a", "/a", "/b"]


@each_client
async def test_server_records_method_path_body_and_headers(http: Http) -> None:
    http.server.on("/a", s.answer())
    before = time.monotonic()
    client = http.client()
    await client.post("/a?q=1", b"data", headers={"X-Mine": "yes"})
    await client.post("/a", b"more")
    first, second = http.server.seen
    assert (first.method, first.target, first.path, first.body) == ("POST", "/a?q=1", "/a", b"data")
    assert first.header("x-mine") == "yes" and first.header("x-other") is None
    assert before <= first.at <= second.at <= time.monotonic()
    assert (first.connection, second.connection, http.server.accepted) == (1, 1, 1)


@each_client
@pytest.mark.parametrize("step", [s.reset(), s.half(b"half"), s.chunked(b"a", ends=False), s.garbage()])
async def test_broken_answers_raise_the_clients_own_error(http: Http, step: s.Step) -> None:
    http.server.on("/a", step)
    with pytest.raises(Exception) as caught:
        await http.client().get("/a")
    kinds = http.kind.lost if step.__qualname__ != "garbage.<locals>.step" else (Exception,)
    assert isinstance(caught.value, kinds), repr(caught.value)


@each_client
@pytest.mark.parametrize("step", [s.hang(), s.hang_in_body(b"x", 10)])
async def test_hanging_answers_time_out(http: Http, step: s.Step) -> None:
    http.server.on("/a", step)
    client = http.client()
    started = time.monotonic()
    with pytest.raises(Exception) as caught:
        await client.get("/a", timeout=0.1)
    # requests says ConnectionError when the time runs out in the body.
    assert isinstance(caught.value, http.kind.slow) or "timed out" in str(caught.value), repr(caught.value)
    assert time.monotonic() - started < 5


# httpx leaves the request's body in the middle when the reset meets it there, and trio reports it.
@pytest.mark.filterwarnings("ignore:.*ByteStream.__aiter__:pytest.PytestUnraisableExceptionWarning")
@each_client
async def test_connections_that_are_reset_or_never_read(http: Http) -> None:
    http.server.on("/a", s.answer())
    http.server.on_accept("reset", "hang", "serve")
    client = http.client()
    # The reset may come before or after the client takes the connection for made.
    with pytest.raises((*http.kind.lost, *http.kind.refused)):
        await client.post("/a")
    with pytest.raises(http.kind.slow):
        await client.post("/a", timeout=0.1)
    assert (await client.post("/a")).status == 200
    assert [seen.connection for seen in http.server.seen] == [3]


@each_client
async def test_chunked_bodies_both_ways_and_late_answers(http: Http) -> None:
    http.server.on("/a", s.late(0.02, s.chunked(b"one", b"two")))
    http.server.on("/b", s.closing(s.answer(200)))
    client = http.client()
    answer = await client.post("/a", OneShot(b"ab", b"cd"))
    assert answer.body == b"onetwo"
    assert http.server.seen[0].body == b"abcd"
    await client.get("/b")
    http.server.no_connection_is_open()


@each_client
async def test_unused_port_refuses_connections(http: Http) -> None:
    with pytest.raises(http.kind.refused):
        await http.client().get(f"http://127.0.0.1:{s.unused_port()}/")


def test_server_speaks_slow_loris_continue_and_rst() -> None:
    with s.Server() as server:
        server.on("/drip", s.drip(0.01))
        server.on("/a", s.answer(200, b"ok"))
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"GET /drip HTTP/1.1\r\n\r\n")
            got = b""
            while got.count(b"x") < 3:
                got += sock.recv(100)
            assert got.startswith(b"HTTP/1.1 200 OK\r\nX-Drip: ") and b"\n" not in got[26:]
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
            sock.sendall(b"z")
            assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
        server.on_accept("reset")
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        server.no_connection_is_open()


def test_connection_accepted_as_the_server_ends_is_closed() -> None:
    # A connection just accepted when the server ends; most of these rounds are such a moment.
    lost: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(str(unraisable.exc_value)))
        for _ in range(20):
            with s.Server() as server, socket.create_connection(("127.0.0.1", server.port)):
                pass
            gc.collect()
    assert lost == []
