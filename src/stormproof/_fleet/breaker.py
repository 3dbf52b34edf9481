"""A breaker of a whole fleet: reports its counts to the store, and follows the fleet's state.

No call waits for any of it. Counts, votes and the outcomes of probes are reported in the background;
the fleet's state, and the lease of a probe, come back with the answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .member import Member, micro

if TYPE_CHECKING:
    from .._strategies.breaker.breaker import Breaker
    from .._strategies.breaker.rules.fleet_circuit import FleetCircuit
    from .connection import Request
    from .exchange_thread import ExchangeThread

#: Time between visits to the store: without calls; while calls succeed; while something is wrong.
_IDLE_S = 0.5
_CALM_S = 0.25
_ALERT_S = 0.1
#: Least time between a report and the next one, after a failure.
_SOON_S = 0.05


class FleetBreaker(Member):
    """The member on behalf of a breaker, whose circuit is a `FleetCircuit`."""

    kind = "breaker"

    def __init__(self, owner: Breaker, exchange: ExchangeThread, name: str) -> None:
        super().__init__(owner, exchange, name)
        self._generation = -1
        self._sent: tuple[int, int, list[tuple[str, str]]] = (0, 0, [])
        self.instances = exchange.instances

    def _ask(self, owner: Breaker, now: float) -> Request | None:

        def read(circuit: FleetCircuit, now: float) -> tuple[bool, bool]:
            circuit.roll(now)
            self._sent = *circuit.uncounted(), list(circuit.outcomes)
            return circuit.votes, circuit.wants_probe

        votes, wants = owner.change(read)
        calls, failures, outcomes = self._sent
        return self._request(
            # A quorum counts processes, even if one of them has several breakers of this name.
            self._exchange.instance,
            self._generation,
            calls,
            failures,
            int(votes),
            int(wants),
            ",".join(f"{token}={outcome}" for token, outcome in outcomes),
            # Read each time: a reload may have changed them.
            micro(0 if owner.trip is not None else owner.failure_ratio),
            owner.min_calls,
            micro(owner.window or 0),
            micro(owner.open_for),
            micro(owner.open_growth),
            micro(owner.open_max),
            owner.probes,
            micro(owner.probe_timeout or 0),
            owner.quorum,
        )

    def _on_reply(self, owner: Breaker, answer: Any, now: float) -> None:
        state, token = answer[0].decode(), answer[4].decode()
        self._generation, left_us, counts_taken, self.instances, reporters, probe_wanted = (
            int(answer[at]) for at in (1, 2, 3, 5, 6, 7)
        )

        def follow(circuit: FleetCircuit, at: float) -> None:
            if counts_taken:
                circuit.counted(self._sent[0], self._sent[1])
            circuit.forget_outcomes(self._sent[2])
            if not owner.is_manual:
                circuit.follow(state, left_us / 1e6, at)
                if token:
                    circuit.lease(token, owner.probe_timeout or math.inf, at)
                elif probe_wanted:
                    circuit.give_up(at)
            pressing = circuit.wants_probe or bool(circuit.outcomes)
            self.alone = False
            self._plan(now, state, left_us / 1e6, bool(reporters) or not counts_taken, pressing)

        owner.change(follow)
        self._restored(now)

    def _plan(self, now: float, state: str, left_s: float, amiss: bool, pressing: bool) -> None:
        wait_s = _IDLE_S if self._sent[0] == 0 else _CALM_S
        if state == "open" and not pressing:
            wait_s = min(_IDLE_S, left_s + 0.001)
        elif pressing or state == "half_open" or amiss:
            wait_s = _ALERT_S
        self.answered_at, self._earliest, self.next_at = now, now + _SOON_S, now + wait_s
        if self._kicked:
            self.next_at = self._earliest

    def _leave(self, owner: Breaker) -> None:
        owner.change(_go_alone)

    def release_request(self) -> Request | None:
        """Nothing to give back: counts stay, and a lease ends by itself."""
        return None

    def _begin(self, owner: Breaker) -> None:
        self._generation = -1
        owner.change(_go_alone)


def _go_alone(circuit: FleetCircuit, now: float) -> None:
    circuit.alone()
