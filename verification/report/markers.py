"""Which tests say that they prove what: read from the sources, without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Marked(NamedTuple):
    """``test`` of ``file`` (from the root on) proves ``point``; without ``test`` the whole file does."""

    point: str
    file: str
    test: str = ""


def marked(folder: Path = ROOT / "tests") -> list[Marked]:
    """Every mark in the test files below ``folder``."""
    found: list[Marked] = []
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.proves(" in text:
            found += of_file(text, path.relative_to(folder.parent).as_posix())
    return found


def of_file(text: str, file: str) -> Iterator[Marked]:
    """The marks of one file."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(name) == "pytestmark" for name in node.targets):
            yield from (Marked(point, file) for point in _points([node.value]))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (Marked(point, file, node.name) for point in _points(node.decorator_list))
        elif isinstance(node, ast.ClassDef):
            yield from (Marked(point, file, node.name) for point in _points(node.decorator_list))
            for each in node.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    name = f"{node.name}::{each.name}"
                    yield from (Marked(point, file, name) for point in _points(each.decorator_list))


def _points(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for call in (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "proves":
            yield from (ast.literal_eval(argument) for argument in call.args)
