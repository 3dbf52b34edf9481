"""Fetches a client's source distribution and runs its tests twice, plain and with a policy, test by test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from .suites import Suite

ROOT = Path(__file__).parents[2]
_PYTEST = ("pytest", "pytest-timeout")
#: Seconds for one test.
_TEST_S = 60
#: Seconds for one run of a suite.
_SUITE_S = 1800


class NoSuite(Exception):
    """The source distribution cannot be had, or its tests cannot be run."""


@dataclass(frozen=True)
class Comparison:
    """Outcomes by test id: ``"passed"``, ``"failed"`` or ``"skipped"``."""

    release: str
    plain: dict[str, str]
    mounted: dict[str, str]

    @property
    def broken(self) -> list[str]:
        """The tests that pass plain and not with a policy."""
        return sorted(
            test for test, how in self.plain.items() if how == "passed" and self.mounted.get(test) != how
        )


def compare(suite: Suite, policy: str, scratch: Path, repeats: int = 1) -> Comparison:
    """Run the suite plain and with ``policy``; what fails only with it is run again ``repeats`` times."""
    source = _fetch(suite, scratch)
    python = _environment(suite, scratch / "venv")
    tests = scratch / "run"
    tests.mkdir()
    for folder in suite.folders:
        if not (source / folder).is_dir():
            raise NoSuite(f"{source.name} has no {folder}")
        shutil.copytree(source / folder, tests / folder)
    for settings in ("pyproject.toml", "setup.cfg"):
        if (source / settings).is_file():
            shutil.copy(source / settings, tests)
    plain = _outcomes(python, tests, suite.tests, "")
    mounted = _outcomes(python, tests, suite.tests, f"{suite.name}:{policy}")
    found = Comparison(source.name, plain, mounted)
    for _ in range(repeats if found.broken else 0):
        # On a busy machine some of their tests fail now and then, with and without us.
        files = sorted({_file(test) for test in found.broken})
        again = _outcomes(python, tests, tuple(files), f"{suite.name}:{policy}")
        mounted.update((test, how) for test, how in again.items() if how == "passed")
    return found


def _file(test: str) -> str:
    """The file of a test's id, which is made of module names."""
    module = test.partition("::")[0].split(".")
    while module and module[-1][:1].isupper():
        module.pop()
    return "/".join(module) + ".py"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoSuite(f"{' '.join(command[:5])} ... failed: {done.stderr.strip()[-400:]}")


def _fetch(suite: Suite, scratch: Path) -> Path:
    """Download and unpack the source distribution; return its folder."""
    requirement = suite.name + suite.requirement.partition("==")[1] + suite.requirement.partition("==")[2]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    _run([*pip, "--dest", str(scratch), requirement])
    archive = next(iter(scratch.glob("*.tar.gz")))
    with tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
    return scratch / archive.name.removesuffix(".tar.gz")


def _environment(suite: Suite, place: Path) -> str:
    """Make an environment with the client and what its tests need; return its Python."""
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", suite.requirement, *_PYTEST, *suite.needs])
    return python


def _outcomes(python: str, tests: Path, files: tuple[str, ...], mount: str) -> dict[str, str]:
    report = tests / "report.xml"
    report.unlink(missing_ok=True)
    # Only the outcomes are read, and long tracebacks take as long as the tests.
    command = [python, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-o", "addopts="]
    running = subprocess.Popen(
        [
            *(*command, "-p", "verification.client_suites.mount", f"--timeout={_TEST_S}"),
            *(f"--junitxml={report}", *files),
        ],
        cwd=tests,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "STORMPROOF_MOUNT": mount,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = running.communicate(timeout=_SUITE_S)
    except subprocess.TimeoutExpired:
        running.kill()
        said, _ = running.communicate()
    if not report.is_file():
        raise NoSuite(f"pytest ended with {running.returncode}: {said[-2000:]}")
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        failed = bool(kinds & {"failure", "error"})
        test = f"{case.get('classname')}::{case.get('name')}"
        found[test] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
    return found
