"""Distributions of durations."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..._primitives.options import Options, choice, number, seconds

if TYPE_CHECKING:
    from ..._primitives.options import Seconds

_KINDS = ("fixed", "exponential", "lognormal", "samples", "histogram")

#: The 99th percentile of the normal distribution.
_Z99 = 2.3263478740408408


class Spread(Options):
    """Distribution of a duration: ``"fixed"``, ``"exponential"``, ``"lognormal"`` with ``sigma``,
    ``"samples"`` (one of ``values``, evenly drawn) or ``"histogram"`` (``values`` are the edges of buckets,
    ``weights`` the share in each; even within a bucket).

    ``mean`` in seconds; None for service times, whose mean the capacity sets, and for samples and
    histograms, which have their own. What is drawn is scaled to the mean. `of`, `from_samples` and
    `from_histogram` make one from what you have measured.
    """

    def __init__(
        self,
        kind: str = "fixed",
        mean: Seconds | None = None,
        sigma: float = 1.0,
        values: Sequence[Seconds] = (),
        weights: Sequence[float] = (),
    ) -> None:
        self.kind = choice("Spread", "kind", kind, _KINDS)
        self.mean = None if mean is None else seconds("Spread", "mean", mean)
        self.sigma = number("Spread", "sigma", sigma, above=0, most=10)
        self.values: tuple[float, ...] = tuple(seconds("Spread", "values", value) for value in values)
        self.weights: tuple[float, ...] = tuple(
            number("Spread", "weights", weight, least=0) for weight in weights
        )
        self._check()

    def _check(self) -> None:
        if self.kind == "samples" and not any(self.values):
            raise ValueError(f"Spread: values must hold a sample above 0, got {self.values!r}")
        if self.kind == "histogram":
            rising = all(a < b for a, b in zip(self.values, self.values[1:], strict=False))
            if len(self.values) != len(self.weights) + 1 or len(self.values) < 2 or not rising:
                raise ValueError(
                    "Spread: values must be rising edges, one more than there are weights, "
                    f"got {len(self.values)} edges and {len(self.weights)} weights"
                )
            if not any(self.weights):
                raise ValueError(f"Spread: weights must hold one above 0, got {self.weights!r}")

    @classmethod
    def of(cls, *, p50: Seconds, p99: Seconds) -> Spread:
        """Return the lognormal spread with this median and this 99th percentile."""
        low = seconds("Spread", "p50", p50, above=0)
        high = seconds("Spread", "p99", p99, above=0)
        if high < low:
            raise ValueError(f"Spread: p99 must be at least p50, got {p99!r} and {p50!r}")
        if high == low:
            return cls("fixed", low)
        sigma = math.log(high / low) / _Z99
        return cls("lognormal", low * math.exp(sigma**2 / 2), sigma)

    @classmethod
    def from_samples(cls, samples: Sequence[Seconds]) -> Spread:
        """Return the spread of measured durations: each is as likely as it was measured."""
        values = sorted(seconds("Spread", "samples", value) for value in samples)
        if not values:
            raise ValueError("Spread: samples must hold at least one duration, got none")
        return cls("samples", math.fsum(values) / len(values), values=values)

    @classmethod
    def from_histogram(cls, edges: Sequence[Seconds], counts: Sequence[float]) -> Spread:
        """Return the spread of a histogram: ``counts[i]`` durations from ``edges[i]`` to ``edges[i + 1]``."""
        histogram = cls("histogram", values=edges, weights=counts)
        return cls("histogram", histogram.own_mean, values=histogram.values, weights=histogram.weights)

    @property
    def own_mean(self) -> float:
        """The mean of the samples or of the histogram; 1 for the kinds that have none of their own."""
        if self.kind == "samples":
            return math.fsum(self.values) / len(self.values)
        if self.kind == "histogram":
            middles = [(a + b) / 2 for a, b in zip(self.values, self.values[1:], strict=False)]
            total = math.fsum(self.weights)
            return math.fsum(m * w for m, w in zip(middles, self.weights, strict=True)) / total
        return 1.0

    @property
    def scale(self) -> float | None:
        """The mean in seconds: ``mean``, or that of the samples or the histogram; None for a mere shape."""
        if self.mean is None and self.kind in ("samples", "histogram"):
            return self.own_mean
        return self.mean

    def sampler(self, rng: Any, mean: float) -> Callable[[], float]:
        """Return a function that draws one duration with ``rng``, a `random.Random`."""
        if self.kind == "fixed" or mean == 0:
            return lambda: mean
        if self.kind == "exponential":
            return lambda: -math.log(1.0 - rng.random()) * mean
        if self.kind in ("samples", "histogram"):
            return self._measured(rng, mean / self.own_mean)
        mu, sigma, normal = math.log(mean) - self.sigma**2 / 2, self.sigma, rng.gauss
        return lambda: math.exp(normal(mu, sigma))

    def _measured(self, rng: Any, factor: float) -> Callable[[], float]:
        values, size = self.values, len(self.values)
        if self.kind == "samples":
            return lambda: values[int(rng.random() * size)] * factor
        sums = [0.0]
        for weight in self.weights:
            sums.append(sums[-1] + weight)

        def draw() -> float:
            mark = rng.random() * sums[-1]
            at = min(bisect.bisect_right(sums, mark) - 1, size - 2)
            share = (mark - sums[at]) / (sums[at + 1] - sums[at]) if sums[at + 1] > sums[at] else 0.0
            return (values[at] + (values[at + 1] - values[at]) * share) * factor

        return draw
