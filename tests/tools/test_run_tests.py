"""``tools/run-tests``: what it prints and writes once pytest has ended."""

from __future__ import annotations

import json
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    loader = SourceFileLoader("run_tests", str(ROOT / "tools" / "run-tests"))
    spec = spec_from_loader("run_tests", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "LOGS", tmp_path)
    return module


def part_with(tool: Any, *entries: dict[str, Any]) -> Any:
    part = tool.Part(1, "what computes", [], 2)
    for entry in entries:
        part.take(json.dumps(entry) + "\n")
    return part


def ended(test: str, seconds: float = 0.1) -> dict[str, Any]:
    return {"kind": "ended", "test": test, "seconds": seconds}


def test_last_line_is_the_verdict_when_all_passed(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    part = part_with(tool, *[ended(f"tests/unit/test_a.py::test_{n}") for n in range(1200)])
    assert tool.summary([part], [0], 281.4) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "PASSED 1,200 tests in 4m41s"


def test_last_line_names_what_failed(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"kind": "failed", "test": "tests/unit/test_a.py::test_b", "text": "assert 1 == 2"}
    part = part_with(
        tool, failure, ended("tests/unit/test_a.py::test_b"), ended("tests/unit/test_a.py::test_c")
    )
    assert tool.summary([part], [1], 1.0) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "FAILED 1 of 2: tests/unit/test_a.py::test_b"
    assert "assert 1 == 2" in lines


def test_many_failures_are_shortened_to_the_first_ten(
    tool: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path.parent)
    tests = [f"tests/unit/test_a.py::test_{n:02}" for n in range(12)]
    failures = [{"kind": "failed", "test": test, "text": f"text of {test}"} for test in tests]
    part = part_with(tool, *failures, *map(ended, tests))
    assert tool.summary([part], [1], 1.0) == 1
    lines = capsys.readouterr().out.splitlines()
    verdict = f"FAILED 12 of 12: {' '.join(tests[:10])} and 2 more (see {tmp_path.name})"
    assert lines[-1] == verdict
    assert f"text of {tests[9]}" in lines and f"text of {tests[10]}" not in lines


def test_pytest_that_broke_down_without_a_failed_test_is_a_failure(
    tool: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    part = part_with(tool, ended("tests/unit/test_a.py::test_b"))
    assert tool.summary([part], [3], 1.0) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: pytest ended with [3] (see part-1.log)"


def test_skips_are_listed_by_reason_before_the_verdict(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    skips = [{"kind": "skipped", "test": f"tests/t.py::{n}", "reason": "needs redis-server"} for n in "ab"]
    part = part_with(tool, *skips, *[ended(skip["test"]) for skip in skips], ended("tests/t.py::c"))
    assert tool.summary([part], [0], 1.0) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("Skipped on this machine:") + 1] == "  2 x needs redis-server"
    assert lines[-1] == "PASSED 1 tests in 0m01s", "what is skipped has not passed"


def test_run_that_skips_everything_has_not_passed(
    tool: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    skip = {"kind": "skipped", "test": "tests/t.py::a", "reason": "needs redis-server"}
    assert tool.summary([part_with(tool, skip, ended("tests/t.py::a"))], [0], 1.0) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: pytest ended with [0] (see part-1.log)"


def test_times_are_written_by_folder_and_file_longest_first(tool: Any, tmp_path: Path) -> None:
    part = part_with(
        tool,
        ended("tests/unit/test_a.py::test_1", 0.5),
        ended("tests/unit/test_a.py::test_2", 0.5),
        ended("tests/unit/test_b.py::test_1", 0.25),
        ended("tests/lab/test_c.py::test_1", 2.0),
    )
    tool.write_times([part])
    lines = [line.split() for line in (tmp_path / "times.txt").read_text().splitlines()]
    assert [(seconds, path) for seconds, _, path in lines] == [
        ("2.0", "tests/lab"),
        ("1.2", "tests/unit"),
        ("2.0", "tests/lab/test_c.py"),
        ("1.0", "tests/unit/test_a.py"),
        ("0.2", "tests/unit/test_b.py"),
    ]


def test_time_left_is_that_of_the_slower_part_from_its_collection_on(
    tool: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.time, "monotonic", lambda: 30.0)
    collected = {"kind": "collected", "tests": 100}
    quick = part_with(tool, collected, *[ended(f"tests/unit/test_a.py::test_{n}") for n in range(90)])
    slow = part_with(tool, collected, *[ended(f"tests/faults/test_b.py::test_{n}") for n in range(10)])
    monkeypatch.setattr(tool.time, "monotonic", lambda: 40.0)
    tool.show([quick, slow], 40.0)
    line = capsys.readouterr().out.strip()
    assert line == "90% and 10%  100 of 200, 0 failed, 0m40s, about 1m30s left"
