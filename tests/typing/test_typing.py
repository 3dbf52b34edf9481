"""Users' code under mypy --strict and pyright in strict mode.

Each ``sample_*.py`` is what a user might write. Both checkers must report an error on exactly the
lines marked ``# expect-error``: ``assert_type`` shows what must hold, the marks what must be refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stormproof

pytestmark = pytest.mark.long

SOURCE = Path(stormproof.__file__).parents[1]
SAMPLES = sorted(Path(__file__).parent.glob("sample_*.py"))

#: file name -> line -> what was said about it
Errors = dict[str, dict[int, str]]


def run_mypy(folder: Path) -> Errors:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache"]
    command += ["--no-error-summary", "--no-pretty", "--hide-error-context", "--no-color-output"]
    # A sample's errors are wanted, the package's own are `make check`'s business.
    command += ["--follow-imports=silent", "."]
    env = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors: Errors = defaultdict(dict)
    for line in done.stdout.splitlines():
        match = re.match(r"(.*\.py):(\d+): error: (.*)", line)
        if match is not None:
            errors[Path(match[1]).name][int(match[2])] = match[3]
    return errors


def run_pyright(folder: Path) -> Errors:
    (folder / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "extraPaths": [str(SOURCE)],
                "pythonVersion": f"{sys.version_info[0]}.{sys.version_info[1]}",
                "typeCheckingMode": "strict",
                "reportUnusedExpression": False,
                "reportUnusedCoroutine": False,
                "reportUnusedVariable": False,
            }
        )
    )
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    errors: Errors = defaultdict(dict)
    for found in report["generalDiagnostics"]:
        if found["severity"] == "error":
            line = found["range"]["start"]["line"] + 1
            errors[Path(found["file"]).name][line] = found["message"]
    return errors


CHECKERS: dict[str, Callable[[Path], Errors]] = {"mypy": run_mypy, "pyright": run_pyright}


def disagreement(path: Path, errors: dict[int, str]) -> list[str]:
    """Return the differences between the checker and the marks, as lines for a human."""
    lines = path.read_text(encoding="utf-8").splitlines()
    expected = {number for number, text in enumerate(lines, 1) if text.endswith("# expect-error")}
    differences = [f"{path.name}:{number}: {errors[number]}" for number in sorted(errors.keys() - expected)]
    differences += [
        f"{path.name}:{number}: accepted, but must be refused: {lines[number - 1].strip()}"
        for number in sorted(expected - errors.keys())
    ]
    return differences


@pytest.fixture(scope="module", params=CHECKERS)
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    # A copy elsewhere, so that no configuration of this repository reaches the samples.
    folder = tmp_path_factory.mktemp(request.param)
    for path in SAMPLES:
        shutil.copy(path, folder)
    return CHECKERS[request.param](folder)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_accepted_and_refused_as_marked(path: Path, checked: Errors) -> None:
    found = disagreement(path, checked[path.name])
    assert not found, "\n" + "\n".join(found)


# The marks themselves: a checker that sees nothing, or everything, must not pass.

CONTROL = """\
from typing import assert_type

number: int = "1"  # expect-error
text: str = "1"  # expect-error
assert_type(text, int)
"""


@pytest.mark.parametrize("checker", CHECKERS)
def test_both_kinds_of_disagreement_are_reported(checker: str, tmp_path: Path) -> None:
    sample = tmp_path / "sample_control.py"
    sample.write_text(CONTROL)
    found = disagreement(sample, CHECKERS[checker](tmp_path)[sample.name])
    assert len(found) == 2
    assert found[0].startswith("sample_control.py:5: ")
    assert found[1] == 'sample_control.py:4: accepted, but must be refused: text: str = "1"  # expect-error'
