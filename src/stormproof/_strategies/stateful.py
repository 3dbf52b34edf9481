"""Base of budgets, breakers and limits: options, and live state with a lock and a clock."""

from __future__ import annotations

from .._events.key_names import of_key
from .._primitives.options import Options
from .._runtime.clock import AMBIENT
from .protocol import Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, Self

    from .._runtime.clock import Ambient, Clock
    from .._runtime.randomness import Rng
    from .protocol import Store


class Stateful(Part, Options):
    """Options with a state of their own: shared by passing the object, and equal to nothing but itself."""

    _surroundings: tuple[str, ...] = ("clock", "rng", "store")

    name: str | None = None
    store: Store | None = None
    rng: Rng | None = None
    _lock: AbstractContextManager[object]
    #: Where to read the time, in what reads it. It is part of the state: a policy's clock is for all that was
    #: given none. (A default here would make every reading slower: the class would be searched first.)
    _timer: Clock | Ambient

    @property
    def clock(self) -> Clock | None:
        """The clock it uses; ``None`` is the ambient one."""
        timer: Any = getattr(self, "_timer", AMBIENT)
        return None if timer is AMBIENT else timer

    def _now(self) -> float:
        return self._timer.now()

    def locked(self) -> AbstractContextManager[object]:
        """Return the lock around the state; it may be taken again inside."""
        return self._lock

    def fields(self) -> dict[str, Any]:
        shared = {} if self.store is None else {"store": self.store, "name": self.name}
        return {**super().fields(), **shared}

    def settings(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in self._surroundings}
        return {**self.fields(), **{name: value for name, value in given.items() if value is not None}}

    def fresh(self, key: str | None = "") -> Self:
        """A new one with these options and a state of its own; with a store, the one of ``key``."""
        name = {} if self.store is None else {"name": of_key(self.name, key)}
        return type(self)(**{**self.settings(), **name})

    def _take_options(self, wanted: Self, *derived: str) -> None:
        """Take over the options of ``wanted``, and the attributes that were ``derived`` from them."""
        for name in (*self.field_names(), *derived):
            object.__setattr__(self, name, getattr(wanted, name))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
