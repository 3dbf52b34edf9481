"""A bulkhead that several processes share. Each store object here is an instance of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp

pytestmark = pytest.mark.redis


@pytest.fixture
def fleet(server: Server) -> Iterator[Callable[..., list[sp.Bulkhead]]]:
    stores: list[sp.redis.RedisStore] = []

    def make(size: int, limit: int, **options: object) -> list[sp.Bulkhead]:
        store_options = {"on_failure": options.pop("on_failure", "local"), "timeout": 1.0}
        made = [sp.redis.RedisStore(server.url, **store_options) for _ in range(size)]
        stores.extend(made)
        bulkheads = [sp.Bulkhead(limit, name="places", store=store, **options) for store in made]
        eventually(lambda: all(one._fleet.instances == size for one in bulkheads), "first replies")
        return bulkheads

    yield make
    for store in stores:
        store.close()


class Calls:
    """Calls that stay inside until they are let go."""

    def __init__(self) -> None:
        self.inside = 0
        self.refused = 0
        self._lock = threading.Lock()
        self._go = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, bulkhead: sp.Bulkhead, times: int = 1) -> None:
        for _ in range(times):
            thread = threading.Thread(target=self._call, args=(bulkhead,))
            self._threads.append(thread)
            thread.start()

    def _call(self, bulkhead: sp.Bulkhead) -> None:
        try:
            sp.Policy(bulkhead).call(self._stay)
        except sp.BulkheadFull:
            with self._lock:
                self.refused += 1

    def _stay(self) -> None:
        with self._lock:
            self.inside += 1
        self._go.wait()
        with self._lock:
            self.inside -= 1

    def end(self) -> None:
        self._go.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def calls() -> Iterator[Calls]:
    calls = Calls()
    yield calls
    calls.end()


def test_never_more_inside_than_the_limit(fleet: Callable[..., list[sp.Bulkhead]], calls: Calls) -> None:
    bulkheads = fleet(3, 6)
    for one in bulkheads:
        calls.start(one, 6)
    eventually(lambda: calls.inside + calls.refused == 18, "every call's answer")
    assert calls.inside <= 6
    assert calls.inside >= 1


def test_one_instance_may_use_every_place(fleet: Callable[..., list[sp.Bulkhead]], calls: Calls) -> None:
    bulkheads = fleet(3, 6, queue=6, max_wait=10)
    calls.start(bulkheads[0], 6)
    eventually(lambda: calls.inside == 6, "all places with one instance")
    calls.start(bulkheads[1], 2)
    eventually(lambda: bulkheads[1].queued == 2, "others wait")
    assert calls.inside == 6


def test_freed_places_go_to_waiting_instances(fleet: Callable[..., list[sp.Bulkhead]], calls: Calls) -> None:
    first, second = fleet(2, 2, queue=4, max_wait=10)
    calls.start(first, 2)
    eventually(lambda: calls.inside == 2, "all places taken")
    others = Calls()
    others.start(second, 2)
    eventually(lambda: second.queued == 2, "others wait")
    calls.end()
    eventually(lambda: others.inside == 2, "their turn")
    others.end()
    assert others.refused == 0


def test_killed_holder_frees_its_places_within_their_lease(server: Server, calls: Calls) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.fleet.permit_holder", "permits", server.url],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with sp.redis.RedisStore(server.url, timeout=10) as store:
            bulkhead = sp.Bulkhead(4, queue=4, max_wait=20, name="places", store=store)
            eventually(lambda: bulkhead._fleet.instances == 2, "the first answer")
            calls.start(bulkhead, 4)
            eventually(
                lambda: calls.inside >= 1 and bulkhead.queued == 3, "one place is free, three are held"
            )
            holder.kill()
            holder.wait()
            # A lease of two seconds, plus the exchanges around it; the dead process had them for ten minutes.
            eventually(lambda: calls.inside == 4, "the lost places")
            calls.end()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.parametrize(("on_failure", "places"), [("local", 3), ("open", 6), ("closed", 0)])
def test_without_the_store_the_declared_fallback_applies(
    fleet: Callable[..., list[sp.Bulkhead]], server: Server, calls: Calls, on_failure: str, places: int
) -> None:
    one, _ = fleet(2, 6, on_failure=on_failure)
    server.kill()
    eventually(lambda: one._fleet.alone, "the loss")
    calls.start(one, 8)
    eventually(lambda: calls.inside + calls.refused == 8, "every call's answer")
    assert calls.inside == places
    server.start()
    eventually(lambda: not one._fleet.alone, "the store's return")


def test_closed_stores_leave_no_places_behind(
    fleet: Callable[..., list[sp.Bulkhead]], server: Server, calls: Calls
) -> None:
    bulkheads = fleet(2, 6)
    calls.start(bulkheads[0], 3)
    eventually(lambda: calls.inside >= 1, "a call inside")
    assert server.keys_without_ttl() == []
    calls.end()
    for one in bulkheads:
        one.store.close()
    assert server.ask("HLEN", "sp:{places}:bulkhead") == 0


def test_resize_never_interrupts_and_never_loses_a_place() -> None:
    bulkhead = sp.Bulkhead(4)
    held = sp.Policy(bulkhead)

    def shrink() -> int:
        bulkhead.resize(0)
        return bulkhead.in_use

    assert held.call(shrink) == 1
    # The place that was in use has come back since; it is given up with the next change.
    assert (bulkhead._places, bulkhead.in_use) == (1, 0)
    bulkhead.resize(0)
    assert bulkhead._places == 0
    with pytest.raises(sp.BulkheadFull):
        held.call(lambda: None)
    bulkhead.resize(3)
    assert held.call(lambda: bulkhead.in_use) == 1


def test_two_of_one_name_in_one_process_share_the_limit(server: Server, calls: Calls) -> None:
    with sp.redis.RedisStore(server.url, timeout=10) as store:
        two = [sp.Bulkhead(5, queue=5, max_wait=30, name="places", store=store) for _ in range(2)]
        eventually(lambda: all(one._fleet.instances == 2 for one in two), "both are counted")
        for one in two:
            calls.start(one, 5)
        eventually(lambda: calls.inside == 5, "all places in use")
        # Leases that are renewed must not add up to more.
        seen = store.stats()["exchanges"]
        eventually(lambda: store.stats()["exchanges"] >= seen + 10, "some exchanges")
        assert calls.inside == 5
        assert sum(one.queued for one in two) == 5
        calls.end()


@pytest.mark.parametrize("store", ["redis://x", 5, sp.redis.RedisStore])
@pytest.mark.parametrize("make", [lambda **options: sp.Bulkhead(5, **options), sp.Breaker])
def test_store_of_another_type_is_refused(make: Callable[..., object], store: object) -> None:
    with pytest.raises(TypeError, match=r"^(Bulkhead|Breaker): store must be a RedisStore or None, got "):
        make(store=store, name="x")


@pytest.mark.parametrize("name", ["", 5])
@pytest.mark.parametrize("make", [lambda **options: sp.Bulkhead(5, **options), sp.Breaker])
def test_invalid_name_is_refused(make: Callable[..., object], name: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^(Bulkhead|Breaker): name must be "):
        make(name=name)


def test_new_instance_has_one_place_until_its_first_exchange_grants_more(
    fleet: Callable[..., list[sp.Bulkhead]], server: Server, calls: Calls
) -> None:
    (one,) = fleet(1, 4, queue=8, max_wait=30)
    calls.start(one, 4)
    eventually(lambda: calls.inside == 4, "all places in use")
    with sp.redis.RedisStore(server.url, timeout=10) as store:
        other = sp.Bulkhead(4, queue=8, max_wait=30, name="places", store=store)
        assert other._places <= 1
        calls.start(other, 4)
        eventually(
            lambda: other._fleet.instances == 2 and other.queued + other.in_use == 4, "its first answer"
        )
        assert calls.inside <= 5
        calls.end()
