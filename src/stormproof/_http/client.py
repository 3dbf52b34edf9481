"""The user's policy, made ready for one HTTP client."""

from __future__ import annotations

from .._context.deadlines import ambient
from .._policy.policy import Policy
from .._runtime.maps import Recent
from .._strategies.hedge.hedge import Hedge
from .._strategies.protocol import Env
from .attempt import attempt, conclude, drive, drive_async, judged, settle
from .classification import Rules, adapt
from .exchange import Exchange
from .options import RequestOverrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .options import ClientOptions
    from .port import Port

_new = object.__new__
#: Number of policies given with requests that are kept compiled.
_MAX_POLICIES = 128


class _Env(Env):
    """The environment of the strategies when the call is an exchange."""

    __slots__ = ()

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        # What a key is made from: the request, as the library's users know it.
        return (args[0].native,)

    def may_hedge(self, declared: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        # One policy serves every request: what it declares does not make a POST safe to send twice.
        return _may_hedge(args, kwargs)

    def exchange(self, args: tuple[Any, ...]) -> Exchange | None:
        exchange: Exchange = args[0]
        return exchange


class _Ready:
    """A policy compiled for exchanges, and the rules that go with it."""

    __slots__ = ("_adapted", "exchange", "is_simple", "methods", "policy", "run")

    def __init__(self, policy: Policy, port: Port[Any, Any], options: ClientOptions, is_async: bool) -> None:
        self.policy = policy
        for strategy in policy.strategies:
            if isinstance(strategy, Hedge) and strategy.vary is not None:
                raise ValueError(
                    f"{port.name}: a Hedge must have vary=None here, as a request has no arguments"
                )
        # Kept: metrics show the state of policies that are still referenced.
        self._adapted = pipeline = adapt(policy, options, port.legible)
        rules = Rules(pipeline, options, policy.name or port.name)
        self.exchange = Exchange.of(port, rules)
        self.is_simple = port.simple
        self.methods = rules.methods
        inner = (_attempts_async if is_async else _attempts)(port, rules)
        env = _Env(pipeline, inner)
        env.name = rules.name
        env.idempotent = _may_hedge
        self.run: Callable[[Exchange], Any] = pipeline.compile(inner, env, is_async)


# One attempt. The few lines before `drive` are the success path of a first one; a failure, or
# anything out of the ordinary, goes the long way.


def _attempts(port: Port[Any, Any], rules: Rules) -> Callable[[Exchange], Any]:
    fetch, status, most, floor = port.fetch, port.status, rules.options.buffer, rules.floor

    def attempted(exchange: Exchange) -> Any:
        if not exchange.simple:
            return drive(attempt(exchange))
        scope = ambient()
        request = exchange.request if scope is None else exchange.prepare()
        exchange.started = True
        try:
            response = fetch(request, most)
        except Exception as error:
            seen = exchange.broke(error)
            if seen is error:
                raise
            raise seen from seen.__cause__
        if status(response) < floor and (scope is None or not scope.is_cancelled):
            exchange.answered = response
            return response
        return drive(judged(exchange, response))

    return attempted


def _attempts_async(port: Port[Any, Any], rules: Rules) -> Callable[[Exchange], Any]:
    fetch, status, most, floor = port.fetch, port.status, rules.options.buffer, rules.floor

    async def attempted(exchange: Exchange) -> Any:
        if not exchange.simple:
            return await drive_async(attempt(exchange))
        scope = ambient()
        request = exchange.request if scope is None else exchange.prepare()
        exchange.started = True
        try:
            response = await fetch(request, most)
        except Exception as error:
            seen = exchange.broke(error)
            if seen is error:
                raise
            raise seen from seen.__cause__
        if status(response) < floor and (scope is None or not scope.is_cancelled):
            exchange.answered = response
            return response
        return await drive_async(judged(exchange, response))

    return attempted


def _may_hedge(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    exchange: Exchange = args[0]
    if not exchange.repeat.allows_hedging:
        return False
    # The short way has room for one answer, and here two may come.
    exchange.simple = False
    return True


class Client:
    """Sends requests of one library under a policy: `send` in threads, `send_async` in tasks.

    ``overrides`` are the options of one request: a mapping with ``policy``, ``idempotency_key``,
    ``retry``; ``None``: none.
    """

    __slots__ = ("_is_async", "_others", "_own", "options", "port")

    def __init__(
        self, policy: Policy, port: Port[Any, Any], options: ClientOptions, is_async: bool = False
    ) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"{port.name}: policy must be a Policy, got {policy!r}")
        self.port = port
        self.options = options
        self._is_async = is_async
        self._own = _Ready(policy, port, options, is_async)
        self._others = Recent(_MAX_POLICIES)

    @property
    def policy(self) -> Policy:
        return self._own.policy

    @property
    def retries(self) -> bool:
        """True if the policy makes more than one attempt of anything."""
        return self._own.exchange.rules.retries

    def send(self, request: object, overrides: Mapping[str, Any] | None = None) -> Any:
        """Send ``request`` and return the response."""
        ready = self._own
        if overrides is None and ready.is_simple(request, ready.methods):
            # Without __init__, which would be half of what the policy costs.
            exchange: Exchange = _new(ready.exchange)
            exchange.request = request
        else:
            ready, exchange = self._begin(request, overrides)
        try:
            response = ready.run(exchange)
        except BaseException as error:
            failure = error
        else:
            if response is exchange.answered and not exchange.open_responses:
                exchange.finished = True
                return response
            return drive(settle(exchange, response))
        try:
            return drive(conclude(exchange, failure))
        finally:
            del failure

    async def send_async(self, request: object, overrides: Mapping[str, Any] | None = None) -> Any:
        """Send ``request`` and return the response, in a task."""
        ready = self._own
        if overrides is None and ready.is_simple(request, ready.methods):
            # Without __init__, which would be half of what the policy costs.
            exchange: Exchange = _new(ready.exchange)
            exchange.request = request
        else:
            ready, exchange = self._begin(request, overrides)
        try:
            response = await ready.run(exchange)
        except BaseException as error:
            failure = error
        else:
            if response is exchange.answered and not exchange.open_responses:
                exchange.finished = True
                return response
            return await drive_async(settle(exchange, response))
        try:
            return await drive_async(conclude(exchange, failure))
        finally:
            del failure

    def _begin(self, request: object, overrides: Mapping[str, Any] | None) -> tuple[_Ready, Exchange]:
        ready = self._own
        own = None if overrides is None else RequestOverrides(overrides)
        if own is not None and own.policy is not None:
            ready = self._ready(own.policy)
        exchange = ready.exchange(request)
        exchange.get_ready(own)
        return ready, exchange

    def _ready(self, policy: Policy) -> _Ready:
        if policy is self._own.policy:
            return self._own
        # By identity: two policies with the same options are two policies, each with its own state.
        ready: _Ready | None = self._others.get(id(policy))
        if ready is None:
            ready = _Ready(policy, self.port, self.options, self._is_async)
            self._others.put(id(policy), ready)
        return ready
