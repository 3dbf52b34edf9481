"""One budget, breaker or limiter per key (a host, a route, a tenant), bounded in number."""

from __future__ import annotations

from .._events.key_names import key_text
from .._primitives.options import count, plain, sync_hook
from .._runtime.call_template import Template
from .._runtime.maps import Recent
from .protocol import CallWrapper, Env, Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from typing import Any

    from .._runtime.clock import Clock
    from .protocol import Fn


class Keyed(CallWrapper):
    """``keyed(template, key=..., limit=...)[key]``: the object of that key, made on first use.

    ``template`` is copied with fresh state for each key, or called for a new one when it is a
    plain callable. ``key(*args, **kwargs)`` finds the key of a call; a decorated function's named
    parameters arrive by position, in their order. Beyond ``limit`` keys the
    least recently used one is forgotten, with its state.
    """

    def __init__(
        self, template: object, key: Callable[..., Hashable] | None = None, limit: int = 1024
    ) -> None:
        if not isinstance(template, Part) and not callable(template):
            raise TypeError(f"keyed: template must be a budget or strategy, or make one, got {template!r}")
        self.template = template
        self.key = sync_hook("keyed", "key", key)
        self.limit = count("keyed", "limit", limit)
        self._items = Recent(self.limit)
        self._clock: Clock | None = None

    def use_clock(self, clock: Clock) -> None:
        """Give ``clock`` to each object made from now on, unless it has one of its own."""
        self._clock = clock

    def __getitem__(self, key: Hashable) -> Any:
        item = self._items.get(key)
        if item is not None:
            return item
        # Made without a lock, since a factory is the user's code; of two racers the first one in counts.
        template = self.template
        copy = template.fresh(key_text(key)) if isinstance(template, Part) else template()
        if self._clock is not None and isinstance(copy, Part):
            copy.use_clock(self._clock)
        return self._items.put_first(key, copy)

    def fresh(self, key: str | None = "") -> Keyed:
        """A new one of the same template, with no key used yet."""
        return Keyed(self.template, self.key, self.limit)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        if self.key is None:
            raise TypeError("keyed: key must be a function of a call's arguments, got None")
        key: Hashable = self.key(*args, **kwargs)
        return key

    def pick(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The object of the key that this call's arguments give."""
        return self[self._key(args, kwargs)]

    # As a strategy: each key's calls go through that key's own copy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        wrappers = Recent(self.limit)

        def wrapper(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Fn:
            key = self._key(env.arguments(args), kwargs)
            strategy = self[key]
            entry = wrappers.get(key)
            if entry is None or entry[0] is not strategy:
                wrap: Fn = strategy.aio if is_async else strategy.sync
                entry = (strategy, wrap(call, env, like))
                wrappers.put(key, entry)
            chosen: Fn = entry[1]
            return chosen

        return _CHOSEN.build(like, is_async, {"wrapper": wrapper})

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


def keyed(template: object, key: Callable[..., Hashable] | None = None, limit: int = 1024) -> Keyed:
    """One of ``template`` per key, at most ``limit`` of them; see `Keyed`."""
    return Keyed(template, key, limit)


_CHOSEN = Template(
    "chosen", "{async_}def chosen({params}):\n    return {await_}_sp_wrapper({packed})({args})\n"
)
