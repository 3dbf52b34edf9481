"""`from stormproof import lab`: "No module named 'numpy'", and nothing about `stormproof[lab]`.

Later the same for `import stormproof.httpx` and `from stormproof.httpx import Transport`, in every door.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


#: Each door with an extra, and the library whose absence it meets first.
LIBRARIES = {
    **{door: door for door in ("httpx", "httpx2", "requests", "urllib3", "aiohttp", "grpc", "redis")},
    **{door: door for door in ("celery", "dramatiq", "tenacity")},
    "lab": "numpy",
    "prometheus": "prometheus_client",
    "otel": "opentelemetry",
}


@pytest.mark.parametrize("door", LIBRARIES)
@pytest.mark.parametrize("statement", ["from stormproof import {}", "from stormproof.{} import __doc__"])
def test_error_for_a_missing_library_names_the_extra(door: str, statement: str) -> None:
    program = f"import sys; sys.modules[{LIBRARIES[door]!r}] = None; {statement.format(door)}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    hint = f"; stormproof.{door} needs it: pip install 'stormproof[{door}]'\n"
    assert done.stderr.endswith(hint) and done.stderr.count(hint) == 1, done.stderr
    assert door in PROJECT["optional-dependencies"]
