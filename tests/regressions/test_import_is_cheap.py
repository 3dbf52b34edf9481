"""tenacity#450: importing the library imports asyncio, and command-line tools feel it.

Stormproof: ``import stormproof`` loads no heavy standard module, and using sync policies loads none either.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stormproof

HEAVY = {
    "asyncio", "concurrent.futures", "dataclasses", "datetime", "email", "http", "inspect", "json", "logging",
    "multiprocessing", "random", "re", "selectors", "socket", "ssl", "subprocess", "trio", "typing", "urllib",
}  # fmt: skip

CODE = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
{what}
after = set(sys.modules) - before
import json
print(json.dumps(sorted(after)))
"""


def loaded(what):
    source = str(Path(stormproof.__file__).parents[1])
    command = [sys.executable, "-S", "-c", CODE.format(what=what), source]
    done = subprocess.run(command, check=True, timeout=20, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_import_alone_loads_no_heavy_module():
    modules = loaded("import stormproof")
    assert not modules & HEAVY
    assert len([name for name in modules if name.startswith("stormproof")]) <= 3


@pytest.mark.parametrize(
    "what",
    [
        "from stormproof import *",
        "import stormproof as sp; sp.retry(on=OSError, attempts=3).call(int)",
        "import stormproof as sp; sp.retry(on=OSError)(lambda a, *b, c=1, **d: None)(1)",
        "import stormproof as sp; sp.Limiter(5, 5).allow(); sp.Budget().withdraw()",
        "import stormproof as sp\nwith sp.deadline(5): sp.retry(on=OSError).call(int)",
    ],
)
def test_use_loads_no_heavy_module(what):
    # `from stormproof import *` takes every public name, the modules for logging and testing among them.
    allowed = HEAVY if "*;" in what or what.endswith("*") else set()
    assert not (loaded(what) & HEAVY) - allowed


def test_failure_needs_randomness_and_no_more():
    what = (
        "import stormproof as sp\n"
        "try: sp.retry(on=OSError, backoff=sp.Constant(0)).call(open, '/nonexistent')\n"
        "except OSError: pass"
    )
    assert loaded(what) & HEAVY <= {"random"}
