"""Registry of operations, with counts of the calls that succeeded at the first attempt.

Nothing is counted before the first subscription. A success at the first attempt is then one tick of its
operation's counter, which costs far less than an event; sinks read the totals when they are asked.
"""

from __future__ import annotations

import weakref

from .._runtime.counters import Tally
from .._runtime.locks import guard
from .key_names import without_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Operations counted one by one. Further ones share the counter and the name `OTHER`.
LIMIT = 1000
OTHER = "other"


class _Operation:
    def __init__(self) -> None:
        self.tally = Tally()
        self.total = 0


class Census:
    """Every operation, by name, with the policies that run it."""

    def __init__(self) -> None:
        self._operations: dict[str, _Operation] = {}
        #: Which policy runs which operation. Policies compare by value, so they are kept by identity.
        self._policies: list[tuple[weakref.ref[Any], str]] = []
        #: Number of policies at which those that were collected are dropped.
        self._sweep_at = 64
        self._lock = guard(self)

    def name(self, operation: str) -> str:
        """Return ``operation``, or `OTHER` if there are too many. The keys of a `keyed` share one name."""
        with self._lock:
            return self._name(without_key(operation))

    def _name(self, operation: str) -> str:
        if operation not in self._operations:
            if len(self._operations) >= LIMIT:
                operation = OTHER
            self._operations.setdefault(operation, _Operation())
        return operation

    def enrol(self, policy: object, operation: str) -> Callable[[], object]:
        """Record that ``policy`` runs ``operation``; return the function that counts a first-try success."""
        with self._lock:
            operation = self._name(operation)
            if len(self._policies) >= self._sweep_at:
                self._drop_collected()
                self._sweep_at = max(64, 2 * len(self._policies))
            self._policies.append((weakref.ref(policy), operation))
            return self._operations[operation].tally.tick

    def _drop_collected(self) -> None:
        self._policies = [entry for entry in self._policies if entry[0]() is not None]

    def first_tries(self) -> dict[str, int]:
        """Successes at the first attempt by operation, since the first subscription."""
        with self._lock:
            for operation in self._operations.values():
                operation.total += operation.tally.take()
            return {name: operation.total for name, operation in self._operations.items()}

    def policies(self) -> list[tuple[str, Any]]:
        """Every operation with each living policy that runs it, in the order of the names."""
        with self._lock:
            living = [(name, policy) for ref, name in self._policies if (policy := ref()) is not None]
        return sorted(living, key=lambda entry: entry[0])


census = Census()
