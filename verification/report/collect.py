"""Runs the marked tests and keeps what came of each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from .markers import ROOT


@dataclass
class Seen:
    """What one test function showed, over all its cases."""

    passed: int = 0
    figures: list[str] = field(default_factory=list)


class Gather:
    """A pytest plugin: what the marked tests showed, by point and by test."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Seen] = {}
        #: The tests that could not be run here, and why.
        self.skipped: dict[str, str] = {}
        self._points: dict[str, list[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Notes which points each test that will run is for."""
        for item in items:
            marks = item.iter_markers("proves")
            self._points[item.nodeid] = [point for mark in marks for point in mark.args]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts a case that passed, and keeps its figures; and what was skipped."""
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.nodeid] = report.longrepr[2]
        if report.when != "call" or not report.passed:
            return
        test = report.nodeid.split("[")[0]
        for point in self._points.get(report.nodeid, ()):
            seen = self.seen.setdefault((point, test), Seen())
            seen.passed += 1
            fresh = [str(text) for name, text in report.user_properties if name == "measured"]
            seen.figures += [text for text in fresh if text not in seen.figures]


def gather(files: Iterable[str]) -> tuple[int, Gather]:
    """Runs what is marked in ``files``: pytest's exit status, and what was seen."""
    # What is published is measured in full size.
    os.environ["STORMPROOF_TEST_LONG"] = "1"
    plugin = Gather()
    paths = [str(ROOT / file) for file in files]
    # SystemExit and KeyboardInterrupt are the tests' own business; pytest gives a status for everything else.
    status = pytest.main(["-q", "-m", "proves", "-p", "no:cacheprovider", *paths], plugins=[plugin])
    return int(status), plugin
