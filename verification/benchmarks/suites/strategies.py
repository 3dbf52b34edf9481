"""The other strategies, alone and together: a call that succeeds, a token taken, memory over a long time."""

from __future__ import annotations

from functools import partial

from .. import compositions as s
from .. import contenders as c
from ..call_timing import Calls
from ..memory import Growth
from ..model import Bar, Case, Group

_STACK = "retry + budget + breaker + bulkhead"
_ALLOW = "Stormproof Limiter.allow()"
_KEYED = "Stormproof keyed budget, 1,000 keys at most"
#: Bytes in a million calls that count as none: the interpreter's own noise.
_NOISE = 512


def _breakers(fn: c.Function) -> tuple[Case, ...]:
    return (
        Case("circuitbreaker", partial(s.circuitbreaker, fn), needs="circuitbreaker"),
        Case("nopanic breaker", partial(s.nopanic_breaker, fn), needs="nopanic"),
        Case(f"nopanic {_STACK}", partial(s.nopanic_stack, fn), needs="nopanic"),
    )


GROUPS = [
    Group(
        name="strategies",
        title="A call that succeeds",
        baseline="hand-written loop",
        meter=Calls(),
        cases=(
            Case("hand-written loop", partial(c.hand_written, c.work)),
            Case("Stormproof breaker", partial(s.breaker, c.work)),
            Case("Stormproof bulkhead", partial(s.bulkhead, c.work)),
            Case("Stormproof timeout", partial(s.timeout, c.work)),
            Case("Stormproof rate limit", partial(s.rate_limit, c.work)),
            Case("Stormproof throttle", partial(s.throttle, c.work)),
            Case("Stormproof deadline + retry", partial(s.deadline_retry, c.work)),
            Case(f"Stormproof {_STACK}", partial(s.stack, c.work)),
            Case("pybreaker", partial(s.pybreaker, c.work), needs="pybreaker"),
            *_breakers(c.work),
        ),
        bars=(
            Bar("sync breaker", "Stormproof breaker", 3.5),
            Bar(f"sync {_STACK}", f"Stormproof {_STACK}", 5, goal=2),
        ),
    ),
    Group(
        name="strategies-async",
        title="An awaited call that succeeds",
        baseline="hand-written loop",
        meter=Calls(is_async=True),
        cases=(
            Case("hand-written loop", partial(c.hand_written_async, c.work_async)),
            Case("Stormproof breaker", partial(s.breaker, c.work_async)),
            Case(f"Stormproof {_STACK}", partial(s.stack, c.work_async)),
            *_breakers(c.work_async),
        ),
        bars=(Bar(f"async {_STACK}", f"Stormproof {_STACK}", 4),),
    ),
    Group(
        name="limiters",
        title="A token that is there, taken",
        baseline=_ALLOW,
        meter=Calls(is_async=True),
        cases=(
            Case(_ALLOW, s.limiter),
            Case("nopanic rate_limit, a call", s.nopanic_call, needs="nopanic"),
            Case("nopanic rate_limit, a block", s.nopanic_guard, needs="nopanic"),
            Case("aiolimiter acquire()", s.aiolimiter, needs="aiolimiter", inside=s.in_another_loop),
        ),
        bars=(
            Bar("Limiter.allow(), of nopanic", _ALLOW, 1 / 3, against="nopanic rate_limit, a call"),
            Bar("Limiter.allow(), of aiolimiter", _ALLOW, 1 / 3, against="aiolimiter acquire()"),
        ),
    ),
    Group(
        name="growth",
        title="Memory held after many uses, and how much more than after a hundredth of them",
        baseline="nothing",
        meter=Growth(),
        cases=(
            Case("nothing", s.nothing_held),
            Case("Stormproof breaker", s.breaker_held),
            Case("Stormproof limiter", s.limiter_held),
            Case(_KEYED, s.keyed_held),
        ),
        bars=(
            Bar("breaker: bytes more after a million", "Stormproof breaker", _NOISE, of="excess"),
            Bar("limiter: bytes more after a million", "Stormproof limiter", _NOISE, of="excess"),
            Bar("keyed budget: bytes more after a million", _KEYED, _NOISE, of="excess"),
            Bar("keyed budget: entries", _KEYED, 1000, of="value", unit="entries"),
        ),
        compare="excess",
    ),
]
