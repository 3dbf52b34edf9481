"""What has to be proved, from points.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Chapter(NamedTuple):
    """Points of one kind: what each says, by its name. A test's mark says ``"<word> <name>"``."""

    word: str
    title: str
    about: str
    points: Mapping[str, str]


CHAPTERS = [
    Chapter(**chapter)
    for chapter in tomllib.loads(Path(__file__).with_name("points.toml").read_text("utf-8"))["chapter"]
]


def names() -> list[str]:
    """Every name that a mark may say, in the page's order."""
    return [f"{chapter.word} {name}" for chapter in CHAPTERS for name in chapter.points]
