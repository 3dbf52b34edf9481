"""Maps that threads share: bounded by recency of use, or alive as long as their values are."""

from __future__ import annotations

import weakref

from .locks import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any


class Recent:
    """A map of at most ``limit`` entries; the least recently used one is dropped for a new one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # A dict keeps the order of insertion: an entry in use is put in again, so the first is the stalest.
        self._items: dict[Hashable, Any] = {}
        self._lock = guard(self)

    def get(self, key: Hashable) -> Any:
        """Return the entry, or ``None``."""
        with self._lock:
            if key not in self._items:
                return None
            item = self._items[key] = self._items.pop(key)
            return item

    def put(self, key: Hashable, item: Any) -> None:
        """Set the entry."""
        with self._lock:
            self._items.pop(key, None)
            self._items[key] = item
            self._trim()

    def put_first(self, key: Hashable, item: object) -> Any:
        """Set the entry to ``item`` unless another thread was first; return the entry."""
        with self._lock:
            item = self._items.setdefault(key, item)
            self._trim()
            return item

    def _trim(self) -> None:
        while len(self._items) > self.limit:
            del self._items[next(iter(self._items))]

    def keys(self) -> list[Hashable]:
        with self._lock:
            return list(self._items)


class SharedValues:
    """Objects by name, each alive as long as it is referenced elsewhere."""

    def __init__(self) -> None:
        self._items: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self._lock = guard(self)

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the object of that name, made if there is none."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                item = self._items[key] = make()
            return item
