"""Pytest fixtures: ``stormproof_instant`` (waits take no time), ``stormproof_fresh`` (no state leaks)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import FakeClock


@pytest.fixture
def stormproof_instant() -> Iterator[FakeClock]:
    """Make every Stormproof wait instant; return the clock whose ``sleeps`` lists them."""
    from .testing import instant

    with instant() as clock:
        yield clock


@pytest.fixture
def stormproof_fresh() -> Iterator[None]:
    """Give every budget, breaker and limiter fresh state, before the test and after it."""
    from .testing import reset

    reset()
    yield
    reset()
