"""Two stores give equal answers to any sequence of requests, and no key is done twice."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stormproof.idempotency import MemoryStore, SqliteStore
from stormproof.testing import FakeClock

keys = st.sampled_from(["k", "l"])
owners = st.sampled_from(["a", "b", "c"])
spans = st.sampled_from([1.0, 5.0, 30.0])


class Stores(RuleBasedStateMachine):
    """A store in memory and one in a file, asked the same, at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock(start=100.0)
        self.memory = MemoryStore(ttl=20, clock=self.clock)
        path = Path(self.folder.name) / "keys.db"
        self.file = SqliteStore(path, ttl=20, durable=False, clock=self.clock)
        #: The owner of each key now, and when it or its answer expires. Kept by hand, not by the rule.
        self.held: dict[str, str] = {}
        self.answers: dict[str, tuple[bytes | None, float]] = {}

    def both(self, method: str, *args: Any, **kwargs: Any) -> Any:
        first, second = (getattr(store, method)(*args, **kwargs) for store in (self.memory, self.file))
        assert first == second, (method, args, first, second)
        return first

    @rule(key=keys, payload=st.sampled_from(["", "p"]), owner=owners, lease=spans, take_over=st.booleans())
    def begin(self, key: str, payload: str, owner: str, lease: float, take_over: bool) -> None:
        claim = self.both("begin", key, payload, owner, lease, take_over=take_over)
        kept = self.answers.get(key)
        if kept is not None and self.clock.now() < kept[1]:
            assert claim.state in ("replay", "mismatch"), "what is done is not done again"
            if claim.state == "replay":
                assert claim.answer == kept[0]
        elif claim.state == "new":
            self.held[key] = owner
            self.answers.pop(key, None)
        if claim.taken_over:
            assert take_over
        if claim.state == "in_progress":
            assert 0 < claim.lease_left <= 30

    @rule(key=keys, owner=owners, answer=st.sampled_from([b"", b"x", None]))
    def finish(self, key: str, owner: str, answer: bytes | None) -> None:
        done_before = key in self.answers
        if self.both("finish", key, owner, answer):
            assert self.held[key] == owner, "only the owner can end it"
            if not done_before:
                self.answers[key] = (answer, self.clock.now() + 20)

    @rule(key=keys, owner=owners, lease=st.sampled_from([0.0, 1.0, 30.0]))
    def renew(self, key: str, owner: str, lease: float) -> None:
        if self.both("renew", key, owner, lease):
            assert self.held[key] == owner and key not in self.answers

    @rule(key=keys, owner=owners)
    def release(self, key: str, owner: str) -> None:
        if self.both("release", key, owner):
            assert self.held.pop(key) == owner

    @rule(key=keys)
    def forget(self, key: str) -> None:
        self.both("forget", key)
        self.held.pop(key, None)
        self.answers.pop(key, None)

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def small(self) -> None:
        assert len(self.memory) <= 2
        assert len(self.memory._ends) <= 3 * 2 + 64

    def teardown(self) -> None:
        self.file.close()
        self.folder.cleanup()


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=40, stateful_step_count=40)
