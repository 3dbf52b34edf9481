"""The classification of one client under one policy: its tables, and which statuses are failures."""

from __future__ import annotations

from .._classify.classifier import Classifier, transient
from .._classify.server_hints import read, should_retry
from .._policy.policy import Policy
from .._strategies.hedge.hedge import Hedge
from .._strategies.keyed import Keyed
from .._strategies.retry.retry import Retry
from .headers import both_kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .._classify.settings import ClassifierSettings
    from .._strategies.protocol import Strategy
    from .options import ClientOptions


class Rules:
    """The options of a client and the tables of its policy, in one."""

    def __init__(self, policy: Policy, options: ClientOptions, name: str) -> None:
        self.options = options
        #: Name of every request in events, metrics and marks: one, however many hosts there are.
        self.name = name
        retries = [strategy for strategy in _strategies(policy) if isinstance(strategy, Retry)]
        #: True if hedges retry side by side: a Hedge stands around a Retry.
        self.hedges_retries = _hedges_retries(policy)
        #: True if the policy retries at all.
        self.retries = any(retry.attempts != 1 for retry in retries)
        own = [retry.on.settings for retry in retries if isinstance(retry.on, Classifier)]
        #: True if it does so by tables of ours, which know about methods and keys.
        self.classifies = bool(own)
        changes = _changes(options, own)
        self.settings: ClassifierSettings = (own[0] if own else transient.settings).replace(**changes)
        self.methods = self.settings.methods
        #: The headers that carry an idempotency key, in lower case, as text and as bytes.
        self.key_names = both_kinds(self.settings.key_headers)
        self.failing = self.settings.statuses.union(*(each.statuses for each in own))
        #: A status below this one is a success.
        self.floor = min({400, *self.failing})

    def fails(self, status: int, fields: Iterable[tuple[Any, Any]]) -> bool:
        """Return True if a response is a failure to the strategies: a 5xx, a retryable status, or one that
        the server says to retry. The policy decides if it *is* retried."""
        if status in self.failing or status >= 500:
            return True
        return status >= 400 and should_retry(read(list(fields))) is True


def _strategies(policy: Policy) -> list[object]:
    return [s.template if isinstance(s, Keyed) else s for s in policy.strategies]


def _hedges_retries(policy: Policy) -> bool:
    strategies = iter(_strategies(policy))
    # The second looks on behind the first Hedge.
    return any(isinstance(s, Hedge) for s in strategies) and any(isinstance(s, Retry) for s in strategies)


def _changes(options: ClientOptions, own: list[ClassifierSettings]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if options.statuses is not None:
        changes["statuses"] = options.statuses
    if options.methods is not None:
        changes["methods"] = options.methods
    tables = (own[0] if own else transient.settings).key_headers
    if options.key_header.lower() not in tables:
        changes["key_headers"] = tables | {options.key_header.lower()}
    return changes


def adapt(policy: Policy, options: ClientOptions, legible: Callable[[Any], object] | None) -> Policy:
    """Return ``policy`` with the tables that ``options`` name; itself if nothing has to be different.

    Live state is shared. A Retry whose ``on`` is the user's own types or function keeps it. An ``on_result``
    is given what ``legible``, if any, makes of a response.
    """

    def adapted(strategy: Strategy) -> Strategy:
        if not isinstance(strategy, Retry):
            return strategy
        changes: dict[str, Any] = {}
        if isinstance(strategy.on, Classifier) and (tables := _changes(options, [strategy.on.settings])):
            changes["on"] = strategy.on.with_(**tables)
        if (on_result := strategy.on_result) is not None and (read := legible) is not None:
            changes["on_result"] = lambda response: on_result(read(response))
        return strategy.replace(**changes) if changes else strategy

    pipeline = [adapted(strategy) for strategy in policy.strategies]
    if all(new is old for new, old in zip(pipeline, policy.strategies, strict=True)):
        return policy
    return Policy(*pipeline, name=policy.name, clock=policy.clock, rng=policy.rng)
