"""Results in a ``save`` file belong to what was run: a function's address says nothing about it.

A later function gets the address of one that has gone, and in another process everything has another one.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof import lab
from stormproof.lab.fingerprint import Unknowable, identity

SCENARIO = lab.Scenario(clients=5, arrival_rps=20, duration=3, error_rate=0.5)
LIMIT = 1


def attempts(on: Any, save: Path | None, scenario: lab.Scenario = SCENARIO) -> list[int]:
    policy = sp.Policy(sp.Retry(on=on, attempts=3))
    compared = lab.compare({"p": policy}, scenario, seeds=range(2), save=save)
    return [figures["attempts"] for figures in compared.metrics["p"]]


@pytest.mark.filterwarnings("ignore::stormproof.PolicyWarning")
def test_new_function_at_the_same_address_is_run(tmp_path: Path) -> None:
    def judging(answer: bool) -> Callable[[BaseException], bool]:
        return lambda error: answer

    expected = {answer: attempts(judging(answer), None) for answer in (True, False)}
    assert expected[True] != expected[False]
    path = tmp_path / "kept.jsonl"
    for answer in (True, False, False, True):
        assert attempts(judging(answer), path) == expected[answer]
    assert len(path.read_text().splitlines()) == 4, "the second time of each came from the file"


def test_new_service_time_is_run(tmp_path: Path) -> None:
    def served(seconds: float) -> list[int]:
        scenario = SCENARIO.replace(capacity_rps=1 / seconds, service=lambda rng: seconds)
        compared = lab.compare({"p": None}, scenario, seeds=range(2), save=tmp_path / "kept.jsonl")
        return [figures["successes"] for figures in compared.metrics["p"]]

    assert served(0.01) != served(0.5)


SCRIPT = """
import sys, warnings
import stormproof as sp
from stormproof import lab
policy = sp.Policy(
    sp.Retry(on=lab.BackendError, budget=sp.keyed(sp.Budget(burst=1), key=lambda key: key % 2)),
    name="keyed",
)
scenario = lab.Scenario(clients=3, arrival_rps=20, duration=2, error_rate=0.5, keys=4,
                        others=lab.Clients("more", 2, 5, policy=policy))
print(lab.compare({"p": policy}, scenario, seeds=range(2), save=sys.argv[1]).to_json())
print(lab.simulate(policy, scenario).to_json())
"""


def test_second_process_continues_a_saved_run_and_writes_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    first = run()
    assert len(path.read_text().splitlines()) == 2, "two seeds, the first of which is its own calm leg"
    assert run() == first
    assert len(path.read_text().splitlines()) == 2, "the second process ran nothing again"
    assert " at 0x" not in first
    assert "<lambda>" in json.loads(first.splitlines()[1])["runs"][0]["policy"]["repr"]


class Odd:
    """Its judgement hangs on something that no other process can know."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.lock = threading.Lock()

    def __call__(self, error: BaseException) -> bool:
        return self.answer


@pytest.mark.filterwarnings("ignore::stormproof.PolicyWarning")
@pytest.mark.parametrize("name", ["kept.jsonl", pytest.param("kept.parquet", marks=pytest.mark.long)])
def test_policy_without_a_fingerprint_is_run_again_with_a_warning(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for answer in (True, False):
        with pytest.warns(UserWarning, match="save: the runs of 'p' are repeated each time: it holds a lock"):
            found = attempts(Odd(answer), path)
        assert found == attempts(Odd(answer), None)


def of_default(limit: int) -> Any:
    def function(error: object, limit: int = limit) -> bool:
        return bool(limit)

    return function


def by_global(error: object) -> bool:
    return helper(error)


def helper(error: object) -> bool:
    return LIMIT > 0


class Judge:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, error: object) -> bool:
        return True

    def method(self, error: object) -> bool:
        return True


BUDGET = sp.Budget(burst=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: lambda error: n,
        of_default,
        lambda n: functools.partial(helper, n),
        Judge,
        lambda n: Judge(n).method,
        lambda n: {"a": (n, [b"x", 1.5, None])},
        lambda n: frozenset({f"a{n}", "b", "c"}),
        lambda n: (lambda error: error == "a") if n == 1 else (lambda error: error == "b"),
        lambda n: (lambda e: lambda: 1) if n == 1 else (lambda e: lambda: 2),
        lambda n: str.lower if n == 1 else str.upper,
        lambda n: len if n == 1 else sum,
        lambda n: KeyError if n == 1 else ValueError,
        lambda n: sp.Policy(sp.Retry(on=KeyError, attempts=n)),
        lambda n: sp.keyed(sp.Budget(burst=n), key=lambda key: key),
        lambda n: sp.transient.with_(statuses={500 + n}),
        lambda n: SCENARIO.replace(latency=lambda rng: n),
        lambda n: (BUDGET, BUDGET if n == 1 else sp.Budget(burst=3)),
    ],
)
def test_identity_is_equal_for_equal_code_and_differs_for_other_code(make: Callable[[int], Any]) -> None:
    assert identity(make(1)) == identity(make(1))
    assert identity(make(1)) != identity(make(2))
    assert "0x" not in identity(make(1))


def test_globals_count_through_functions_of_the_same_package(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(by_global)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 2)
    assert identity(by_global) != before


def test_circular_functions_have_an_identity() -> None:
    def first(error: object) -> object:
        return second(error)

    def second(error: object) -> object:
        return first(error)

    assert identity(first) == identity(first)
    nested: list[Any] = []
    nested.append(nested)
    with pytest.raises(Unknowable, match="nested too deeply"):
        identity(nested)


def test_lock_has_no_identity() -> None:
    with pytest.raises(Unknowable, match="a lock"):
        identity(threading.Lock())
