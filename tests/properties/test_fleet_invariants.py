"""Invariants 17 and 18: a fleet keeps its limit up to a stated excess, and lives without its store."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.fleet.test_fleet_processes import TRIES, on_time
from tests.support.limiter_processes import run_processes
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof import events, idempotency
from stormproof._strategies.limiter.rules import leases
from stormproof.redis import RedisStore

pytestmark = pytest.mark.redis

RATE, BURST, SECONDS, TENTH = 1000.0, 100, 2.0, 0.1


@pytest.fixture
def server() -> Any:
    with Server() as server:
        yield server


@pytest.mark.proves("invariant 17")
@pytest.mark.parametrize("members", [2, 8])
def test_processes_together_admit_at_most_the_stated_excess(
    server: Server, members: int, measured: Callable[[str], None]
) -> None:
    """admitted <= limit (1 + e): e is stated before the run, as `leases.overshoot` of limit, burst and K."""
    limit = BURST + RATE * SECONDS
    stated = leases.overshoot(RATE, BURST, members)
    for _ in range(TRIES):
        reports = run_processes(server.url, SECONDS, RATE, BURST, [80 // members] * members)
        assert server.keys_without_ttl() == []
        if on_time(reports):
            break
        # The machine had no time for all of them: the excess is stated for exchanges that are on time.
        server.ask("FLUSHALL")
    else:
        pytest.fail(f"the exchanges were late at each of {TRIES} tries")
    admitted = sum(each["admitted"] for each in reports)
    assert admitted <= limit + stated
    tenths = [sum(each["tenths"][place] for each in reports) for place in range(round(SECONDS / TENTH))]
    worst = 0.0
    for first, last in itertools.combinations(range(len(tenths) + 1), 2):
        bound = BURST + RATE * TENTH * (last - first) + stated
        inside = sum(tenths[first:last])
        assert inside <= bound, (first, last)
        worst = max(worst, inside - (BURST + RATE * TENTH * (last - first)))
    measured(
        f"{members} processes, {admitted:,} admitted, limit {limit:,.0f}: e = {admitted / limit - 1:+.1%} "
        f"(stated {stated / limit:.1%}); worst window {worst:+.0f} calls (stated {stated:.0f})"
    )


@pytest.mark.proves("invariant 17")
def test_every_key_of_every_kind_has_an_end(server: Server, measured: Callable[[str], None]) -> None:
    with RedisStore(server.url, timeout=1) as store:
        limiters = sp.keyed(sp.Limiter(5, 2, store=store, name="l"))
        budget = sp.Budget(store=store, name="b")
        rated = sp.RateBudget(1, 5, store=store, name="r")
        breaker = sp.Breaker(store=store, name="c", consecutive=1, open_for=0.05, probe_timeout=1)
        gated, places = sp.Policy(breaker), sp.Policy(sp.Bulkhead(2, store=store, name="p"))
        keys = idempotency.RedisStore(store)
        assert store.settle(5)
        looks, most = 0, 0
        kinds: set[str] = set()
        for number in range(40):
            limiters[number % 8].allow()
            budget.success(), budget.withdraw(), rated.withdraw()
            places.call(int)
            try:
                gated.call([].pop if number % 3 else int)
            except (IndexError, sp.CircuitOpen):
                pass
            keys.begin(f"k{number}", "", "me", 5)
            (keys.finish if number % 2 else keys.release)(f"k{number}", "me", *([b"a"] if number % 2 else []))
            assert server.keys_without_ttl() == [], number
            found = server.ask("KEYS", "*")
            kinds |= {key.rpartition(":")[2] for key in found}
            looks, most = looks + 1, max(most, len(found))
    assert server.keys_without_ttl() == []
    assert {"limiter", "budget", "breaker", "bulkhead", "idempotency"} <= kinds
    measured(f"looked {looks} times at up to {most} keys of {len(kinds)} kinds: 0 without a TTL")


# Without the store.

#: Long enough that a stall of a busy machine is not taken for a wait.
TIMEOUT = 1.0
#: How late a busy machine may wake a thread.
TICK = 0.1


class Life:
    """A process whose every strategy is in the store, and whose own work takes no time."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        limiter = sp.Limiter(1e6, 10**6, store=store, name="l")
        self.policy = sp.Policy(
            sp.RateLimit(limiter, max_wait=1),
            sp.Retry(
                on=OSError,
                attempts=3,
                backoff=sp.Constant(0),
                budget=sp.Budget(burst=10**6, store=store, name="b"),
            ),
            sp.Breaker(store=store, name="c", min_calls=10**6),
            sp.Bulkhead(50, queue=10, max_wait=1, store=store, name="p"),
        )

    def calls(self, seconds: float) -> tuple[int, float]:
        """Make calls that fail once for the given time; return their number and the longest."""
        made, worst = 0, 0.0
        end = time.monotonic() + seconds
        while (start := time.monotonic()) < end:
            outcomes = iter([OSError(), None])

            def work(outcomes: Any = outcomes) -> str:
                if error := next(outcomes):
                    raise error
                return "ok"

            assert self.policy.call(work) == "ok"
            made += 1
            worst = max(worst, time.monotonic() - start)
            time.sleep(0.001)
        return made, worst


HURTS: dict[str, Callable[[Server], None]] = {"killed": Server.kill, "paused": Server.pause}


@pytest.mark.proves("invariant 18")
@pytest.mark.parametrize("fallback", ["local", "open"])
@pytest.mark.parametrize("hurt", HURTS)
def test_lost_store_neither_delays_nor_fails_a_call(
    server: Server, hurt: str, fallback: str, measured: Callable[[str], None]
) -> None:
    emitted_events: list[Any] = []
    stop = sp.subscribe(emitted_events.append, first_tries=False)
    try:
        with RedisStore(server.url, timeout=TIMEOUT, on_failure=fallback) as store:
            life = Life(store)
            assert store.settle(5)
            life.calls(0.1)
            HURTS[hurt](server)
            made, worst = life.calls(1.5 * TIMEOUT)
            assert worst <= TIMEOUT
            eventually(lambda: store.state == "down")
            more, later = life.calls(0.1)
            assert later <= TIMEOUT
            downs = [event for event in emitted_events if isinstance(event, events.StoreDown)]
            assert [event.on_failure for event in downs] == [fallback]
            assert store.stats()["fallbacks"] > 0
            measured(
                f"{hurt}, {fallback}: {made + more:,} calls, 0 failed, longest {max(worst, later):.3f} s "
                f"(timeout {TIMEOUT} s)"
            )
    finally:
        stop()


@pytest.mark.proves("invariant 18")
def test_store_that_never_answers_delays_no_call_beyond_its_timeout(measured: Callable[[str], None]) -> None:
    with RedisStore("redis://127.0.0.1:1", timeout=TIMEOUT) as store:
        started = time.monotonic()
        life = Life(store)
        made, worst = life.calls(0.2)
        assert worst <= TIMEOUT + TICK
        assert time.monotonic() - started < 0.2 + 2 * TIMEOUT
        measured(f"never there: {made:,} calls, 0 failed, longest {worst * 1000:.0f} ms")


@pytest.mark.proves("invariant 18")
def test_calls_fail_because_of_the_store_only_if_closed(server: Server) -> None:
    with RedisStore(server.url, timeout=TIMEOUT, on_failure="closed") as store:
        limiter = sp.Limiter(1000, 1000, store=store, name="l")
        keys = idempotency.RedisStore(store)
        policy = sp.Policy(sp.RateLimit(limiter, max_wait=0))
        assert store.settle(5) and policy.call(int) == 0
        server.kill()
        eventually(lambda: store.state == "down" and not limiter.allow())
        with pytest.raises(sp.RateLimited):
            policy.call(int)
        # Without it no fallback can know if a key has run.
        with pytest.raises(idempotency.StoreUnavailable):
            keys.begin("k", "", "me", 5)
