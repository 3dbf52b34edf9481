"""`from stormproof import lab`: "No module named 'numpy'", and nothing about `stormproof[lab]`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(("module", "library"), [("lab", "numpy"), ("redis", "redis"), ("grpc", "grpc")])
def test_error_names_the_extra(module: str, library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; from stormproof import {module}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith(f"needs it: pip install 'stormproof[{module}]'\n"), done.stderr
    assert module in PROJECT["optional-dependencies"]
