"""The interface of every store: checks what it is given, then hands one operation to the backend."""

from __future__ import annotations

from .._primitives.options import Seconds, count, flag, seconds
from .._runtime.offload import in_thread
from . import keys
from .records import Begin, Claim, Finish, Forget, Operation, Release, Renew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


DAY_S = 86_400.0
MAX_ANSWER = 1 << 20


class Store:
    """Keys and the outcomes of their calls. Each method has an ``_async`` twin that does not block the loop.

    A record is kept ``ttl`` seconds after its end (24 hours); an answer has at most ``max_answer``
    bytes. ``scope`` keeps the same key of different tenants or functions apart.

    A backend is a subclass with ``run(operation)``: find the record of ``operation.digest``, call
    ``records.step(operation, record, now)``, and keep what it says, all as one atomic step. It raises
    `StoreUnavailable` when it cannot, and only then. ``run_async`` is ``run`` in a worker thread unless
    the backend has something better; it must never leave an operation half known: cancelled, it
    waits for the end, which the backend bounds.
    """

    def __init__(self, *, ttl: Seconds = DAY_S, max_answer: int = MAX_ANSWER) -> None:
        owner = type(self).__name__
        self.ttl = seconds(owner, "ttl", ttl, above=0)
        self.max_answer = count(owner, "max_answer", max_answer)

    # For backends to implement.

    def run(self, operation: Operation) -> Any:
        """Apply ``operation`` atomically and return its outcome."""
        raise NotImplementedError

    async def run_async(self, operation: Operation) -> Any:
        """`run`, for async code."""
        return await in_thread(self.run, operation, undo=self._undo(operation))

    def close(self) -> None:
        """Close files and connections. A store that is used again opens them again."""

    def _undo(self, operation: Operation) -> Callable[[Claim], object] | None:
        """Return the operation that takes back a claim whose caller was cancelled before it knew."""
        if not isinstance(operation, Begin):
            return None
        begun = operation

        def give_back(claim: Claim) -> None:
            if claim.taken_over:
                # The outcome was unknown before, and is unknown again.
                self.run(Renew(begun.digest, begun.owner, 0.0, begun.ttl_s))
            elif claim.state == "new":
                self.run(Release(begun.digest, begun.owner))

        return give_back

    # The operations, checked.

    def begin(
        self,
        key: str,
        fingerprint: str,
        owner: str,
        lease: Seconds,
        *,
        scope: str = "",
        ttl: Seconds | None = None,
        take_over: bool = False,
    ) -> Claim:
        """Claim ``key`` for ``owner`` for ``lease`` seconds; see `Claim` for the possible outcomes.

        ``fingerprint`` names the payload ("" when there is none to compare). ``ttl=None`` is the store's.
        ``take_over`` runs a key again whose outcome is unknown.
        """
        claim: Claim = self.run(self._begin(key, fingerprint, owner, lease, scope, ttl, take_over))
        return claim

    async def begin_async(
        self,
        key: str,
        fingerprint: str,
        owner: str,
        lease: Seconds,
        *,
        scope: str = "",
        ttl: Seconds | None = None,
        take_over: bool = False,
    ) -> Claim:
        """`begin`. Cancelled, it leaves nothing claimed."""
        operation = self._begin(key, fingerprint, owner, lease, scope, ttl, take_over)
        claim: Claim = await self.run_async(operation)
        return claim

    def finish(
        self, key: str, owner: str, answer: bytes | None, *, scope: str = "", ttl: Seconds | None = None
    ) -> bool:
        """Keep ``answer`` (``None``: done, but not kept). False if ``owner`` has lost the key."""
        return bool(self.run(self._finish(key, owner, answer, scope, ttl)))

    async def finish_async(
        self, key: str, owner: str, answer: bytes | None, *, scope: str = "", ttl: Seconds | None = None
    ) -> bool:
        """`finish`."""
        return bool(await self.run_async(self._finish(key, owner, answer, scope, ttl)))

    def renew(
        self, key: str, owner: str, lease: Seconds, *, scope: str = "", ttl: Seconds | None = None
    ) -> bool:
        """Hold the key ``lease`` seconds from now. 0 gives it up with an unknown outcome. False if lost."""
        return bool(self.run(self._renew(key, owner, lease, scope, ttl)))

    async def renew_async(
        self, key: str, owner: str, lease: Seconds, *, scope: str = "", ttl: Seconds | None = None
    ) -> bool:
        """`renew`."""
        return bool(await self.run_async(self._renew(key, owner, lease, scope, ttl)))

    def release(self, key: str, owner: str, *, scope: str = "") -> bool:
        """Give the key back: nothing was done, the next call may run. False if ``owner`` has lost it."""
        return bool(self.run(Release(self._digest(key, scope), self._owner(owner))))

    async def release_async(self, key: str, owner: str, *, scope: str = "") -> bool:
        """`release`."""
        return bool(await self.run_async(Release(self._digest(key, scope), self._owner(owner))))

    def forget(self, key: str, *, scope: str = "") -> bool:
        """Drop the key in whatever state, to settle an unknown outcome by hand. False if it is not there."""
        return bool(self.run(Forget(self._digest(key, scope))))

    async def forget_async(self, key: str, *, scope: str = "") -> bool:
        """`forget`."""
        return bool(await self.run_async(Forget(self._digest(key, scope))))

    # The checks.

    def _begin(
        self,
        key: str,
        fingerprint: str,
        owner: str,
        lease: Seconds,
        scope: str,
        ttl: Seconds | None,
        take_over: bool,
    ) -> Begin:
        return Begin(
            self._digest(key, scope),
            keys.text("begin", "fingerprint", fingerprint, empty=True),
            self._owner(owner),
            seconds("begin", "lease", lease, above=0),
            self._ttl(ttl),
            flag("begin", "take_over", take_over),
            keys.client(scope),
        )

    def _finish(self, key: str, owner: str, answer: bytes | None, scope: str, ttl: Seconds | None) -> Finish:
        if answer is not None and not isinstance(answer, bytes):
            raise TypeError(f"finish: answer must be bytes or None, got {type(answer).__name__}")
        if answer is not None and len(answer) > self.max_answer:
            raise ValueError(
                f"finish: answer must have at most max_answer={self.max_answer} bytes, got {len(answer)}"
            )
        return Finish(self._digest(key, scope), self._owner(owner), answer, self._ttl(ttl))

    def _renew(self, key: str, owner: str, lease: Seconds, scope: str, ttl: Seconds | None) -> Renew:
        held_s = seconds("renew", "lease", lease)
        return Renew(self._digest(key, scope), self._owner(owner), held_s, self._ttl(ttl))

    def _digest(self, key: str, scope: str) -> bytes:
        keys.text("Store", "scope", scope, most=keys.MAX_SCOPE, empty=True)
        return keys.digest(scope, keys.text("Store", "key", key))

    def _owner(self, owner: str) -> str:
        return keys.text("Store", "owner", owner)

    def _ttl(self, ttl: Seconds | None) -> float:
        return self.ttl if ttl is None else seconds("Store", "ttl", ttl, above=0)
