"""A policy compiled for one method: the wrapper that its calls go through, kept while it is in use."""

from __future__ import annotations

from .._policy.policy import Policy
from .._runtime.maps import Recent
from .._strategies.hedge.hedge import Hedge
from .._strategies.keyed import Keyed
from .._strategies.protocol import Env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .routes import Routes
    from .rpc import Rpc, Wire

#: A program calls a bounded number of methods; one that makes names up must not fill the memory.
_MOST_METHODS = 1024


class Compiled:
    """The policy of one method around ``run``. ``owner`` is who marks what it has given up on."""

    __slots__ = ("call", "hedges", "owner", "policy")

    def __init__(self, policy: Policy, run: Callable[..., Any], method: str, wire: Wire, is_async: bool):
        self.policy = policy
        self.owner = _named(run, method, is_async)
        self.hedges = any(map(_is_hedge, policy.strategies))
        env = Env(policy, self.owner)
        env.idempotent = wire.may_repeat
        self.call: Callable[[Rpc], Any] = policy.compile(self.owner, env, is_async)


class CompiledPolicies:
    """Finds the policy of a call, and keeps it compiled for its method."""

    __slots__ = ("_compiled", "_routes", "_wire")

    def __init__(self, routes: Routes, wire: Wire) -> None:
        self._routes = routes
        self._wire = wire
        self._compiled = Recent(_MOST_METHODS)

    def get(self, rpc: Rpc, run: Callable[..., Any], is_async: bool) -> Compiled | None:
        """``run`` under the policy of the call's method; ``None`` if it has none.

        What can be sent only once is not hedged: a second attempt would have nothing to send.
        """
        policy = self._routes.find(rpc.method)
        if policy is None:
            return None
        hedged = any(map(_is_hedge, policy.strategies)) and not rpc.once
        key = (rpc.method, run, hedged)
        cached: tuple[Policy, Compiled] | None = self._compiled.get(key)
        if cached is None or cached[0] is not policy:
            used = policy if hedged else _unhedged(policy)
            cached = (policy, Compiled(used, run, rpc.method, self._wire, is_async))
            self._compiled.put(key, cached)
        return cached[1]


def _is_hedge(strategy: object) -> bool:
    return isinstance(strategy.template if isinstance(strategy, Keyed) else strategy, Hedge)


def _unhedged(policy: Policy) -> Policy:
    """``policy`` without its hedges; what is left is shared with it, live state included."""
    unhedged = [strategy for strategy in policy.strategies if not _is_hedge(strategy)]
    if len(unhedged) == len(policy.strategies):
        return policy
    return Policy(*unhedged, name=policy.name, clock=policy.clock, rng=policy.rng)


def _named(run: Callable[..., Any], method: str, is_async: bool) -> Callable[[Rpc], Any]:
    """Return ``run`` as a function of its own, named as the method in events, notes and marks."""

    async def awaited(rpc: Rpc) -> Any:
        return await run(rpc)

    def called(rpc: Rpc) -> Any:
        return run(rpc)

    named: Callable[[Rpc], Any] = awaited if is_async else called
    named.__qualname__ = method
    return named
