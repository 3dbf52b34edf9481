"""The parts of `stormproof.aiohttp` that are aiohttp's own; the common ones are in tests/integration/http."""

from __future__ import annotations

import asyncio
import functools
import gzip
import inspect
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.http.each_client import retry
from tests.support.http.server import Exchange, Server, answer, head, reset, unused_port

import stormproof as sp
import stormproof.aiohttp
from stormproof._classify.exhaustion import exhausted_by

Opens = Callable[..., aiohttp.ClientSession]


def with_server(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test that is given the server, and how to open a session under a policy."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        with Server() as server:

            async def main() -> None:
                sessions: list[aiohttp.ClientSession] = []

                def opens(policy: sp.Policy, /, *, session: Any = None, **options: Any) -> Any:
                    own = stormproof.aiohttp.middleware(policy, **options)
                    sessions.append(aiohttp.ClientSession(middlewares=(own,), **(session or {})))
                    return sessions[-1]

                try:
                    await test(server, opens, **given)
                finally:
                    for session in sessions:
                        await session.close()

            asyncio.run(main())
            server.no_connection_is_open()

    shape = inspect.signature(test)
    run.__signature__ = shape.replace(parameters=list(shape.parameters.values())[2:])  # type: ignore[attr-defined]
    return run


@with_server
async def test_aiohttps_own_second_try_does_not_double_the_attempts(server: Server, opens: Opens) -> None:
    # It sends idempotent requests again after a lost connection, through every middleware.
    server.on("/", reset())
    session = opens(retry(attempts=3))
    for calls in (1, 2, 3):
        with pytest.raises(aiohttp.ClientConnectionError) as caught:
            await session.get(server.url())
        assert len(server.seen) == 3 * calls
        assert any("3 attempts" in note for note in caught.value.__notes__)
    server.on("/", answer(200))
    assert (await session.get(server.url())).status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@with_server
async def test_error_given_to_the_caller_is_not_kept(server: Server, opens: Opens, method: str) -> None:
    server.on("/", reset())
    session = opens(retry(attempts=2))
    for url in (server.url(), f"http://127.0.0.1:{unused_port()}/"):
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.request(method, url)
        kept = stormproof.aiohttp._before.get()
        assert kept is None or kept.error is None


@with_server
async def test_one_shot_body_is_not_resent(server: Server, opens: Opens) -> None:
    async def once() -> AsyncIterator[bytes]:
        yield b"once"

    server.on("/", reset())
    with pytest.raises(aiohttp.ClientConnectionError):
        await opens(retry()).put(server.url(), data=once())
    assert [seen.body for seen in server.seen] == [b"once"]


@with_server
async def test_tasks_do_not_mix_up_their_calls(server: Server, opens: Opens) -> None:
    session = opens(retry(attempts=2))
    for number in range(10):
        server.on(f"/{number}", reset() if number % 2 else answer(200))

    async def call(number: int) -> bool:
        try:
            await (await session.get(server.url(f"/{number}"))).read()
        except aiohttp.ClientConnectionError:
            return False
        return True

    assert await asyncio.gather(*map(call, range(10))) == [number % 2 == 0 for number in range(10)]
    assert all(len(server.requests(f"/{number}")) == 2 for number in range(1, 10, 2))


@pytest.mark.parametrize("bufsize", [16, 65536])
@pytest.mark.parametrize("encoded", [False, True])
@with_server
async def test_body_read_within_the_attempt_can_still_be_streamed(
    server: Server, opens: Opens, bufsize: int, encoded: bool
) -> None:
    body = b"0123456789" * 2000
    sent = gzip.compress(body) if encoded else body
    headers = [("Content-Length", str(len(sent)))] + [("Content-Encoding", "gzip")] * encoded

    async def in_two_parts(exchange: Exchange) -> None:
        await exchange.send(head(200, headers) + sent[:30])
        await exchange.wait(0.02)
        await exchange.send(sent[30:])

    server.on("/", in_two_parts)
    session = opens(retry(), session={"read_bufsize": bufsize})
    async with session.get(server.url()) as response:
        assert b"".join([chunk async for chunk in response.content.iter_chunked(7)]) == body
    async with session.get(server.url()) as response:
        assert await response.read() == body
        assert await response.text() == body.decode()
    assert server.accepted == 1


@with_server
async def test_answer_given_up_on_raises_a_marked_error(server: Server, opens: Opens) -> None:
    server.on("/", answer(503))
    response = await opens(retry(attempts=2)).get(server.url())
    assert type(response).__name__ == "ClientResponse" and isinstance(response, aiohttp.ClientResponse)
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        response.raise_for_status()
    assert exhausted_by(caught.value) is not None
    always = opens(retry(attempts=2), session={"raise_for_status": True})
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        await always.get(server.url())
    assert exhausted_by(caught.value) is not None


@with_server
async def test_redirected_post_keeps_its_key(server: Server, opens: Opens) -> None:
    server.on("/a", answer(503), answer(307, headers=[("Location", "/b")]))
    server.on("/b", answer(503), answer(201))
    session = opens(retry(), idempotency_key="auto")
    assert (await session.post(server.url("/a"), data=b"once")).status == 201
    keys = [seen.header("Idempotency-Key") for seen in server.seen]
    assert len(keys) == 4 and len(set(keys)) == 1 and None not in keys
    await session.post(server.url("/b"))
    assert server.seen[-1].header("Idempotency-Key") not in {None, *keys[:1]}


@with_server
async def test_json_forms_and_files_are_sent_again(server: Server, opens: Opens, tmp_path: Any) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"skipped|from a file")
    file = path.open("rb")
    file.seek(8)
    form = aiohttp.FormData({"a": "1"})
    form.add_field("f", io.BytesIO(b"content"), filename="name.txt")
    session = opens(retry())
    for name, options in {
        "json": {"json": {"a": 1}},
        "form": {"data": form},
        "file": {"data": file},
        "text": {"data": "text"},
    }.items():
        server.on(f"/{name}", answer(503), reset(), answer(200))
        assert (await session.put(server.url(f"/{name}"), **options)).status == 200
        bodies = [seen.body for seen in server.requests(f"/{name}")]
        assert len(bodies) == 3 and len(set(bodies)) == 1, name
    assert server.requests("/file")[2].body == b"from a file"
    assert b"content" in server.requests("/form")[2].body


@with_server
async def test_request_with_expect_continue_is_retried_with_its_body(server: Server, opens: Opens) -> None:
    server.on("/", answer(503), answer(200))
    response = await opens(retry()).put(server.url(), data=b"big", expect100=True)
    assert response.status == 200
    assert [seen.body for seen in server.seen] == [b"big", b"big"]


@with_server
async def test_other_middlewares_see_the_call_or_the_attempts_by_position(
    server: Server, opens: Opens
) -> None:
    server.on("/", answer(503), answer(200))
    seen: list[str] = []

    def watcher(name: str) -> Any:
        async def watch(request: Any, handler: Any) -> Any:
            response = await handler(request)
            seen.append(f"{name} {response.status}")
            return response

        return watch

    row = (watcher("call"), stormproof.aiohttp.middleware(retry()), watcher("attempt"))
    async with aiohttp.ClientSession(middlewares=row) as session:
        await session.get(server.url())
    assert seen == ["attempt 503", "attempt 200", "call 200"]


@with_server
async def test_sessions_total_timeout_bounds_all_attempts(server: Server, opens: Opens) -> None:
    server.on("/", answer(503))
    session = opens(retry(backoff=sp.Constant(10)), session={"timeout": aiohttp.ClientTimeout(total=0.1)})
    with pytest.raises(TimeoutError):
        await session.get(server.url())
    assert len(server.seen) == 1


@with_server
async def test_middleware_shows_its_policy(server: Server, opens: Opens) -> None:
    policy = retry()
    made = stormproof.aiohttp.middleware(policy, buffer=10)
    assert made.policy is policy and made.options.buffer == 10
    assert repr(made) == f"middleware({policy!r})"
    with pytest.raises(TypeError, match="policy must be a Policy"):
        stormproof.aiohttp.middleware(None)  # type: ignore[arg-type]


@with_server
async def test_websocket_handshake_is_retried_and_the_socket_works(server: Server, opens: Opens) -> None:
    failures = [503, 503]

    async def echo(request: web.Request) -> web.StreamResponse:
        if failures:
            return web.Response(status=failures.pop())
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with opens(retry()).ws_connect(f"http://127.0.0.1:{runner.addresses[0][1]}/") as socket:
            await socket.send_str("hello")
            assert await socket.receive_str() == "hello"
    finally:
        await runner.cleanup()
    assert failures == []
