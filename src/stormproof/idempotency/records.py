"""The rules of a key's record. Pure: every operation is a function of the record and the time.

A record is *running* (the key is held, under a lease) or *done* (with the answer to give again).
An operation looks at the record that there is, or ``None``, and returns what the caller gets and
which record there is from now on. A store reads, applies and writes in one atomic step; nothing more.

A running record whose lease is over is an unknown outcome: its holder may have died before, during
or after the work. It stays so until its holder comes back after all, it is taken over, or it
expires. Only the owner that began a run can end it (fencing): once taken over, it no longer can.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    State = Literal["new", "in_progress", "mismatch", "replay", "unknown"]


class Record:
    """One key's state. ``until`` ends the lease of a running one; at ``expires`` the record is gone.

    ``answer`` is bytes once done, or ``None`` if the answer was not kept. Never changed in place.
    """

    __slots__ = ("answer", "done", "expires", "fingerprint", "owner", "until")

    def __init__(
        self,
        done: bool,
        fingerprint: str,
        owner: str,
        until: float,
        expires: float,
        answer: bytes | None = None,
    ) -> None:
        self.done = done
        self.fingerprint = fingerprint
        self.owner = owner
        self.until = until
        self.expires = expires
        self.answer = answer

    def __repr__(self) -> str:
        # Neither owner nor answer: the one is a capability, the other user data.
        state = "done" if self.done else f"running until {self.until:g}"
        return f"<record: {state}, expires {self.expires:g}>"


class Claim:
    """Outcome of `Begin`.

    ``state``: "new" (run it; ``taken_over`` if an unknown outcome was before), "replay" (done before,
    ``answer`` is what it answered, ``None`` if that was not kept), "in_progress" (``lease_left``
    seconds of its lease remain), "mismatch" (the key belongs to another payload) or "unknown".
    """

    __slots__ = ("answer", "lease_left", "state", "taken_over")

    def __init__(
        self,
        state: State,
        answer: bytes | None = None,
        lease_left: float | None = None,
        taken_over: bool = False,
    ) -> None:
        self.state: State = state
        self.answer = answer
        self.lease_left = lease_left
        self.taken_over = taken_over

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Claim):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Claim.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        size = "" if self.answer is None else f", {len(self.answer)} bytes"
        return f"<claim: {self.state}{size}>"


class Begin:
    """Claim the key for ``owner``: of any number that ask at once the first gets "new".

    ``client`` names whose key it is, for stores that share their room between clients.
    """

    __slots__ = ("client", "digest", "fingerprint", "lease_s", "owner", "take_over", "ttl_s")

    def __init__(
        self,
        digest: bytes,
        fingerprint: str,
        owner: str,
        lease_s: float,
        ttl_s: float,
        take_over: bool,
        client: bytes = b"",
    ) -> None:
        self.client = client
        self.digest = digest
        self.fingerprint = fingerprint
        self.owner = owner
        self.lease_s = lease_s
        self.ttl_s = ttl_s
        self.take_over = take_over

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


class Finish:
    """The run ended with ``answer`` (``None``: not kept). False if ``owner`` no longer holds the key.

    A lease that is over does not matter as long as the key was not taken over: now the outcome is known.
    """

    __slots__ = ("answer", "digest", "owner", "ttl_s")

    def __init__(self, digest: bytes, owner: str, answer: bytes | None, ttl_s: float) -> None:
        self.digest = digest
        self.owner = owner
        self.answer = answer
        self.ttl_s = ttl_s

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        if record is None or record.owner != self.owner:
            return False, record
        if record.done:
            return True, record
        return True, Record(True, record.fingerprint, self.owner, now, now + self.ttl_s, self.answer)


class Renew:
    """The run goes on for ``lease_s`` more seconds; 0 gives it up: the outcome is unknown from now on."""

    __slots__ = ("digest", "lease_s", "owner", "ttl_s")

    def __init__(self, digest: bytes, owner: str, lease_s: float, ttl_s: float) -> None:
        self.digest = digest
        self.owner = owner
        self.lease_s = lease_s
        self.ttl_s = ttl_s

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        if record is None or record.done or record.owner != self.owner:
            return False, record
        until = now + self.lease_s
        return True, Record(False, record.fingerprint, self.owner, until, until + self.ttl_s)


class Release:
    """Nothing was done: the next call may run. False if ``owner`` does not hold the key."""

    __slots__ = ("digest", "owner")

    def __init__(self, digest: bytes, owner: str) -> None:
        self.digest = digest
        self.owner = owner

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        if record is None or record.done or record.owner != self.owner:
            return False, record
        return True, None


class Forget:
    """Drop the key's record in any state: for operators who know the outcome."""

    __slots__ = ("digest",)

    def __init__(self, digest: bytes) -> None:
        self.digest = digest

    def apply(self, record: Record | None, now: float) -> tuple[bool, Record | None]:
        return record is not None, None


Operation = Begin | Finish | Renew | Release | Forget


def step(operation: Operation, record: Record | None, now: float) -> tuple[Any, Record | None]:
    """Apply ``operation`` to a store's ``record``; an expired one counts as none."""
    return operation.apply(None if record is None or record.expires <= now else record, now)
