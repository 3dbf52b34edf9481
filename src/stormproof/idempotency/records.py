"""The rules of a key's record. Pure: every operation is a function of the record and the time.

A record is *running* (the key is held, under a lease) or *done* (with the answer to give again).
An operation looks at the record that there is, or ``None``, and returns what the caller gets and
which record there is from now on. A store reads, applies and writes in one atomic step; nothing more.

A running record whose lease is over is an unknown outcome: its holder may have died before, during
or after the work. It stays so until its holder comes back after all, it is taken over, or it
expires. Only the owner that began a run can end it (fencing): once taken over, it no longer can.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

#: The repr of an operation: its owner is a capability, its answer user data.
_HIDDEN = "<operation on a key>"

State = Literal["new", "in_progress", "mismatch", "replay", "unknown"]


class Record(NamedTuple):
    """One key's state. ``until`` ends the lease of a running one; at ``expires`` the record is gone.

    ``answer`` is bytes once done, or ``None`` if the answer was not kept. Never changed in place.
    """

    done: bool
    fingerprint: str
    owner: str
    until: float
    expires: float
    answer: bytes | None = None

    def __repr__(self) -> str:
        # Neither owner nor answer: the one is a capability, the other user data.
        state = "done" if self.done else f"running until {self.until:g}"
        return f"<record: {state}, expires {self.expires:g}>"


class Claim(NamedTuple):
    """Outcome of `Begin`.

    ``state``: "new" (run it; ``taken_over`` if an unknown outcome was before), "replay" (done before,
    ``answer`` is what it answered, ``None`` if that was not kept), "in_progress" (``lease_left``
    seconds of its lease remain), "mismatch" (the key belongs to another payload) or "unknown".
    """

    state: State
    answer: bytes | None = None
    lease_left: float | None = None
    taken_over: bool = False

    def __repr__(self) -> str:
        size = "" if self.answer is None else f", {len(self.answer)} bytes"
        return f"<claim: {self.state}{size}>"


class Begin(NamedTuple):
    """Claim the key for ``owner``: of any number that ask at once the first gets "new".

    ``client`` names whose key it is, for stores that share their room between clients.
    """

    digest: bytes
    fingerprint: str
    owner: str
    lease_s: float
    ttl_s: float
    take_over: bool
    client: bytes = b""

    def __repr__(self) -> str:
        return _HIDDEN

    def apply(self, record: Record | None, now: float) -> tuple[Claim, Record | None]:
        if record is None:
            return Claim("new"), self._run(now)
        if record.fingerprint != self.fingerprint:
            return Claim("mismatch"), record
        if record.done:
            return Claim("replay", record.answer), record
        if record.owner == self.owner:
            # An owner is one run: it asks again only because it did not hear the first answer.
            return Claim("new"), self._run(now)
        if record.until > now:
            return Claim("in_progress", lease_left=record.until - now), record
        if self.take_over:
            return Claim("new", taken_over=True), self._run(now)
        return Claim("unknown"), record

    def _run(self, now: float) -> Record:
        until = now + self.lease_s
        return Record(False, self.fingerprint, self.owner, until, until + self.ttl_s)


class Finish(NamedTuple):
    """The run ended with ``answer`` (``None``: not kept). False if ``owner`` no longer holds the key.

    A lease that is over does not matter as long as the key was not taken over: now the outcome is known.
    """

    digest: bytes
    owner: str
    answer: bytes | None
    ttl_s: float

    def __repr__(self) -> str:
        return _HIDDEN

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        if record is None or record.owner != self.owner:
            return False, record
        if record.done:
            return True, record
        return True, Record(True, record.fingerprint, self.owner, now, now + self.ttl_s, self.answer)


class Renew(NamedTuple):
    """The run goes on for ``lease_s`` more seconds; 0 gives it up: the outcome is unknown from now on."""

    digest: bytes
    owner: str
    lease_s: float
    ttl_s: float

    def __repr__(self) -> str:
        return _HIDDEN

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        if record is None or record.done or record.owner != self.owner:
            return False, record
        until = now + self.lease_s
        return True, Record(False, record.fingerprint, self.owner, until, until + self.ttl_s)


class Release(NamedTuple):
    """Nothing was done: the next call may run. False if ``owner`` does not hold the key."""

    digest: bytes
    owner: str

    def __repr__(self) -> str:
        return _HIDDEN

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        if record is None or record.done or record.owner != self.owner:
            return False, record
        return True, None


class Forget(NamedTuple):
    """Drop the key's record in any state: for operators who know the outcome."""

    digest: bytes

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        return record is not None, None


Operation = Begin | Finish | Renew | Release | Forget


def step(operation: Operation, record: Record | None, now: float) -> tuple[Any, Record | None]:
    """Apply ``operation`` to a store's ``record``; an expired one counts as none."""
    return operation.apply(None if record is None or record.expires <= now else record, now)
