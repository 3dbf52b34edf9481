"""The store in memory: bounded in keys and bytes, quick to expire, safe across forks."""

from __future__ import annotations

import os
from typing import Any

import pytest

from stormproof.idempotency import MemoryStore, StoreFull
from stormproof.testing import FakeClock


def done(store: MemoryStore, key: str, answer: bytes = b"x") -> None:
    assert store.begin(key, "", "a", 10).state == "new"
    assert store.finish(key, "a", answer)


def test_beyond_its_limit_the_key_that_was_done_first_is_forgotten() -> None:
    store = MemoryStore(limit=3, clock=FakeClock())
    store.begin("running", "", "r", 10)
    done(store, "a")
    done(store, "b")
    done(store, "c")
    assert len(store) == 3
    assert store.begin("running", "", "z", 10).state == "in_progress"
    assert store.begin("b", "", "z", 10).state == "replay"
    assert store.begin("a", "", "z", 10).state == "new"


def test_full_store_may_refuse_instead() -> None:
    clock = FakeClock()
    store = MemoryStore(limit=2, full="refuse", clock=clock)
    done(store, "a")
    done(store, "b")
    with pytest.raises(StoreFull, match="all 2 keys are in use"):
        store.begin("c", "", "z", 10)
    assert store.begin("a", "", "z", 10).state == "replay"
    clock.advance(86_400)
    assert store.begin("c", "", "z", 10).state == "new"


@pytest.mark.parametrize("full", ["drop", "refuse"])
def test_keys_that_run_are_never_dropped(full: Any) -> None:
    store = MemoryStore(limit=2, full=full, clock=FakeClock())
    store.begin("a", "", "r", 10)
    store.begin("b", "", "r", 10)
    with pytest.raises(StoreFull):
        store.begin("c", "", "r", 10)
    assert [store.begin(key, "", "z", 10).state for key in "ab"] == ["in_progress"] * 2


def test_single_answer_beyond_the_bound_is_not_kept_but_its_key_is() -> None:
    store = MemoryStore(max_bytes=100, clock=FakeClock())
    done(store, "a", b"x" * 200)
    claim = store.begin("a", "", "z", 10)
    assert (claim.state, claim.answer) == ("replay", None)


@pytest.mark.parametrize("full", ["drop", "refuse"])
def test_answers_are_bounded_together_and_the_fact_is_kept(full: Any) -> None:
    store = MemoryStore(max_bytes=250, full=full, clock=FakeClock())
    for key in "abc":
        done(store, key, b"x" * 100)
    kept = [store.begin(key, "", "z", 10) for key in "abc"]
    assert [claim.state for claim in kept] == ["replay"] * 3
    assert [claim.answer is None for claim in kept] == [True, False, False]


def test_expired_keys_take_no_place() -> None:
    clock = FakeClock()
    store = MemoryStore(ttl=100, clock=clock)
    for number in range(10):
        done(store, f"k{number}")
    store.begin("running", "", "r", 150)
    clock.advance(100)
    store.begin("new", "", "a", 10)
    assert len(store) == 2
    assert store._bytes == 0


def test_released_keys_leave_nothing_behind() -> None:
    store = MemoryStore(clock=FakeClock())
    for number in range(1000):
        store.begin(f"k{number}", "", "a", 10)
        store.release(f"k{number}", "a")
    assert len(store) == 0
    assert len(store._ends) < 100


def test_renewed_record_expires_at_its_new_time() -> None:
    clock = FakeClock()
    store = MemoryStore(ttl=100, clock=clock)
    store.begin("k", "", "a", 10)
    for _ in range(50):
        clock.advance(9)
        assert store.renew("k", "a", 10)
    assert store.begin("k", "", "b", 10).state == "in_progress"
    clock.advance(110)
    assert store.begin("k", "", "b", 10).state == "new"


def test_forked_child_starts_with_an_empty_memory_store() -> None:
    store = MemoryStore()
    store.begin("k", "", "a", 10)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, store.begin("k", "", "c", 10).state.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "new"
    assert os.waitpid(child, 0)[1] == 0
    assert store.begin("k", "", "b", 10).state == "in_progress"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": 0}, "limit must be >= 1"),
        ({"max_bytes": 0}, "max_bytes must be >= 1"),
        ({"full": "evict"}, "full must be one of"),
        ({"ttl": 0}, "ttl must be > 0"),
        ({"max_answer": 0}, "max_answer must be >= 1"),
    ],
)
def test_bad_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MemoryStore(**options)
