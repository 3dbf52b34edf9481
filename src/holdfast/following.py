"""A policy that may change under the functions it decorates: what a `Registry` hands out."""

from __future__ import annotations

from ._drive.shape import Template
from .policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .policy import Env


class Following(Policy):
    """A policy of a registry: what it decorates follows the registry's reloads.

    ``with_`` and pickling give a plain `Policy` of this moment, which does not follow any more.
    """

    __slots__ = ("_now",)

    _now: Policy

    def __init__(self, policy: Policy) -> None:
        self._set(name=policy.name, clock=policy.clock, rng=policy.rng, draw=policy.draw)
        self._set(_call=None, _acall=None, _now=policy)

    @property
    def strategies(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The strategies of this moment."""
        return self._now.strategies

    def _compile(self, fn: Callable[..., Any], env: Env, is_async: bool) -> Callable[..., Any]:
        slot = _Slot(self, fn, env, is_async)
        return _FOLLOWED.build(fn, is_async, {"policy": self, "slot": slot, "renew": slot.renew})


class _Slot:
    """One function under a `Following` policy: ``made`` is (the policy compiled for, the compiled call)."""

    __slots__ = ("_env", "_fn", "_is_async", "_policy", "made")

    def __init__(self, policy: Following, fn: Callable[..., Any], env: Env, is_async: bool) -> None:
        self._policy = policy
        self._fn = fn
        self._env = env
        self._is_async = is_async
        self.made: tuple[Policy, Callable[..., Any]] = self.renew()

    def renew(self) -> tuple[Policy, Callable[..., Any]]:
        """Compile for the policy of this moment."""
        now = self._policy._now
        # Both in one assignment: of two threads that renew, the later one wins, and an outdated pair is
        # noticed by the next call.
        self.made = now, now._compile(self._fn, self._env, self._is_async)
        return self.made


_FOLLOWED = Template(
    "following",
    """\
{async_}def following({params}):
    _hf_made = _hf_slot.made
    if _hf_made[0] is not _hf_policy._now:
        _hf_made = _hf_renew()
    return {await_}_hf_made[1]({args})
""",
)
