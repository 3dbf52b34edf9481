"""Common mistakes with policies: some are refused with advice, others only warned of."""

from __future__ import annotations

import weakref
from types import FunctionType

from .._primitives.guesses import near
from .._primitives.options import Options
from .._runtime.frames import frame_at
from .._runtime.maps import Recent
from .._strategies.retry.retry import Retry
from .checks import PolicyWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


def undecoratable(inner: object) -> str:
    """Return the reason why ``inner`` cannot be decorated, with advice."""
    advice = "a bare @retry needs its parentheses: @retry(on=...)"
    if isinstance(inner, property):
        advice = "put the policy below @property, on the getter"
    elif isinstance(inner, type):
        advice = "decorate its methods, or a function that makes one"
    elif hasattr(inner, "__await__"):
        advice = "give the function itself: a coroutine runs only once"
        if callable(close := getattr(inner, "close", None)):
            close()
    return f"Policy: what is decorated must be a function or a callable, got {inner!r}; {advice}"


#: What to write in place of what is not a strategy, by the name of its type.
_IN_PLACE_OF = {
    **dict.fromkeys(("list", "tuple"), "give them one by one: Policy(*strategies)"),
    **dict.fromkeys(("Limiter", "Pacer"), "did you mean RateLimit(limiter)?"),
    "Scope": "did you mean Deadline(seconds)?",
    "Policy": "give its strategies: Policy(*policy.strategies)",
    "function": "decorate it: Policy(...)(fn)",
}


def not_a_strategy(given: object, owner: str = "Policy") -> str:
    """Return why ``given`` cannot stand in a policy, and what can be done instead."""
    if isinstance(given, type):
        is_error = issubclass(given, BaseException)
        meant = f"Retry(on={given.__name__})" if is_error else f"{given.__name__}(...)"
        advice: str | None = f"did you mean {meant}?"
    elif hasattr(given, "withdraw"):
        advice = "did you mean Retry(budget=...)?"
    else:
        advice = _IN_PLACE_OF.get(type(given).__name__)
    hint = f"; {advice}" if advice else ""
    return f"{owner}: strategies must be strategies such as Retry(), got {given!r}{hint}"


def not_one_option(name: str, value: object, strategies: list[Any]) -> str:
    """Return why ``with_`` cannot replace the option ``name``: no strategy has it, or several have."""
    every = [(s, s.field_names()) for s in strategies if isinstance(s, Options)]
    owners = [type(s).__name__ for s, names in every if name in names]
    if owners:
        return (
            f"Policy.with_: {name} must be an option of one strategy, here {' and '.join(owners)} have it; "
            "give the whole strategy instead"
        )
    meant = near(name, sorted({option for _, names in every for option in names}))
    hint = f"; did you mean {meant}?" if meant else ""
    return f"Policy.with_: options must be those of its strategies, got {name}={value!r}{hint}"


def _users_frame() -> tuple[Any, int, list[str]]:
    """Return the frame of the user's code, how far away it is, and our own functions on the way."""
    frame: FrameType = frame_at(1)
    ours: list[str] = []
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "stormproof":
        ours.append(frame.f_code.co_name)
        frame = frame.f_back
    return frame, len(ours), ours


def warn(message: str) -> None:
    """Warn with ``message`` at the line of the user's code that made the policy."""
    import warnings

    warnings.warn(f"Policy: {message}", PolicyWarning, stacklevel=_users_frame()[1] + 1)


#: Places in users' code that make policies with a budget of their own, and how many of those were dropped.
_places = Recent(1024)
#: A policy is taken to be made for each call once these many were dropped, and most are.
_DROPPED, _DROPPED_PER_ALIVE = 50, 10


class _PolicyPlace:
    """A place where policies are made: which of them are alive, and how many were dropped."""

    def __init__(self) -> None:
        self.alive: dict[int, object] = {}
        self.dropped = 0
        self.is_warned = False

    def add(self, policy: object) -> None:
        """Count ``policy``, and its end when it comes. Policies are compared by value, so not by that."""
        key = id(policy)

        def drop(_: object) -> None:
            self.dropped += self.alive.pop(key, None) is not None

        self.alive[key] = weakref.ref(policy, drop)


def doubtful_place(policy: Any) -> str | None:
    """Return a warning, once, for a place where policies without a name are made and dropped."""
    own = any(isinstance(s, Retry) and s.owns_budget and s.attempts != 1 for s in policy.strategies)
    if policy.name is not None or not own:
        return None
    frame, _, ours = _users_frame()
    if "with_" in ours or "_rebuild" in ours:
        # A copy has the budget of its original.
        return None
    place: _PolicyPlace = _places.put_first((frame.f_code, frame.f_lasti), _PolicyPlace())
    place.add(policy)
    if place.is_warned or place.dropped < max(_DROPPED, _DROPPED_PER_ALIVE * len(place.alive)):
        return None
    place.is_warned = True
    return (
        f"{place.dropped} policies were made here and dropped, each with a full budget of its own, so that "
        "nothing limits their retries together; make the policy once, or give it a name"
    )


def refuse_bare(on: object) -> None:
    """Refuse a function under a bare ``@retry``: one that is being defined, not one that judges errors."""
    code, caller = getattr(on, "__code__", None), _users_frame()[0]
    if code is None or type(on) is not FunctionType or code.co_name == "<lambda>":
        return
    # Under a decorator the name is not bound yet; of a redefinition the one bound is another.
    name, space = code.co_name, caller.f_locals
    if code in caller.f_code.co_consts and space.get(name, caller.f_globals.get(name)) is not on:
        raise TypeError(
            f"retry: on must say which errors, got the function {on.__qualname__} to decorate; "
            "the decorator needs its parentheses: @retry(on=...)"
        )


_AWAITED = ("Awaitable", "Coroutine", "Future", "Task")


def doubtful_return(fn: object) -> str | None:
    """Return a warning if ``fn`` is a plain function whose annotation promises an awaitable."""
    returns = getattr(fn, "__annotations__", {}).get("return")
    name = str(getattr(returns, "__name__", returns)).partition("[")[0].rpartition(".")[2]
    if name not in _AWAITED:
        return None
    return (
        f"{getattr(fn, '__qualname__', fn)} is not async and returns {name}: the policy ends before that is "
        "awaited, and nothing is retried; make it `async def`"
    )
