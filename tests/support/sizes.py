"""The size of a test's loop: small in ``make test``, full in ``make test-long``."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")


def sized(full: T, small: T) -> T:
    """Return ``full`` in a long run, else ``small``; mark the test ``sized`` so that it runs in both."""
    return full if os.environ.get("STORMPROOF_TEST_LONG") else small
