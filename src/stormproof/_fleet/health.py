"""Health of the store: a breaker that trips only on errors that make the store unusable.

Pure: time and the random draw are parameters.
"""

from __future__ import annotations

#: The first probe follows soon, for most outages are a dropped connection; then more and more rarely, but
#: often enough that a server which is back is noticed within two seconds.
FIRST_PROBE_S = 0.05
LONGEST_PROBE_S = 1.0


class Health:
    """``state`` is "unknown" until the first answer, then "up" or "down"."""

    def __init__(self) -> None:
        self.state = "unknown"
        #: When the present state began.
        self.since = 0.0
        #: When to try again; only while down.
        self.probe_at = 0.0
        #: Type of the last failure.
        self.error: str | None = None
        self._wait_s = FIRST_PROBE_S

    @property
    def down(self) -> bool:
        return self.state == "down"

    def failed(self, error: str, now: float, u: float) -> bool:
        """Record a failure; return True if the store was not down before."""
        news = self.state != "down"
        if news:
            self.since, self._wait_s = now, FIRST_PROBE_S
        else:
            self._wait_s = min(LONGEST_PROBE_S, 2 * self._wait_s)
        self.state, self.error = "down", error
        # Between a half and the whole: a fleet that lost its store together must not come back in step.
        self.probe_at = now + self._wait_s * (0.5 + u / 2)
        return news

    def answered(self, now: float) -> float | None:
        """Record an answer; return how long the store was down, ``None`` if it was not."""
        before, self.state = self.state, "up"
        if before == "up":
            return None
        lasted = now - self.since
        self.since, self.error = now, None
        return lasted if before == "down" else None
