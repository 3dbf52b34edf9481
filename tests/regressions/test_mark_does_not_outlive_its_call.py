"""An error that is stored and raised again later is new to that call; its mark ended the call early."""

import asyncio
import concurrent.futures
import threading

import anyio.to_thread
import pytest
import trio

import stormproof as sp


class Client:
    """Stores its connection error, and raises the same object from other methods."""

    def __init__(self):
        self.stored = ConnectionError("refused")
        self.calls = 0

    def connect(self):
        raise self.stored

    def fetch(self):
        self.calls += 1
        raise self.stored

    def fetch_from(self):
        self.calls += 1
        raise ConnectionError("not connected") from self.stored


def retry(attempts=3):
    return sp.retry(on=ConnectionError, backoff=sp.Constant(0), attempts=attempts, budget=None)


@pytest.mark.parametrize("method", ["fetch", "fetch_from"])
def test_stored_error_is_retried_by_a_later_call(method):
    client = Client()
    with pytest.raises(ConnectionError):
        retry()(client.connect)()
    with pytest.raises(ConnectionError):
        retry()(getattr(client, method))()
    assert client.calls == 3


@pytest.mark.parametrize("method", ["fetch", "fetch_from"])
def test_stored_error_is_retried_by_a_later_call_of_the_same_task(method):
    client = Client()

    async def connect():
        client.connect()

    async def fetch():
        getattr(client, method)()

    async def main():
        for function in (connect, fetch):
            with pytest.raises(ConnectionError):
                await retry()(function)()

    asyncio.run(main())
    assert client.calls == 3


def test_later_call_inside_the_same_outer_call_is_retried():
    client = Client()

    @retry(attempts=1)
    def outer():
        with pytest.raises(ConnectionError):
            retry()(client.connect)()
        retry()(client.fetch)()

    with pytest.raises(ConnectionError):
        outer()
    assert client.calls == 3


@pytest.mark.parametrize("rethrow", ["through", "again", "from"])
def test_outer_layers_treat_an_exhausted_error_as_final(rethrow):
    client = Client()
    inner = retry()(client.fetch)

    @retry()
    def outer():
        if rethrow == "through":
            return inner()
        try:
            return inner()
        except ConnectionError as error:
            if rethrow == "again":
                raise error
            raise ConnectionError("outer") from error

    with pytest.raises(ConnectionError):
        outer()
    assert client.calls == 3


@pytest.mark.parametrize("made_in", ["a thread", "a pool", "another task", "a task that goes on"])
def test_stored_error_is_retried_by_a_call_elsewhere(made_in):
    """A request stores the error, another request meets it."""
    client = Client()

    def connect():
        with pytest.raises(ConnectionError):
            retry()(client.connect)()

    async def connect_in_task(forever):
        connect()
        if forever:
            await asyncio.Event().wait()

    async def main():
        if made_in == "a thread":
            thread = threading.Thread(target=connect)
            thread.start()
            thread.join()
        elif made_in == "a pool":
            await asyncio.to_thread(connect)
        else:
            task = asyncio.create_task(connect_in_task(made_in == "a task that goes on"))
            await asyncio.wait([task], timeout=0)
        with pytest.raises(ConnectionError):
            await retry()(fetch)()

    async def fetch():
        client.fetch()

    asyncio.run(main())
    assert client.calls == 3


@pytest.mark.parametrize("method", ["fetch", "fetch_from"])
def test_error_that_ended_another_task_is_retried_by_a_later_call(method):
    """A task in the background connects, and ends with the error that is stored."""
    client = Client()

    async def connect():
        client.connect()

    async def fetch():
        getattr(client, method)()

    async def main():
        await asyncio.wait([asyncio.create_task(retry()(connect)())])
        with pytest.raises(ConnectionError):
            await retry()(fetch)()

    asyncio.run(main())
    assert client.calls == 3


def test_error_that_ended_another_thread_is_retried_by_a_later_call():
    client = Client()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        ended = pool.submit(retry()(client.connect))
        concurrent.futures.wait([ended])
        for later in (client.fetch, ended.result):
            calls = client.calls = 0

            def count(later=later):
                nonlocal calls
                calls += 1
                later()

            with pytest.raises(ConnectionError):
                retry()(count)()
            assert calls == 3


def test_stored_error_is_retried_by_a_later_block():
    client = Client()
    with pytest.raises(ConnectionError):
        retry()(client.connect)()
    with pytest.raises(ConnectionError):
        for attempt in sp.retrying(on=ConnectionError, backoff=sp.Constant(0), attempts=3, budget=None):
            with attempt:
                client.fetch()
    assert client.calls == 3


def test_call_around_a_block_takes_its_error_as_final():
    client = Client()

    @retry()
    def outer():
        for attempt in sp.retrying(on=ConnectionError, backoff=sp.Constant(0), attempts=3, budget=None):
            with attempt:
                client.fetch()

    with pytest.raises(ConnectionError):
        outer()
    assert client.calls == 3


def test_block_around_a_call_takes_its_error_as_final():
    client = Client()
    with pytest.raises(ConnectionError):
        for attempt in sp.retrying(on=ConnectionError, backoff=sp.Constant(0), attempts=3, budget=None):
            with attempt:
                retry()(client.fetch)()
    assert client.calls == 3


def test_hedge_takes_an_exhausted_error_as_final():
    client = Client()

    async def fetch():
        client.fetch()

    with pytest.raises(ConnectionError):
        asyncio.run(sp.Policy(sp.Hedge(after=60, idempotent=True)).acall(retry()(fetch)))
    assert client.calls == 3


def test_sync_outer_layers_in_a_pool_or_loop_treat_an_exhausted_error_as_final():
    client = Client()
    inner = retry()(client.fetch)

    async def in_loop():
        inner()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for call in (lambda: pool.submit(inner).result(), lambda: asyncio.run(in_loop())):
            client.calls, client.stored = 0, ConnectionError("new")
            with pytest.raises(ConnectionError):
                retry()(call)()
            assert client.calls == 3


@pytest.mark.parametrize("way", ["nursery", "thread", "run"])
def test_trio_outer_layers_treat_an_exhausted_error_as_final(way):
    client = Client()
    inner = retry()(client.fetch)

    async def fetch():
        inner()

    @retry()
    async def outer():
        if way == "thread":
            await trio.to_thread.run_sync(inner)
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch)

    expected = (ConnectionError, ExceptionGroup)
    with pytest.raises(expected):
        retry()(lambda: trio.run(fetch))() if way == "run" else trio.run(outer)
    assert client.calls == 3


def test_outer_layers_in_another_task_or_thread_treat_an_exhausted_error_as_final():
    client = Client()

    @retry()
    async def fetch():
        client.fetch()

    @retry()
    async def in_a_task():
        await asyncio.create_task(fetch())

    @retry()
    async def in_a_thread():
        await asyncio.to_thread(retry()(client.fetch))

    @retry()
    async def in_a_group():
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch())

    @retry()
    async def in_a_thread_of_anyio():
        await anyio.to_thread.run_sync(retry()(client.fetch))

    for outer in (in_a_task, in_a_thread, in_a_group, in_a_thread_of_anyio):
        client.calls, client.stored = 0, ConnectionError("new")
        with pytest.raises((ConnectionError, ExceptionGroup)):
            asyncio.run(outer())
        assert client.calls == 3
