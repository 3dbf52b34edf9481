"""The recorded sessions of docs/command-line.md and the page of lint's rules are what the commands say now.

``.venv/bin/python tools/record-sessions`` rewrites both.
"""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("typer")
pytest.importorskip("numpy")

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="other platform: the sessions are run by sh")


def loaded() -> ModuleType:
    loader = SourceFileLoader("record_sessions", str(ROOT / "tools" / "record-sessions"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


script = loaded()


@pytest.mark.long
def test_recorded_sessions_match_the_commands() -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    now = script.recorded(page, every=False)
    assert script.quiet(now) == script.quiet(page), "run tools/record-sessions"


def test_rules_page_is_current() -> None:
    assert script.RULES.read_text(encoding="utf-8") == script.rules_page(), "run tools/record-sessions"


def test_every_command_has_a_session() -> None:
    from stormproof.cli._options import COMMANDS

    page = script.PAGE.read_text(encoding="utf-8")
    sessions = [block["what"] for block in script.BLOCK.finditer(page) if block["kind"] != "file"]
    for name in COMMANDS:
        assert any(f"stormproof {name}" in session for session in sessions), f"{name} has no session"


# The recorder itself.

SMALL = """\
<!-- file: in/x.txt -->
```
hello
```

<!-- session: cat in/x.txt; exit 3 -->
```console
old
```

<!-- session, not checked: echo new -->
```console
old
```
"""


def test_recording_a_page_replaces_the_output_of_its_commands() -> None:
    now = script.recorded(SMALL)
    assert "$ cat in/x.txt; exit 3\nhello\n$ echo $?\n3\n```" in now
    assert "$ echo new\nnew\n```" in now and "old" not in now
    assert script.recorded(now) == now
    assert "$ echo new" not in script.recorded(SMALL, every=False)


def test_session_check_ignores_only_noise() -> None:
    assert script.quiet("ended with exit code 3 after 0.12 s; again in 20 ms") == (
        "ended with exit code 3 after 0.00 s; again in 20 ms"
    )
    assert script.quiet("exit code 3") != script.quiet("exit code 4")
