"""Which module may import what: deciding is pure, and `import stormproof` is cheap.

Three rules, each checked on the source tree, and each checker checked on a tree that breaks it:

* rule and strategy modules never import what would tie them to a clock, a thread, a loop or a draw;
* core modules do not import heavy standard modules at their top level;
* no module has a name that says nothing.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "stormproof"

IMPURE = {"time", "random", "threading", "asyncio", "logging", "redis"}

#: The drivers, and what sits beside the core: integrations, sinks, stores, tools.
MAY_BE_IMPURE = {
    "_drive",
    "aiohttp.py",
    "celery.py",
    "cli",
    "compat",
    "dramatiq.py",
    "grpc",
    "httpx.py",
    "httpx2.py",
    "lab",
    "logging.py",
    "otel.py",
    "prometheus.py",
    "pytest_plugin.py",
    "redis.py",
    "requests.py",
    "store",
    "testing.py",
    "urllib3.py",
}

#: Standard modules that cost more than a millisecond, or pull in others that do.
DEFERRED = {
    "ast",
    "asyncio",
    "concurrent",
    "dataclasses",
    "datetime",
    "decimal",
    "email",
    "enum",
    "fractions",
    "http",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "multiprocessing",
    "pathlib",
    "pickle",
    "random",
    "re",
    "selectors",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "subprocess",
    "tempfile",
    "traceback",
    "typing",
    "unittest",
    "urllib",
    "uuid",
}

#: Core modules that nothing loads until they are needed. The fresh interpreter below holds them to it.
ON_DEMAND = {"asgi", "events.py", "idempotency", "lint", "wsgi.py"}

SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "base", "misc"}


def modules(package: Path) -> Iterator[Path]:
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package)


def parsed(package: Path, module: Path) -> ast.Module:
    return ast.parse((package / module).read_text(encoding="utf-8"), filename=str(module))


def imported(node: ast.AST) -> list[str]:
    """The absolute names that one node imports; relative imports stay inside the package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        # `from importlib import metadata` imports importlib.metadata, which is what the list names.
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        if name in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def listed(name: str, among: set[str]) -> str | None:
    """The entry of ``among`` that ``name`` is, or is inside of."""
    return next((entry for entry in among if name == entry or name.startswith(entry + ".")), None)


def is_type_checking(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def executed(tree: ast.AST, *, functions: bool) -> Iterator[ast.AST]:
    """Every node that runs, leaving out `if TYPE_CHECKING:` and, on request, function bodies."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other
                yield from executed(other, functions=functions)
            continue
        if not functions and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from executed(child, functions=functions)


def breaches(package: Path, among: set[str], *, functions: bool, free: Iterable[str] = ()) -> list[str]:
    """Where modules import one of ``among``, except under the top-level names of ``free``."""
    found: set[tuple[str, int, str]] = set()
    for module in modules(package):
        if module.parts[0] in MAY_BE_IMPURE or module.parts[0] in free:
            continue
        for node in executed(parsed(package, module), functions=functions):
            for name in imported(node):
                entry = listed(name, among)
                if entry is not None:
                    found.add((module.as_posix(), getattr(node, "lineno", 0), entry))
    return [f"{module}:{line} imports {name}" for module, line, name in sorted(found)]


def nameless(package: Path) -> list[str]:
    return [
        module.as_posix()
        for module in modules(package)
        if SAYS_NOTHING & {part.removesuffix(".py").strip("_") for part in module.parts}
    ]


def test_rules_and_strategies_are_pure() -> None:
    assert breaches(PACKAGE, IMPURE, functions=True) == [], "only stormproof/_drive may"


def test_core_modules_defer_heavy_imports() -> None:
    found = breaches(PACKAGE, DEFERRED, functions=False, free=ON_DEMAND)
    assert found == [], "import it in the function that needs it"


def test_module_names_say_something() -> None:
    assert nameless(PACKAGE) == []


# The checkers themselves.


def write(package: Path, **files: str) -> Path:
    for name, text in files.items():
        path = package / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import time as _time",
        "from time import monotonic",
        "import asyncio.events",
        "def f():\n    import time",
        "class C:\n    def f(self):\n        from time import sleep",
        "try:\n    import redis\nexcept ImportError:\n    pass",
        "import importlib\nm = importlib.import_module('redis.asyncio')",
        "m = __import__('random')",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import time",
    ],
)
def test_the_purity_checker_sees(tmp_path: Path, text: str) -> None:
    write(tmp_path, retry=text)
    assert len(breaches(tmp_path, IMPURE, functions=True)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from . import logging",
        "from .logging import sink",
        "import timeit",
        "if TYPE_CHECKING:\n    import asyncio",
        "import typing\nif typing.TYPE_CHECKING:\n    import asyncio",
        "time = 'time'",
    ],
)
def test_the_purity_checker_lets_pass(tmp_path: Path, text: str) -> None:
    write(tmp_path, retry=text, _drive__sync="import time")
    assert breaches(tmp_path, IMPURE, functions=True) == []


def test_the_deferral_checker(tmp_path: Path) -> None:
    write(
        tmp_path,
        good="import math\ndef f():\n    import re",
        bad="class C:\n    import re",
        worse="if True:\n    from importlib import metadata",
    )
    found = breaches(tmp_path, DEFERRED, functions=False)
    assert found == ["bad.py:2 imports re", "worse.py:2 imports importlib.metadata"]


def test_the_name_checker(tmp_path: Path) -> None:
    write(tmp_path, retry="", _utils="", lab__common="", base__x="", database="")
    assert nameless(tmp_path) == ["_utils.py", "base/x.py", "lab/common.py"]


# What a fresh interpreter really loads.

LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import stormproof
after = set(sys.modules) - before
import json
print(json.dumps(sorted(after)))
"""


def loaded(*flags: str) -> list[str]:
    """What `import stormproof` adds to the modules of a fresh, isolated interpreter."""
    command = [sys.executable, "-I", *flags, "-c", LOADED, str(PACKAGE.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout)
    assert "stormproof" in names
    return names


def test_importing_stormproof_loads_nothing_heavy() -> None:
    # Without site, nothing that an environment loads at start-up can hide what we load.
    on_demand = {f"stormproof.{name.removesuffix('.py')}" for name in ON_DEMAND}
    assert [name for name in loaded("-S") if listed(name, DEFERRED | on_demand)] == []


def test_importing_stormproof_loads_no_third_party_module() -> None:
    tops = {name.partition(".")[0] for name in loaded()}
    assert tops - set(sys.stdlib_module_names) == {"stormproof"}
