"""Cancelled in an attempt or in a wait: no further request, nothing held, nothing left running."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import trio
from tests.support.http.each_client import Http, each_async_client, each_sync_client, retry
from tests.support.http.server import answer, chunked, hang

import stormproof as sp


@each_async_client
async def test_cancelled_attempt_frees_its_connection(http: Http) -> None:
    http.server.on("/", hang())
    client = http.client(retry(), connections=1)
    assert await http.cancelled(lambda: client.get("/"), lambda: len(http.server.seen) == 1)
    http.server.no_connection_is_open()
    http.server.on("/", answer(200, b"ok"))
    # The one connection of the pool is free again.
    assert (await client.get("/")).body == b"ok"
    assert len(http.server.seen) == 2


@each_async_client
async def test_call_cancelled_in_the_wait_makes_no_further_attempt(http: Http) -> None:
    http.server.on("/", answer(503))
    client = http.client(retry(backoff=sp.Constant(20)), connections=1)
    waiting: list[object] = []
    stop = sp.subscribe(waiting.append)
    try:
        assert await http.cancelled(lambda: client.get("/"), lambda: bool(waiting))
    finally:
        stop()
    assert len(http.server.seen) == 1
    http.server.on("/", answer(200, b"ok"))
    assert (await client.get("/")).body == b"ok"


@each_async_client
async def test_call_cancelled_after_a_long_answer_frees_its_connection(http: Http) -> None:
    http.server.on("/", answer(503, b"x" * 1_000_000))
    client = http.client(retry(backoff=sp.Constant(20)), connections=1)
    waiting: list[object] = []
    stop = sp.subscribe(waiting.append)
    try:
        assert await http.cancelled(lambda: client.get("/"), lambda: bool(waiting))
    finally:
        stop()
    http.server.no_connection_is_open()
    http.server.on("/", answer(200, b"ok"))
    assert (await client.get("/")).body == b"ok"


@each_async_client
async def test_hedged_call_cancelled_leaves_no_task(http: Http) -> None:
    http.server.on("/", hang())
    client = http.client(sp.Policy(sp.Hedge(after=0.01, budget=sp.Budget(burst=10))))
    assert await http.cancelled(lambda: client.get("/"), lambda: len(http.server.seen) == 2)
    http.server.no_connection_is_open()
    if http.kind.loop == "asyncio":
        assert asyncio.all_tasks() == {asyncio.current_task()}


@each_sync_client
async def test_scope_cancelled_from_another_thread_ends_the_wait(http: Http) -> None:
    http.server.on("/", answer(503, b"last"))
    client = http.client(retry(backoff=sp.Constant(25)))
    with sp.deadline(60) as scope:
        threading.Timer(0.05, scope.cancel).start()
        started = time.monotonic()
        try:
            got = await client.get("/")
        except sp.Cancelled:
            got = None
        assert time.monotonic() - started < 20
    assert got is None or got.status == 503
    assert len(http.server.seen) == 1


@each_sync_client
async def test_interrupt_before_an_attempt_is_not_retried(http: Http) -> None:
    http.server.on("/", answer(503, b"x" * 1_000_000))

    def interrupt(attempt: sp.Attempt) -> None:
        if attempt.number == 2:
            raise KeyboardInterrupt

    client = http.client(retry(before_attempt=interrupt), connections=1)
    with pytest.raises(KeyboardInterrupt):
        await client.get("/")
    assert len(http.server.seen) == 1
    http.server.on("/", answer(200, b"ok"))
    # The one connection of the pool is free again.
    assert (await client.get("/")).body == b"ok"


@each_async_client
async def test_call_cancelled_during_reauthentication_frees_its_connection(http: Http) -> None:
    http.server.on("/", chunked(b"who are you", status=401))
    renewing: list[object] = []

    async def renew(draft: object, response: object) -> None:
        renewing.append(draft)
        if http.kind.loop == "trio":
            await trio.sleep(20)
        else:
            await asyncio.sleep(20)

    client = http.client(retry(), connections=1, reauth=renew)
    assert await http.cancelled(lambda: client.get("/"), lambda: bool(renewing))
    http.server.on("/", answer(200, b"ok"))
    # The one connection of the pool is free again.
    assert (await client.get("/", timeout=2)).body == b"ok"
