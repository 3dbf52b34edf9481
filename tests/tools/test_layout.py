"""The repository's own floor plan: allowed imports outside src/, and one name per test file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the absolute module name of every import in ``path``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def breaches(folder: str, forbidden: tuple[str, ...], allowed: tuple[str, ...] = ()) -> list[str]:
    """Return where files below ``folder`` import one of ``forbidden``, unless it is ``allowed``."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files, folder
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files
        for line, name in imports_of(path)
        if any(is_within(name, package) for package in forbidden)
        and not any(is_within(name, package) for package in allowed)
    ]


def test_only_tests_of_the_tools_import_the_tools() -> None:
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    assert {"tools", "unit", "support"} <= set(folders)
    for folder in set(folders) - {"tools"}:
        assert breaches(f"tests/{folder}", ("verification", "tools")) == []


def test_verification_imports_of_tests_only_their_support() -> None:
    assert breaches("verification", ("tests", "tools"), allowed=("tests.support",)) == []


def test_rooms_of_verification_do_not_import_each_other() -> None:
    rooms = sorted(path.name for path in (ROOT / "verification").iterdir() if (path / "__init__.py").exists())
    assert len(rooms) > 1
    for room in rooms:
        others = tuple(f"verification.{other}" for other in rooms if other != room)
        assert breaches(f"verification/{room}", others) == []


def test_support_imports_no_test() -> None:
    assert breaches("tests/support", ("tests",), allowed=("tests.support",)) == []


def test_names_of_test_files_are_unique() -> None:
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 100
    assert [name for name, times in names.items() if times > 1] == []


def test_import_of_the_tools_is_listed_as_a_breach() -> None:
    here = Path(__file__).parent.relative_to(ROOT).as_posix()
    assert any("test_bench" in breach for breach in breaches(here, ("verification",)))


#: Doors for several libraries or servers offer each of them a class of the same name.
NAMES_OF_SEVERAL_DOORS = {
    "AsyncTransport",
    "DeadlineMiddleware",
    "RedisStore",
    "RefusalMiddleware",
    "SheddingMiddleware",
    "StoreUnavailable",
    "Transport",
}


def test_class_names_mean_one_thing_but_for_protocols_and_doors() -> None:
    source = ROOT / "src" / "stormproof"
    names = Counter(
        node.name
        for path in source.rglob("*.py")
        if not path.is_relative_to(source / "compat")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not any("Protocol" in ast.unparse(base) for base in node.bases)
    )
    assert len(names) > 400
    assert {name for name, times in names.items() if times > 1} == NAMES_OF_SEVERAL_DOORS
