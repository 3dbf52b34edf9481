"""What every test may use, and the rule about skipping.

A skip is a note on a developer's machine and a failure with ``CI=true``: there, every service and
every library is expected to be present. The exceptions are skips whose reason begins with one of
``ELSEWHERE``: such a test runs in another job.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import settings

from stormproof._events.operations import LIMIT, census

CI = os.environ.get("CI", "").lower() in {"1", "true"}
ELSEWHERE = ("other interpreter: ", "other platform: ")

#: Service (which is also a marker's name): the commands of which any one will do.
SERVICES = {
    "redis": ("redis-server", "valkey-server"),
    "browser": ("chromium", "chromium-browser", "google-chrome"),
}

# A shared machine may stall any single example; time is never what a property test asserts.
settings.register_profile("stormproof", deadline=None, print_blob=True)
settings.load_profile("stormproof")


def _require_service(name: str) -> str:
    """The path of the service's command; skips the test when there is none."""
    commands = SERVICES[name]
    for command in commands:
        path = shutil.which(command)
        if path is not None:
            return path
    pytest.skip(f"{name}: none of {', '.join(commands)} on PATH (tools/setup-services installs one)")


@pytest.fixture
def require_service() -> Callable[[str], str]:
    """``require_service("redis")`` gives the path of the service's command, or skips the test."""
    return _require_service


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """``measured("1,000 tasks, at most 3 at once")`` keeps what this run saw for ``docs/proof.md``."""
    return lambda text: request.node.user_properties.append(("measured", text))


def pytest_configure() -> None:
    # A shell starts background jobs (`make test &`) with these two ignored. Children inherit that: one that
    # a test interrupts would never end. This runs in each xdist worker too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.name == "posix" and signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    # What was collected and imported stays till the end: the garbage collector need not look at it again.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def collect_garbage() -> Iterator[None]:
    """Collect what a file left at its end: a socket left open fails this file, not a later one."""
    yield
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    # One process runs thousands of tests: together they name more operations than are told apart.
    if len(census._operations) > LIMIT / 2:
        census._operations.clear()
    for name in SERVICES:
        if item.get_closest_marker(name):
            _require_service(name)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not CI or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = _reason(report)
    if not reason.startswith(ELSEWHERE):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI=true does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _judge(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.getreports("skipped"):
        places[_reason(report)].append(report.nodeid)
    if not places and terminalreporter.verbosity < 0:
        return
    terminalreporter.section("skipped on this machine")
    if not places:
        terminalreporter.line("nothing")
    for reason, nodes in sorted(places.items()):
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        terminalreporter.line(f"{reason}\n    {nodes[0]}{more}")
