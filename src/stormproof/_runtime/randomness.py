"""Source of uniform draws. Each process has a generator of its own, seeded by the operating system.

It is never the ``random`` module's global one: an application that calls ``random.seed(42)`` for its
own reasons would otherwise make every instance of a fleet wait in step.
"""

from __future__ import annotations

import os
from _random import Random

from .forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class HasRandom(Protocol):
        """Such as `random.Random`."""

        def random(self) -> float: ...

    #: Values for ``rng=``: a seed, a generator, or a function that draws.
    Rng = int | HasRandom | Callable[[], float]

#: What `random.Random` extends, without the cost of importing that.
_own = Random()

#: A uniform draw in [0, 1) from this process's own generator.
draw: Callable[[], float] = _own.random


def token() -> str:
    """Return a new unique name in the form of a random UUID."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@after_fork
def _reseed() -> None:
    """Seed the generator of a forked child anew, so that it does not repeat its parent's draws."""
    _own.seed()


def source(rng: Rng | None, owner: str = "delays") -> Callable[[], float]:
    """Return the function of no arguments that draws from [0, 1), as ``rng=`` or ``seed=`` asks.

    ``None`` is this process's own generator; a whole number (0 too) seeds a new, repeatable one; an object
    with a ``random()`` method or a callable is used as it is, and a forked child goes on with a copy of it.
    """
    if rng is None:
        return draw
    if not isinstance(rng, (bool, type)):
        if hasattr(rng, "__index__") and not getattr(rng, "shape", ()):
            from operator import index
            from random import Random

            return Random(index(rng)).random  # type: ignore[arg-type]
        method = getattr(rng, "random", None)
        if callable(method):
            return method  # type: ignore[no-any-return]
        if callable(rng):
            return rng
    raise TypeError(
        f"{owner}: rng must be None, a whole number, an object with a random() method or a callable, "
        f"got {rng!r}"
    )
