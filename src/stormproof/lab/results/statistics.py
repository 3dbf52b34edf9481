"""Confidence intervals of 95 % for a share and for a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

_Z = 1.959963984540054


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share of ``hits`` in ``total``; (0, 1) of nothing."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = hits / total, _Z * _Z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    reach = _Z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    low = 0.0 if hits == 0 else max(0.0, middle - reach)
    return low, 1.0 if hits == total else min(1.0, middle + reach)


def mean_of(values: Sequence[float | None]) -> tuple[float, float, float] | None:
    """(mean, low, high) of the values there are: the interval of 95 % by the normal law. None of none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return mean, mean, mean
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))
    reach = _Z * spread / math.sqrt(len(known))
    return mean, mean - reach, mean + reach
