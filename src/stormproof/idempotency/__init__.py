"""Doing a thing once, however often it is asked for: stores of keys, and the decorator for workers.

`records` is the rule, `store` the interface, `memory`, `sqlite` and `redis` keep the records,
`once_per_key` is the decorator. Nothing here is loaded by ``import stormproof``.
"""

from __future__ import annotations

from .errors import (
    AnswerNotKept,
    IdempotencyConflict,
    IdempotencyError,
    IdempotencyMismatch,
    OutcomeUnknown,
    StoreFull,
    StoreUnavailable,
)
from .memory import MemoryStore
from .once_per_key import idempotent
from .records import Begin, Claim, Finish, Forget, Record, Release, Renew
from .sqlite import SqliteStore
from .store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .redis import RedisStore as RedisStore

__all__ = [
    "AnswerNotKept",
    "Begin",
    "Claim",
    "Finish",
    "Forget",
    "IdempotencyConflict",
    "IdempotencyError",
    "IdempotencyMismatch",
    "MemoryStore",
    "OutcomeUnknown",
    "Record",
    "RedisStore",
    "Release",
    "Renew",
    "SqliteStore",
    "Store",
    "StoreFull",
    "StoreUnavailable",
    "idempotent",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # The one that stands on another library, which is imported when it is asked for.
        if name != "RedisStore":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .redis import RedisStore

        return RedisStore
