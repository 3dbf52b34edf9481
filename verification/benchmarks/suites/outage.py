"""What a process pays in an outage, and under the policy that the README recommends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from .. import contenders as c
from .. import outages as o
from ..call_timing import Calls
from ..model import Bar, Case, Group

_FIVE = "Stormproof five strategies"
_LOOP = "hand-written loop"
#: What the bars of calls that give up are measured in.
_RETRIES = f"{_LOOP}, 3 failures, then a success"


def _case(
    name: str,
    make: Callable[..., c.Function],
    *given: object,
    needs: str | None = None,
    inside: Callable[[], AbstractContextManager[object]] = c.sleepless,
) -> Case:
    return Case(name, partial(make, *given), needs, inside)


GROUPS = [
    Group(
        name="outage-retried",
        title="A call that fails 3 times, then succeeds: which exception, which budget, which log",
        baseline=_LOOP,
        meter=Calls(),
        cases=(
            _case(_LOOP, o.by_hand, o.Own),
            _case("Stormproof, ConnectionError", o.retried, ConnectionError),
            _case("Stormproof, the user's own exception", o.retried, o.Own),
            _case("Stormproof, an exception with attributes", o.retried, o.Detailed),
            _case("Stormproof, transient", o.retried_transient),
            _case("Stormproof, no budget", o.retried_without_budget, o.Own),
            _case("Stormproof, logging configured", o.retried, o.Own, inside=o.logging_configured),
            _case(f"{_FIVE}", o.five_flaky),
            _case("nopanic + budget", o.nopanic_retried, o.Own, needs="nopanic"),
            _case(
                "nopanic + budget, an exception with attributes",
                o.nopanic_retried,
                o.Detailed,
                needs="nopanic",
            ),
            _case("opnieuw", o.opnieuw_retried, o.Own, needs="opnieuw", inside=c.opnieuw_at_once),
            _case("tenacity", o.tenacity_retried, o.Own, needs="tenacity"),
        ),
        bars=(
            Bar(
                "retried, own exception, of nopanic's",
                "Stormproof, the user's own exception",
                1.0,
                against="nopanic + budget",
            ),
            Bar(
                "retried, exception with attributes, of nopanic's",
                "Stormproof, an exception with attributes",
                1.0,
                against="nopanic + budget, an exception with attributes",
            ),
            Bar(
                "retried, ConnectionError, of nopanic's",
                "Stormproof, ConnectionError",
                1.0,
                against="nopanic + budget",
            ),
            Bar("retried, transient, of nopanic's", "Stormproof, transient", 1.0, against="nopanic + budget"),
            Bar("retried, own exception", "Stormproof, the user's own exception", 7, goal=4),
        ),
    ),
    Group(
        name="outage-retried-async",
        title="An awaited call that fails 3 times, then succeeds",
        baseline=_LOOP,
        meter=Calls(is_async=True),
        cases=(
            _case(_LOOP, o.by_hand_async, o.Own),
            _case("Stormproof, the user's own exception", o.retried_async, o.Own),
            _case(_FIVE, o.five_flaky_async),
            _case("nopanic + budget", o.nopanic_retried_async, o.Own, needs="nopanic"),
            _case("tenacity", o.tenacity_retried_async, o.Own, needs="tenacity"),
        ),
        bars=(Bar("retried, awaited", "Stormproof, the user's own exception", 2.3, goal=1.8),),
    ),
    Group(
        name="outage-refused",
        title="A call that ends in an error which its caller catches",
        baseline=f"{_LOOP}, 1 attempt",
        meter=Calls(),
        cases=(
            _case(f"{_LOOP}, 1 attempt", o.fails_by_hand),
            _case(_RETRIES, o.by_hand, o.Own),
            _case("Stormproof, attempts used up", o.attempts_used_up),
            _case(
                "Stormproof, attempts used up, logging configured",
                o.attempts_used_up,
                inside=o.logging_configured,
            ),
            _case("Stormproof, budget exhausted", o.budget_exhausted),
            _case("Stormproof, not retryable", o.fatal),
            _case("Stormproof breaker, open", o.open_breaker),
            _case("Stormproof retry + breaker, open", o.open_breaker_in_retry),
            _case(f"{_FIVE}, breaker open", o.open_breaker_in_five),
            _case("Stormproof breaker, closed, all buckets in use", o.failing_breaker),
            _case("Stormproof limiter, refuses", o.limited),
            _case("nopanic limiter, refuses", o.nopanic_limited, needs="nopanic"),
            _case("nopanic, attempts used up", o.nopanic_used_up, needs="nopanic"),
            _case("nopanic breaker, open", o.nopanic_open, needs="nopanic"),
            _case("circuitbreaker, open", o.circuitbreaker_open, needs="circuitbreaker"),
            _case("tenacity, attempts used up", o.tenacity_used_up, needs="tenacity"),
        ),
        bars=(
            Bar("attempts used up", "Stormproof, attempts used up", 3.5, goal=2, against=_RETRIES),
            Bar("budget exhausted", "Stormproof, budget exhausted", 3.5, goal=2, against=_RETRIES),
            Bar(
                "limiter refuses, of nopanic's",
                "Stormproof limiter, refuses",
                1.1,
                against="nopanic limiter, refuses",
            ),
            Bar("not retryable", "Stormproof, not retryable", 1.2, against=_RETRIES),
            Bar(
                "breaker open, of nopanic's",
                "Stormproof breaker, open",
                0.75,
                against="nopanic breaker, open",
            ),
            Bar(
                "retry + breaker open, of nopanic's",
                "Stormproof retry + breaker, open",
                1.6,
                against="nopanic breaker, open",
            ),
            Bar(
                "five, breaker open, of nopanic's",
                f"{_FIVE}, breaker open",
                2.0,
                against="nopanic breaker, open",
            ),
        ),
    ),
    Group(
        name="recommended",
        title="A call that succeeds under the policy that the README recommends",
        baseline=_LOOP,
        meter=Calls(),
        cases=(
            _case(_LOOP, c.hand_written, c.work, inside=nullcontext),
            _case("Stormproof retry", c.stormproof, c.work, inside=nullcontext),
            _case("Stormproof deadline + retry", o.deadline_retry, c.work, inside=nullcontext),
            _case(_FIVE, o.five, c.work, inside=nullcontext),
            _case("Stormproof policy.call", c.stormproof_call, c.work, inside=nullcontext),
            _case(
                "nopanic four: retry + budget, breaker, bulkhead, deadline",
                o.nopanic_four,
                c.work,
                needs="nopanic",
                inside=nullcontext,
            ),
        ),
        bars=(
            Bar("deadline + retry", "Stormproof deadline + retry", 5, goal=3.5),
            Bar("five strategies", _FIVE, 10, goal=7),
            Bar("policy.call", "Stormproof policy.call", 2.5),
        ),
    ),
    Group(
        name="recommended-async",
        title="An awaited call that succeeds under the policy that the README recommends",
        baseline="asyncio.timeout alone",
        meter=Calls(is_async=True),
        cases=(
            _case("asyncio.timeout alone", o.asyncio_timeout, c.work_async, inside=nullcontext),
            _case("Stormproof deadline + retry", o.deadline_retry, c.work_async, inside=nullcontext),
            _case(_FIVE, o.five, c.work_async, inside=nullcontext),
        ),
        bars=(Bar("five strategies, awaited", _FIVE, 1.0),),
    ),
]
