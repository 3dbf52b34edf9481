"""The pytest fixture ``stormproof_instant``: every wait is free, and recorded, during the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import FakeClock


@pytest.fixture
def stormproof_instant() -> Iterator[FakeClock]:
    """Make every Stormproof wait free; gives the clock whose ``sleeps`` lists them."""
    from .testing import instant

    with instant() as clock:
        yield clock
