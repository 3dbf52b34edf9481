"""State that many processes share, on Redis or Valkey: `RedisStore`.

``Budget(..., store=store, name="fraud-score")`` and ``Limiter(..., store=store, name=...)`` hold for
all processes that say the same. Their decisions stay local: a background thread leases what will be
needed and gives back what was not. See docs/fleet.md.
"""

from __future__ import annotations

import atexit
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from .._events.labels import error_name, store_fault
from .._primitives.errors import StormproofError
from .._primitives.options import Seconds, choice, count, seconds
from .._runtime import interrupts
from .._runtime.locks import guard
from .address import Address
from .connection import Request, StoreConnection, is_unavailable
from .exchange_thread import ExchangeThread
from .inspect import survey
from .key_format import key_of, prefix_of

if TYPE_CHECKING:
    from concurrent.futures import Executor


_POLICIES = ("local", "open", "closed")

#: Threads that wait for `RedisStore.acall`; each call is bounded by the timeout.
_CALLERS = 8


class StoreUnavailable(StormproofError):
    """The store cannot be used now. Raised at once, without trying, while it is known to be down."""


class RedisStore:
    """Redis >= 6.2 or Valkey as the shared state of a fleet.

    ``url`` is ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://host:port,.../service/db``,
    ``redis+cluster://``, ``"env:NAME"`` (the URL is in that environment variable), or a redis-py
    client, from which one with our own timeouts is made. ``cluster=True`` says that a plain URL is a
    cluster's. Nothing connects before it is needed, and no constructor fails because the server is down.

    ``timeout`` bounds connecting and each answer; there are no retries inside the client.
    ``on_failure`` applies while the store cannot be used: "local" (each instance uses its fair
    share, from the last known number of instances, but no less than ``instances``), "open"
    (everything is allowed) or "closed" (nothing is). ``prefix`` begins every key.
    """

    def __init__(
        self,
        url: object,
        prefix: str = "sp",
        timeout: Seconds = 0.03,
        on_failure: str = "local",
        *,
        cluster: bool | None = None,
        instances: int = 1,
    ) -> None:
        self.address = Address(url, cluster)
        self.cluster = cluster
        self.prefix = prefix_of(prefix)
        self.timeout = seconds("RedisStore", "timeout", timeout, above=0)
        self.on_failure = choice("RedisStore", "on_failure", on_failure, _POLICIES)
        self.instances = count("RedisStore", "instances", instances)
        self._link = StoreConnection(self.address, self.timeout)
        self._exchange = ExchangeThread(
            self._link, self.prefix, self.timeout, self.on_failure, self.instances
        )
        self._callers: Executor | None = None
        self._lock = guard(self)
        _close_at_exit(self)
        weakref.finalize(self, self._exchange.retire).atexit = False

    # For objects with their state in this store.

    @property
    def url(self) -> str:
        """The address for people: no password, no options."""
        return str(self.address)

    @property
    def instance(self) -> str:
        """Name of this process among those that share the store; another one after a fork."""
        return self._exchange.instance

    def key(self, kind: str, name: str) -> str:
        """The key of a resource: ``prefix:{name}:kind``. A name that could be mistaken is hashed."""
        return key_of(self.prefix, kind, name)

    def join(self, kind: str, owner: Any, name: str) -> Any:
        """Attach ``owner`` to the resource ``name`` of ``kind``; return its member of the fleet."""
        from .breaker import FleetBreaker
        from .budget import FleetBudget
        from .bulkhead import FleetBulkhead
        from .limiter import FleetLimiter

        members: dict[str, Any] = {
            "breaker": FleetBreaker,
            "budget": FleetBudget,
            "bulkhead": FleetBulkhead,
            "limiter": FleetLimiter,
        }
        return members[kind](owner, self._exchange, name)

    def wake(self) -> None:
        """Let the background exchange visit the members that are due. Cheap; safe in a signal handler."""
        self._exchange.wake()

    def fell_back(self) -> None:
        """Count a decision that was made without the store."""
        self._exchange.tallies.fallbacks += 1

    def settle(self, within: Seconds = 1.0) -> bool:
        """Wait until the store has answered everything that is attached so far; return False if it did not.

        For start-up: before its first answer an instance may spend a single token of each resource.
        """
        return self._exchange.settle(seconds("RedisStore", "within", within))

    @property
    def state(self) -> str:
        """ "unknown" before the first contact, then "up" or "down"."""
        return self._exchange.health.state

    def call(self, script: str, key: str, *args: str | int | bytes) -> Any:
        """The answer of ``lua/<script>.lua`` for one key, in this thread, within the timeout.

        Raises `StoreUnavailable` when the store cannot be used: at once while it is known to be down.
        What the script itself raises (a key of the wrong type) comes as redis-py's ``ResponseError``.
        """
        if self._exchange.health.down:
            self.fell_back()
            fault = store_fault(self._exchange.health.error)
            raise StoreUnavailable(f"store {self.prefix!r} is down ({fault})")
        try:
            return self._exchange.timed(lambda: self._link.run(Request(script, key, args)))
        except Exception as error:
            if not is_unavailable(error):
                raise
            self.fell_back()
            fault = store_fault(error_name(error))
            raise StoreUnavailable(f"store {self.prefix!r} cannot be used ({fault})") from error

    async def acall(self, script: str, key: str, *args: str | int | bytes) -> Any:
        """`call` for async code, under asyncio and trio: a thread of the store waits for the answer.

        When the task is cancelled, the thread still reads the answer, so no connection is left with
        half of one.
        """
        if self._exchange.health.down:
            # Says so without a thread.
            return self.call(script, key, *args)
        library = interrupts.required_library("acall")
        if library.__name__ == "trio":
            return await library.to_thread.run_sync(
                lambda: self.call(script, key, *args), abandon_on_cancel=True
            )
        loop = library.get_running_loop()
        return await loop.run_in_executor(self._pool(), lambda: self.call(script, key, *args))

    def _pool(self) -> Executor:
        with self._lock:
            if self._callers is None:
                from concurrent.futures import ThreadPoolExecutor

                self._callers = ThreadPoolExecutor(_CALLERS, "stormproof-store-call")
            return self._callers

    # For people.

    def stats(self) -> dict[str, Any]:
        """Counts of this process so far, as plain data."""
        tallies = self._exchange.tallies
        return {
            "state": self.state,
            "exchanges": tallies.exchanges,
            "errors": tallies.errors,
            "outages": tallies.outages,
            "fallbacks": tallies.fallbacks,
            "reloads": self._link.reloads,
            "latency": tallies.latency_s,
        }

    def inspect(self, limit: int = 1000) -> list[dict[str, Any]]:
        """Every resource under the prefix, at most ``limit``: kind, name, state, instances, TTL.

        Reads the server by SCAN, in this thread. Raises `StoreUnavailable` when it cannot.
        """
        limit = count("RedisStore", "limit", limit)
        try:
            return survey(self._link.client(), self.prefix, limit, self.address.is_cluster)
        except Exception as error:
            fault = store_fault(error_name(error))
            raise StoreUnavailable(f"store {self.prefix!r} cannot be read ({fault})") from error

    def describe(self) -> dict[str, Any]:
        """Return options and counts so far as plain data; no password."""
        return {
            "kind": "RedisStore",
            "url": self.url,
            "prefix": self.prefix,
            "timeout": self.timeout,
            "on_failure": self.on_failure,
            **self.stats(),
        }

    def __repr__(self) -> str:
        more = "" if self.cluster is None else f", cluster={self.cluster}"
        more += "" if self.instances == 1 else f", instances={self.instances}"
        return (
            f"RedisStore({self.url!r}, prefix={self.prefix!r}, timeout={self.timeout!r}, "
            f"on_failure={self.on_failure!r}{more})"
        )

    def __copy__(self) -> RedisStore:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RedisStore:
        # A store is a place, not a value: a copy of a policy uses the same one.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.address.has_secret:
            raise TypeError(
                "RedisStore: cannot be pickled, because its URL may hold a password; make it in each "
                "process, or give the URL as 'env:NAME'"
            )
        rebuild = partial(RedisStore, cluster=self.cluster, instances=self.instances)
        return rebuild, (self.address.target, self.prefix, self.timeout, self.on_failure)

    # The end.

    def close(self) -> None:
        """Return the leases, stop the thread, close the connections. May be called twice.

        Strategies with their state here use ``on_failure`` from then on. A store without a reference
        closes itself.
        """
        self._exchange.close()
        with self._lock:
            callers, self._callers = self._callers, None
        if callers is not None:
            callers.shutdown(wait=False)
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def after_fork(self) -> None:
        """Start again in a child process: another name, other sockets, another thread."""
        self._callers = None
        self._exchange.forked()


def _close_at_exit(store: RedisStore) -> None:
    """Give leases back when the program ends, without keeping an unused store alive."""
    reference = weakref.ref(store)

    def close() -> None:
        target = reference()
        if target is not None:
            target.close()

    atexit.register(close)
    # Otherwise the finalizer would run at exit, too, before the objects that it removes.
    weakref.finalize(store, atexit.unregister, close).atexit = False


for _kind in (RedisStore, StoreUnavailable):
    # Users import them from there.
    _kind.__module__ = "stormproof.redis"
