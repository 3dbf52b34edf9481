"""Measuring in `make bench`: calls on a clock that only they move, memory, processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from verification.benchmarks.call_timing import UNROLLED, Calls
from verification.benchmarks.memory import Retained
from verification.benchmarks.model import Case, Effort, Ready
from verification.benchmarks.processes import Modules, Processes

pytestmark = pytest.mark.long

TINY = Effort(rounds=1, batch_s=0.0, spawns=1, calls=50)


class Hand:
    """A clock, and functions that take a given part of its time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def taking(self, name: str, *costs: float) -> Callable[[int], int]:
        """Takes the first cost in the first 1000 calls, and so on; the last one stays."""
        calls = 0

        def call(key: int) -> int:
            nonlocal calls
            self.now += costs[min(calls // 1000, len(costs) - 1)]
            calls += 1
            if self.order[-1:] != [name]:
                self.order.append(name)
            return key

        return call

    def taking_async(self, name: str, *costs: float) -> Callable[[int], Any]:
        inner = self.taking(name, *costs)

        async def call(key: int) -> int:
            await asyncio.sleep(0)
            return inner(key)

        return call


def ready(name: str, made: Any, **options: Any) -> Ready:
    return Ready(Case(name, object, **options), made)


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_are_timed_in_turn_and_the_fastest_batch_counts(is_async: bool) -> None:
    hand = Hand()
    taking = hand.taking_async if is_async else hand.taking
    cases = [
        ready("steady", taking("steady", 300e-9)),
        ready("uneven", taking("uneven", 900e-9, 200e-9, 700e-9)),
    ]
    effort = replace(TINY, rounds=5, batch_s=1000 * 300e-9)
    figures = Calls(is_async, timer=lambda: hand.now).measure(cases, effort)
    assert figures["steady"]["ns"] == pytest.approx(300)
    # 300 calls warm it up and 330 make a batch: the third of the five is all within the cheap ones.
    assert figures["uneven"]["ns"] == pytest.approx(200)
    assert hand.order == ["steady", "uneven"] * 6


def test_several_functions_of_a_case_are_called_in_turn() -> None:
    hand = Hand()
    made = [hand.taking("a", 100e-9), hand.taking("b", 300e-9)]
    figures = Calls(timer=lambda: hand.now).measure([ready("both", made)], TINY)
    assert figures["both"]["ns"] == pytest.approx(200)
    assert hand.order[:4] == ["a", "b", "a", "b"] and UNROLLED % len(made) == 0


def test_every_batch_runs_inside_its_context() -> None:
    entered = 0
    inside = False

    @contextmanager
    def context() -> Iterator[None]:
        nonlocal entered, inside
        entered, inside = entered + 1, True
        yield
        inside = False

    def call(key: int) -> int:
        assert inside
        return key

    meter = Calls()
    case = ready("ours", call, inside=context)
    meter.check(case)
    meter.measure([case], replace(TINY, rounds=3))
    assert entered == 1 + 1 + 3 and not inside


@pytest.mark.parametrize("meter", [Calls(), Retained()])
def test_case_that_returns_something_else_is_refused(meter: Any) -> None:
    meter.check(ready("ours", lambda key: key))
    with pytest.raises(AssertionError, match="returned None instead of 7"):
        meter.check(ready("ours", lambda key: None))


def test_memory_that_is_kept_is_seen() -> None:
    kept: list[bytes] = []

    def leaking(key: int) -> int:
        kept.append(bytes(1000))
        return key

    def clean(key: int) -> int:
        return len(bytes(1000)) and key

    cases = [ready("leaking", leaking), ready("clean", clean)]
    figures = Retained().measure(cases, replace(TINY, calls=2000))
    assert figures["leaking"]["B retained"] >= 1000 and figures["leaking"]["blocks retained"] >= 0.9
    assert figures["clean"]["B retained"] < 1 and figures["clean"]["B at peak"] >= 1000


def test_memory_may_take_fewer_calls() -> None:
    made = 0

    def call(key: int) -> int:
        nonlocal made
        made += 1
        return key

    Retained().measure([ready("ours", call)], replace(TINY, calls=5000))
    all_calls, made = made, 0
    Retained(share=0.1).measure([ready("ours", call)], replace(TINY, calls=5000))
    assert all_calls - made == 2 * (5000 - 500)


# Measuring processes.


def test_isolated_process_that_fails_reports_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "only_on_the_path.py").write_text("")
    with pytest.raises(RuntimeError, match="No module named 'only_on_the_path'"):
        Processes().check(ready("ours", "import only_on_the_path"))
    assert Processes().measure([ready("bare", "pass")], TINY)["bare"]["ms"] > 0


def test_modules_from_outside_the_standard_library_are_counted(tmp_path: Path) -> None:
    for name in ("stormproof", "a_stranger", "another_stranger"):
        (tmp_path / f"{name}.py").write_text("")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    code = f"{path}; import stormproof, a_stranger, another_stranger, colorsys"
    figures = Modules().measure([ready("ours", code), ready("bare", "pass")], TINY)
    assert figures["ours"] == {"third-party": 2, "all": 4}
    assert figures["bare"] == {"third-party": 0, "all": 0}
