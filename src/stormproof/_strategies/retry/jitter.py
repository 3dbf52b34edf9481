"""Jitter: from a uniform draw ``u`` and a ceiling to a wait. The formulas stand in `backoff`."""

from __future__ import annotations

from operator import mul

from ..._primitives.options import Options, number, seconds, sync_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeAlias

Jitter: TypeAlias = "Literal['none', 'full', 'equal'] | Symmetric | Callable[[float, float], Any]"


class Symmetric(Options):
    """Jitter of +- ``r`` around the ceiling: ``ceiling * (1 - r + 2 * r * u)``, mean = ceiling.

    0 <= r <= 1. ``r=0`` means no jitter; ``r=1`` reaches from 0 to twice the ceiling. The longest
    wait is (1 + r) * cap: the cap holds before the jitter, not after it.
    """

    def __init__(self, r: float = 0.5) -> None:
        self.r = number("Symmetric", "r", r, least=0.0, most=1.0)

    def __call__(self, u: Any, ceiling: Any) -> Any:
        return ceiling * (1 - self.r + 2 * self.r * u)


def _none(u: Any, ceiling: Any) -> Any:
    return ceiling


def _equal(u: Any, ceiling: Any) -> Any:
    return ceiling / 2 * (1 + u)


_JITTERS = {"none": _none, "full": mul, "equal": _equal}


def _checked(owner: str, jitter: Callable[[float, float], Any]) -> Callable[[float, float], float]:
    """A caller's own jitter, whose every answer is held to be a finite number >= 0."""

    def spread(u: float, ceiling: float) -> float:
        wait = jitter(u, ceiling)
        try:
            return seconds(owner, "jitter", wait)
        except (TypeError, ValueError):
            raise ValueError(
                f"{owner}: jitter must return a finite number of seconds >= 0, "
                f"got {wait!r} for u={u!r}, ceiling={ceiling!r}"
            ) from None

    return spread


def spread_for(owner: str, jitter: Jitter) -> Callable[[Any, Any], Any]:
    if isinstance(jitter, str) and jitter in _JITTERS:
        return _JITTERS[jitter]
    if type(jitter) is Symmetric:
        return jitter.__call__
    # A class is callable too, but `jitter=Symmetric` is a forgotten pair of brackets.
    if callable(jitter) and not isinstance(jitter, type):
        return _checked(owner, sync_hook(owner, "jitter", jitter))
    kind = ValueError if isinstance(jitter, str) else TypeError
    hint = "; that is a schedule of its own: Decorrelated(base, cap)" if str(jitter) == "decorrelated" else ""
    raise kind(
        f"{owner}: jitter must be 'none', 'full', 'equal', a Symmetric(r) "
        f"or a callable (u, ceiling) -> wait, got {jitter!r}{hint}"
    )
