"""One run under a key: the operations that it needs of a store. No store is touched here."""

from __future__ import annotations

from . import keys
from .records import Begin, Finish, Release, Renew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    #: The end of a run for its key: its answer is kept, nothing was done, or the outcome is unknown.
    Settlement = Literal["keep", "release", "unknown"]


class KeyedRun:
    """``begin`` claims the key for this run, ``lease`` renews its lease."""

    __slots__ = ("begin", "lease")

    def __init__(
        self, scope: str, key: str, payload: str, lease_s: float, ttl_s: float, take_over: bool
    ) -> None:
        digest, owner = keys.digest(scope, key), keys.new_owner()
        self.begin = Begin(digest, payload, owner, lease_s, ttl_s, take_over, keys.client(scope))
        self.lease = Renew(digest, owner, lease_s, ttl_s)

    def settled(self, how: Settlement, answer: bytes | None = None) -> Finish | Release | Renew:
        """Return the operation that ends the run; without one, the outcome is unknown when its lease ends."""
        digest, owner, _, ttl_s = self.lease
        if how == "release":
            return Release(digest, owner)
        return Finish(digest, owner, answer, ttl_s) if how == "keep" else Renew(digest, owner, 0.0, ttl_s)
