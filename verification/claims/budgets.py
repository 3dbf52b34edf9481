"""Claims about retry budgets: what they allow, and what each kind does in an outage."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import stormproof as sp
from stormproof import lab

from .experiments import retrying, simulate
from .model import Found, Topic, found
from .sources import AWS_SDK, CARD, CHAPTER, FINAGLE, FORMULAS, GRPC, GUIDE, SPEC, SRE, THEORY

topic = Topic(
    "Budgets",
    plots=(
        (
            "plot-budgets",
            "A 10 s outage at 280/s on 300/s: budgets that fill by time, by call and by success",
        ),
    ),
)


def failing(
    rate: float, budget: Any, duration: float = 30.0, attempts: int = 5, **options: Any
) -> lab.Result:
    """200 calls a second, of whose attempts a share of ``rate`` fails."""
    place = lab.Scenario(
        **{
            "clients": 1,
            "arrival_rps": 200,
            "capacity_rps": 1e5,
            "error_rate": rate,
            "duration": duration,
            **options,
        }
    )
    return simulate(retrying(attempts=attempts, backoff=sp.Constant(0.01), budget=budget), place, seed=2)


@topic.claim(
    "The ceiling of a budget",
    "A budget of a ratio and a burst bounds the attempts per call by 1 + ratio + burst / calls, whatever "
    "fails.",
    THEORY,
)
def ceiling() -> Found:
    lines, holds = [], True
    for rate in (0.3, 0.9, 1.0):
        result = failing(rate, sp.Budget(ratio=0.1, burst=20))
        bound = 1.1 + 20 / result.calls
        holds = holds and result.amplification <= bound
        lines.append(f"{rate:.0%} errors: {result.amplification:.4f} of at most {bound:.4f}")
    return found(
        "`lab.simulate` with `Budget(ratio=0.1, burst=20)`, 200 calls/s for 30 s", "; ".join(lines), holds
    )


@topic.claim(
    "A 10 percent budget makes a tenth more load",
    "When everything is refused, three attempts per request make 3 times the load; a retry budget of 10 % "
    "per "
    "client makes it 1.1 times.",
    SRE,
    CHAPTER,
)
def sre_budget() -> Found:
    free = failing(1.0, None, attempts=3).amplification
    bounded = failing(1.0, sp.WindowBudget(ratio=0.1, floor=0), attempts=3).amplification
    earned = failing(1.0, sp.Budget(ratio=0.1, burst=10), attempts=3).amplification
    return found(
        "`lab.simulate`, all attempts refused: no budget, `WindowBudget(ratio=0.1, floor=0)`, "
        "`Budget(ratio=0.1)`",
        f"{free:.2f}, {bounded:.3f} and {earned:.3f} attempts per call",
        abs(free - 3) < 0.01 and abs(bounded - 1.1) < 0.005,
        "A budget that successes pay into makes it less still.",
    )


@topic.claim(
    "Finagle allows ratio times calls",
    "With time standing still, 10,000 requests allow 10,000 p retries and the reserve, give or take one, for "
    "any p.",
    FINAGLE,
)
def finagle() -> Found:
    reserve, off = 10, {}
    for ratio in (0.0001, 0.1, 0.2, 0.4, 0.7, 0.9999):
        budget = sp.WindowBudget(ratio=ratio, floor=1, window=reserve, clock=sp.testing.FakeClock())
        for _ in range(10_000):
            budget.started()
        allowed = 0
        while budget.withdraw():
            allowed += 1
        off[ratio] = allowed - (math.floor(10_000 * ratio) + reserve)
    return found(
        "`WindowBudget(ratio=p, floor=1, window=10)` on a `FakeClock`: 10,000 starts, then withdrawals until "
        "refused",
        ", ".join(f"p = {ratio}: {error:+d}" for ratio, error in off.items()),
        all(abs(error) <= 1 for error in off.values()),
    )


@topic.claim(
    "A floor by time bounds nothing in a fleet",
    "A budget with a floor of 10 retries per second and process bounds nothing when there are many "
    "processes.",
    SPEC,
)
def floor() -> Found:
    loads = {n: failing(1.0, sp.WindowBudget(), clients=n, attempts=3).amplification for n in (1, 10, 100)}
    return found(
        "`lab.simulate`, 200 calls/s in all, everything refused, three attempts, `WindowBudget()` in each "
        "process",
        ", ".join(
            f"{n} process{'es' if n > 1 else ''}: {value:.2f} attempts per call" for n, value in loads.items()
        ),
        loads[1] < 1.4 and loads[100] > 2.9,
    )


@topic.claim(
    "A rate bounds the retries",
    "100 retries per second with a burst of 200, system-wide: when the tokens are out, retries are denied.",
    GUIDE,
)
def by_rate() -> Found:
    place = lab.Scenario(
        clients=1, arrival_rps=1000, capacity_rps=1e5, outage=lab.Outage(2, 10, "fail"), duration=15
    )
    policy = retrying(attempts=5, backoff=sp.Exponential(), budget=sp.RateBudget(rate=100, burst=200))
    result = simulate(policy, place)
    retries, bound = result.attempts - result.calls, 200 + 100 * 10
    return found(
        "`lab.simulate` with `RateBudget(rate=100, burst=200)`, 1,000 calls/s, a 10 s outage",
        f"{retries:,} retries; the bucket and ten seconds of tokens are {bound:,}",
        0.95 * bound <= retries <= bound + 100,
    )


@topic.claim(
    "A hundred failures empty the quota",
    "A bucket of 500 tokens that pays 5 for a retry refuses after 100 failures in a row.",
    CARD,
    AWS_SDK,
)
def quota() -> Found:
    counts = {}
    for timeout in (False, True):
        budget = sp.QuotaBudget(clock=sp.testing.FakeClock())
        counts[timeout] = 0
        while budget.withdraw(timeout=timeout):
            counts[timeout] += 1
    return found(
        "`QuotaBudget().withdraw()` until it refuses",
        f"{counts[False]} retries; {counts[True]} when the failures are timeouts, which cost 10",
        counts[False] == 100,
    )


@topic.claim(
    "Each success refunds five",
    "In the AWS SDKs' bucket each successful call gives 5 tokens back.",
    CARD,
)
def refund() -> Found:
    budget = sp.QuotaBudget(clock=sp.testing.FakeClock())
    for _ in range(50):
        budget.withdraw()
    before = budget.balance
    budget.success()
    first = budget.balance - before
    paid = budget.withdraw()
    before = budget.balance
    budget.success(paid)
    return found(
        "`QuotaBudget()`, the SDKs' rule: balance before and after a success",
        f"+{first:g} for a success at the first try, +{budget.balance - before:g} for one after a retry",
        first == 5,
        "Only the retry that worked gets its cost back; a first try gives one token. With 5 for every "
        "success the "
        "bucket would be full after 100 good calls, not 500.",
        partly=budget.balance - before == 5,
    )


def _tokens(*outcomes: bool) -> list[float]:
    """What each attempt of one call does to the tokens of gRPC's throttle; False is one that fails."""
    budget = sp.ThrottleBudget(max_tokens=10, token_ratio=0.1, clock=sp.testing.FakeClock())
    # A full bucket would not show what a success gives.
    budget.failure()
    coming = iter(outcomes)
    left = []

    def call() -> None:
        left.append(budget.balance)
        if not next(coming):
            raise ConnectionError

    retry = sp.Retry(
        on=ConnectionError, attempts=len(outcomes), backoff=sp.Constant(0), within=None, budget=budget
    )
    try:
        sp.Policy(retry, clock=sp.testing.FakeClock()).call(call)
    except ConnectionError:
        pass
    return [after - before for before, after in pairwise([*left, budget.balance])]


@topic.claim(
    "Failed retries cost a token",
    "In gRPC's throttle a failed retry costs one token, and a successful call gives tokenRatio.",
    FORMULAS,
)
def throttle_costs() -> Found:
    first, retried = _tokens(False, False)
    [gained] = _tokens(True)
    return found(
        "`Policy.call` with `ThrottleBudget(10, 0.1)`, which keeps to gRPC's rule: the tokens before and "
        "after each attempt",
        f"a retry that fails {retried:+g}, a success {gained:+.1f}; a first attempt that fails {first:+g}",
        math.isclose(retried, -1) and math.isclose(gained, 0.1),
        "As far as it goes: that first attempts which fail pay as well is not said.",
    )


@topic.claim(
    "gRPC throttles below half",
    "Each attempt that fails with a retryable code costs one token, each success gives tokenRatio, and no "
    "retry is made while half of maxTokens or less are left.",
    GRPC,
)
def throttle() -> Found:
    [failed], [gained] = _tokens(False), _tokens(True)
    budget = sp.ThrottleBudget(max_tokens=10, token_ratio=0.1, clock=sp.testing.FakeClock())
    failures = 0
    while budget.withdraw():
        budget.failure()
        failures += 1
    loads = {
        rate: [failing(rate, kind, attempts=4).amplification for kind in (sp.ThrottleBudget(), None)]
        for rate in (0.05, 0.2)
    }
    return found(
        "the same, the tokens before and after an attempt; failures until a retry is refused; and in the lab "
        "with 5 % and 20 % errors",
        f"a failure {failed:+g}, a success {gained:+.1f}; refused after {failures} failures, with "
        f"{budget.balance:g} tokens left; attempts per call "
        + ", ".join(
            f"{bound:.3f} at {rate:.0%} (without a budget {free:.3f})"
            for rate, (bound, free) in loads.items()
        ),
        math.isclose(failed, -1) and math.isclose(gained, 0.1) and budget.balance == 5,
        "So retries flow freely while less than one attempt in eleven fails (a token against ten times 0.1), "
        "and hardly above.",
    )


@topic.claim(
    "An infinite rate with no burst",
    "`rate.NewLimiter(rate.Inf, 0)` never has a token, so a test can use it as an empty budget.",
    GUIDE,
)
def infinite() -> Found:
    return _limiter(
        math.inf,
        0,
        "An infinite rate ignores the burst: it always allows, and that test of the guide would fail.",
    )


@topic.claim(
    "A rate of zero allows nothing",
    "A limiter with a limit of 0 allows nothing, not even the first call.",
    GUIDE,
)
def zero_rate() -> Found:
    return _limiter(0, 5, "It starts full: the burst is granted once, and nothing after it.")


def _limiter(rate: float, burst: int, why: str) -> Found:
    limiter = sp.Limiter(rate, burst, clock=sp.testing.FakeClock())
    allowed = sum(limiter.allow() for _ in range(20))
    return found(
        f"`Limiter({rate}, {burst}).allow()`, 20 times; `Limiter` keeps to the semantics of Go's x/time/rate",
        f"{allowed} allowed",
        allowed == 0,
        why,
    )


@topic.claim(
    "Throttling sends twice what is accepted",
    "A client that rejects by itself with probability (requests - K accepts) / (requests + 1) and K = 2 lets "
    "the "
    "backend reject about one request for each it accepts.",
    SRE,
)
def adaptive() -> Found:
    place = lab.Scenario(clients=1, arrival_rps=500, capacity_rps=1e5, limit_rps=50, duration=60)
    sent = {}
    for k in (2.0, 1.1):
        result = simulate(sp.Policy(sp.Throttle(k=k, window=120)), place)
        tail = [value or 0 for value in result.series["received"][-200:]]
        sent[k] = sum(tail) / len(tail) / 50
    return found(
        "`lab.simulate` with `Throttle(k=2)`, 500 calls/s on a backend that accepts 50/s; the last third of "
        "the run",
        ", ".join(f"K = {k:g}: {value:.2f} requests sent for each accepted" for k, value in sent.items()),
        abs(sent[2.0] - 2) < 0.15,
    )
