"""The order of tests is shuffled by a seed; long tests run when asked for."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.plugins.order import LONGEST, shuffle
from tests.tools.small_suite import SmallSuite

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = "import pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_n(n): pass\n"


@dataclass
class StubItem:
    nodeid: str


def order(out: str) -> list[str]:
    return re.findall(r"(test_\w+\.py::\S+) PASSED", out)


def test_order_depends_on_the_seed_alone(tmp_path: Path) -> None:
    suite = SmallSuite(tmp_path, a=NUMBERS, b=NUMBERS)
    first, again, other = (order(suite.run("-v", STORMPROOF_TEST_SEED=seed)[1]) for seed in ("7", "7", "8"))
    assert len(first) == 60
    assert first == again != other
    assert sorted(first) == sorted(other)


def test_seed_is_drawn_and_printed(tmp_path: Path) -> None:
    suite = SmallSuite(tmp_path, a=NUMBERS)
    seeds = {re.search(r"STORMPROOF_TEST_SEED=(\d+)", suite.run()[1])[1] for _ in range(3)}  # type: ignore[index]
    assert len(seeds) > 1


def test_seed_0_keeps_the_order_of_the_source(tmp_path: Path) -> None:
    found = order(SmallSuite(tmp_path, a=NUMBERS).run("-v", STORMPROOF_TEST_SEED="0")[1])
    assert found == [f"test_a.py::test_n[{n}]" for n in range(30)]


def test_longest_files_come_first_in_any_order() -> None:
    assert [name for name in sorted(LONGEST) if not (ROOT / name).is_file()] == []
    items: list[Any] = [
        StubItem(f"{name}::test_1") for name in ("tests/test_a.py", *sorted(LONGEST), "tests/test_z.py")
    ]
    for seed in range(5):
        shuffle(items, random.Random(seed))
        assert {item.nodeid.partition("::")[0] for item in items[: len(LONGEST)]} == LONGEST


SIZES = """
import pytest
from tests.support.sizes import sized

@pytest.mark.long
def test_long(): pass

def test_short(): pass

@pytest.mark.sized
def test_sized(): print("size", sized(1000, 10))
"""


def test_long_tests_run_only_if_selected(tmp_path: Path) -> None:
    suite = SmallSuite(tmp_path, sizes=SIZES)
    _, short = suite.run("-v", "-rP")
    _, long = suite.run("-v", "-rP", "--long")
    assert {name.partition("::")[2] for name in order(short)} == {"test_short", "test_sized"}
    assert {name.partition("::")[2] for name in order(long)} == {"test_long", "test_sized"}
    assert "size 10\n" in short and "size 1000\n" in long


def test_long_test_that_is_named_runs(tmp_path: Path) -> None:
    code, out = SmallSuite(tmp_path, sizes=SIZES).run(target="test_sizes.py::test_long")
    assert (code, "1 passed" in out) == (0, True), out
