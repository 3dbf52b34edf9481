"""Lookup of a method's policy. Pure: names in, a policy out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .._policy.policy import Policy

#: One policy for all methods, or one each: by name, or by a function of the full method name.
ByMethod = Policy | Mapping[str, Policy] | Callable[[str], Policy | None]


def plain_name(method: str) -> str:
    """``/pkg.Service/Method`` as ``pkg.Service/Method``."""
    return method.strip("/")


class Routes:
    """Finds the policy of a method: ``find("/pkg.Service/Method")``, ``None`` where there is none.

    A mapping is asked for the method ("/pkg.Service/Method" or "pkg.Service/Method"), for its service
    ("pkg.Service"), and for "" (all others), as a service config is. It is asked anew for every call, so
    that a registry's reload counts.
    """

    __slots__ = ("_ask", "_owner")

    def __init__(self, policies: ByMethod, owner: str = "interceptors") -> None:
        self._owner = owner
        if isinstance(policies, Policy):
            self._ask: Callable[[str], Policy | None] = lambda method: policies
        elif isinstance(policies, Mapping):
            self._ask = lambda method: _look_up(policies, method)
        elif callable(policies) and not isinstance(policies, type):
            self._ask = policies
        else:
            raise TypeError(
                f"{owner}: policy must be a Policy, a mapping of method names to policies, "
                f"or a function from a method name to a policy, got {policies!r}"
            )

    def find(self, method: str) -> Policy | None:
        policy = self._ask(method)
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(
                f"{self._owner}: the policy of {method!r} must be a Policy or None, got {policy!r}"
            )
        return policy


def _look_up(policies: Mapping[str, Policy], method: str) -> Policy | None:
    name = plain_name(method)
    for key in (method, name, name.partition("/")[0], ""):
        if key in policies:
            return policies[key]
    return None
