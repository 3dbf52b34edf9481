"""A response that an inner layer gave up on keeps its mark when a task or a thread returns it."""

import asyncio
import concurrent.futures

import anyio
import httpx
import pytest
import trio

import stormproof as sp
from stormproof.httpx import AsyncTransport, Transport

URL = "http://example.org/"


class Server:
    def __init__(self):
        self.requests = 0

    def __call__(self, request):
        self.requests += 1
        return httpx.Response(503)


def retry():
    return sp.retry(on=httpx.HTTPError, backoff=sp.Constant(0), budget=None)


def clients() -> tuple[Server, httpx.Client, httpx.AsyncClient]:
    server = Server()
    transport = httpx.MockTransport(server)
    return (
        server,
        httpx.Client(transport=Transport(retry(), transport)),
        httpx.AsyncClient(transport=AsyncTransport(retry(), transport)),
    )


async def by_task(client):
    return await asyncio.create_task(client.get(URL))


async def by_gather(client):
    return (await asyncio.gather(client.get(URL)))[0]


async def by_task_group_of_anyio(client):
    responses = []

    async def get():
        responses.append(await client.get(URL))

    async with anyio.create_task_group() as group:
        group.start_soon(get)
    return responses[0]


@pytest.mark.parametrize("get", [by_task, by_gather, by_task_group_of_anyio])
def test_outer_layer_takes_a_response_of_another_task_as_final(get):
    server, _, client = clients()

    @retry()
    async def outer():
        (await get(client)).raise_for_status()

    with pytest.raises(httpx.HTTPStatusError):
        asyncio.run(outer())
    assert server.requests == 4


def test_outer_layer_takes_a_response_of_another_trio_task_as_final():
    server, _, client = clients()

    @retry()
    async def outer():
        (await by_task_group_of_anyio(client)).raise_for_status()

    with pytest.raises(httpx.HTTPStatusError):
        trio.run(outer)
    assert server.requests == 4


@pytest.mark.parametrize("way", ["pool", "to_thread"])
def test_outer_layer_takes_a_response_of_another_thread_as_final(way):
    server, client, _ = clients()

    @retry()
    def in_pool():
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(client.get, URL).result().raise_for_status()

    @retry()
    async def in_thread():
        (await asyncio.to_thread(client.get, URL)).raise_for_status()

    with pytest.raises(httpx.HTTPStatusError):
        in_pool() if way == "pool" else asyncio.run(in_thread())
    assert server.requests == 4


def test_stored_response_is_new_to_a_later_call():
    _, client, _ = clients()
    stored = client.get(URL)
    calls = 0

    @retry()
    def later():
        nonlocal calls
        calls += 1
        stored.raise_for_status()

    with pytest.raises(httpx.HTTPStatusError):
        later()
    assert calls == 4
