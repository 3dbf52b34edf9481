"""Every file that docs/a-call.md names exists, and defines the names that a step points to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "stormproof"
STEP = re.compile(r"^\d+\. \*\*(?P<head>.*?)\*\*", re.MULTILINE)


def defined(path: Path) -> set[str]:
    """Return the names that a module defines, methods as ``Class.method``."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{node.name}.")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.If):
                visit([*node.body, *node.orelse], prefix)

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def test_every_file_that_the_walk_names_exists() -> None:
    text = (ROOT / "docs" / "a-call.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w/]+/[\w.]+\.(?:py|lua))`", text))
    assert len(paths) > 30
    assert sorted(path for path in paths if not (PACKAGE / path).is_file()) == []


def test_every_step_of_the_walk_names_definitions_of_its_file() -> None:
    text = (ROOT / "docs" / "a-call.md").read_text(encoding="utf-8")
    heads = [re.findall(r"`([^`]+)`", step["head"]) for step in STEP.finditer(text)]
    missing = [
        f"{path}: {name}"
        for path, *names in filter(None, heads)
        for name in names
        if name not in defined(PACKAGE / path)
    ]
    assert len(heads) > 50
    assert missing == []
