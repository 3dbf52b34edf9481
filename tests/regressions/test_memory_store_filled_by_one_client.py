"""A MemoryStore that one client fills still serves the others.

Keys whose outcome is unknown counted as under way: 10,000 requests whose handler raised, from one client,
made the store refuse every client for a day. And finished keys of one client pushed out those of another
without a word.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import stormproof as sp
from stormproof.idempotency import MemoryStore, StoreFull
from stormproof.testing import FakeClock


def end(store: MemoryStore, key: str, scope: str, outcome: str) -> str:
    claim = store.begin(key, "", "a", 60, scope=scope)
    if claim.state == "new" and outcome == "unknown":
        store.renew(key, "a", 0, scope=scope)
    elif claim.state == "new":
        store.finish(key, "a", b"answer", scope=scope)
    return claim.state


@pytest.mark.parametrize("outcome", ["unknown", "done"])
def test_keys_of_one_client_do_not_displace_those_of_another(outcome: str) -> None:
    store = MemoryStore(limit=100, clock=FakeClock())
    for number in range(5):
        end(store, f"k{number}", "quiet", "done")
    for number in range(1000):
        assert end(store, f"k{number}", "flood", outcome) == "new"
    assert [end(store, f"k{number}", "quiet", "done") for number in range(5)] == ["replay"] * 5
    assert end(store, "another", "quiet", "done") == "new"
    assert len(store) == 100


def test_expired_leases_make_room_for_new_keys() -> None:
    clock = FakeClock()
    store = MemoryStore(limit=3, clock=clock)
    for key in "abc":
        store.begin(key, "", "a", 10, scope="gone")
    with pytest.raises(StoreFull):
        store.begin("d", "", "a", 10, scope="other")
    clock.advance(11)
    assert store.begin("d", "", "a", 10, scope="other").state == "new"


def test_client_with_every_key_under_way_is_refused_and_the_others_keep_theirs() -> None:
    store = MemoryStore(limit=4, clock=FakeClock())
    end(store, "k", "quiet", "done")
    for key in "abc":
        store.begin(key, "", "a", 10, scope="flood")
    with pytest.raises(StoreFull):
        store.begin("d", "", "a", 10, scope="flood")
    assert end(store, "k", "quiet", "done") == "replay"
    assert store.begin("l", "", "a", 10, scope="quiet").state == "new"


@pytest.mark.parametrize("full", ["drop", "refuse"])
def test_per_client_bounds_the_keys_of_one_client(full: Any) -> None:
    store = MemoryStore(limit=100, per_client=3, full=full, clock=FakeClock())
    for key in "abc":
        end(store, key, "greedy", "done")
    if full == "refuse":
        with pytest.raises(StoreFull, match="3 keys allowed for one client"):
            end(store, "d", "greedy", "done")
    else:
        assert end(store, "d", "greedy", "done") == "new"
        assert end(store, "a", "greedy", "done") == "new", "its own oldest key is forgotten"
    assert end(store, "a", "modest", "done") == "new"
    assert len(store) == 4


def test_large_answers_of_one_client_do_not_displace_those_of_another() -> None:
    store = MemoryStore(max_bytes=1000, clock=FakeClock())
    end(store, "k", "quiet", "done")
    for number in range(100):
        store.begin(f"k{number}", "", "a", 60, scope="flood")
        store.finish(f"k{number}", "a", b"x" * 100, scope="flood")
    assert store.begin("k", "", "b", 60, scope="quiet").answer == b"answer"
    assert store.begin("k0", "", "b", 60, scope="flood").answer is None


def test_keys_dropped_and_refused_are_events() -> None:
    decisions: Counter[str] = Counter()

    def count(event: sp.events.Event) -> None:
        if isinstance(event, sp.events.IdempotentCall):
            decisions[event.decision] += 1

    unsubscribe = sp.subscribe(count)
    try:
        store = MemoryStore(limit=2, clock=FakeClock())
        for number in range(5):
            end(store, f"k{number}", "one", "done")
        for number in range(2):
            store.begin(f"r{number}", "", "a", 60, scope="two")
        with pytest.raises(StoreFull):
            store.begin("r2", "", "a", 60, scope="two")
    finally:
        unsubscribe()
    assert decisions == {"dropped": 5, "refused": 1}


def test_hostile_keys_take_constant_time_and_bounded_memory() -> None:
    """Every number of clients: the room for a new key is found without looking at all of them."""
    store = MemoryStore(limit=1000, clock=FakeClock())
    for number in range(5000):
        end(store, "k", f"client{number}", "unknown")
    assert len(store) == 1000
    assert len(store._shares) == 1000
    assert len(store._ends) < 4 * 1000 + 64
