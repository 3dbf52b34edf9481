"""The suite's own rule about skips, run on a small suite in a fresh pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent.parent / "conftest.py"
SUITE = """
import pytest

def test_passes(): pass

@pytest.mark.skip(reason="other interpreter: needs 3.99")
def test_elsewhere(): pass

@pytest.mark.xfail
def test_expected(): assert False
"""
MARKED = "import pytest\n@pytest.mark.redis\ndef test_marked(): pass\n"
FIXTURE = "def test_fixture(require_service): require_service('browser')\n"
MODULE = "import pytest\npytest.importorskip('no_such_library')\n"


def run(where: Path, *, ci: str, **files: str) -> tuple[int, str]:
    (where / "conftest.py").write_text(CONFTEST.read_text())
    (where / "pytest.ini").write_text("[pytest]\nmarkers = redis\n")
    for name, text in files.items():
        (where / f"test_{name}.py").write_text(text)
    # An empty PATH hides whatever services this machine has.
    env = {
        **os.environ,
        "CI": ci,
        "PATH": str(where),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(where)]
    done = subprocess.run(command, env=env, cwd=where, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_developers_machine_lists_its_skips(tmp_path: Path) -> None:
    code, out = run(tmp_path, ci="", suite=SUITE, marked=MARKED, fixture=FIXTURE, module=MODULE)
    assert code == 0, out
    section = out.partition("skipped on this machine")[2]
    assert "redis: none of redis-server, valkey-server on PATH" in section
    assert "browser: none of chromium" in section
    assert "could not import 'no_such_library'" in section
    assert "needs 3.99" in section


def test_ci_accepts_only_skips_that_run_elsewhere(tmp_path: Path) -> None:
    code, out = run(tmp_path, ci="true", suite=SUITE)
    assert code == 0, out
    assert "1 passed, 1 skipped, 1 xfailed" in out


@pytest.mark.parametrize("text", [MARKED, FIXTURE, MODULE], ids=["marker", "fixture", "module"])
def test_ci_fails_on_any_other_skip(tmp_path: Path, text: str) -> None:
    code, out = run(tmp_path, ci="true", suite=SUITE, other=text)
    assert code != 0, out
    assert "skipped, which CI=true does not allow" in out
