"""Common mistakes with policies: some are refused with advice, others only warned of."""

from __future__ import annotations

import weakref
from types import FunctionType

from .._runtime.frames import frame_at
from .._runtime.maps import Recent
from .._strategies.retry.retry import Retry
from .checks import PolicyWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


def undecoratable(inner: object) -> str:
    """Return why ``inner`` cannot be decorated, and what can be done instead."""
    kind, advice = "functions and callables", "a bare @retry needs its parentheses: @retry(on=...)"
    if isinstance(inner, property):
        advice = "put the policy below @property, on the getter"
    elif isinstance(inner, type):
        advice = "decorate its methods, or a function that makes one"
    elif hasattr(inner, "__await__"):
        advice = "give the function itself: a coroutine runs only once"
        if callable(close := getattr(inner, "close", None)):
            close()
    return f"Policy: what is decorated must be one of {kind}, got {inner!r}; {advice}"


def _users_frame() -> tuple[Any, int, list[str]]:
    """Return the frame of the user's code, how far away it is, and our own functions on the way."""
    frame: FrameType = frame_at(1)
    ours: list[str] = []
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "stormproof":
        ours.append(frame.f_code.co_name)
        frame = frame.f_back
    return frame, len(ours), ours


def warn(doubt: str) -> None:
    """Warn of ``doubt`` at the line of the user's code that made the policy."""
    import warnings

    warnings.warn(f"Policy: {doubt}", PolicyWarning, stacklevel=_users_frame()[1] + 1)


#: Places in users' code where policies with a budget of their own are made, and what became of those.
_places = Recent(1024)
#: After these many that were dropped, a policy is taken to be made for each call.
_DROPPED = 50


class _PolicyPlace:
    """A place where policies are made: the last of them, and how many were dropped before the next."""

    __slots__ = ("dropped", "last")

    def __init__(self) -> None:
        self.last: Callable[[], Any] = object
        self.dropped = 0


def doubtful_place(policy: Any) -> str | None:
    """Return a warning for the 50th policy without a name made where the one before is always gone."""
    own = any(isinstance(s, Retry) and s.owns_budget for s in policy.strategies)
    if policy.name is not None or not own:
        return None
    frame, _, ours = _users_frame()
    if "with_" in ours or "_rebuild" in ours:
        # A copy has the budget of its original.
        return None
    place: _PolicyPlace = _places.put_first((frame.f_code, frame.f_lasti), _PolicyPlace())
    place.dropped += place.last() is None
    place.last = weakref.ref(policy)
    if place.dropped != _DROPPED:
        return None
    return (
        f"{_DROPPED} policies were made here and dropped, each with a full budget of its own, so that "
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
    """Return a warning about a plain function that says that it returns something to await."""
    returns = getattr(fn, "__annotations__", {}).get("return")
    name = str(getattr(returns, "__name__", returns)).partition("[")[0].rpartition(".")[2]
    if name not in _AWAITED:
        return None
    return (
        f"{getattr(fn, '__qualname__', fn)} is not async and returns {name}: the policy ends before that is "
        "awaited, and nothing is retried; make it `async def`"
    )
