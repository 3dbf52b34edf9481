"""Exit code 1 of `explain` and `simulate` is a verdict; an unknown policy or a broken file had it too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = "import sys; sys.modules[{!r}] = None; from stormproof.cli import main; sys.exit(main({!r}))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stormproof.toml").write_text('[policies.mail]\ndeadline = "5s"\nretry = { attempts = 2 }\n')
    return tmp_path


def ended(folder: Path, words: list[str], without: str = "nothing") -> tuple[int, str]:
    command = [sys.executable, "-c", WITHOUT.format(without, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_policy_missing_in_the_file_is_refused_with_a_suggestion(folder: Path) -> None:
    code, said = ended(folder, ["explain", "stormproof.toml:male"])
    assert (code, said) == (2, "stormproof: stormproof.toml: unknown policy 'male'; did you mean 'mail'?\n")


@pytest.mark.parametrize(
    "words", [["simulate", "stormproof.toml", "--scenario", "herd"], ["lab", "--no-open"]]
)
def test_missing_library_exits_with_2_and_names_the_extra(folder: Path, words: list[str]) -> None:
    code, said = ended(folder, words, without="numpy")
    assert (code, said) == (2, f"stormproof: {words[0]}: numpy is missing: install stormproof[lab]\n")


@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_input_that_cannot_be_read_exits_with_2(folder: Path, command: str) -> None:
    (folder / "broken.toml").write_text("[policies.mail]\nretry = { atempts = 2 }\n")
    words = [command, "broken.toml", *(["--scenario", "herd"] if command == "simulate" else [])]
    code, printed = ended(folder, words)
    assert code == 2
    assert printed.startswith("stormproof: broken.toml:2: ") and printed.count("\n") == 1


def test_report_that_cannot_be_written_exits_with_2(folder: Path) -> None:
    words = [
        "simulate",
        "stormproof.toml",
        "--scenario",
        "herd",
        "--scale",
        "0.1",
        "--report",
        "no/where.html",
    ]
    code, printed = ended(folder, words)
    assert code == 2
    assert printed.startswith("stormproof: ") and printed.count("\n") == 1
