"""A small suite in a temporary folder, run in a fresh pytest under the rules of the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = ROOT / "tests" / "conftest.py"
INI = "[pytest]\nfilterwarnings = error\nmarkers =\n    redis\n    browser\n    long\n    sized\n"


class SmallSuite:
    """``files`` maps names to sources; ``run`` returns the exit code and everything printed."""

    def __init__(self, where: Path, **files: str) -> None:
        self.where = where
        (where / "conftest.py").write_text(CONFTEST.read_text())
        (where / "pytest.ini").write_text(INI)
        for name, text in files.items():
            (where / f"test_{name}.py").write_text(text)

    def run(
        self, *options: str, target: str = ".", prefix: tuple[str, ...] = ("-m", "pytest"), **env: str
    ) -> tuple[int, str]:
        """Run the suite, or the ``target`` in it."""
        command = [sys.executable, *prefix, "-p", "no:cacheprovider", *options, target]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STORMPROOF_TEST")},
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **env,
        }
        done = subprocess.run(
            command, env=environment, cwd=self.where, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr
