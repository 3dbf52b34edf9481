"""Payment with a token that comes later. Pure: the place in line knows the time."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    class PlaceInLine(Protocol):
        """A place in the line of a limiter."""

        @property
        def delay(self) -> float: ...
        def leave(self) -> None: ...
        def pauses(self) -> Iterator[tuple[float, Any]]: ...


class DeferredPayment(float):
    """Payment for a token that arrives in ``wait`` seconds or sooner; ``turn`` is its place in line."""

    __slots__ = ("own_wait", "turn", "wait")

    wait: float
    turn: PlaceInLine
    #: The retry's own wait, in seconds.
    own_wait: float

    def __new__(cls, paid: float, turn: PlaceInLine) -> DeferredPayment:
        payment = super().__new__(cls, paid)
        payment.turn, payment.wait, payment.own_wait = turn, turn.delay, 0.0
        return payment

    def give_back(self) -> None:
        """Return the token: the retry was called off before it was made. Those behind move up."""
        self.turn.leave()
