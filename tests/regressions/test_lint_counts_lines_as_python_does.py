"""A form feed, as old sources have them between sections, ends no line: what is ignored stays ignored."""

from __future__ import annotations

import pytest

from stormproof.lint import check

SOURCE = "from tenacity import retry\n{}\n@retry{}\ndef f():\n    pass\n"


@pytest.mark.parametrize("between", ["\x0c", 's = "\x0c"', 's = "\u2028\x85"', "\x0c# ä", "s = '\x1c'"])
def test_comment_counts_for_its_own_line(between: str) -> None:
    assert {finding.place.line for finding in check(SOURCE.format(between, ""), "a.py")} == {3}
    assert check(SOURCE.format(between, "  # stormproof: ignore"), "a.py") == []


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends_keep_ignore_comments(end: str) -> None:
    text = SOURCE.format("x = 'ä'", "  # stormproof: ignore").replace("\n", end)
    assert check(text, "a.py") == []
    assert check(SOURCE.format("x = 'ä'", "").replace("\n", end), "a.py")


def test_text_with_a_lone_surrogate_is_a_finding() -> None:
    (finding,) = check("import stormproof\nx = '\udcff'\n", "a.py")
    assert finding.code == "SP000" and finding.place.line == 1
