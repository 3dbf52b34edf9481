"""`policy_of`: the policy behind a function."""

from __future__ import annotations

from .._policy.policy import Policy
from .from_tenacity import policy_from_tenacity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def make_readable(function: Any, make_policy: Callable[[], Policy]) -> None:
    """Let `policy_of` return what ``make_policy`` does for ``function``, which retries by other means."""
    function.__stormproof_policy__ = make_policy


def policy_of(target: Any) -> Policy:
    """Return the policy of ``target``, which is one of:

    - a function or method that a policy or `retry` decorates: that very policy, with its live state;
    - a `Policy`: itself; a single strategy: a policy of it alone;
    - a tenacity retry object, or a function that tenacity (or its drop-in) decorates: a policy that retries
      as it does (`policy_from_tenacity`);
    - a function that the drop-ins of stamina and backoff decorate: a policy that retries as it does.
    """
    policy = getattr(target, "__stormproof__", target)
    if isinstance(policy, Policy):
        return policy
    if (make_policy := getattr(target, "__stormproof_policy__", None)) is not None:
        converted: Policy = make_policy()
        return converted
    if hasattr(policy, "sync") and hasattr(policy, "aio") and not isinstance(policy, type):
        return Policy(policy)
    if hasattr(policy, "retry_with") or all(hasattr(policy, part) for part in ("stop", "wait", "retry")):
        return policy_from_tenacity(policy)
    raise TypeError(
        "policy_of: target must be a decorated function, a Policy, a strategy or a tenacity retry object, "
        f"got {target!r}"
    )
