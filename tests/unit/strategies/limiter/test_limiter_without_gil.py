"""On a build without a GIL every token is taken under the limiter's lock."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof._strategies.limiter import limiter as module
from stormproof.testing import FakeClock


class CountingLock:
    """Stands in for a lock, and counts how often it is taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *error: object) -> None:
        """Nothing is locked."""


@pytest.mark.parametrize(("gil", "taken"), [(True, 0), (False, 4)], ids=["gil", "free-threaded"])
def test_limiter_takes_its_lock_for_each_token_without_a_gil(
    gil: bool, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_gil", lambda: gil)
    limiter = sp.Limiter(1, 3, clock=FakeClock())
    lock = CountingLock()
    monkeypatch.setattr(limiter, "_lock", lock)
    assert [limiter.allow() for _ in range(4)] == [True, True, True, False]
    assert lock.taken == taken
