"""Records in Redis or Valkey: for a service that runs as many processes on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._events.labels import error_name, store_fault
from .._fleet.store import RedisStore as Shared
from .._fleet.store import StoreUnavailable as Unreachable
from .errors import StoreUnavailable
from .records import Begin, Claim, Operation
from .store import DAY_S, MAX_ANSWER, Store

if TYPE_CHECKING:
    from .._primitives.options import Seconds

_MICRO = 1_000_000


class RedisStore(Store):
    """Keys in ``store``, a `stormproof.redis.RedisStore`, each with a time to live.

    It has no fallback: while the store cannot be used it is unknown what has run, so
    `StoreUnavailable` is raised, whatever the store's ``on_failure``. Redis may lose writes that it has
    acknowledged when a replica takes over; a key lost so would run again.
    """

    def __init__(self, store: Shared, *, ttl: Seconds = DAY_S, max_answer: int = MAX_ANSWER) -> None:
        super().__init__(ttl=ttl, max_answer=max_answer)
        if not isinstance(store, Shared):
            raise TypeError(f"idempotency.RedisStore: store must be a redis.RedisStore, got {store!r}")
        self.store = store

    def run(self, operation: Operation) -> Any:
        key = self.store.key("idempotency", operation.digest.hex())
        try:
            state, answer, left = self.store.call("idempotency", key, *_arguments(operation), self._now())
        except Unreachable as error:
            raise StoreUnavailable(str(error)) from error.__cause__
        except Exception as error:
            # The key holds something else, or the script failed; it may have run.
            fault = store_fault(error_name(error))
            raise StoreUnavailable(
                f"store {self.store.prefix!r} cannot answer for this key ({fault})"
            ) from error
        if isinstance(operation, Begin):
            return _claim(state.decode(), answer, left)
        return state == b"yes"

    def _now(self) -> str:
        """The server's own time."""
        return ""

    def __repr__(self) -> str:
        return f"idempotency.RedisStore({self.store!r})"


def _arguments(operation: Operation) -> tuple[str | int | bytes, ...]:
    """Return operation, owner, lease, ttl, fingerprint, take over, has an answer, answer."""
    answer: bytes | None = getattr(operation, "answer", None)
    return (
        type(operation).__name__.lower(),
        getattr(operation, "owner", ""),
        _micro(getattr(operation, "lease_s", 0)),
        _micro(getattr(operation, "ttl_s", 0)),
        getattr(operation, "fingerprint", ""),
        int(getattr(operation, "take_over", False)),
        int(answer is not None),
        answer or b"",
    )


def _micro(seconds: float) -> int:
    return round(seconds * _MICRO)


#: States that have another name here.
_STATES = {"not kept": "replay", "taken over": "new"}


def _claim(said: str, answer: bytes, left: int) -> Claim:
    return Claim(
        _STATES.get(said, said),  # type: ignore[arg-type]
        answer if said == "replay" else None,
        left / _MICRO if said == "in_progress" else None,
        said == "taken over",
    )
