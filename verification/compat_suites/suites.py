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
    #: What its tests import that we do not: installed into a scratch folder.
    needs: tuple[str, ...] = ()
    #: Files that are not run, and why.
    left_out: dict[str, str] = field(default_factory=dict)


_ALL = (
    Suite("tenacity", "tenacity==9.2.*", 175, {"tenacity": "stormproof.compat.tenacity"}),
    Suite(
        "stamina",
        "stamina==26.1.*",
        372,
        {"stamina": "stormproof.compat.stamina", "tenacity": "stormproof.compat.tenacity"},
        needs=("dirty-equals",),
    ),
    Suite(
        "python-backoff",
        "python-backoff==3.0.*",
        130,
        {"backoff": "stormproof.compat.backoff"},
        misses={
            f"::{test}": "scripts time.monotonic; ours reads the time before each try, as backoff 2.2.1"
            for test in ("test_on_predicate_max_time", "test_on_predicate_max_time_callable", "test_max_time")
        },
        needs=("dirty-equals", "pytest-asyncio"),
        left_out={
            "tests/test_integration.py": "needs a mock HTTP server library",
            "tests/test_package.py": "about the distribution's own metadata",
        },
    ),
)
SUITES = {suite.name: suite for suite in _ALL}
