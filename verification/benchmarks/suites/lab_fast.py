"""The lab's fast engine: what one simulated attempt costs, and how much memory a run takes.

Every case is a process of its own, so that the memory is that of one run, with the interpreter and what it
has loaded; compiling is not counted. The exact engine runs the first of them too, a hundred times smaller.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

from ..model import Bar, Case, Effort, Figures, Group, Ready

_RUN = """
import json, resource, sys, time
import stormproof as sp
from stormproof import lab
from stormproof.lab.scenarios import scenarios
ON = (lab.BackendError, sp.AttemptTimeout)
engine, best = {engine!r}, None
policy, scenario = {what}
lab.simulate(None, lab.Scenario(duration=1), engine=engine)
for _ in range({rounds}):
    began, cpu = time.perf_counter(), time.process_time()
    result = lab.simulate(policy, scenario, seed=1, engine=engine)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    assert result.engine == engine, result.notes
    found = dict(attempts=result.attempts, cpu=cpu, wall=wall)
    best = found if best is None or cpu < best["cpu"] else best
try:
    # The maximum that rusage gives on Linux may still be that of the process which started this one.
    told = dict(line.split(":", 1) for line in open("/proc/self/status"))["VmHWM"].split()[0]
    best["bytes"] = int(told) * 1024
except OSError:
    unit = 1 if sys.platform == "darwin" else 1024
    best["bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(json.dumps(best))
"""

_MILLION = (
    "sp.Policy(sp.Retry(on=ON)), "
    "lab.Scenario({n}, {n}, {n} * 1.2, lab.Outage(2, 1, 'fail'), timeout=1, duration=12)"
)
_PLAYERS = "(lambda s: (s.policies['once, jittered, one in 30 s'], s.scenario))(scenarios['video-players'])"


class OwnProcess:
    """Microseconds of processor time per attempt, seconds and MB of a run in a process of its own."""

    units = ("us/attempt", "attempts/s", "wall s", "MB")

    def check(self, ready: Ready) -> None:
        """The process itself checks that it was run by the engine it asked for."""

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        rounds = 1 if effort.rounds < 10 else 3
        return {ready.case.name: _figures(ready.made(rounds)) for ready in cases}


def _figures(text: str) -> Figures:
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    found = json.loads(done.stdout)
    spent = found["cpu"] / found["attempts"]
    return {
        "us/attempt": spent * 1e6,
        "attempts/s": 1 / spent,
        "wall s": found["wall"],
        "MB": found["bytes"] / 1e6,
    }


def _million(engine: str, clients: int) -> partial[str]:
    """The default Retry and Budget; every client calls once a second, for 1 of 12 s the answer is 503."""
    return partial(_script, engine, _MILLION.format(n=clients))


def _players() -> partial[str]:
    """The shipped scenario "video-players": 25 million of them, 75 million calls, a RateBudget for each."""
    return partial(_script, "fast", _PLAYERS)


def _script(engine: str, what: str, rounds: int) -> str:
    return _RUN.format(engine=engine, what=what, rounds=rounds)


EXACT = "exact engine, 10,000 clients"
MILLION = "fast engine, 1,000,000 clients"
PLAYERS = "fast engine, 25 million video players"

GROUPS = [
    Group(
        name="lab-fast",
        title="One attempt in the fast engine: retry, full jitter, a budget for each client",
        baseline=EXACT,
        meter=OwnProcess(),
        cases=(
            Case(EXACT, partial(_million, "exact", 10_000)),
            Case(MILLION, partial(_million, "fast", 1_000_000)),
            Case(PLAYERS, _players),
        ),
        bars=(
            Bar("5 million simulated attempts a second", MILLION, 0.2, of="value"),
            Bar("1 million clients within 4 GB, MB", MILLION, 4000, of="value", unit="MB"),
            Bar("25 million video players, s", PLAYERS, 60, of="value", unit="wall s"),
        ),
    )
]
