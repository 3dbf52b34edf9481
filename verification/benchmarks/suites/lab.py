"""The lab: what one simulated attempt costs, next to the same model in SimPy.

A client makes a call a second, on a backend for 1.2 times as many: at most 3 retries after full-jitter waits,
and a ratio budget of its own. Ours is the shipped policy; SimPy's is the same written by hand for it. All are
measured in the same run, in processor time: the ratio holds on a busy machine, where the figures do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import partial
from random import Random
from typing import Any

from ..model import Bar, Case, Effort, Figures, Group, Ready

TIMEOUT, RATIO, BURST = 1.0, 0.1, 3.0

#: Seconds that are simulated, as a rule.
DURATION = 24.0


class PerAttempt:
    """Microseconds of processor time per attempt: the best of some runs of what a case makes."""

    units = ("us/attempt", "attempts/s")

    def check(self, ready: Ready) -> None:
        attempts, wanted = ready.made()
        if not 0.9 * wanted < attempts < 2 * wanted:
            raise AssertionError(f"about {wanted:,.0f} attempts were expected, got {attempts:,}")

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        best = {ready.case.name: float("inf") for ready in cases}
        for _ in range(max(1, effort.rounds // 16)):
            for ready in cases:
                began = time.process_time()
                attempts, _ = ready.made()
                spent = (time.process_time() - began) / attempts
                best[ready.case.name] = min(best[ready.case.name], spent)
        return {name: {"us/attempt": spent * 1e6, "attempts/s": 1 / spent} for name, spent in best.items()}


#: What a case makes: runs a simulation, and returns its attempts and about how many calls it had.
Run = Callable[[], tuple[int, float]]


def shipped(engine: str, failing: float, clients: int, rate: float, duration: float = DURATION) -> Run:
    """`lab.simulate` with the default Retry and Budget; the engine is in the case's name."""
    import stormproof as sp
    from stormproof import lab

    policy = sp.Policy(sp.Retry(on=(lab.BackendError, sp.AttemptTimeout)))
    scenario = lab.Scenario(clients, rate, 1.2 * rate, timeout=TIMEOUT, duration=duration, error_rate=failing)

    def run() -> tuple[int, float]:
        result = lab.simulate(policy, scenario, seed=1, engine=engine)
        assert result.engine == engine, result.notes
        return result.attempts, rate * duration

    if engine == "fast":
        # What is compiled on first use is not counted.
        lab.simulate(policy, lab.Scenario(duration=1), engine=engine)
    return run


def general_way(failing: float, clients: int, rate: float) -> Run:
    """The same policy run by the general way: a task per call, the compiled policy."""
    import stormproof as sp
    from stormproof import lab
    from stormproof.lab.simulate import exact

    policy = sp.Policy(sp.Retry(on=(lab.BackendError, sp.AttemptTimeout)))
    scenario = lab.Scenario(clients, rate, 1.2 * rate, timeout=TIMEOUT, duration=3, error_rate=failing)
    return lambda: (exact(policy, scenario, 1, way="driven").attempts, rate * 3)


def simpy_model(failing: float, clients: int, rate: float) -> Run:
    """SimPy processes and a Resource; the retry loop and the budget written out."""
    import simpy

    # A quarter of the time: what an attempt costs does not depend on it.
    return lambda: (_Model(simpy, failing, clients, rate).run(DURATION / 4), rate * DURATION / 4)


class _Model:
    def __init__(self, simpy: Any, failing: float, clients: int, rate: float) -> None:
        self._env = simpy.Environment()
        self._server = simpy.Resource(self._env, 1)
        self._rng = Random(1)
        self._failing, self._rate = failing, rate
        self._tokens = [BURST] * clients
        self._attempts = 0

    def run(self, duration: float) -> int:
        self._env.process(self._arrivals())
        self._env.run(duration)
        return self._attempts

    def _arrivals(self) -> Generator[Any, Any, None]:
        while True:
            yield self._env.timeout(self._rng.expovariate(self._rate))
            self._env.process(self._call(self._rng.randrange(len(self._tokens))))

    def _call(self, client: int) -> Generator[Any, Any, None]:
        for retry in range(4):
            if (yield from self._attempt()):
                self._tokens[client] = min(2 * BURST, self._tokens[client] + RATIO)
                return
            if retry == 3 or self._tokens[client] < 1.0:
                return
            self._tokens[client] -= 1.0
            yield self._env.timeout(self._rng.random() * 0.1 * 2**retry)

    def _attempt(self) -> Generator[Any, Any, bool]:
        self._attempts += 1
        if self._rng.random() < self._failing:
            return False
        limit = self._env.timeout(TIMEOUT)
        with self._server.request() as turn:
            if turn not in (yield turn | limit):
                return False
            yield self._env.timeout(1 / (1.2 * self._rate))
        return True


SIMPY = "SimPy, 10,000 clients"
EXACT, FEW, MANY = (f"exact engine, {clients} clients" for clients in ("10,000", "100", "100,000"))
COMPILED = "compiled engine, 10,000 clients"
GENERAL = "exact engine, general way, 1,000 clients"


def _group(name: str, title: str, failing: float, exact_rate: float, more: tuple[Bar, ...] = ()) -> Group:
    return Group(
        name=name,
        title=title,
        baseline=SIMPY,
        meter=PerAttempt(),
        cases=(
            Case(SIMPY, partial(simpy_model, failing, 10_000, 10_000.0), "simpy"),
            Case(FEW, partial(shipped, "exact", failing, 100, 100.0, 2_400.0)),
            Case(EXACT, partial(shipped, "exact", failing, 10_000, 10_000.0)),
            Case(MANY, partial(shipped, "exact", failing, 100_000, 100_000.0, 8.0)),
            Case(GENERAL, partial(general_way, failing, 1_000, 1_000.0)),
            Case(COMPILED, partial(shipped, "fast", failing, 10_000, 10_000.0)),
        ),
        bars=(
            Bar(f"{exact_rate:,.0f} attempts a second, us", EXACT, 1e6 / exact_rate, of="value"),
            Bar("10 million attempts a second compiled, us", COMPILED, 0.1, of="value"),
            Bar("100,000 clients cost as 100 do", MANY, 1.5, against=FEW),
            *more,
        ),
    )


GROUPS = [
    # An attempt that is refused at once is no event to SimPy, so that these ratios are shown, not judged.
    _group(
        "lab-failing",
        "One simulated attempt, half of them fail: retry, full jitter, a budget each",
        0.5,
        250_000,
    ),
    _group(
        "lab-succeeding",
        "One simulated attempt, 2 % of them fail: the same policy",
        0.02,
        450_000,
        (
            Bar("an eighth of SimPy's time", EXACT, 1 / 8),
            Bar("1/200 of SimPy's time, compiled", COMPILED, 1 / 200),
        ),
    ),
]
