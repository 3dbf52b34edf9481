"""A policy made for each call was warned of only if the one before it was gone: not with calls that overlap,
and not in a loop that assigns each to the same name."""

from __future__ import annotations

import warnings
from collections import deque

import pytest

import stormproof as sp


def dropped_policies(count: int, alive: int, retry: str = "sp.Retry()") -> list[str]:
    """Return the warnings while ``count`` policies are made at one place, of which ``alive`` are kept."""
    kept: deque[sp.Policy] = deque(maxlen=alive)
    # A place of its own for each test: code with other constants.
    place = f"for _ in range({count}): kept.append(sp.Policy({retry}))  # {alive}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(place, "place", "exec"), {"sp": sp, "kept": kept})
    return [str(w.message) for w in caught if issubclass(w.category, sp.PolicyWarning)]


@pytest.mark.parametrize(("count", "alive"), [(100, 1), (300, 5), (2000, 100)])
def test_policies_made_and_dropped_are_warned_of_once_though_some_are_alive(count: int, alive: int) -> None:
    found = dropped_policies(count, alive)
    assert len(found) == 1
    assert "policies were made here and dropped" in found[0]


def test_policies_that_are_kept_are_not_warned_of() -> None:
    assert not dropped_policies(500, 500)


def test_policies_of_a_cache_that_drops_the_oldest_are_not_warned_of() -> None:
    assert not dropped_policies(1500, 1000)


def test_policies_that_never_retry_are_not_warned_of() -> None:
    assert not dropped_policies(100, 1, "sp.Retry(attempts=1)")
