"""The bulkhead: bounds the calls in flight and those in its queue, and refuses the rest."""

from __future__ import annotations

from collections import deque

from ..._drivers.waiter import Waiter, leaving
from ..._events import bus, labels
from ..._primitives.errors import BulkheadFull
from ..._primitives.options import Seconds, count, flag, label, seconds, shared_name, shared_store
from ..._runtime.call_template import Template
from ..._runtime.locks import guard
from ..protocol import CallWrapper
from ..stateful import Stateful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Self

    from ..protocol import Env, Fn, Store

    class BulkheadMember(Protocol):
        """The fleet's side of a bulkhead with a store."""

        def start(self) -> None: ...
        def kick(self) -> None: ...
        def expected_grants(self) -> int: ...
        def places(self, owner: Bulkhead) -> int: ...
        def change(self, owner: Bulkhead) -> None: ...


class _RemovedPlace(Waiter):
    """Stands first in the queue for a place that no longer exists, until a call gives its place back."""

    __slots__ = ()

    def grant(self) -> None:
        self.granted = True


class Bulkhead(CallWrapper, Stateful):
    """At most ``limit`` calls at once; ``queue`` more wait their turn, first come first served.

    ``max_wait`` bounds the time in the queue in seconds; ``None``, and 0 together with a queue,
    leave that to the deadline. Without a queue no call waits. Shared by passing the object, between
    threads, tasks and event loops alike.

    With a ``store`` the limit is that of all processes that use one of the same ``name``. This one leases
    places ahead of its calls; a call that finds none waits for the store, at most as long as its timeout.

    With ``observe`` a call that finds no place goes ahead without one, and `WouldRefuse` is emitted.
    """

    def __init__(
        self,
        limit: int,
        *,
        queue: int = 0,
        max_wait: Seconds | None = 0,
        name: str | None = None,
        observe: bool = False,
        store: Store | None = None,
    ) -> None:
        self.limit = count("Bulkhead", "limit", limit, most=1_000_000)
        self.queue = count("Bulkhead", "queue", queue, least=0)
        self.max_wait = None if max_wait is None else seconds("Bulkhead", "max_wait", max_wait)
        self.name = label("Bulkhead", name)
        self.observe = flag("Bulkhead", "observe", observe)
        self.store = shared_store("Bulkhead", store)
        self._fleet: BulkheadMember | None = None
        if self.max_wait and not self.queue:
            raise ValueError(f"Bulkhead: max_wait needs a queue to wait in, got {max_wait!r} with queue=0")
        #: Free places. Taking one and giving it back are single atomic list operations.
        self._permits: list[None] = [None] * self.limit
        #: Number of places that this process has, free or in use.
        self._places: int = self.limit
        self._waiting: deque[Waiter] = deque()
        self._lock = guard(self)
        if store is not None:
            self._join(store)

    def _join(self, store: Store) -> None:
        fleet: BulkheadMember = store.join("bulkhead", self, shared_name("Bulkhead", self.name))
        self._fleet = fleet
        self.set_places(fleet.places(self))
        fleet.start()

    def retune(self, wanted: Self) -> bool:
        if self._fleet is not None:
            # How many of the places are this process's own is for the store to say.
            self._take_options(wanted)
            self._fleet.change(self)
            return True
        with self._lock:
            more = wanted.limit - self.limit
            self._take_options(wanted)
            self._places = self.limit
            self._permits.extend([None] * more)
            for _ in range(-more):
                try:
                    self._permits.pop()
                except IndexError:
                    self._waiting.appendleft(_RemovedPlace())
        self.dispatch()
        return True

    def resize(self, places: int) -> None:
        """Have ``places`` from now on, as far as those in use allow: they are given up as they come free."""
        self.set_places(places)
        self.dispatch()

    def set_places(self, places: int) -> None:
        """`resize`, but hand nothing to those who wait."""
        with self._lock:
            missing = places - self._places
            if missing > 0:
                self._permits.extend([None] * missing)
            freed = missing
            while freed < 0:
                try:
                    self._permits.pop()
                except IndexError:
                    break
                freed += 1
            self._places = places - min(0, freed)

    # A newcomer queues behind those who wait. One who queues looks for a free place again once it
    # stands in line, and one who leaves looks for the line after giving its place back: whichever
    # comes second sees the other, so no place is ever free while a call waits.

    def _enqueue(self) -> Waiter | None:
        """A place in the queue; ``None`` if the call may go ahead at once."""
        with self._lock:
            if not self._waiting and self._permits:
                try:
                    self._permits.pop()
                    return None
                except IndexError:
                    # Taken by the success path, which does not ask for the lock.
                    pass
            room = self.queue if self._fleet is None else self.queue + self._fleet.expected_grants()
            waiter = Waiter() if len(self._waiting) < room else None
            if waiter is not None:
                self._waiting.append(waiter)
        if waiter is None:
            raise self._refusal("and so is its queue" if self.queue else "and it has no queue")
        self.dispatch()
        if self._fleet is not None:
            self._fleet.kick()
        return waiter

    def dispatch(self) -> None:
        """Hand free places to those who wait."""
        while self._waiting and self._permits:
            with self._lock:
                if not self._waiting:
                    return
                try:
                    self._permits.pop()
                except IndexError:
                    return
                waiter = self._waiting.popleft()
            waiter.grant()

    def leave(self) -> None:
        """Give a place back."""
        self._permits.append(None)
        if self._waiting:
            self.dispatch()

    def _withdraw(self, waiter: Waiter) -> None:
        """Leave the queue without a place, or give back a place that was granted just then."""
        with self._lock:
            try:
                self._waiting.remove(waiter)
                return
            except ValueError:
                pass
        self.leave()

    def _passes(self) -> bool:
        """Emit `WouldRefuse` and return True if this bulkhead only observes, so that the call proceeds."""
        if self.observe:
            bus.publish("WouldRefuse", operation=self.name or "bulkhead", by="bulkhead")
        return self.observe

    def _refusal(self, why: str) -> BulkheadFull:
        bus.publish("Refused", operation=self.name or "bulkhead", by="bulkhead")
        name = labels.clean(self.name or "bulkhead")
        return BulkheadFull(f"{name} is full with {self.limit} call{'' if self.limit == 1 else 's'}, {why}")

    def _limit_s(self) -> float | None:
        if self.store is not None and not self.queue:
            return self.store.timeout
        return self.max_wait or None

    def enter(self) -> None:
        """Take a place, in a thread; wait for one in the queue, or raise `BulkheadFull`."""
        if (waiter := self._enqueue()) is not None:
            with leaving(self._withdraw, waiter):
                waiter.wait(self._limit_s())
            self._check_served(waiter)

    async def enter_async(self) -> None:
        """`enter` for async code."""
        if (waiter := self._enqueue()) is not None:
            with leaving(self._withdraw, waiter):
                await waiter.wait_async(self._limit_s())
            self._check_served(waiter)

    def _check_served(self, waiter: Waiter) -> None:
        """Refuse the call if its wait has ended without a place."""
        if waiter.granted:
            return
        with self._lock:
            if waiter.granted or waiter not in self._waiting:
                # Served at the last moment.
                return
            self._waiting.remove(waiter)
        raise self._refusal(f"and the wait in its queue took longer than {self._limit_s():g} s")

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        names = {
            "call": call,
            "dispatch": self.dispatch,
            "enter": self.enter_async if is_async else self.enter,
            "give": self._permits.append,
            "leave": self.leave,
            "passes": self._passes,
            "permits": self._permits,
            "take": self._permits.pop,
            "waiting": self._waiting,
        }
        return _BOXED.build(like, is_async, names)

    # Looking at it.

    @property
    def places(self) -> int:
        """Number of places that this process has, free or in use."""
        return self._places

    @property
    def in_use(self) -> int:
        """Number of calls in flight."""
        return self._places - len(self._permits)

    @property
    def queued(self) -> int:
        """Number of calls waiting in the queue."""
        return len(self._waiting)

    def after_fork(self) -> None:
        """In a forked child: the calls inside, and those that wait, are the parent's."""
        places = self.limit if self._fleet is None else self._fleet.places(self)
        self._permits[:] = [None] * places
        self._places = places
        self._waiting.clear()

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the use of this moment."""
        return {**super().describe(), "in_use": self.in_use, "queued": self.queued}


_BOXED = Template(
    "boxed",
    """\
{async_}def boxed({params}):
    if not _sp_waiting and _sp_permits:
        try:
            _sp_take()
        except IndexError:
            pass
        else:
            try:
                return {await_}_sp_call({args})
            finally:
                _sp_give(None)
                if _sp_waiting:
                    _sp_dispatch()
    if _sp_passes():
        return {await_}_sp_call({args})
    {await_}_sp_enter()
    try:
        return {await_}_sp_call({args})
    finally:
        _sp_leave()
""",
)
