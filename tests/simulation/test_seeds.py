"""300 worlds, each decided by its seed: whatever happens in them, what `oracles` ask for holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.simulation.run import play

CHUNK = 30


@pytest.mark.parametrize("chunk", range(10))
def test_oracles_hold_for_every_seed(chunk: int, measured: Callable[[str], None]) -> None:
    reports = [play(seed) for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
    wrong = [str(report) for report in reports if report.faults]
    assert not wrong, "\n".join(wrong)
    assert sum(report.attempts for report in reports) > CHUNK, "hardly anything happened"
    measured(
        f"{CHUNK} seeds, {sum(r.calls for r in reports)} calls, {sum(r.attempts for r in reports)} attempts"
    )


@pytest.mark.proves("invariant 19")
def test_same_seed_gives_the_same_log(measured: Callable[[str], None]) -> None:
    """Byte for byte: in this process, and in another one with other addresses and hashes."""
    lines = 0
    for seed in range(1000, 1006):
        first, second = play(seed), play(seed)
        assert first.log == second.log, f"seed {seed}"
        lines += len(first.log)
    command = [sys.executable, "-m", "tests.simulation", "--seed", "1000"]
    elsewhere = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=True
    )
    assert play(1000).digest in elsewhere.stdout
    measured(f"6 seeds of mixed threads and tasks played twice, {lines} log lines, no difference")


def test_other_seeds_give_other_logs() -> None:
    assert len({play(seed).digest for seed in range(20)}) == 20


def test_failing_seed_names_its_reproduction() -> None:
    report = play(1)
    report.faults.append("something")
    assert str(report).endswith("python -m tests.simulation --seed 1 --log")
