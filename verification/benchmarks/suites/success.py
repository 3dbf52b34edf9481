"""A call that succeeds at once: what everybody pays for every call."""

from __future__ import annotations

from functools import partial

from .. import contenders as c
from ..call_timing import Calls
from ..model import Bar, Case, Group


def _another() -> c.Function:
    def work(key: int) -> int:
        return key

    return work


def _another_async() -> c.Function:
    async def work(key: int) -> int:
        return key

    return work


def _rivals(fn: c.Function) -> tuple[Case, ...]:
    return (
        Case("tenacity", partial(c.tenacity, fn), needs="tenacity"),
        Case("stamina", partial(c.stamina, fn), needs="stamina"),
        Case("backoff", partial(c.backoff, fn), needs="backoff"),
        Case("nopanic", partial(c.nopanic, fn), needs="nopanic"),
        Case("nopanic + budget", partial(c.nopanic_budget, fn), needs="nopanic"),
        Case("opnieuw", partial(c.opnieuw, fn), needs="opnieuw"),
    )


def _stormproof(fn: c.Function) -> tuple[Case, ...]:
    return (
        Case("Stormproof retry", partial(c.stormproof, fn)),
        Case("Stormproof retry + shared budget", partial(c.stormproof_shared, fn)),
        Case("Stormproof retry, no budget", partial(c.stormproof_without_budget, fn)),
        Case("Stormproof retry in a deadline", partial(c.stormproof, fn), inside=c.within_deadline),
    )


GROUPS = [
    Group(
        name="sync",
        title="A call that succeeds",
        baseline="hand-written loop",
        meter=Calls(),
        cases=(
            Case("bare call", partial(c.bare, c.work)),
            Case("hand-written loop", partial(c.hand_written, c.work)),
            Case("hand-written while loop", partial(c.hand_written_while, c.work)),
            Case("hand-written decorator", partial(c.hand_written_decorator, c.work)),
            *_stormproof(c.work),
            Case("Stormproof retry, 5 functions in turn", partial(c.stormproof_in_turn, _another)),
            Case("Stormproof policy.call", partial(c.stormproof_call, c.work)),
            *_rivals(c.work),
        ),
        bars=(Bar("sync call, default budget", "Stormproof retry", 1.5, goal=1.1),),
    ),
    Group(
        name="async",
        title="An awaited call that succeeds",
        baseline="hand-written loop",
        meter=Calls(is_async=True),
        cases=(
            Case("bare call", partial(c.bare, c.work_async)),
            Case("hand-written loop", partial(c.hand_written_async, c.work_async)),
            *_stormproof(c.work_async),
            Case("Stormproof retry, 5 functions in turn", partial(c.stormproof_in_turn, _another_async)),
            Case("Stormproof policy.acall", partial(c.stormproof_acall, c.work_async)),
            *_rivals(c.work_async),
        ),
        bars=(Bar("async call, default budget", "Stormproof retry", 1.4),),
    ),
]
