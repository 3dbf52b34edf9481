"""The circuit breaker's state machine: pure, given the time, without a lock.

A closed circuit counts in buckets. A call that begins takes the current `WindowBucket` with it and
settles there, so a result that comes after the window has moved on, or after the circuit has
changed state, lands in a bucket that is not read again: that is how a late result changes
nothing. A half-open circuit admits numbered probes, each with a lease.
"""

from __future__ import annotations

import math

from ...._runtime.counters import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Counts:
    """Counters since the circuit last changed state, or in its window."""

    __slots__ = (
        *("consecutive_failures", "consecutive_successes", "excluded", "failures"),
        *("requests", "slow", "stalled", "successes"),
    )

    def __init__(self) -> None:
        self.requests = self.successes = self.failures = self.excluded = 0
        #: Slow calls, and those among them that are still running.
        self.slow = self.stalled = 0
        self.consecutive_successes = self.consecutive_failures = 0

    def add(self, other: Counts | WindowBucket) -> None:
        """Add the counts of a part of the window."""
        self.requests += other.requests
        self.successes += other.successes
        self.failures += other.failures
        self.excluded += other.excluded
        self.slow += other.slow
        self.stalled += other.stalled

    def copy(self) -> Counts:
        """These counts, which further calls do not change."""
        copy = Counts()
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def as_dict(self) -> dict[str, int]:
        """The counts as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        return f"Counts({', '.join(f'{k}={v}' for k, v in self.as_dict().items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]


class WindowBucket:
    """A stretch of the window. ``started`` and ``succeeded`` are ticked without a lock."""

    __slots__ = (
        *("_started", "_succeeded", "end", "excluded", "failures", "requests"),
        *("slow", "stalled", "started", "succeeded", "successes"),
    )

    def __init__(self, end: float) -> None:
        #: The last moment that belongs to this bucket.
        self.end = end
        self._started, self._succeeded = Tally(), Tally()
        self.started, self.succeeded = self._started.tick, self._succeeded.tick
        self.requests = self.successes = self.failures = self.excluded = self.slow = self.stalled = 0

    def take_in(self, sums: Counts) -> None:
        """Add the ticks since the last time to its own counts and to ``sums``."""
        started, succeeded = self._started.take(), self._succeeded.take()
        self.requests += started
        sums.requests += started
        if succeeded:
            self.successes += succeeded
            sums.successes += succeeded
            sums.consecutive_successes += succeeded
            sums.consecutive_failures = 0

    @property
    def in_flight(self) -> bool:
        """True if a call that began in it has not ended, as far as they were taken in."""
        return self.requests != self.successes + self.failures + self.excluded


class Window:
    """The buckets of a closed circuit: one that never ends, one fixed window, or a rolling row."""

    def __init__(self, window_s: float | None, bucket_s: float | None, now: float) -> None:
        if window_s is None:
            self.size, self.width = 1, math.inf
        elif bucket_s is None:
            self.size, self.width = 10, window_s / 10
        else:
            self.size, self.width = max(1, math.ceil(window_s / bucket_s - 1e-9)), bucket_s
        #: The successes and failures that have left the window.
        self._left = (0, 0)
        self._begin(WindowBucket(now + self.width))

    def _begin(self, bucket: WindowBucket) -> None:
        self.current = bucket
        self._rows = [bucket]
        #: The buckets that calls may still change.
        self._open = [bucket]
        #: Over the whole window, as far as `take_in` has taken in.
        self.sums = Counts()

    def roll(self, now: float) -> WindowBucket:
        """The bucket of ``now``. Strictly after its end a bucket is past; time set back rolls nothing."""
        if now <= self.current.end:
            if now < self.current.end - 2 * self.width:
                # Set back by more than a bucket: continue from here, or buckets would outlive the window.
                self.move(now + self.width - self.current.end)
            return self.current
        if self.size == 1:
            self.take_in()
            self._leave(self._rows)
            self._begin(WindowBucket(now + self.width))
            return self.current
        steps = max(1, math.ceil((now - self.current.end) / self.width))
        self.current = WindowBucket(self.current.end + steps * self.width)
        self._rows.append(self.current)
        self.drop(self.current.end - self.size * self.width + self.width * 1e-9)
        return self.current

    def drop(self, oldest: float) -> None:
        """Forget the buckets that ended at ``oldest`` or before, but for the current one."""
        # Counted before they go, so that a streak outlives its bucket.
        self._open = self._rows
        self.take_in()
        self._leave([row for row in self._rows if row.end <= oldest and row is not self.current])
        self._rows = [row for row in self._rows if row.end > oldest or row is self.current]
        self._open = [row for row in self._rows if row is self.current or row.in_flight]
        streaks, self.sums = self.sums, Counts()
        for row in self._rows:
            self.sums.add(row)
        self.sums.consecutive_failures = streaks.consecutive_failures
        self.sums.consecutive_successes = streaks.consecutive_successes

    def _leave(self, rows: list[WindowBucket]) -> None:
        successes, failures = self._left
        for row in rows:
            successes, failures = successes + row.successes, failures + row.failures
        self._left = successes, failures

    def move(self, by: float) -> None:
        for row in self._rows:
            row.end += by

    def resize(self, window_s: float | None, bucket_s: float | None, now: float) -> None:
        """Change the length: the buckets so far stay for as long as the new window reaches back to them."""
        fresh = Window(window_s, bucket_s, now)
        self.size, self.width = fresh.size, fresh.width
        self.current.end = min(self.current.end, fresh.current.end)
        if math.isinf(fresh.current.end):
            self.current.end = math.inf
        self.drop(self.current.end - self.size * self.width)

    def holds(self, bucket: WindowBucket) -> bool:
        """Return True if ``bucket`` still counts."""
        return bucket is self.current or bucket in self._rows

    def take_in(self) -> None:
        """Add the ticks so far to ``sums``."""
        sums = self.sums
        for row in self._open:
            row.take_in(sums)

    def fail(self, bucket: WindowBucket) -> None:
        """Count a failure of a call that began in ``bucket``."""
        if bucket is not self.current and bucket not in self._open:
            self._open.append(bucket)
        self.take_in()
        bucket.failures += 1
        sums = self.sums
        sums.failures += 1
        sums.consecutive_failures += 1
        sums.consecutive_successes = 0

    def note(self, bucket: WindowBucket, excluded: int = 0, slow: int = 0, stalled: int = 0) -> None:
        """Add to the counts of ``bucket``, one of the window's, other than successes and failures."""
        for counts in (bucket, self.sums):
            counts.excluded += excluded
            counts.slow += slow
            counts.stalled += stalled

    def totals(self) -> tuple[int, int]:
        """(successes, failures) since it was made, including those that have left the window."""
        self.take_in()
        return self._left[0] + self.sums.successes, self._left[1] + self.sums.failures

    def counts(self) -> Counts:
        """The sums over the window."""
        self.take_in()
        return self.sums.copy()


class Probe:
    """A call admitted while half-open. ``lease`` is when its place is taken for lost."""

    def __init__(self, lease: float) -> None:
        self.lease = lease


class Circuit:
    """closed -> open -> half_open -> closed or open. Every change starts a new generation.

    Callers hold their own lock, judge the counts without it (the rule may be the user's code), and
    `trip` with the generation that the counts were of.
    """

    #: True while a fleet decides on its state.
    bound = False

    def __init__(
        self,
        now: float,
        window_s: float | None,
        bucket_s: float | None,
        open_for: Callable[[int], float],
        probes: int,
        probe_timeout_s: float | None,
    ) -> None:
        self._window_s = window_s
        self._bucket_s = bucket_s
        self._open_for = open_for
        self._set_probes(probes, probe_timeout_s)
        #: While open: when that ends.
        self.until = math.inf
        self.generation = -1
        self.reopenings = 0
        self.closed_at = -math.inf
        self._enter("closed", now)

    def _set_probes(self, probes: int, probe_timeout_s: float | None) -> None:
        self._probes = probes
        self._probe_timeout = math.inf if probe_timeout_s is None else probe_timeout_s

    def retune(
        self,
        now: float,
        window_s: float | None,
        bucket_s: float | None,
        probes: int,
        probe_timeout_s: float | None,
    ) -> None:
        """Go on with other options; the time of ``open_for`` may have changed, too."""
        self._set_probes(probes, probe_timeout_s)
        changed = (self._window_s, self._bucket_s) != (window_s, bucket_s)
        self._window_s, self._bucket_s = window_s, bucket_s
        if changed and self.window is not None:
            self.window.resize(window_s, bucket_s, now)
        if self.state == "open":
            # A shorter open time begins to count at once; a longer one at the next opening.
            self.until = min(self.until, now + self._open_for(self.reopenings))

    def _enter(self, state: str, now: float) -> None:
        self.state = state
        self.generation += 1
        self.window: Window | None = (
            Window(self._window_s, self._bucket_s, now) if state == "closed" else None
        )
        self._half = Counts()
        self._waiting: list[Probe] = []
        self.open_s = self._open_for(self.reopenings) if state == "open" else math.inf
        self.until = now + self.open_s

    # Admission.

    def roll(self, now: float) -> WindowBucket | None:
        """Let time pass: the bucket to count in while closed, else None."""
        if self.state == "closed":
            assert self.window is not None
            # A clock that was set back starts the ramp again, and does not make it longer.
            self.closed_at = min(self.closed_at, now)
            before = self.window.current
            bucket = self.window.roll(now)
            if bucket is not before and self.window.size == 1:
                self.generation += 1
            return bucket
        if self.state == "open":
            self.until = min(self.until, now + self.open_s)
            if self.until < now:
                self._enter("half_open", now)
        return None

    def _lose_probes(self, now: float) -> None:
        """Take the places back whose lease has run out. A clock set back makes none longer than it was."""
        for probe in self._waiting:
            probe.lease = min(probe.lease, now + self._probe_timeout)
        for lost in [probe for probe in self._waiting if probe.lease < now]:
            self._release(lost)

    def admit_probe(self, now: float) -> Probe | None:
        """A place in a half-open circuit, or ``None`` when all are taken."""
        self._lose_probes(now)
        if self._half.requests - self._half.excluded >= self._probes:
            return None
        self._half.requests += 1
        probe = Probe(now + self._probe_timeout)
        self._waiting.append(probe)
        return probe

    def wait_for(self, now: float) -> float:
        """Seconds until another call may be admitted: the rest of the open time, or of the oldest lease."""
        if self.state == "open":
            # A clock set back makes no call wait longer than the open time.
            return min(self.open_s, max(0.0, self.until - now))
        leases = [probe.lease for probe in self._waiting]
        return max(0.0, min(leases) - now) if leases else 0.0

    @property
    def current(self) -> WindowBucket | None:
        """The bucket that counts while closed, else None."""
        return None if self.window is None else self.window.current

    # Settling.

    def settle(self, bucket: WindowBucket, outcome: str, was_slow: bool, now: float) -> bool:
        """A call that began in ``bucket`` ended: True if the circuit is to be judged for it."""
        self.roll(now)
        window = self.window
        if window is None or not window.holds(bucket):
            return False
        if was_slow:
            window.note(bucket, stalled=-1)
        if outcome == "failure":
            window.fail(bucket)
            return True
        if outcome == "success":
            bucket.succeeded()
        else:
            window.note(bucket, excluded=1)
        return False

    def settle_probe(self, probe: Probe, outcome: str, now: float) -> bool:
        """A probe ended; whatever comes after its generation or its lease changes nothing."""
        self._lose_probes(now)
        if self.state != "half_open" or probe not in self._waiting:
            return False
        if outcome == "success":
            self._waiting.remove(probe)
            self._proved(now)
        elif outcome == "failure":
            self._waiting.remove(probe)
            self.reopenings += 1
            self._enter("open", now)
        else:
            self._release(probe)
        return True

    def slow(self, bucket: WindowBucket, now: float) -> bool:
        """A call that began in ``bucket`` is slow, and still running: True if it counts."""
        self.roll(now)
        if self.window is None or not self.window.holds(bucket):
            return False
        self.window.note(bucket, slow=1, stalled=1)
        return True

    def trip(self, generation: int, now: float) -> bool:
        """Open, if nothing has changed since ``generation``: True if it did."""
        if self.state != "closed" or self.generation != generation:
            return False
        self._enter("open", now)
        return True

    def _proved(self, now: float) -> None:
        """One more probe succeeded: the last one needed closes the circuit, unless it is `bound`."""
        self._half.successes += 1
        self._half.consecutive_successes += 1
        self._half.consecutive_failures = 0
        if self._half.consecutive_successes >= self._probes and not self.bound:
            self.reopenings = 0
            self.closed_at = now
            self._enter("closed", now)

    def _release(self, probe: Probe) -> None:
        self._waiting.remove(probe)
        self._half.excluded += 1

    def move(self, by: float) -> None:
        """Go on by another clock, which differs from the one so far by ``by`` seconds."""
        self.until += by
        self.closed_at += by
        for probe in self._waiting:
            probe.lease += by
        if self.window is not None:
            self.window.move(by)

    # Looking, and deciding by hand.

    def counts(self) -> Counts:
        """Return the counters of this state."""
        return self._half.copy() if self.window is None else self.window.counts()

    def close(self, now: float) -> None:
        """Close now, with everything forgotten."""
        self.reopenings = 0
        self._enter("closed", now)


def default_trip(
    failure_ratio: float | None,
    min_calls: int,
    consecutive: int | None,
    slow_ratio: float | None,
) -> Callable[[Counts], bool]:
    """The built-in rules: enough calls and too many of them failed (or slow), or too many in a row."""

    def trip(counts: Any) -> bool:
        if consecutive is not None and counts.consecutive_failures >= consecutive:
            return True
        calls = counts.successes + counts.failures
        if failure_ratio is not None and calls >= min_calls and counts.failures >= failure_ratio * calls:
            return True
        total = calls + counts.stalled
        return slow_ratio is not None and total >= min_calls and counts.slow >= slow_ratio * total > 0

    return trip
