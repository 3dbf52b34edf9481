"""Protocol of a strategy, and the environment that the strategies of one policy share."""

from __future__ import annotations

from .._events import labels
from .._runtime.clock import timer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, Self, TypeAlias

    from .._context.attempts import Exchange
    from .._runtime.clock import Clock

    #: A function of any signature.
    Fn: TypeAlias = Callable[..., Any]

    class Strategy(Protocol):
        """One layer: wraps ``call``. ``like`` is the user's function, for its signature."""

        def sync(self, call: Fn, env: Env, like: Fn) -> Fn: ...
        def aio(self, call: Fn, env: Env, like: Fn) -> Fn: ...

    class AnyBudget(Protocol):
        """Methods of a budget that Retry calls; see `Budget` for the meaning of each."""

        def started(self) -> None: ...
        def success(self, spent: float | None = None) -> None: ...
        def failure(self, timeout: bool = False) -> None: ...
        def withdraw(self, timeout: bool = False) -> float: ...

    class Store(Protocol):
        """The shared state of a fleet, as strategies use it; `stormproof.redis.RedisStore` is one."""

        prefix: str
        timeout: float

        def join(self, kind: str, owner: object, name: str) -> Any:
            """Attach ``owner`` to the resource ``name`` of ``kind``; return its member of the fleet."""
            ...


class Part:
    """Interface of a strategy, budget or limiter, with the defaults for one without state."""

    __slots__ = ()

    def use_clock(self, clock: Clock) -> None:
        """Use ``clock`` from now on, unless it was given one of its own."""

    def fresh(self, key: str | None = "") -> Self:
        """A new one with these options and a state of its own; ``key`` is that of a `keyed`, as text."""
        return self

    def retune(self, wanted: Self) -> bool:
        """Take over the options of ``wanted`` and keep the live state; return False where there is none.

        ``wanted`` was made, and so validated, for the purpose. The object in use changes rather than being
        replaced: calls in flight settle where they began, and references stay right.
        """
        return False

    def warnings_for(self, inside: list[object]) -> list[str]:
        """A warning for each strategy ``inside`` this one that is in doubt there."""
        return []


class CallWrapper(Part):
    """Base of strategies that wrap sync and async calls in one method, `wrap`."""

    __slots__ = ()

    def sync(self, call: Fn, env: Env, like: Fn) -> Fn:
        return self.wrap(call, env, like, False)

    def aio(self, call: Fn, env: Env, like: Fn) -> Fn:
        return self.wrap(call, env, like, True)

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        """Return ``call`` inside this strategy, async or not, with the signature of ``like``."""
        raise NotImplementedError


class PolicySettings:
    """Attributes of a policy that its strategies read."""

    name: str | None
    clock: Clock | None
    strategies: tuple[Any, ...]
    draw: Callable[[], float]
    #: The budget that its retries pay, and the one that its hedges pay which have none of their own.
    retry_budget: AnyBudget | None
    hedge_budget: AnyBudget | None


class Env:
    """Environment shared by the strategies of one compiled function: names, clock, randomness."""

    def __init__(self, policy: PolicySettings, function: object) -> None:
        self.clock = policy.clock
        #: Where to read the time: ``timer.now()``.
        self.timer = timer_of(policy.clock)
        self.draw = policy.draw
        self.retry_budget = policy.retry_budget
        self.hedge_budget = policy.hedge_budget
        self.function = function
        #: The operation in events; None where it depends on the call (`Policy.call`).
        self.name = policy.name or (None if function is None else _name_of(function))
        #: ``(args, kwargs) -> bool`` where a client derives it from the request; None for plain functions.
        self.idempotent: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None
        #: While a policy compiles its strategies: whether this one is its first, and so has to look whether
        #: policies are off; and whether it stands right inside a `Deadline`, which has just looked.
        self.outermost = False
        self.entered = False
        #: The breakers that a `Retry` may ask before it sleeps whether the next attempt has a chance.
        self.breakers: tuple[Any, ...] = ()
        #: Counts a call that succeeded at its first attempt; set when the function is compiled.
        self.count: Callable[[], object]

    @property
    def has_no_request(self) -> bool:
        """True if the calls are calls of plain functions, not requests of a client."""
        return type(self) is Env

    @property
    def is_fixed(self) -> bool:
        """True if every call has the same operation and owner, and no request."""
        return self.has_no_request and self.function is not None

    def now(self) -> float:
        return self.timer.now()

    def operation(self, args: tuple[Any, ...] = ()) -> str:
        """The name that events, notes and errors give this call."""
        return self.name or _name_of(args[0] if args else None)

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The user's own arguments: ``Policy.call(fn, x)`` carries ``fn`` in front of them."""
        return args if self.function is not None else args[1:]

    def may_hedge(self, declared: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return True if two attempts of this call may be in flight at once; ``declared`` by its `Hedge`."""
        return declared or (self.idempotent is not None and self.idempotent(args, kwargs))

    def exchange(self, args: tuple[Any, ...]) -> Exchange | None:
        """The request that a client is sending with this call; ``None`` for plain functions."""
        return None

    def owner(self, args: tuple[Any, ...]) -> object:
        """Return the owner of the mark on an exhausted error: the decorated function.

        Under `Policy.call` it is the code of the function: a bound method is a new object every time.
        """
        return self.function if self.function is not None else getattr(args[0], "__code__", args[0])


def _name_of(function: object) -> str:
    return labels.clean(str(getattr(function, "__qualname__", None) or type(function).__qualname__))
