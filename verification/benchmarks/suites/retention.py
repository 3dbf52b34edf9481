"""What successful calls leave in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import contenders as c
from ..call_timing import finish
from ..memory import Retained
from ..model import Bar, Case, Group

#: Bytes per call that count as nothing: 1,000 over all calls, so less than one pointer in a hundred calls.
_NOTHING = 0.01
#: Where calls are retried, the budget's window of 10 s fills up with numbers, 1,000 bytes or so, and stays
#: at that: 4,000 over a tenth of the calls, so less than one pointer in ten.
_NEXT_TO_NOTHING = 0.4


def _stepped(make: Callable[[c.AsyncFunction], c.AsyncFunction]) -> c.Function:
    """The same around a coroutine function, run to its end without an event loop."""
    call = make(c.work_async)
    return lambda key: finish(call(key))  # type: ignore[arg-type]


def _group(name: str, title: str, cases: tuple[Case, ...], limit: float, share: float = 1.0) -> Group:
    ours = [case.name for case in cases if case.name.startswith("Stormproof")]
    return Group(
        name=name,
        title=f"{title}: memory, per call",
        baseline="hand-written loop",
        meter=Retained(share),
        cases=cases,
        bars=tuple(Bar(f"{name}, {case}: B held per call", case, limit, of="excess") for case in ours),
        compare="excess",
    )


GROUPS = [
    _group(
        "memory",
        "A call that succeeds",
        (
            Case("hand-written loop", partial(c.hand_written, c.work)),
            Case("Stormproof retry", partial(c.stormproof, c.work)),
            Case("Stormproof retry in a deadline", partial(c.stormproof, c.work), inside=c.within_deadline),
            Case("nopanic + budget", partial(c.nopanic_budget, c.work), needs="nopanic"),
        ),
        _NOTHING,
    ),
    _group(
        "memory-async",
        "An awaited call that succeeds",
        (
            Case("hand-written loop", partial(_stepped, c.hand_written_async)),
            Case("Stormproof retry", partial(_stepped, c.stormproof)),
            Case("nopanic + budget", partial(_stepped, c.nopanic_budget), needs="nopanic"),
        ),
        _NOTHING,
    ),
    _group(
        "memory-retried",
        "A call that fails 3 times, then succeeds",
        (
            Case("hand-written loop", partial(c.hand_written, c.flaky(), pause=False), inside=c.sleepless),
            Case("Stormproof retry", partial(c.stormproof_now, c.flaky()), inside=c.sleepless),
            Case(
                "nopanic + budget",
                partial(c.nopanic_budget, c.flaky(), pause=False),
                needs="nopanic",
                inside=c.sleepless,
            ),
        ),
        _NEXT_TO_NOTHING,
        share=0.1,
    ),
]
