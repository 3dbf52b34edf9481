"""An error that is stored and raised again later is new to that call; its mark ended the call early."""

import asyncio

import pytest

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
def test_layers_around_the_call_still_take_it_as_final(rethrow):
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


def test_layers_around_it_in_another_task_or_thread_still_take_it_as_final():
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

    for outer in (in_a_task, in_a_thread):
        client.calls, client.stored = 0, ConnectionError("new")
        with pytest.raises(ConnectionError):
            asyncio.run(outer())
        assert client.calls == 3
