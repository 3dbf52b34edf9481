"""How durations are spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._primitives.options import Options, choice, number, seconds

if TYPE_CHECKING:
    from ..._primitives.options import Seconds


class Spread(Options):
    """How a duration is spread: ``"fixed"``, ``"exponential"`` or ``"lognormal"`` with ``sigma``.

    ``mean`` in seconds; None for service times, whose mean the capacity sets.
    """

    __slots__ = _fields = ("kind", "mean", "sigma")
    kind: str
    mean: float | None
    sigma: float

    def __init__(self, kind: str = "fixed", mean: Seconds | None = None, sigma: float = 1.0) -> None:
        self._set(
            kind=choice("Spread", "kind", kind, ("fixed", "exponential", "lognormal")),
            mean=None if mean is None else seconds("Spread", "mean", mean),
            sigma=number("Spread", "sigma", sigma, above=0, most=10),
        )

    def sampler(self, rng: Any, mean: float) -> Callable[[], float]:
        """A function that draws one duration with ``rng``, a `random.Random`."""
        if self.kind == "fixed" or mean == 0:
            return lambda: mean
        if self.kind == "exponential":
            return lambda: -math.log(1.0 - rng.random()) * mean
        mu, sigma, normal = math.log(mean) - self.sigma**2 / 2, self.sigma, rng.gauss
        return lambda: math.exp(normal(mu, sigma))
