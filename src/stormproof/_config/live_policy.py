"""A policy that may change under the functions it decorates: what a `Registry` hands out."""

from __future__ import annotations

import weakref

from .._policy.policy import Policy
from .._runtime.call_template import Template
from .._runtime.locks import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._strategies.protocol import Env


class Following(Policy):
    """A policy of a registry: what it decorates follows the registry's reloads.

    ``with_`` and pickling give a plain `Policy` of this moment, which does not follow any more.
    """

    __slots__ = ("_now", "_users")

    _now: Policy
    _users: _Users

    def __init__(self, policy: Policy) -> None:
        self._set(name=policy.name, clock=policy.clock, rng=policy.rng, draw=policy.draw)
        self._set(_now=policy, _users=_Users())

    @property
    def strategies(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The strategies of this moment."""
        return self._now.strategies

    def follow(self, policy: Policy) -> None:
        """Use ``policy`` from now on."""
        self._set(_now=policy)

    def try_on(self, policy: Policy) -> None:
        """Raise if ``policy`` cannot be compiled for one of the functions decorated so far."""
        for slot in self._users.all():
            slot.compiled(policy)

    def _compile(self, fn: Callable[..., Any], env: Env, is_async: bool) -> Callable[..., Any]:
        slot = _Slot(self, fn, env, is_async)
        self._users.add(slot)
        return _FOLLOWED.build(fn, is_async, {"policy": self, "slot": slot, "renew": slot.renew})


class _Slot:
    """One function under a `Following` policy: ``made`` is (the policy compiled for, the compiled call)."""

    __slots__ = ("__weakref__", "_env", "_fn", "_is_async", "_policy", "made")

    def __init__(self, policy: Following, fn: Callable[..., Any], env: Env, is_async: bool) -> None:
        self._policy = policy
        self._fn = fn
        self._env = env
        self._is_async = is_async
        self.made: tuple[Policy, Callable[..., Any]] = self.renew()

    def compiled(self, policy: Policy) -> Callable[..., Any]:
        """The function, compiled for ``policy``."""
        return policy._compile(self._fn, self._env, self._is_async)

    def renew(self) -> tuple[Policy, Callable[..., Any]]:
        """Compile for the policy of this moment."""
        now = self._policy._now
        # Both in one assignment: of two threads that renew, the later one wins, and an outdated pair is
        # noticed by the next call.
        self.made = now, self.compiled(now)
        return self.made


class _Users:
    """The functions under one policy, as long as they live."""

    __slots__ = ("__weakref__", "_lock", "_slots")

    _lock: Any

    def __init__(self) -> None:
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()
        guard(self)

    def add(self, slot: _Slot) -> None:
        with self._lock:
            self._slots.add(slot)

    def all(self) -> list[_Slot]:
        with self._lock:
            return list(self._slots)


_FOLLOWED = Template(
    "following",
    """\
{async_}def following({params}):
    _sp_made = _sp_slot.made
    if _sp_made[0] is not _sp_policy._now:
        _sp_made = _sp_renew()
    return {await_}_sp_made[1]({args})
""",
)
