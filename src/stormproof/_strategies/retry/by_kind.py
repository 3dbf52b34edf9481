"""A backoff for each kind of failure: a throttled call and a lost connection need not wait alike."""

from __future__ import annotations

from ..._classify.known_faults import NETWORK_REASONS
from .backoff import Backoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..._classify.verdict import Verdict

    Array = Any


class ByKind(Backoff):
    """Waits as the backoff of the failure's kind says; as ``default`` does where none was given for it.

    ``throttle`` is a 429 and its like, ``timeout`` an attempt that took too long, ``network`` a connection
    lost, refused or not resolved, ``server`` any other failure that the other side reported (a 503, a
    deadlock). The kinds are those that `transient` sees, also where ``on`` names types, or that of the
    `Verdict` with which ``on`` answers. The retry number and the previous wait are the call's, whatever
    kinds its failures were.
    """

    def __init__(
        self,
        default: Backoff,
        *,
        throttle: Backoff | None = None,
        timeout: Backoff | None = None,
        network: Backoff | None = None,
        server: Backoff | None = None,
    ) -> None:
        kinds = {"throttle": throttle, "timeout": timeout, "network": network, "server": server}
        for field, backoff in {"default": default, **kinds}.items():
            if not isinstance(backoff, Backoff) and not (backoff is None and field != "default"):
                rule = "a schedule such as Exponential()"
                raise TypeError(f"ByKind: {field} must be {rule}, got {backoff!r}")
        self.default = default
        self.throttle = throttle
        self.timeout = timeout
        self.network = network
        self.server = server

    def _all(self) -> list[Backoff]:
        return [backoff for backoff in self.fields().values() if backoff is not None]

    def of(self, verdict: Verdict) -> Backoff:
        """Return the backoff for the kind of ``verdict``."""
        if verdict.kind == "throttle":
            chosen = self.throttle
        elif verdict.kind == "timeout":
            chosen = self.timeout
        elif verdict.reason in NETWORK_REASONS:
            chosen = self.network
        else:
            chosen = self.server if verdict.reason else None
        return self.default if chosen is None else chosen

    def plan(
        self, n: int, prev: float | None, verdict: Verdict, draw: Callable[[], float]
    ) -> tuple[float, float | None, int]:
        return self.of(verdict).plan(n, prev, verdict, draw)

    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """The wait of ``default``."""
        return self.default.delay(n, prev, u)

    def ceiling(self, n: int | Array) -> float:
        """The longest ceiling of all kinds."""
        ceilings = [backoff.ceiling(n) for backoff in self._all()]
        longest = ceilings[0]
        for ceiling in ceilings[1:]:
            # Scalars, and NumPy arrays element by element.
            longest = longest + (ceiling - longest) * (ceiling > longest)
        return longest

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """The shortest and the longest possible wait of all kinds."""
        bounds = [backoff.bounds(n, prev) for backoff in self._all()]
        return min(low for low, _ in bounds), max(high for _, high in bounds)
