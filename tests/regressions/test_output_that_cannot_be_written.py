"""A command whose output fails ends with at most one line on stderr, and with an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ["explain", "stormproof.toml"],
    ["explain", "stormproof.toml", "--json"],
    ["lint", "--rules"],
    ["schema"],
    ["--version"],
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stormproof.toml").write_text(
        '[policies."größe"]\nretry = { attempts = 2 }\ntimeout = 1\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)


def shell(words: list[str], then: str = "", **env: str) -> tuple[int, str, str]:
    """The command run by a shell with ``then`` behind it: its exit code, stdout and stderr."""
    line = f'"$0" -m stormproof.cli {" ".join(words)} {then}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ, **env},
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_full_disk_ends_a_command_with_one_line(words: list[str], unbuffered: str) -> None:
    code, _, said = shell(words, ">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, said) == (2, "stormproof: No space left on device\n")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_without_stdout_ends_normally(words: list[str]) -> None:
    assert shell(words, ">&-") == (0, "", "")


def test_command_without_stderr_ends_normally_and_writes_nothing_to_stdout() -> None:
    assert shell(["explain", "missing.toml"], "2>&-") == (2, "", "")
    assert shell(["nonsense"], "2>/dev/full") == (2, "", "")


def test_letters_that_the_terminal_does_not_have_are_escaped() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    code, text, said = shell(["explain", "stormproof.toml"], **plain)
    assert (code, said) == (0, "")
    assert text.startswith("gr\\xf6\\xdfe  Retry > Timeout")
    assert shell(["explain", "stormproof.toml"], PYTHONUTF8="1")[1].startswith("größe  Retry > Timeout")
