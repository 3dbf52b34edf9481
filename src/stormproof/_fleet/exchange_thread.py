"""The background exchange: one daemon thread per store, which alone talks to Redis on behalf of leases.

A thread, and not a task of some event loop: it serves sync code, any number of asyncio loops and trio
alike, it outlives each of them, and no user's loop ever waits for it. What it does there is wait for
a socket, which holds no lock of the interpreter.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._events import bus, labels
from .._runtime import clock as _clock
from .._runtime import platform as _platform
from .._runtime import randomness
from .._runtime.interrupts import Sleeper
from .connection import Request, StoreConnection, is_answer, is_unavailable
from .health import Health
from .key_format import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .member import Member

#: Members asked in one round trip. More would keep a single-threaded server busy for too long.
_BATCH = 256

#: Poll interval of `ExchangeThread.settle`.
_LOOK_S = 0.002

#: Pause after an error in this module.
_AFTER_A_BUG_S = 1.0

#: The longest wait between two looks at the members.
_LONGEST_NAP_S = 5.0

#: Around what the thread asks: an error was recorded by `failed`, or is irrelevant, since leases expire.
_NOTED = suppress(Exception)


class Tallies:
    """Counts of a store's work, for metrics. Counted without a lock; only the exchange's thread is exact."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.errors = 0
        self.outages = 0
        #: Decisions, or whole stretches of them, that were made without the store.
        self.fallbacks = 0
        self.latency_s = 0.0


class ExchangeThread:
    """Visits its members when they are due, all of them in one round trip, and watches the store's health."""

    def __init__(
        self, link: StoreConnection, prefix: str, timeout_s: float, on_failure: str, instances: int
    ) -> None:
        self._link = link
        self.prefix = prefix
        self.timeout_s = timeout_s
        self.on_failure = on_failure
        #: Least number of instances to assume.
        self.instances = instances
        self._probe = Request("probe", key_of(prefix, "probe", "store"), ())
        self.health = Health()
        self.tallies = Tallies()
        #: In the order in which they joined, which is the order of visits.
        self._members: dict[Member, None] = {}
        self._bell = Sleeper()
        self._thread: Any = None
        self._closing = False
        self._starting = _platform.machine.lock()
        #: Name of this process among those that share the store.
        self.instance = randomness.token()

    # From any thread.

    def attach(self, member: Member) -> None:
        """Visit ``member`` from now on, until it is not in use any more."""
        if not self._closing:
            if self.health.down:
                # Before the thread knows of it: its very first decision is made without the store.
                self._detach(member)
            self._members[member] = None
            self.wake()
        if self._closing:
            # Closed before, or while the member was added.
            self._detach(member)

    def wake(self) -> None:
        """Visit the members that are due now. Starts the thread if it is not running."""
        if self._thread is None and not self._closing:
            self._start()
        self._bell.wake()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closing:
                self._thread = _platform.machine.start(self._serve, "stormproof-store")

    def settle(self, within_s: float) -> bool:
        """Wait until every member has an answer; return False if that takes too long."""
        end = _clock.SYSTEM.now() + within_s
        while not all(member.answered_at is not None for member in tuple(self._members)):
            if _clock.SYSTEM.now() >= end:
                return False
            _clock.SYSTEM.sleep(_LOOK_S)
        return True

    def failed(self, error: Exception) -> None:
        """Record that a call found the store unusable."""
        self.tallies.errors += 1
        is_news = self.health.failed(labels.error_name(error) or "", _clock.SYSTEM.now(), randomness.draw())
        # Members first: subscribers may take their time.
        if threading.current_thread() is self._thread:
            self._detach_all()
        else:
            self.wake()
        if is_news:
            self.tallies.outages += 1
            bus.publish(
                "StoreDown", operation=self.prefix, error=self.health.error, on_failure=self.on_failure
            )

    def answered(self) -> None:
        """Record that a call was answered."""
        self.tallies.exchanges += 1
        if self.health.state == "up":
            return
        lasted = self.health.answered(_clock.SYSTEM.now())
        if lasted is not None:
            bus.publish("StoreUp", operation=self.prefix, down_for=lasted)
            self.wake()

    def timed(self, run: Callable[[], Any]) -> Any:
        """``run()``, with its time and its outcome noted; unavailability is raised after that."""
        start = time.perf_counter()
        try:
            result = run()
        except Exception as error:
            if is_unavailable(error):
                self.failed(error)
            elif is_answer(error):
                self.answered()
            raise
        taken = time.perf_counter() - start
        self.tallies.latency_s += (taken - self.tallies.latency_s) / min(20, self.tallies.exchanges + 1)
        self.answered()
        return result

    # The thread.

    def _serve(self) -> None:
        while not self._closing:
            try:
                self._turn(_clock.SYSTEM.now())
            except Exception as error:
                # A thread that ended here would leave every lease to itself.
                bus.report(error)
                self._nap(_AFTER_A_BUG_S)
        try:
            self._shutdown()
        finally:
            self._link.close()

    def _turn(self, now: float) -> None:
        """Visit the members that are due, then sleep until the next one is."""
        if self.health.down:
            self._detach_all()
            if now >= self.health.probe_at:
                with _NOTED:
                    self.timed(lambda: self._link.run(self._probe))
            else:
                self._nap(self.health.probe_at - now)
            return
        self._round(now)
        if not self.health.down:
            due = min((member.next_at for member in tuple(self._members)), default=math.inf)
            self._nap(due - _clock.SYSTEM.now())

    def _nap(self, seconds: float) -> None:
        if seconds > 0:
            # Checked again after the first nap, which any wake ends.
            looks = iter((False,))
            self._bell.wait(min(seconds, _LONGEST_NAP_S), lambda: next(looks, True))

    def _round(self, now: float) -> None:
        """Send the requests of all members that are due."""
        waiting: list[tuple[Member, Request]] = []
        for member in tuple(self._members):
            if not member.alive():
                self._members.pop(member, None)
                request = member.release_request()
                if request is not None:
                    with _NOTED:
                        self._link.run(request)
            elif member.next_at <= now and (request := member.ask(now)) is not None:
                waiting.append((member, request))
        for start in range(0, len(waiting), _BATCH):
            self._batch(waiting[start : start + _BATCH])

    def _batch(self, batch: list[tuple[Member, Request]]) -> None:
        requests = [request for _, request in batch]
        try:
            answers = self.timed(lambda: self._link.run_all(requests))
        except Exception as error:
            if is_unavailable(error):
                return
            answers = [error] * len(batch)
        now = _clock.SYSTEM.now()
        for (member, _), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                self.tallies.errors += 1
                member.on_key_error(answer, now)
            else:
                member.on_reply(answer, now)

    def _detach_all(self) -> None:
        """Let all members decide without the store, and drop those that are no longer in use."""
        for member in tuple(self._members):
            if not member.alive():
                self._members.pop(member, None)
            elif not member.alone:
                self._detach(member)

    def _detach(self, member: Member) -> None:
        self.tallies.fallbacks += 1
        member.lost(_clock.SYSTEM.now())

    # The end, and the child.

    def close(self) -> None:
        """Stop the thread and return to the store what members hold; this takes a few timeouts at most.

        Members that are used after that decide without the store.
        """
        self._closing = True
        self._bell.wake()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
        self._shutdown()

    def retire(self) -> None:
        """Let the thread `close`, for a store that nothing refers to. Safe in a finalizer."""
        self._closing = True
        self._bell.wake()

    def _shutdown(self) -> None:
        """Return tokens and leases, and let all members decide without the store. Safe to run twice."""
        members = () if self.health.down else tuple(self._members)
        releases = [request for each in members if (request := each.release_request()) is not None]
        self._detach_all()
        for start in range(0, len(releases), _BATCH):
            with _NOTED:
                self._link.run_all(releases[start : start + _BATCH])

    def forked(self) -> None:
        """Go on in a child process, with its own thread and sockets, and without the parent's leases."""
        had = self._thread is not None
        self._thread = None
        self._bell = Sleeper()
        self._starting = _platform.machine.lock()
        self._link.forget()
        self.instance = randomness.token()
        if self._closing:
            return
        for member in tuple(self._members):
            member.forked()
        if self.health.down:
            self._detach_all()
        if had:
            self._start()
