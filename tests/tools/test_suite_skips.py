"""The suite's own rule about skips."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.small_suite import SmallSuite

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
IMPORT = "import absent_library.part\n"
LATE_IMPORT = "def test_late_import(): import lately_absent_library\n"
OWN_IMPORT = "import stormproof.absent\n"


def test_developers_machine_lists_its_skips(tmp_path: Path) -> None:
    imports = {"imports": IMPORT, "late_imports": LATE_IMPORT}
    suite = SmallSuite(tmp_path, suite=SUITE, marked=MARKED, fixture=FIXTURE, module=MODULE, **imports)
    # An empty PATH hides whatever services this machine has.
    code, out = suite.run(CI="", PATH=str(tmp_path))
    assert code == 0, out
    section = out.partition("skipped on this machine")[2]
    assert "redis: none of redis-server, valkey-server on PATH" in section
    assert "browser: none of chromium" in section
    assert "could not import 'no_such_library'" in section
    assert "library not installed: absent_library\n" in section
    assert "library not installed: lately_absent_library\n" in section
    assert "needs 3.99" in section


def test_ci_accepts_only_skips_that_run_elsewhere(tmp_path: Path) -> None:
    code, out = SmallSuite(tmp_path, suite=SUITE).run(CI="true", PATH=str(tmp_path))
    assert code == 0, out
    assert "1 passed, 1 skipped, 1 xfailed" in out


def test_missing_module_of_ours_is_a_failure(tmp_path: Path) -> None:
    code, out = SmallSuite(tmp_path, suite=SUITE, own=OWN_IMPORT).run(CI="")
    assert code != 0 and "No module named 'stormproof.absent'" in out


OTHER = {"marker": MARKED, "fixture": FIXTURE, "module": MODULE, "import": IMPORT, "late import": LATE_IMPORT}


@pytest.mark.parametrize(
    "kind", ["marker", *(pytest.param(kind, marks=pytest.mark.long) for kind in OTHER if kind != "marker")]
)
def test_ci_fails_on_any_other_skip(tmp_path: Path, kind: str) -> None:
    code, out = SmallSuite(tmp_path, suite=SUITE, other=OTHER[kind]).run(CI="true", PATH=str(tmp_path))
    assert code != 0, out
    assert "skipped, which CI=true does not allow" in out
