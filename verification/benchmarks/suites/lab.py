"""The lab's exact engine: what one simulated attempt costs, next to the same model in SimPy.

Both run 5,000 calls a second of 1,000 clients on a backend for 6,000 that answers 503 for a second, with up
to 3 retries after full-jitter waits and a ratio budget for each client. Ours is the shipped policy; SimPy's
is the same written by hand for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from ..model import Bar, Case, Effort, Figures, Group, Ready

CLIENTS, OFFERED, CAPACITY, DURATION = 1000, 5000.0, 6000.0, 30.0
OUTAGE, TIMEOUT = (2.0, 3.0), 1.0


class PerAttempt:
    """Microseconds of processor time per attempt: the best of some runs of what a case makes."""

    units = ("us/attempt", "attempts/s")

    def check(self, ready: Ready) -> None:
        attempts = ready.made()
        wanted = OFFERED * DURATION
        if not 0.9 * wanted < attempts < 1.5 * wanted:
            raise AssertionError(f"about {wanted:,.0f} attempts were expected, got {attempts:,}")

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        best = {ready.case.name: float("inf") for ready in cases}
        for _ in range(max(2, effort.rounds // 10)):
            for ready in cases:
                began = time.process_time()
                attempts = ready.made()
                spent = (time.process_time() - began) / attempts
                best[ready.case.name] = min(best[ready.case.name], spent)
        return {name: {"us/attempt": spent * 1e6, "attempts/s": 1 / spent} for name, spent in best.items()}


def exact() -> Callable[[], int]:
    """`lab.simulate(policy, scenario, engine="exact")` with the default Retry and Budget."""
    import stormproof as sp
    from stormproof import lab

    policy = sp.Policy(sp.Retry(on=(lab.BackendError, sp.AttemptTimeout)))
    outage = lab.Outage(OUTAGE[0], OUTAGE[1] - OUTAGE[0], "fail")
    scenario = lab.Scenario(CLIENTS, OFFERED, CAPACITY, outage, timeout=TIMEOUT, duration=DURATION)
    return lambda: lab.simulate(policy, scenario, seed=1, engine="exact").attempts


def general() -> Callable[[], int]:
    """The same policy run by the general way: a task per call, the compiled policy."""
    import stormproof as sp
    from stormproof import lab
    from stormproof.lab.simulate import exact as run

    policy = sp.Policy(sp.Retry(on=(lab.BackendError, sp.AttemptTimeout)))
    outage = lab.Outage(OUTAGE[0], OUTAGE[1] - OUTAGE[0], "fail")
    scenario = lab.Scenario(CLIENTS, OFFERED, CAPACITY, outage, timeout=TIMEOUT, duration=DURATION)
    return lambda: run(policy, scenario, 1, way="driven").attempts


def simpy_model() -> Callable[[], int]:
    """SimPy processes and a Resource; the retry loop and the budget written out."""
    import simpy

    return lambda: _Model(simpy).run()


class _Model:
    def __init__(self, simpy: Any) -> None:
        self._env = simpy.Environment()
        self._server = simpy.Resource(self._env, 1)
        self._rng = Random(1)
        self._tokens = [10.0] * CLIENTS
        self._attempts = 0

    def run(self) -> int:
        self._env.process(self._arrivals())
        self._env.run(DURATION)
        return self._attempts

    def _arrivals(self) -> Generator[Any, Any, None]:
        while True:
            yield self._env.timeout(self._rng.expovariate(OFFERED))
            self._env.process(self._call(self._rng.randrange(CLIENTS)))

    def _call(self, client: int) -> Generator[Any, Any, None]:
        for retry in range(4):
            if (yield from self._attempt()):
                self._tokens[client] = min(20.0, self._tokens[client] + 0.1)
                return
            if retry == 3 or self._tokens[client] < 1.0:
                return
            self._tokens[client] -= 1.0
            yield self._env.timeout(self._rng.random() * 0.1 * 2**retry)

    def _attempt(self) -> Generator[Any, Any, bool]:
        self._attempts += 1
        if OUTAGE[0] <= self._env.now < OUTAGE[1]:
            return False
        limit = self._env.timeout(TIMEOUT)
        with self._server.request() as turn:
            if turn not in (yield turn | limit):
                return False
            yield self._env.timeout(1 / CAPACITY)
        return True


GROUPS = [
    Group(
        name="lab-exact",
        title="One simulated attempt: retry, full jitter, ratio budget",
        baseline="SimPy",
        meter=PerAttempt(),
        cases=(
            Case("SimPy", simpy_model, "simpy"),
            Case("Stormproof lab, exact engine", exact),
            Case("Stormproof lab, exact engine, general way", general),
        ),
        bars=(
            Bar(
                "300,000 simulated attempts a second",
                "Stormproof lab, exact engine",
                1e6 / 300_000,
                of="value",
            ),
        ),
    )
]
