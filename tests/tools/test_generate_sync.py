"""`tools/generate-sync`: the sync loop is the async one, without async and await."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool() -> ModuleType:
    path = str(ROOT / "tools" / "generate-sync")
    loader = importlib.machinery.SourceFileLoader("generate_sync", path)
    spec = importlib.util.spec_from_loader("generate_sync", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_committed_sync_files_match_the_tool_output(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_twins_neither_await_nor_import_the_async_half(tool: ModuleType) -> None:
    for made in tool.TWINS.values():
        tree = ast.parse((tool.SOURCE / made).read_text(encoding="utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, (ast.AsyncFunctionDef, ast.Await))]
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in imported if name and "aio" in name]


def test_check_names_a_twin_that_was_edited_and_leaves_it(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "aio_x.py").write_text("async def f(g):\n    async with g:\n        return await g()\n")
    (tmp_path / "sync_x.py").write_text("edited\n")
    tool.SOURCE, tool.TWINS = tmp_path, {"aio_x.py": "sync_x.py"}
    assert tool.main(["--check"]) == 1
    assert "sync_x.py" in capsys.readouterr().err
    assert (tmp_path / "sync_x.py").read_text() == "edited\n"
    assert tool.main([]) == 0
    assert (tmp_path / "sync_x.py").read_text().splitlines()[1:] == [
        "def f(g):",
        "    with g:",
        "        return g()",
    ]
    assert tool.main(["--check"]) == 0
