"""Fetches a source distribution and runs the tests in it, with our module under the library's name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from .suites import Suite

ROOT = Path(__file__).parents[2]

#: Put beside the tests. Every module of ours is known under the library's name before a test imports it.
CONFTEST = """\
import importlib
import pkgutil
import sys

for name, ours in {stands_for!r}.items():
    package = importlib.import_module(ours)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), ours + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:
            pass
    for key in [key for key in sys.modules if key == ours or key.startswith(ours + ".")]:
        sys.modules[name + key[len(ours):]] = sys.modules[key]
"""


class NoSuite(Exception):
    """The source distribution cannot be had, or has no tests."""


@dataclass(frozen=True)
class Verdict:
    """How the tests of one suite ended; ``failed`` holds their ids."""

    passed: int
    failed: tuple[str, ...]
    skipped: int
    release: str

    @property
    def total(self) -> int:
        return self.passed + len(self.failed)


def fetch(requirement: str, into: Path) -> Path:
    """Download and unpack the source distribution; return its folder."""
    # What builds it may well be a wheel.
    name = requirement.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
    done = subprocess.run(
        [*command, "--dest", str(into), requirement], capture_output=True, text=True, check=False
    )
    archives = sorted(into.glob("*.tar.gz"))
    if done.returncode or not archives:
        raise NoSuite(f"{requirement} cannot be downloaded: {done.stderr.strip()[-400:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(into, filter="data")
    return into / archives[0].name.removesuffix(".tar.gz")


def run(suite: Suite, source: Path, into: Path, show: bool = False) -> Verdict:
    """Run the tests of ``source`` in ``into``, away from the library's own code."""
    if not (source / "tests").exists():
        raise NoSuite(f"{source.name} has no tests")
    shutil.copytree(source / "tests", into / "tests")
    libraries = _install(suite.needs, into / "libraries")
    (into / "conftest.py").write_text(CONFTEST.format(stands_for=suite.stands_for), encoding="utf-8")
    report = into / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:stormproof"]
    done = subprocess.run(
        [*command, f"--junitxml={report}", *(f"--ignore={path}" for path in suite.left_out), "tests"],
        cwd=into,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *libraries])},
        capture_output=not show,
        text=True,
        check=False,
    )
    if not report.is_file():
        raise NoSuite(f"{suite.name}: pytest ended with {done.returncode}: {(done.stdout or '')[-2000:]}")
    return _read(report, source.name)


def _install(needs: tuple[str, ...], into: Path) -> list[str]:
    """Install ``needs`` into a folder; return it as a search path."""
    if not needs:
        return []
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(into), *needs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoSuite(f"{', '.join(needs)} cannot be installed: {done.stderr.strip()[-400:]}")
    return [str(into)]


def _read(report: Path, release: str) -> Verdict:
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return Verdict(passed, tuple(failed), skipped, release)
