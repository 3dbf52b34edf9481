"""A circuit that follows the fleet's while the store answers, and decides alone while it does not.

Pure like `circuit`: the time and the fleet's state are parameters. By its own rules it still opens, for
this process alone. When the fleet is open or half-open it is `bound`: it admits no probe but the one
that the fleet has leased to it, and only the fleet closes it.
"""

from __future__ import annotations

from .circuit import Circuit, Probe, Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: Idle seconds after which a lease that others want is given up.
CLAIM_S = 0.2
#: Seconds after which a call that got no probe may get one: a lease takes an exchange.
ASK_S = 0.1


class LeasedProbe(Probe):
    """A probe on behalf of the fleet. ``token`` proves that its lease has not passed to another."""

    def __init__(self, lease: float, token: str) -> None:
        super().__init__(lease)
        self.token = token


class FleetCircuit(Circuit):
    """``bound``: open or half-open because the fleet is. ``wants_probe``: a call got no probe."""

    def __init__(self, *options: Any) -> None:
        self.wants_probe = False
        #: (token, outcome) of each probe that has ended, until it is reported to the fleet.
        self.outcomes: list[tuple[str, str]] = []
        self._leased: str | None = None
        self._leased_at = self._leased_until = 0.0
        #: Calls and failures still to be reported, and how far in which window they were noted down.
        self._owed = [0, 0]
        self._seen = (0, 0)
        self._seen_in: Window | None = None
        super().__init__(*options)

    # Reports to the fleet.

    def uncounted(self) -> tuple[int, int]:
        """(calls, failures) that ended in this process and have not been reported."""
        self._take()
        return self._owed[0], self._owed[1]

    def counted(self, calls: int, failures: int) -> None:
        """Subtract the fleet's counts from `uncounted`."""
        self._owed = [self._owed[0] - calls, self._owed[1] - failures]

    def _take(self) -> None:
        """Add the window's counts since the last time to those still to be reported."""
        if self.window is not None:
            successes, failures = self.window.totals()
            before = self._seen if self._seen_in is self.window else (0, 0)
            self._seen, self._seen_in = (successes, failures), self.window
            fresh_failures = failures - before[1]
            self._owed[0] += successes - before[0] + fresh_failures
            self._owed[1] += fresh_failures

    def trip(self, generation: int, now: float) -> bool:
        # The fleet must be given the calls and failures that opened it.
        self._take()
        return super().trip(generation, now)

    def forget_outcomes(self, outcomes: list[tuple[str, str]]) -> None:
        """Forget the probe ``outcomes`` that the fleet has received."""
        self.outcomes = [outcome for outcome in self.outcomes if outcome not in outcomes]

    @property
    def votes(self) -> bool:
        """True if this process opened by its own rules."""
        return self.state != "closed" and not self.bound

    # Replies of the fleet.

    def follow(self, state: str, left_s: float, now: float) -> None:
        """The fleet is in ``state``, if open for ``left_s`` seconds more."""
        if state == "closed":
            if self.bound:
                self.bound = False
                self.closed_at = now
                self.close(now)
            return
        if not self.bound or self.state != state:
            self._enter(state, now)
            self.bound = True
        # The fleet has acted on these counts.
        self._owed = [0, 0]
        if state == "open":
            self.open_s, self.until = left_s, now + left_s
            self._leased = None

    def lease(self, token: str, lease_s: float, now: float) -> None:
        """One probe may be made within ``lease_s`` seconds."""
        self._leased, self._leased_at, self._leased_until = token, now, now + lease_s
        self.wants_probe = False

    def give_up(self, now: float) -> None:
        """Others want a probe: give the lease back, unless it is in use or there was no time to use it."""
        if self._leased is not None and now >= self._leased_at + CLAIM_S:
            self.outcomes.append((self._leased, "excluded"))
            self._leased = None

    def alone(self) -> None:
        """Decide by its own rules from here on: the fleet cannot be reached."""
        self.bound = self.wants_probe = False
        self._leased, self.outcomes = None, []

    # The rules that differ while bound.

    def roll(self, now: float) -> object:  # type: ignore[override]
        bound = self.bound
        bucket = super().roll(now)
        self.bound = bound and self.state != "closed"
        return bucket

    def admit_probe(self, now: float) -> Probe | None:
        if not self.bound:
            return super().admit_probe(now)
        token, self._leased = self._leased, None
        if token is None or now >= self._leased_until:
            self.wants_probe = True
            return None
        self._half.requests += 1
        probe = LeasedProbe(self._leased_until, token)
        self._waiting.append(probe)
        return probe

    def wait_for(self, now: float) -> float:
        wait_s = super().wait_for(now)
        return max(wait_s, ASK_S) if self.bound and self.state == "half_open" else wait_s

    def settle_probe(self, probe: Probe, outcome: str, now: float) -> bool:
        token = probe.token if self.bound and isinstance(probe, LeasedProbe) else None
        # A failure opens it at once, without waiting for the fleet's answer.
        changed = super().settle_probe(probe, outcome, now)
        if changed and token is not None:
            self.outcomes.append((token, outcome))
        return changed
