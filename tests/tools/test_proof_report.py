"""``docs/proof.md`` names every point and every test that is marked as proving it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

import pytest
from verification.report.collect import Gather, Seen
from verification.report.markers import ROOT, Marked, marked, of_file
from verification.report.page import page
from verification.report.points import names

PAGE = ROOT / "docs" / "proof.md"
MARKS = marked()


def listed() -> dict[str, set[str]]:
    """The tests on the page, `file::name`, by point."""
    found: dict[str, set[str]] = defaultdict(set)
    point = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("##"):
            point = line.removeprefix("### ").lower()
        elif test := re.match(r"- `(tests/[^`]+)`: `([^`]+)`", line):
            found[point].add("::".join(test.groups()))
    return found


def holds(mark: Marked, test: str) -> bool:
    """Is ``test`` one that ``mark`` speaks of?"""
    said = f"{mark.file}::{mark.test}".removesuffix("::")
    return test == said or test.startswith(f"{said}::")


@pytest.mark.parametrize("point", names())
def test_page_lists_the_tests_that_prove_a_point_and_no_other(point: str) -> None:
    marks, tests = [mark for mark in MARKS if mark.point == point], listed()[point]
    assert marks, f"no test proves {point!r}"
    assert [mark for mark in marks if not any(holds(mark, test) for test in tests)] == []
    assert [test for test in tests if not any(holds(mark, test) for mark in marks)] == []


def test_every_mark_names_a_point() -> None:
    assert {mark.point for mark in MARKS} - set(names()) == set()


def test_each_fault_has_its_own_file_and_each_security_point_a_security_test() -> None:
    faults = {
        mark.point: mark.file for mark in MARKS if mark.file.startswith("tests/faults/") and not mark.test
    }
    security = {mark.point for mark in MARKS if mark.file.startswith("tests/security/")}
    assert [name for name in names() if name.startswith("fault ") and name not in faults] == []
    assert [name for name in names() if name.startswith("security ") and name not in security] == []
    assert len(set(faults.values())) == len(faults)


def test_marks_are_read_wherever_they_stand() -> None:
    text = """
pytestmark = [pytest.mark.redis, pytest.mark.proves("fault a")]

@pytest.mark.proves("invariant 1", "invariant 2")
def test_one(): ...

class TestIt:
    @pytest.mark.parametrize("x", [1])
    @pytest.mark.proves("security c")
    async def test_two(self, x): ...

def test_three(): ...
"""
    assert list(of_file(text, "f")) == [
        Marked("fault a", "f"),
        Marked("invariant 1", "f", "test_one"),
        Marked("invariant 2", "f", "test_one"),
        Marked("security c", "f", "TestIt::test_two"),
    ]


def test_page_shows_cases_and_figures_under_their_point() -> None:
    text = page({("invariant 2", "tests/x.py::test_y"): Seen(1200, ["3 apples"])})
    part = text.split("### Invariant 2\n")[1].split("###")[0]
    assert "- `tests/x.py`: `test_y` (1,200 cases)\n    - seen: 3 apples\n" in part
    assert text.count("tests/x.py") == 1


def test_page_has_each_point_once() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = [f"### {name.capitalize()}\n" for name in names()]
    assert [heading for heading in headings if text.count(heading) != 1] == []


def test_tests_figure_is_kept(measured: Callable[[str], None], request: pytest.FixtureRequest) -> None:
    measured("3 apples")
    assert request.node.user_properties == [("measured", "3 apples")]


def test_skipped_test_does_not_count_as_proof() -> None:
    plugin = Gather()
    skipped = pytest.TestReport(
        "t.py::test", ("t.py", 1, "test"), {}, "skipped", ("t.py", 1, "no Redis"), "setup"
    )
    plugin.pytest_runtest_logreport(skipped)
    assert (plugin.seen, plugin.skipped) == ({}, {"t.py::test": "no Redis"})
