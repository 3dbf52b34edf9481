"""Records in this process: for one process, for tests, and as the embedded default. Bounded."""

from __future__ import annotations

import heapq

from .._events import bus
from .._primitives.options import Seconds, choice, count, validate_clock
from .._runtime import clock as _clock
from .._runtime.locks import guard
from .errors import StoreFull
from .records import Begin, Operation, Record, Renew, step
from .shares import Shares
from .store import DAY_S, MAX_ANSWER, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from .._runtime.clock import Clock


class MemoryStore(Store):
    """At most ``limit`` keys and ``max_bytes`` of answers, gone when the process ends.

    When it is full, ``full="drop"`` forgets a key that has ended, done or unknown, so that it would run again
    if asked for: the oldest one of the client (the scope) with the most keys. A client that fills the store
    loses keys of its own, not those of others. ``full="refuse"`` raises `StoreFull` instead, and so does
    either when nothing has ended. ``per_client`` bounds the keys of one client: beyond it the client loses
    its oldest, or is refused; ``None``: no bound. Keys in progress are never dropped. Beyond ``max_bytes``
    the oldest answers are dropped, first those of a client with more than its part, and their keys stay
    known as done. Every key that is dropped or refused for lack of room is an `IdempotentCall` event.

    Shared by passing the object, between threads, tasks and event loops. A forked child starts empty.
    """

    def __init__(
        self,
        limit: int = 10_000,
        *,
        max_bytes: int = 64 << 20,
        full: Literal["drop", "refuse"] = "drop",
        per_client: int | None = None,
        ttl: Seconds = DAY_S,
        max_answer: int = MAX_ANSWER,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ttl=ttl, max_answer=max_answer)
        self.limit = count("MemoryStore", "limit", limit)
        self.max_bytes = count("MemoryStore", "max_bytes", max_bytes)
        self.full = choice("MemoryStore", "full", full, ("drop", "refuse"))
        self.per_client = None if per_client is None else count("MemoryStore", "per_client", per_client)
        self.clock = validate_clock("MemoryStore", clock)
        self._clear()
        self._lock = guard(self)

    def _clear(self) -> None:
        #: Each record, with the client that it belongs to.
        self._records: dict[bytes, tuple[Record, bytes]] = {}
        self._shares = Shares()
        self._bytes = 0
        #: The keys whose answers are kept, oldest first.
        self._answers: dict[bytes, None] = {}
        #: When to look at which record, at the latest; one that lives longer by then is put in again.
        self._ends: list[tuple[float, bytes]] = []
        #: The number of keys that were dropped for others and not reported yet.
        self._dropped = 0

    def after_fork(self) -> None:
        """Start empty in a forked child: the calls in progress are the parent's, and end there."""
        self._clear()

    def run(self, operation: Operation) -> Any:
        clock = _clock.current() if self.clock is None else self.clock
        dropped = 0
        try:
            with self._lock:
                try:
                    return self._apply(operation, clock.now())
                finally:
                    dropped, self._dropped = self._dropped, 0
        except StoreFull:
            bus.publish("IdempotentCall", operation="MemoryStore", decision="refused")
            raise
        finally:
            for _ in range(dropped):
                bus.publish("IdempotentCall", operation="MemoryStore", decision="dropped")

    def _apply(self, operation: Operation, now: float) -> Any:
        self._purge(now)
        before, client = self._records.get(operation.digest, (None, b""))
        answer, after = step(operation, before, now)
        if after is before:
            return answer
        if before is None and isinstance(operation, Begin):
            client = operation.client
            self._make_room(client, now)
        gave_up = isinstance(operation, Renew) and after is not None and after.until <= now
        has_ended = after is not None and (after.done or gave_up)
        self._put(operation.digest, client, after, has_ended)
        self._shrink(client)
        return answer

    async def run_async(self, operation: Operation) -> Any:
        # A few dictionary operations: quicker than any way into a thread.
        return self.run(operation)

    def _put(self, digest: bytes, client: bytes, after: Record | None, has_ended: bool = False) -> None:
        before, _ = self._records.pop(digest, (None, b""))
        if before is not None:
            self._shares.remove(client, digest)
            self._answers.pop(digest, None)
            self._bytes -= len(before.answer or b"")
        if after is not None:
            self._records[digest] = after, client
            self._shares.add(client, digest, has_ended)
            if after.answer:
                self._answers[digest] = None
                self._shares.add_answer(client, digest, len(after.answer))
                self._bytes += len(after.answer)
            if before is None or after.expires < before.expires:
                heapq.heappush(self._ends, (after.expires, digest))
        if len(self._ends) > 3 * len(self) + 64:
            # Dates of keys that were released or have another date now.
            self._ends = [(record.expires, name) for name, (record, _) in self._records.items()]
            heapq.heapify(self._ends)

    def _purge(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, digest = heapq.heappop(self._ends)
            record, client = self._records.get(digest, (None, b""))
            if record is None:
                continue
            if record.expires > now:
                heapq.heappush(self._ends, (record.expires, digest))
            else:
                self._put(digest, client, None)

    def _make_room(self, client: bytes, now: float) -> None:
        """Drop a key for a new one of ``client``, or raise `StoreFull`."""
        own = self._shares.of(client)
        if self.per_client is not None and own is not None and len(own) >= self.per_client:
            if self.full == "refuse" or not self._drop_oldest(client, now):
                raise StoreFull(f"MemoryStore: all {self.per_client} keys allowed for one client are in use")
        if len(self) < self.limit:
            return
        if self.full == "drop":
            for largest, _ in self._shares.largest():
                if self._drop_oldest(largest, now):
                    return
                if largest == client:
                    # The one with the most keys, all of them in progress: smaller ones do not pay for it.
                    break
        raise StoreFull(f"MemoryStore: all {self.limit} keys are in use")

    def _drop_oldest(self, client: bytes, now: float) -> bool:
        """Drop the key of ``client`` that ended first: False if none has."""
        share = self._shares.of(client)
        assert share is not None
        oldest = next(iter(share.ended), None)
        if oldest is None:
            # The lease ran out: its holder is lost.
            lapsed = (name for name in share.in_progress if self._records[name][0].until <= now)
            oldest = next(lapsed, None)
        if oldest is None:
            return False
        self._put(oldest, client, None)
        self._dropped += 1
        return True

    def _shrink(self, client: bytes) -> None:
        """Drop the oldest answers beyond ``max_bytes``. That they were given stays known."""
        while self._bytes > self.max_bytes:
            share = self._shares.of(client)
            is_greedy = share is not None and share.answer_bytes * len(self._shares) >= self.max_bytes
            digest = next(iter(share.answers if share is not None and is_greedy else self._answers))
            old, whose = self._records[digest]
            self._bytes -= len(old.answer or b"")
            del self._answers[digest]
            self._shares.drop_answer(whose, digest)
            # In place, so that it keeps its turn.
            self._records[digest] = Record(True, old.fingerprint, old.owner, old.until, old.expires), whose

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self)} of {self.limit} keys>"
