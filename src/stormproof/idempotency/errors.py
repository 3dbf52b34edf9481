"""Errors of a call whose key cannot simply run."""

from __future__ import annotations

from .._primitives.errors import StormproofError


class IdempotencyError(StormproofError):
    """Base of the errors that a key gives instead of a result."""


class IdempotencyConflict(IdempotencyError):
    """Another call with this key is in progress. Transient: `transient` calls it worth retrying.

    ``lease_left`` is how many seconds its lease still runs, which does not promise that it ends then.
    """

    def __init__(self, message: str = "", lease_left: float | None = None) -> None:
        super().__init__(message)
        self.lease_left = lease_left


class IdempotencyMismatch(IdempotencyError):
    """This key was used before, for something else. Final: a new thing needs a new key."""


class OutcomeUnknown(IdempotencyError):
    """An earlier call with this key began and its outcome is unknown. Final until decided by hand.

    Look whether the work was done, then `Store.forget` the key, or call with ``on_unknown="run"``.
    """


class AnswerNotKept(IdempotencyError):
    """The work of this key is done, but its answer was not kept: too large, or of a kind that cannot be."""


class StoreUnavailable(StormproofError):
    """The store did not answer. Transient; ``__cause__`` is its error. Nothing was begun."""


class StoreFull(StoreUnavailable):
    """A store in memory has no place left: every record in it may still be needed."""
