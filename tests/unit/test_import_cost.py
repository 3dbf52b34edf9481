"""Modules that `import stormproof` loads, and the names of modules.

`make check` asserts the allowed imports (see ``[tool.importlinter]`` in pyproject.toml);
tests/regressions/test_import_is_cheap.py holds the heavy standard modules.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stormproof

PACKAGE = Path(stormproof.__file__).parent

#: Names that say nothing about what a module holds.
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
#: Names that belong to the library a drop-in stands in for.
TAKEN_OVER = {"compat/tenacity/_utils.py"}

LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import stormproof
after = set(sys.modules) - before
import json
print(json.dumps(sorted(after)))
"""


def loaded_by_import() -> set[str]:
    """Return the modules that `import stormproof` adds to a fresh, isolated interpreter."""
    command = [sys.executable, "-I", "-c", LOADED, str(PACKAGE.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_import_loads_the_package_and_its_version_only() -> None:
    loaded = loaded_by_import()
    assert {name for name in loaded if name.startswith("stormproof")} == {"stormproof", "stormproof._version"}
    assert {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) == {"stormproof"}


@pytest.mark.parametrize(
    "room", sorted(path.name for path in PACKAGE.glob("_*/") if path.name != "__pycache__")
)
def test_importing_a_room_loads_none_of_its_modules(room: str) -> None:
    """A room's ``__init__`` files hold at most a docstring: an import of one module pays for that one."""
    for init in (PACKAGE / room).rglob("__init__.py"):
        code = compile(init.read_text(encoding="utf-8"), str(init), "exec")
        assert set(code.co_names) <= {"__doc__", "annotations"}, init


def test_module_names_are_meaningful() -> None:
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    assert modules
    meaningless = [
        module.as_posix()
        for module in modules
        if MEANINGLESS & {part.removesuffix(".py").strip("_") for part in module.parts}
    ]
    assert set(meaningless) == TAKEN_OVER
