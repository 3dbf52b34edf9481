"""One budget, breaker or limiter per key (a host, a route, a tenant), bounded in number."""

from __future__ import annotations

from contextvars import ContextVar

from ._drive.memory import guard
from .options import count, hook, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from typing import Any

    from ._drive.clock import Clock
    from .policy import Env


#: The key for which something is being made, as it goes into the name of what a fleet shares; "": none.
_making: ContextVar[str | None] = ContextVar("holdfast_key", default="")


#: Stands between a name and the hash of a key, which has so many digits.
_OF_KEY, _DIGITS = "/key-", 32


def of_key(name: str | None) -> str | None:
    """``name``, with the key for which a ``keyed`` makes a copy just now.

    Hashed: a key is made from a call's arguments, and names are told in events, errors and metrics.
    """
    key = _making.get()
    if key is None:
        raise TypeError(
            "keyed: with a store, a key must be a string, bytes, a number, None or a tuple of these"
        )
    if not key:
        return name
    from hashlib import blake2b

    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_DIGITS // 2)
    return f"{name}{_OF_KEY}{digest.hexdigest()}"


def without_key(name: str) -> str:
    """``name`` as it was before `of_key`: what there is one of, however many keys there are."""
    family, digest = name[: -len(_OF_KEY) - _DIGITS], name[-_DIGITS:]
    plain = name[len(family) : -_DIGITS] == _OF_KEY and set(digest) <= set("0123456789abcdef")
    return family if plain else name


def _text(key: Hashable) -> str | None:
    """``key`` as all processes would write it; ``None`` for what another process may not write the same."""
    if isinstance(key, str):
        return f"s{key}"
    if isinstance(key, (int, float, bytes)) or key is None:
        return repr(key)
    if not isinstance(key, tuple):
        return None
    parts = [_text(part) for part in key]
    return None if None in parts else "".join(f"{len(part)}:{part}" for part in parts if part is not None)


class Recent:
    """A map of at most ``limit`` entries; the least recently used one is dropped for a new one."""

    __slots__ = ("__weakref__", "_items", "_lock", "limit")

    _lock: Any

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # A dict keeps the order of insertion: an entry in use is put in again, so the first is the stalest.
        self._items: dict[Hashable, Any] = {}
        guard(self)

    def get(self, key: Hashable) -> Any:
        """The entry, or ``None``."""
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

    def put_first(self, key: Hashable, item: Any) -> Any:
        """The entry, set to ``item`` unless somebody else was first."""
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


class Keyed:
    """``keyed(template, key=..., limit=...)[key]``: the object of that key, made on first use.

    ``template`` is copied with fresh state for each key, or called for a new one when it is a
    plain callable. ``key(*args, **kwargs)`` finds the key of a call; a decorated function's named
    parameters arrive by position, in their order. Beyond ``limit`` keys the
    least recently used one is forgotten, with its state.
    """

    __slots__ = ("_clock", "_items", "key", "limit", "template")

    def __init__(self, template: Any, key: Callable[..., Hashable] | None = None, limit: int = 1024) -> None:
        if not hasattr(template, "fresh") and not callable(template):
            raise TypeError(f"keyed: template must be a budget or strategy, or make one, got {template!r}")
        self.template = template
        self.key = hook("keyed", "key", key)
        self.limit = count("keyed", "limit", limit)
        self._items = Recent(self.limit)
        self._clock: Clock | None = None

    def keep_time(self, clock: Clock) -> None:
        """Let what is made from now on go by ``clock``, unless it has one of its own."""
        self._clock = clock

    def __getitem__(self, key: Hashable) -> Any:
        found = self._items.get(key)
        if found is not None:
            return found
        # Made without a lock, since a factory is the user's code; of two racers the first one in counts.
        make = (
            self.template
            if isinstance(self.template, type)
            else getattr(self.template, "fresh", self.template)
        )
        token = _making.set(_text(key))
        try:
            made: Any = make()
        finally:
            _making.reset(token)
        if self._clock is not None and hasattr(made, "keep_time"):
            made.keep_time(self._clock)
        return self._items.put_first(key, made)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        if self.key is None:
            raise TypeError("keyed: key= is needed to tell which arguments of a call are the key")
        found: Hashable = self.key(*args, **kwargs)
        return found

    def pick(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The object of the key that this call's arguments give."""
        return self[self._key(args, kwargs)]

    # As a strategy: each key's calls go through that key's own copy.

    def sync(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]:
        wrappers = Recent(self.limit)

        def chosen(*args: Any, **kwargs: Any) -> Any:
            wrapper = self._wrapper(wrappers, env.arguments(args), kwargs, lambda s: s.sync(call, env, like))
            return wrapper(*args, **kwargs)

        return chosen

    def aio(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]:
        wrappers = Recent(self.limit)

        async def chosen(*args: Any, **kwargs: Any) -> Any:
            wrapper = self._wrapper(wrappers, env.arguments(args), kwargs, lambda s: s.aio(call, env, like))
            return await wrapper(*args, **kwargs)

        return chosen

    def _wrapper(
        self,
        wrappers: Recent,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        wrap: Callable[[Any], Callable[..., Any]],
    ) -> Callable[..., Any]:
        key = self._key(args, kwargs)
        strategy = self[key]
        found = wrappers.get(key)
        if found is None or found[0] is not strategy:
            found = (strategy, wrap(strategy))
            wrappers.put(key, found)
        wrapper: Callable[..., Any] = found[1]
        return wrapper

    def __len__(self) -> int:
        return len(self._items.keys())

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._items.keys())

    def __repr__(self) -> str:
        return f"keyed({self.template!r}, key={self.key!r}, limit={self.limit!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Keyed, (self.template, self.key, self.limit)

    def describe(self) -> dict[str, Any]:
        """The template as plain data, and how many keys are live."""
        return {"kind": "keyed", "template": plain(self.template), "keys": len(self), "limit": self.limit}


def keyed(template: Any, key: Callable[..., Hashable] | None = None, limit: int = 1024) -> Keyed:
    """One of ``template`` per key, at most ``limit`` of them; see `Keyed`."""
    return Keyed(template, key, limit)
