"""Packages that use tenacity, before and after ``stormproof lint --fix``: findings, imports, their tests.

    python -m verification.compat_suites.packages [NAME ...]

Downloads each source distribution into a scratch folder and installs it there. Nothing of it is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from .run import ROOT, NoSuite, fetch

#: Seconds for one run of a package's tests.
LONGEST_S = 900


@dataclass(frozen=True)
class Package:
    """A source distribution with tests. ``tests`` are the paths that run without services."""

    requirement: str
    folder: str
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.requirement.partition("==")[0]


_OSLO = ("oslotest", "stestr", "testtools", "testscenarios", "fixtures", "ddt")

_ALL = (
    Package(
        "taskflow==6.5.0",
        "taskflow",
        tuple(f"taskflow/tests/unit/{name}" for name in ("test_storage.py", "test_retries.py", "jobs")),
        (*_OSLO, "pydotplus", "sqlalchemy", "etcd3gw", "kazoo", "redis", "kombu"),
    ),
    Package("tooz==9.1.0", "tooz", ("tooz/tests",), (*_OSLO, "sysv_ipc", "requests")),
    Package("os-brick==7.1.1", "os_brick", ("os_brick/tests",), (*_OSLO, "oslo.vmware", "castellan")),
    Package("papermill==2.7.0", "papermill", ("papermill/tests",), ("moto", "boto3", "ipykernel", "pyarrow")),
    Package("octavia-lib==3.12.0", "octavia_lib", ("octavia_lib/tests/unit",), _OSLO),
    Package("ironic-python-agent==13.0.0", "ironic_python_agent", ("ironic_python_agent/tests/unit",), _OSLO),
    Package(
        "networking-generic-switch==10.2.0",
        "networking_generic_switch",
        ("networking_generic_switch/tests/unit",),
        (*_OSLO, "futurist", "ncclient"),
    ),
    Package("python-tempestconf==3.5.4", "config_tempest", ("config_tempest/tests",), _OSLO),
    Package(
        "langchain-core==1.7.0",
        "langchain_core",
        ("tests/unit_tests/runnables", "tests/unit_tests/callbacks", "tests/unit_tests/tracers"),
        ("pytest-asyncio", "pytest-mock", "pytest-socket", "syrupy", "freezegun", "blockbuster"),
        ("-o", "addopts=", "-o", "asyncio_mode=auto"),
    ),
    Package(
        "instructor==1.17.0",
        "instructor",
        ("tests/v2/test_retry_runtime.py", "tests/coverage/test_core_patch_retry_coverage.py"),
        ("pytest-asyncio", "python-dotenv", "anthropic", "google-genai"),
        ("-o", "asyncio_mode=auto"),
    ),
    Package(
        "google-genai==3.3.0",
        "google",
        ("google/genai/tests/client/test_retries.py",),
        ("pytest-asyncio", "aiohttp", "pillow"),
        ("-o", "asyncio_mode=auto"),
    ),
    Package(
        "zyte-api==0.11.0",
        "zyte_api",
        ("tests",),
        ("pytest-asyncio", "pytest-rerunfailures", "pytest-twisted", "responses", "twisted"),
        # tests/conftest.py asks for the coverage plugin's options.
        ("-o", "addopts="),
    ),
    Package("gwosc==0.8.3", "gwosc", ("gwosc/tests",), ("requests-mock", "pytest-socket")),
)  # fmt: skip
PACKAGES = {package.name: package for package in _ALL}


def _run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )


def _environment(package: Package, source: Path, into: Path) -> str:
    """Install the package from ``source``, so that a rewritten file is what runs; return its Python."""
    _run(sys.executable, "-m", "venv", str(into))
    python = str(into / "bin" / "python")
    needs = ("pytest<9", "setuptools<80", *package.needs)
    done = _run(python, "-m", "pip", "install", "-q", *needs, "--editable", str(source))
    if done.returncode:
        raise NoSuite(f"{package.name} cannot be installed: {done.stderr.strip()[-400:]}")
    return python


def _passing(python: str, package: Package, source: Path, report: Path) -> set[str]:
    """Return the ids of the tests that pass. A file that cannot be imported here does not end the run."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:stormproof", "--continue-on-collection-errors")
    command = (python, "-m", "pytest", *options, f"--junitxml={report}", *package.options)
    _run(*command, *package.tests, cwd=source)
    if not report.is_file():
        return set()
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if not {"failure", "error", "skipped"} & {child.tag for child in case}
    }


def _importable(python: str, source: Path, files: list[Path]) -> set[Path]:
    """Return which of ``files`` can be imported as modules."""
    good = set()
    for file in files:
        dotted = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if not _run(python, "-c", f"import {dotted}", cwd=source).returncode:
            good.add(file)
    return good


def _findings(folder: Path) -> list[dict[str, object]]:
    done = _run(sys.executable, "-m", "stormproof.cli", "lint", "--json", str(folder))
    found: list[dict[str, object]] = json.loads(done.stdout)["findings"]
    return found


def examine(package: Package, scratch: Path) -> bool:
    """Print what lint finds, and how imports and tests fare before and after; return whether none is lost."""
    (scratch / "source").mkdir()
    source = fetch(package.requirement, scratch / "source")
    python = _environment(package, source, scratch / "env")
    before = _passing(python, package, source, scratch / "before.xml")
    for finding in _findings(source / package.folder):
        place = Path(str(finding["path"])).relative_to(source)
        print(f"  {finding['code']} {place}:{finding['line']} {finding['message']}")
    texts = {file: file.read_bytes() for file in source.rglob("*.py")}
    users = [
        f for f, text in texts.items() if b"tenacity" in text and f.is_relative_to(source / package.folder)
    ]
    imported = _importable(python, source, users)
    fixed = _run(sys.executable, "-m", "stormproof.cli", "lint", "--fix", str(source))
    changed = [file for file, text in texts.items() if file.read_bytes() != text]
    lost_imports = imported - _importable(python, source, users)
    after = _passing(python, package, source, scratch / "after.xml")
    print(
        f"{source.name}: {len(changed)} files rewritten (exit {fixed.returncode}), "
        f"{len(imported)} of {len(users)} modules import before, "
        f"{len(imported) - len(lost_imports)} of them after; "
        f"{len(before)} tests pass before, {len(after & before)} of them after",
        flush=True,
    )
    for lost in sorted(map(str, (before - after) | lost_imports)):
        print(f"  LOST: {lost}")
    return bool(changed) and not lost_imports and not before - after


def main(arguments: list[str]) -> int:
    """Examine the packages named, or all of them; exit with 1 if one lost a test or an import."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.compat_suites.packages", description=__doc__
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PACKAGES)}; all if none")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in PACKAGES]
    if unknown:
        parser.error(f"no package called {', '.join(unknown)}")
    good = True
    for name in given.names or PACKAGES:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                good &= examine(PACKAGES[name], Path(scratch))
            except (NoSuite, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}", flush=True)
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
