"""A call that fails three times and then succeeds, with no wait in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from .. import contenders as c
from ..call_timing import Calls
from ..model import Bar, Case, Group


def _cases(flaky: Callable[[], c.Function], by_hand: Callable[..., c.Function]) -> tuple[Case, ...]:
    # Each case has a failing function of its own: it counts its calls.
    def case(name: str, make: Callable[..., c.Function], needs: str | None = None, **options: bool) -> Case:
        return Case(name, partial(make, flaky(), **options), needs, inside=c.sleepless)

    return (
        case("hand-written loop", by_hand, pause=False),
        case("Stormproof retry", c.stormproof_now),
        replace(case("Stormproof retry, no log line", c.stormproof_now), inside=c.without_log_lines),
        case("tenacity", c.tenacity, "tenacity", pause=False),
        case("stamina", c.stamina, "stamina", pause=False),
        case("backoff", c.backoff, "backoff", pause=False),
        case("nopanic", c.nopanic, "nopanic", pause=False),
        case("nopanic + budget", c.nopanic_budget, "nopanic", pause=False),
        replace(case("opnieuw", c.opnieuw, "opnieuw"), inside=c.opnieuw_at_once),
    )


GROUPS = [
    Group(
        name="retried",
        title="A call that fails 3 times, then succeeds",
        baseline="tenacity",
        meter=Calls(),
        cases=_cases(c.flaky, c.hand_written),
        bars=(Bar("retried call", "Stormproof retry", 1 / 3),),
    ),
    Group(
        name="retried-async",
        title="An awaited call that fails 3 times, then succeeds",
        baseline="tenacity",
        meter=Calls(is_async=True),
        cases=_cases(c.flaky_async, c.hand_written_async),
        bars=(Bar("retried async call", "Stormproof retry", 1 / 3),),
    ),
]
