"""A block of the tutorial, pasted into a Python session, was a SyntaxError: a blank line was missing."""

from __future__ import annotations

import re
from code import InteractiveConsole
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python( no-run)?.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Session(InteractiveConsole):
    """Reads statements as the prompt does, and runs none of them."""

    errors: list[str]

    def runcode(self, code: object) -> None:
        pass

    def showsyntaxerror(self, *details: object, **options: object) -> None:
        self.errors.append("\n".join(self.buffer))


@pytest.mark.parametrize("page", ["docs/tutorial.md", "README.md"])
def test_every_block_is_read_by_the_prompt(page: str) -> None:
    blocks = [block for _, block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert blocks
    for block in blocks:
        session = Session()
        session.errors = []
        for line in [*block.splitlines(), ""]:
            session.push(line)
        assert session.errors == [], block
        assert session.buffer == [], block
