"""An async function where nothing awaits it was accepted: `trip=` opened the circuit at the first call, for a
coroutine is true; `key=` made a budget per call; `on_state_change=` and `subscribe` ran nothing.

Stormproof: it is refused when it is given, as `on=` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp


async def answer(*args: object) -> bool:
    return True


class Hooks:
    async def method(self, *args: object) -> bool:
        return True


PLACES: dict[str, Callable[[Any], object]] = {
    "Breaker: trip": lambda fn: sp.Breaker(trip=fn),
    "Breaker: on_state_change": lambda fn: sp.Breaker(on_state_change=fn),
    "Exponential: jitter": lambda fn: sp.Exponential(jitter=fn),
    "RateLimit: cost": lambda fn: sp.RateLimit(sp.Limiter(1, 1), cost=fn),
    "RateLimit: cost_of_result": lambda fn: sp.RateLimit(sp.Limiter(1, 1), cost_of_result=fn),
    "keyed: key": lambda fn: sp.keyed(sp.Budget(), key=fn),
    "subscribe: callback": sp.subscribe,
}


@pytest.mark.parametrize("fn", [answer, Hooks().method], ids=["function", "method"])
@pytest.mark.parametrize("place", PLACES)
def test_async_function_is_refused_where_nothing_awaits_it(place: str, fn: Any) -> None:
    with pytest.raises(TypeError, match=f"^{place} must not be async, got "):
        PLACES[place](fn)


@pytest.mark.parametrize("exclude", [answer, 5, (5,)])
def test_error_about_exclude_names_exclude(exclude: Any) -> None:
    with pytest.raises(TypeError, match=r"^Breaker: exclude must "):
        sp.Breaker(exclude=exclude)
