"""The demo's scenario: the traffic, the server's capacity, the outage. Pure data."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoScenario:
    """One run. The two lanes share all of it; only the retry policy differs.

    ``load`` is offered load / capacity. Traffic runs for ``seconds``; the calls begun by then
    are all played to their end.
    """

    capacity_rps: float = 150.0
    load: float = 0.8
    seconds: float = 15.0
    outage_at_s: float = 2.5
    outage_s: float = 1.5
    timeout_s: float = 1.0
    attempts: int = 4
    base_s: float = 0.1
    bucket_s: float = 0.25
    seed: int = 1

    @property
    def offered_rps(self) -> float:
        return self.capacity_rps * self.load

    @property
    def outage_end_s(self) -> float:
        return self.outage_at_s + self.outage_s

    @property
    def open_files(self) -> int:
        """Room for both lanes' sockets with every call in its timeout, twice over, and a hundred more."""
        return math.ceil(2 * self.offered_rps * self.timeout_s * (self.attempts + 1)) + 100

    def describe(self) -> dict[str, Any]:
        """The scenario as plain data, ready for JSON."""
        return asdict(self) | {"offered_rps": self.offered_rps}

    def arrivals(self) -> list[float]:
        """One arrival in every ``1 / offered_rps`` seconds, at a random moment of it; repeatable by the seed.

        Open loop: no caller waits for another. The rate is steady because a drain at 20 % of
        slack would otherwise show the luck of the draw more than the policies.
        """
        rng = random.Random(self.seed)
        return [(n + rng.random()) / self.offered_rps for n in range(round(self.seconds * self.offered_rps))]
