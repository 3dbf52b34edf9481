"""Records in this process: for one process, for tests, and as the embedded default. Bounded."""

from __future__ import annotations

import heapq

from .._primitives.options import choice, count, timepiece
from .._runtime import clock as _clock
from .._runtime.locks import guard
from .errors import StoreFull
from .records import Finish, Record, step
from .store import DAY_S, MAX_ANSWER, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from .._primitives.options import Seconds
    from .._runtime.clock import Clock
    from .records import Operation


class MemoryStore(Store):
    """At most ``limit`` keys and ``max_bytes`` of answers, gone when the process ends.

    When it is full, ``full="drop"`` forgets the key that was done first, so that it would run again if
    asked for; ``full="refuse"`` raises `StoreFull` instead. Keys under way are never dropped. Beyond
    ``max_bytes`` the oldest answers are dropped, and their keys stay known as done.
    Shared by passing the object, between threads, tasks and event loops. A forked child starts empty.
    """

    _lock: Any

    def __init__(
        self,
        limit: int = 10_000,
        *,
        max_bytes: int = 64 << 20,
        full: Literal["drop", "refuse"] = "drop",
        ttl: Seconds = DAY_S,
        max_answer: int = MAX_ANSWER,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ttl=ttl, max_answer=max_answer)
        self.limit = count("MemoryStore", "limit", limit)
        self.max_bytes = count("MemoryStore", "max_bytes", max_bytes)
        self.full = choice("MemoryStore", "full", full, ("drop", "refuse"))
        self.clock = timepiece("MemoryStore", clock)
        self._clear()
        guard(self)

    def _clear(self) -> None:
        self._running: dict[bytes, Record] = {}
        #: In the order in which they were done.
        self._done: dict[bytes, Record] = {}
        self._bytes = 0
        #: When to look at which record, at the latest; one that lives longer by then is put in again.
        self._ends: list[tuple[float, bytes]] = []

    def after_fork(self) -> None:
        """In a forked child: what runs here is the parent's, and ends there."""
        self._clear()

    def run(self, operation: Operation) -> Any:
        clock = _clock.current() if self.clock is None else self.clock
        with self._lock:
            now = clock.now()
            self._purge(now)
            before = self._find(operation.digest)
            told, after = step(operation, before, now)
            if after is not before:
                if after is not None and before is None:
                    self._make_room()
                self._put(operation.digest, before, after)
                if isinstance(operation, Finish):
                    self._shrink()
            return told

    async def run_async(self, operation: Operation) -> Any:
        # A few dictionary operations: quicker than any way into a thread.
        return self.run(operation)

    def _find(self, digest: bytes) -> Record | None:
        found = self._done.get(digest)
        return self._running.get(digest) if found is None else found

    def _put(self, digest: bytes, before: Record | None, after: Record | None) -> None:
        if before is not None:
            del (self._done if before.done else self._running)[digest]
            self._bytes -= len(before.answer or b"")
        if after is not None:
            (self._done if after.done else self._running)[digest] = after
            self._bytes += len(after.answer or b"")
            if before is None or after.expires < before.expires:
                heapq.heappush(self._ends, (after.expires, digest))
        if len(self._ends) > 3 * len(self) + 64:
            # Dates of keys that were released or have another date now.
            self._ends = [(kept.expires, name) for name, kept in self._items()]
            heapq.heapify(self._ends)

    def _items(self) -> list[tuple[bytes, Record]]:
        return [*self._running.items(), *self._done.items()]

    def _purge(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, digest = heapq.heappop(self._ends)
            found = self._find(digest)
            if found is None:
                continue
            if found.expires > now:
                heapq.heappush(self._ends, (found.expires, digest))
            else:
                self._put(digest, found, None)

    def _make_room(self) -> None:
        if len(self) < self.limit:
            return
        if self.full == "refuse" or not self._done:
            raise StoreFull(f"MemoryStore: all {self.limit} keys are in use")
        self._drop_oldest()

    def _shrink(self) -> None:
        """Answers beyond ``max_bytes``: the oldest lose theirs. That they were given stays known."""
        while self._bytes > self.max_bytes:
            digest, old = next((name, kept) for name, kept in self._done.items() if kept.answer)
            self._bytes -= len(old.answer or b"")
            # In place, so that it keeps its turn.
            self._done[digest] = Record(True, old.fingerprint, old.owner, old.until, old.expires)

    def _drop_oldest(self) -> None:
        digest = next(iter(self._done))
        self._put(digest, self._done[digest], None)

    def __len__(self) -> int:
        return len(self._running) + len(self._done)

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self)} of {self.limit} keys>"
