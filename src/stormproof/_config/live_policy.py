"""A policy that may change under the functions it decorates, as a `Registry` hands it out."""

from __future__ import annotations

import weakref

from .._policy.policy import Policy
from .._runtime.call_template import Template
from .._runtime.locks import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._strategies.protocol import AnyBudget, Env


class ReloadablePolicy(Policy):
    """A policy of a registry: functions that it decorates follow the registry's reloads.

    ``with_`` and pickling give a plain `Policy` as of now, which does not follow any more.
    """

    current: Policy
    _users: _Users

    def __init__(self, policy: Policy) -> None:
        self.__dict__.update(name=policy.name, clock=policy.clock, rng=policy.rng, draw=policy.draw)
        self.__dict__.update(current=policy, _users=_Users())

    @property
    def strategies(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The present strategies."""
        return self.current.strategies

    @property
    def retry_budget(self) -> AnyBudget | None:  # type: ignore[override]
        return self.current.retry_budget

    @property
    def hedge_budget(self) -> AnyBudget | None:  # type: ignore[override]
        return self.current.hedge_budget

    def follow(self, policy: Policy) -> None:
        """Use ``policy`` from now on."""
        self.__dict__["current"] = policy

    def check_compiles(self, policy: Policy) -> None:
        """Raise if ``policy`` cannot be compiled for one of the functions decorated so far."""
        for slot in self._users.all():
            slot.compile(policy)

    def compile(self, fn: Callable[..., Any], env: Env, is_async: bool) -> Callable[..., Any]:
        slot = _Slot(self, fn, env, is_async)
        self._users.add(slot)
        return _RELOADABLE.build(fn, is_async, {"policy": self, "slot": slot, "renew": slot.renew})


class _Slot:
    """One function under a `ReloadablePolicy`: ``compiled`` is (policy, call compiled for it)."""

    def __init__(self, policy: ReloadablePolicy, fn: Callable[..., Any], env: Env, is_async: bool) -> None:
        self._policy = policy
        self._fn = fn
        self._env = env
        self._is_async = is_async
        self.compiled: tuple[Policy, Callable[..., Any]] = self.renew()

    def compile(self, policy: Policy) -> Callable[..., Any]:
        """Return the function compiled for ``policy``."""
        return policy.compile(self._fn, self._env, self._is_async)

    def renew(self) -> tuple[Policy, Callable[..., Any]]:
        """Compile for the present policy."""
        policy = self._policy.current
        # Both in one assignment: of two threads that renew, the later one wins, and an outdated pair is
        # noticed by the next call.
        self.compiled = policy, self.compile(policy)
        return self.compiled


class _Users:
    """The functions under one policy, as long as they live."""

    def __init__(self) -> None:
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()
        self._lock = guard(self)

    def add(self, slot: _Slot) -> None:
        with self._lock:
            self._slots.add(slot)

    def all(self) -> list[_Slot]:
        with self._lock:
            return list(self._slots)


_RELOADABLE = Template(
    "following",
    """\
{async_}def following({params}):
    _sp_compiled = _sp_slot.compiled
    if _sp_compiled[0] is not _sp_policy.current:
        _sp_compiled = _sp_renew()
    return {await_}_sp_compiled[1]({args})
""",
)
