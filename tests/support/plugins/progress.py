"""Writes what happens as JSON lines to the file ``STORMPROOF_TEST_REPORT``, for tools/run-tests to show."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from tests.support.plugins.skips import reason_of


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("STORMPROOF_TEST_REPORT")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(path), "stormproof-progress")


class Reporter:
    """One line for the number of tests, then one for each test that ended."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - open until the end
        self._seconds: dict[str, float] = {}

    def _write(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._write(kind="collected", tests=len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._write(kind="collected", tests=len(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(kind="failed", test=report.nodeid, text=report.longreprtext)
        elif report.skipped:
            self._write(kind="skipped", test=report.nodeid, reason=reason_of(report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(kind="failed", test=report.nodeid, text=report.longreprtext, when=report.when)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._write(kind="skipped", test=report.nodeid, reason=reason_of(report))
        seconds = self._seconds.pop(report.nodeid, 0.0) + report.duration
        if report.when == "teardown":
            self._write(kind="ended", test=report.nodeid, seconds=round(seconds, 4))
        else:
            self._seconds[report.nodeid] = seconds

    def pytest_unconfigure(self) -> None:
        self._file.close()
