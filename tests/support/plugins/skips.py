"""The rule about skipping: a note on a developer's machine, a failure with ``CI=true``.

A test or a file that imports a library which is not installed is skipped. In CI every service and library
is expected to be present. The exceptions are skips whose reason begins with one of ``ELSEWHERE``: such a test
runs in another job.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.services import SERVICES, require

CI = os.environ.get("CI", "").lower() in {"1", "true"}
OURS = ("stormproof", "tests", "tools", "verification")
ELSEWHERE = ("other interpreter: ", "other platform: ")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped."""
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in SERVICES:
        if item.get_closest_marker(name):
            require(name)


def missing_library(error: BaseException | None) -> str | None:
    """Return the name of the library that could not be imported; ``None`` if it is ours, or not that."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            name = error.name.partition(".")[0]
            return None if name in OURS else name
        error = error.__cause__ or error.__context__
    return None


def _skip_without_library(
    report: pytest.TestReport | pytest.CollectReport, call: pytest.CallInfo[Any], where: Path
) -> None:
    name = missing_library(call.excinfo.value) if report.failed and call.excinfo is not None else None
    if name is not None:
        report.outcome = "skipped"
        report.longrepr = (str(where), 0, f"Skipped: library not installed: {name}")


def _fail_skip_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not CI or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = reason_of(report)
    if not reason.startswith(ELSEWHERE):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI=true does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _skip_without_library(report, call, item.path)
    _fail_skip_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    call: pytest.CallInfo[Any] | None = getattr(report, "call", None)
    if call is not None:
        _skip_without_library(report, call, collector.path)
    _fail_skip_in_ci(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.getreports("skipped"):
        places[reason_of(report)].append(report.nodeid)
    if not places and terminalreporter.verbosity < 0:
        return
    terminalreporter.section("skipped on this machine")
    if not places:
        terminalreporter.line("nothing")
    for reason, nodes in sorted(places.items()):
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        terminalreporter.line(f"{reason}\n    {nodes[0]}{more}")
