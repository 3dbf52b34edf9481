"""Which suites there are, what they need, and which of their tests we do not pass, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """One library's own suite. ``least`` is the number of its tests that must pass."""

    name: str
    requirement: str
    least: int
    #: The import names that stand for the library, and the module of ours that each one becomes.
    stands_for: dict[str, str]
    #: Tests that fail, by the end of their id, and why that is right.
    misses: dict[str, str] = field(default_factory=dict)
    #: Files and folders of the source distribution that hold the tests.
    folders: tuple[str, ...] = ("tests",)


_ALL = (
    Suite("tenacity", "tenacity==9.2.*", 175, {"tenacity": "stormproof.compat.tenacity"}),
    Suite(
        "stamina",
        "stamina==26.1.*",
        372,
        {"stamina": "stormproof.compat.stamina", "tenacity": "stormproof.compat.tenacity"},
    ),
)
SUITES = {suite.name: suite for suite in _ALL}
