"""Many at once, one key: one of them runs."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import stormproof as sp
from stormproof.idempotency import IdempotencyConflict, Store, idempotent

CROWD = 64


@pytest.fixture
def _switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switching")
def test_one_key_in_many_threads_runs_once(store: Store) -> None:
    runs: list[int] = []
    start = threading.Barrier(CROWD)
    refused = threading.Semaphore(0)

    @idempotent(key=lambda order: order, store=store)
    def charge(order: str) -> dict[str, int]:
        runs.append(1)
        # Until all the others have been turned away: no outcome depends on the order.
        for _ in range(CROWD - 1):
            assert refused.acquire(timeout=60)
        return {"charged": 100}

    def ask(_: int) -> str:
        start.wait()
        try:
            assert charge("order-1") == {"charged": 100}
        except IdempotencyConflict:
            refused.release()
            return "conflict"
        return "ran"

    with ThreadPoolExecutor(CROWD) as pool:
        outcomes = Counter(pool.map(ask, range(CROWD)))
    assert outcomes == {"ran": 1, "conflict": CROWD - 1}
    assert len(runs) == 1
    assert charge("order-1") == {"charged": 100}
    assert len(runs) == 1


def test_one_key_in_many_tasks_runs_once(store: Store) -> None:
    runs: list[int] = []

    @idempotent(key=lambda order: order, store=store)
    async def charge(order: str) -> int:
        runs.append(1)
        await done.wait()
        return 100

    async def ask() -> int | str:
        try:
            return await charge("order-1")
        except IdempotencyConflict:
            refused.append(1)
            if len(refused) == CROWD - 1:
                done.set()
            return "conflict"

    async def main() -> Counter[int | str]:
        return Counter(await asyncio.gather(*(ask() for _ in range(CROWD))))

    done, refused = asyncio.Event(), []
    assert asyncio.run(main()) == {100: 1, "conflict": CROWD - 1}
    assert len(runs) == 1


def test_retried_conflict_returns_the_result(make_store: Callable[..., Store]) -> None:
    """The two halves together: `sp.transient` knows a conflict, and the retry finds the answer."""
    store = make_store()
    runs: list[int] = []
    running, turned_away = threading.Event(), threading.Event()

    @idempotent(key=lambda order: order, store=store)
    def charge(order: str) -> int:
        runs.append(1)
        running.set()
        assert turned_away.wait(60)
        return 100

    @sp.retry(on=sp.transient, attempts=None, within=60, backoff=sp.Constant(0.001), budget=None)
    def insistent(order: str) -> int:
        try:
            return charge(order)
        except IdempotencyConflict:
            turned_away.set()
            raise

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(charge, "order-1")
        assert running.wait(60)
        assert insistent("order-1") == 100
        assert first.result() == 100
    assert len(runs) == 1
