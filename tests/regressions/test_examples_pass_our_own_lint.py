"""Two examples had findings of ``stormproof lint``."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormproof.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_lint_finds_nothing_in_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(EXAMPLES)]) == 0, capsys.readouterr().out
