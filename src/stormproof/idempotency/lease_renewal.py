"""Renews the leases of idempotency keys while their work runs: one thread a store, sync and async alike."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
import weakref

from .._runtime.forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .records import Renew
    from .store import Store

#: A lease is renewed when this share of it has passed: two renewals may fail before it ends.
_SHARE = 1 / 3
_SWEEP = 1024


class RenewedLease:
    """``with RenewedLease(store, Renew(...)):`` renews a lease until the block or the claim ends."""

    __slots__ = ("active", "operation", "store")

    def __init__(self, store: Store, operation: Renew) -> None:
        self.store = store
        self.operation = operation
        self.active = True

    def __enter__(self) -> RenewedLease:
        try:
            _renewal_thread_of(self.store).add(self)
        except BaseException:
            # If no thread can be started the block does not run, and a later thread must not renew for it.
            self.end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop renewing the lease."""
        self.active = False

    def renew(self) -> None:
        """Once. A store that does not answer is asked again next time."""
        try:
            self.active = self.active and self.store.run(self.operation)
        except Exception:
            return


class _RenewalThread:
    """The thread starts with the first lease that lives long enough to need it, and ends with the last."""

    __slots__ = ("_due", "_numbers", "_running", "_sweep_at", "_wake")

    def __init__(self) -> None:
        self._wake = threading.Condition(threading.Lock())
        self._due: list[tuple[float, int, RenewedLease]] = []
        self._numbers = itertools.count()
        self._running = False
        self._sweep_at = _SWEEP

    def add(self, lease: RenewedLease) -> None:
        with self._wake:
            self._push(lease)
            if len(self._due) > self._sweep_at:
                self._sweep()
            if not self._running:
                # A daemon: the program may end while something runs, and the lease then ends too.
                threading.Thread(target=self._serve, name="stormproof-leases", daemon=True).start()
                self._running = True
            elif self._due[0][2] is lease:
                self._wake.notify()

    def _sweep(self) -> None:
        """Most runs end long before their first renewal is due: let go of those."""
        self._due = [entry for entry in self._due if entry[2].active]
        heapq.heapify(self._due)
        self._sweep_at = max(_SWEEP, 2 * len(self._due))

    def _push(self, lease: RenewedLease) -> None:
        due = time.monotonic() + lease.operation.lease_s * _SHARE
        heapq.heappush(self._due, (due, next(self._numbers), lease))

    def _serve(self) -> None:
        while (lease := self._next()) is not None:
            lease.renew()
            if lease.active:
                with self._wake:
                    self._push(lease)

    def _next(self) -> RenewedLease | None:
        """Wait for the next lease to renew, and return it; ``None`` if there is none left."""
        with self._wake:
            while True:
                while self._due and not self._due[0][2].active:
                    heapq.heappop(self._due)
                if not self._due:
                    self._running = False
                    return None
                left = self._due[0][0] - time.monotonic()
                if left <= 0:
                    return heapq.heappop(self._due)[2]
                self._wake.wait(left)


#: One each: a store that is slow to answer must not let the leases in another one end.
_renewal_threads: weakref.WeakKeyDictionary[Store, _RenewalThread] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def _renewal_thread_of(store: Store) -> _RenewalThread:
    with _making:
        return _renewal_threads.setdefault(store, _RenewalThread())


@after_fork
def _renew() -> None:
    # Threads do not survive a fork, and the blocks are the parent's.
    global _renewal_threads, _making
    _renewal_threads, _making = weakref.WeakKeyDictionary(), threading.Lock()
