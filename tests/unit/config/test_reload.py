"""Reloading: options change, live state stays, decorated functions follow, and a bad file changes nothing."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof._config.registry import ConfigError, Registry, load, retune
from stormproof._strategies.adaptive.limit import AdaptiveLimit
from stormproof._strategies.adaptive.rate import AdaptiveRate
from stormproof._strategies.limiter.pacer import Pacer
from stormproof._strategies.throttle import Throttle


class Boom(ConnectionError): ...


def registry(clock: Any = None, shared: dict[str, Any] | None = None, **policies: Any) -> Registry:
    return Registry.from_data({**(shared or {}), "policies": policies}, clock=clock, rng=lambda: 0.5)


def reload(live_registry: Registry, shared: dict[str, Any] | None = None, **policies: Any) -> tuple[str, ...]:
    return live_registry.reload({**(shared or {}), "policies": policies})


class Callee:
    """Counts its calls and fails until it is switched to succeed."""

    def __init__(self, failing: bool = True) -> None:
        self.calls = 0
        self.failing = failing

    def __call__(self) -> str:
        self.calls += 1
        if self.failing:
            raise Boom(f"call {self.calls}")
        return "ok"


def attempts_of(function: Any, callee: Callee) -> int:
    before = callee.calls
    with sp.testing.instant(), pytest.raises(Boom):
        function()
    return callee.calls - before


# --- functions follow --------------------------------------------------------------------------------------


def test_function_decorated_before_follows() -> None:
    live_registry = registry(p={"retry": {"attempts": 3, "budget": "none"}})
    callee = Callee()
    function = live_registry["p"](callee)
    assert attempts_of(function, callee) == 3
    assert reload(live_registry, p={"retry": {"attempts": 5, "budget": "none"}}) == ("p",)
    assert attempts_of(function, callee) == 5
    assert live_registry["p"].strategies[0].attempts == 5


def test_every_way_of_using_a_policy_follows() -> None:
    live_registry = registry(p={"retry": {"attempts": 2, "budget": "none"}})
    policy = live_registry["p"]
    callee = Callee()

    @policy
    async def coroutine() -> str:
        return callee()

    @policy
    def generator() -> Any:
        yield callee()

    @policy
    async def agenerator() -> Any:
        yield callee()

    class Owner:
        @policy
        def method(self) -> str:
            return callee()

        @policy
        @classmethod
        def for_class(cls) -> str:
            return callee()

    async def acall() -> str:
        return await policy.acall(coroutine_function)

    async def coroutine_function() -> str:
        return callee()

    def block() -> None:
        for attempt in policy.retrying():
            with attempt:
                callee()

    async def first() -> Any:
        return await anext(agenerator())

    ways = {
        "coroutine": lambda: asyncio.run(coroutine()),
        "generator": lambda: next(generator()),
        "async generator": lambda: asyncio.run(first()),
        "method": Owner().method,
        "classmethod": Owner.for_class,
        "call": lambda: policy.call(callee),
        "acall": lambda: asyncio.run(acall()),
        "block": block,
    }
    assert {name: attempts_of(way, callee) for name, way in ways.items()} == dict.fromkeys(ways, 2)
    reload(live_registry, p={"retry": {"attempts": 4, "budget": "none"}})
    assert {name: attempts_of(way, callee) for name, way in ways.items()} == dict.fromkeys(ways, 4)


def test_signature_name_and_defaults_survive() -> None:
    import inspect

    live_registry = registry(p={"timeout": 1})

    @live_registry["p"]
    def add(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> int:
        """Adds."""
        return a + b + c

    assert add(1) == 6 and add(1, 1, c=1) == 3
    assert str(inspect.signature(add, eval_str=True)) == (
        "(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> int"
    )
    assert (add.__name__, add.__doc__) == ("add", "Adds.")

    @live_registry["p"]
    async def later() -> None: ...

    assert inspect.iscoroutinefunction(later)


def test_strategies_may_be_added_moved_and_removed() -> None:
    live_registry = registry(p={"retry": {"attempts": 2, "budget": "none"}})
    callee = Callee()
    function = live_registry["p"](callee)
    reload(live_registry, p={"fallback": "sorry", "retry": {"attempts": 2, "budget": "none"}})
    with sp.testing.instant():
        assert function() == "sorry"
    reload(live_registry, p={})
    with pytest.raises(Boom):
        function()
    assert callee.calls == 3


def test_unchanged_policy_is_not_compiled_again() -> None:
    live_registry = registry(a={"retry": {}}, b={"breaker": {}, "retry": {}})
    compiled = live_registry["a"].current
    assert reload(live_registry, a={"retry": {}}, b={"retry": {}, "breaker": {}}) == ("b",)
    assert live_registry["a"].current is compiled
    assert [type(s).__name__ for s in live_registry["b"].strategies] == ["Retry", "Breaker"]


def test_policy_removed_by_a_reload_still_works_where_it_is_in_use() -> None:
    live_registry = registry(a={"retry": {"attempts": 2}, "breaker": {"consecutive": 2}}, b={})
    handle = live_registry["a"]
    callee = Callee(failing=False)
    function = handle(callee)
    breaker = handle.strategies[1]
    assert reload(live_registry, b={}) == ("a",)
    assert "a" not in live_registry and list(live_registry) == ["b"]
    with pytest.raises(KeyError):
        live_registry["a"]
    assert function() == "ok"
    # And when it comes back, it is the same policy with the same breaker.
    assert reload(live_registry, a={"breaker": {"consecutive": 3}}, b={}) == ("a",)
    assert live_registry["a"] is handle
    assert handle.strategies == (breaker,) and breaker.consecutive == 3


def test_registry_and_its_functions_are_collected() -> None:
    live_registry = registry(p={"retry": {}, "breaker": {}})
    function = live_registry["p"](lambda: 1)
    alive = weakref.ref(live_registry)
    del live_registry, function
    gc.collect()
    assert alive() is None


# --- from a file -------------------------------------------------------------------------------------------


def test_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    path.write_text("[policies.p]\nretry = { attempts = 2 }\n")
    environ: dict[str, str] = {}
    live_registry = load(path, environ=environ)
    path.write_text("[policies.p]\nretry = { attempts = 5 }\n[policies.q]\n")
    assert live_registry.reload() == ("p", "q")
    assert (live_registry["p"].strategies[0].attempts, live_registry.generation) == (5, 2)
    environ["STORMPROOF_P__RETRY__ATTEMPTS"] = "7"
    assert live_registry.reload() == ("p",)
    assert live_registry["p"].strategies[0].attempts == 7


@pytest.mark.parametrize(
    "text",
    [
        "[policies.p]\nretry = { attempts = 0 }\n",
        "[policies.p]\nretry = {\n",
        "[budgets.b]\nratio = 0.9\n[policies]\np.retry.budget = 'b'\nq.retry.on = 'no.No'\n",
        "[policies.p]\nstrategies = [{ retry = {} }, { retry = {} }]\n",
        None,
    ],
)
def test_bad_file_changes_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "h.toml"
    path.write_text("[budgets.b]\n[policies.p]\nretry = { attempts = 2, budget = 'b' }\nbreaker = {}\n")
    live_registry = load(path, environ={})
    budget, before = (
        live_registry.budgets["b"],
        (live_registry.describe(), repr(live_registry["p"]), live_registry["p"].current),
    )
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises((ConfigError, FileNotFoundError)):
        live_registry.reload()
    assert (live_registry.describe(), repr(live_registry["p"]), live_registry["p"].current) == before
    assert live_registry.budgets["b"] is budget and budget.ratio == 0.1


def test_policy_that_a_function_cannot_have_changes_nothing() -> None:
    live_registry = registry(p={"hedge": {"idempotent": True}})
    function = live_registry["p"](lambda: "ok")
    with pytest.raises(ConfigError, match=r"^policies.p: Hedge: idempotent must be True"):
        reload(live_registry, p={"hedge": {}})
    assert function() == "ok"
    assert live_registry.generation == 1
    # This one is not used with a plain function.
    reload(live_registry, q={"hedge": {}}, p={"hedge": {"idempotent": True}})


def test_functions_that_are_gone_are_forgotten() -> None:
    live_registry = registry(p={"hedge": {"idempotent": True}})
    for _ in range(100):
        live_registry["p"](lambda: "ok")
    gc.collect()
    assert live_registry["p"]._users.all() == []
    reload(live_registry, p={"hedge": {}})


def test_refused_data_is_not_kept_for_the_next_reload() -> None:
    live_registry = registry(p={"timeout": 1})
    with pytest.raises(ConfigError):
        reload(live_registry, p={"timeout": 0})
    assert live_registry.reload() == ()
    assert live_registry["p"].strategies[0].seconds == 1.0


# --- live state --------------------------------------------------------------------------------------------


def test_open_breaker_stays_open_and_takes_its_new_options() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"breaker": {"consecutive": 3, "open_for": "60s"}})
    breaker = live_registry["p"].strategies[0]
    callee = Callee()
    function = live_registry["p"](callee)
    for _ in range(3):
        with pytest.raises(Boom):
            function()
    assert breaker.state == "open"
    reload(live_registry, p={"breaker": {"consecutive": 3, "open_for": "10s", "probes": 2}})
    assert live_registry["p"].strategies[0] is breaker
    assert (breaker.state, breaker.probes) == ("open", 2)
    with pytest.raises(sp.CircuitOpen) as caught:
        function()
    assert caught.value.retry_after == pytest.approx(10)
    clock.advance(11)
    callee.failing = False
    assert function() == "ok"
    assert breaker.state == "half_open", "two probes are needed now"
    assert function() == "ok"
    assert breaker.state == "closed"


def test_longer_rest_begins_with_the_next_opening() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"breaker": {"consecutive": 1, "open_for": "10s"}})
    function = live_registry["p"](Callee())
    with pytest.raises(Boom):
        function()
    reload(live_registry, p={"breaker": {"consecutive": 1, "open_for": "100s"}})
    clock.advance(11)
    with pytest.raises(Boom):
        function()
    with pytest.raises(sp.CircuitOpen) as caught:
        function()
    assert caught.value.retry_after == pytest.approx(100)


def test_counts_of_a_breaker_survive_a_reload() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"breaker": {"min_calls": 10, "window": "60s"}})
    function = live_registry["p"](Callee())
    for _ in range(5):
        with pytest.raises(Boom):
            function()
    breaker = live_registry["p"].strategies[0]
    assert (breaker.state, breaker.counts.failures) == ("closed", 5)
    reload(live_registry, p={"breaker": {"min_calls": 6, "window": "60s"}})
    assert breaker.counts.failures == 5
    with pytest.raises(Boom):
        function()
    assert breaker.state == "open"


@pytest.mark.parametrize(
    ("window", "advance", "failures"),
    [
        ("60s", 0, 3),
        ("20s", 5, 3),
        ("20s", 41, 0),
        ("none", 10_000, 3),
        ("600s", 300, 3),
    ],
)
def test_new_window_keeps_the_counts_within_its_reach(window: str, advance: float, failures: int) -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"breaker": {"min_calls": 100, "window": "60s"}})
    function = live_registry["p"](Callee())
    for _ in range(3):
        with pytest.raises(Boom):
            function()
    clock.advance(1)
    reload(live_registry, p={"breaker": {"min_calls": 100, "window": window}})
    clock.advance(advance)
    assert live_registry["p"].strategies[0].counts.failures == failures


def test_window_that_never_clears_may_become_one_that_does() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"breaker": {"min_calls": 100, "window": "none"}})
    function = live_registry["p"](Callee())
    with pytest.raises(Boom):
        function()
    clock.advance(1000)
    reload(live_registry, p={"breaker": {"min_calls": 100, "window": "60s"}})
    breaker = live_registry["p"].strategies[0]
    assert breaker.counts.failures == 1
    clock.advance(67)
    assert breaker.counts.failures == 0


def test_call_in_flight_settles_where_it_began() -> None:
    live_registry = registry(p={"breaker": {"consecutive": 1}})
    breaker = live_registry["p"].strategies[0]

    @live_registry["p"]
    def reloads() -> None:
        reload(live_registry, p={"breaker": {"consecutive": 1, "probes": 3}})
        raise Boom

    with pytest.raises(Boom):
        reloads()
    assert breaker.state == "open"


@pytest.mark.parametrize(
    ("before", "after", "spend", "balance"),
    [
        ({"burst": 10}, {"burst": 10, "ratio": 0.5}, 4, 6.0),
        ({"burst": 10}, {"burst": 3}, 4, 3.0),
        ({"burst": 3}, {"burst": 50}, 2, 1.0),
        ({"kind": "quota", "capacity": 100}, {"kind": "quota", "capacity": 500}, 4, 80.0),
        ({"kind": "quota", "capacity": 100}, {"kind": "quota", "capacity": 50}, 4, 50.0),
        ({"kind": "window", "floor": 1, "window": 10}, {"kind": "window", "floor": 2, "window": 10}, 4, 16.0),
        ({"kind": "rate", "rate": 0, "burst": 10}, {"kind": "rate", "rate": 0, "burst": 20}, 4, 6.0),
        ({"kind": "rate", "rate": 0, "burst": 10}, {"kind": "rate", "rate": 0, "burst": 2}, 4, 2.0),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_reloaded_budget_keeps_its_balance(
    before: Any, after: Any, spend: int, balance: float, shared: bool
) -> None:
    clock = sp.testing.FakeClock()

    def data(budget: Any) -> dict[str, Any]:
        if shared:
            return {"budgets": {"b": budget}, "policies": {"p": {"retry": {"budget": "b"}}}}
        return {"policies": {"p": {"retry": {"budget": budget}}}}

    live_registry = Registry.from_data(data(before), clock=clock)
    budget = live_registry["p"].strategies[0].budget
    for _ in range(spend):
        assert budget.withdraw()
    live_registry.reload(data(after))
    assert live_registry["p"].strategies[0].budget is budget
    assert budget.balance == balance


def test_throttle_budget_keeps_its_share() -> None:
    live_registry = registry(p={"retry": {"budget": {"kind": "throttle", "max_tokens": 10}}})
    budget = live_registry["p"].strategies[0].budget
    for _ in range(4):
        budget.failure()
    reload(live_registry, p={"retry": {"budget": {"kind": "throttle", "max_tokens": 100}}})
    assert (budget.balance, budget.withdraw()) == (60.0, 1.0)
    budget.failure()
    reload(live_registry, p={"retry": {"budget": {"kind": "throttle", "max_tokens": 10}}})
    assert (budget.balance, budget.withdraw()) == (5.9, 1.0)


def test_successes_counted_before_a_reload_earn_by_the_old_ratio() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"retry": {"budget": {"ratio": 0.1, "burst": 0}}})
    function = live_registry["p"](Callee(failing=False))
    for _ in range(30):
        function()
    reload(live_registry, p={"retry": {"budget": {"ratio": 0.5, "burst": 0}}})
    budget = live_registry["p"].strategies[0].budget
    assert budget.balance == pytest.approx(3.0)
    for _ in range(10):
        function()
    assert budget.balance == pytest.approx(8.0)


def test_budget_of_another_kind_starts_again() -> None:
    live_registry = registry(p={"retry": {"budget": {"burst": 5}}})
    old = live_registry["p"].strategies[0].budget
    old.withdraw()
    reload(live_registry, p={"retry": {"budget": {"kind": "quota"}}})
    new = live_registry["p"].strategies[0].budget
    assert new is not old and new.balance == 500.0
    assert old.balance == 4.0


def test_shared_budget_of_a_new_kind_reaches_all_its_users() -> None:
    policies = {"p": {"retry": {"budget": "b"}}, "q": {"retry": {"budget": "b"}}}
    live_registry = registry(shared={"budgets": {"b": {}}}, **policies)
    assert reload(live_registry, shared={"budgets": {"b": {"kind": "quota"}}}, **policies) == ("p", "q")
    assert (
        live_registry["p"].strategies[0].budget
        is live_registry["q"].strategies[0].budget
        is live_registry.budgets["b"]
    )
    assert type(live_registry.budgets["b"]) is sp.QuotaBudget


def test_giving_a_policy_its_own_budget_does_not_refill_it() -> None:
    name = "own-budget-in-an-outage"
    live_registry = registry(**{name: {"retry": {}}})
    named = live_registry[name].strategies[0].budget
    for _ in range(2):
        named.withdraw()
    reload(live_registry, **{name: {"retry": {"budget": {"ratio": 0.05, "burst": 20}}}})
    own = live_registry[name].strategies[0].budget
    assert own is not named and own.balance == 1.0
    assert named.ratio == 0.1, "other policies of this name share it still"
    # And an own budget given up and taken up again is a new one.
    reload(live_registry, **{name: {"retry": {}}})
    assert live_registry[name].hedge_budget is named
    reload(live_registry, **{name: {"retry": {"budget": {"burst": 20}}}})
    assert live_registry[name].strategies[0].budget is not own


def test_first_budget_of_another_kind_starts_full() -> None:
    name = "quota-in-an-outage"
    live_registry = registry(**{name: {"retry": {}}})
    for _ in range(2):
        live_registry[name].strategies[0].budget.withdraw()
    reload(live_registry, **{name: {"retry": {"budget": {"kind": "quota"}}}})
    assert live_registry[name].strategies[0].budget.balance == 500.0


def test_default_budget_of_a_name_survives() -> None:
    live_registry = registry(**{"named-default": {"retry": {}}})
    budget = live_registry["named-default"].strategies[0].budget
    budget.withdraw()
    reload(live_registry, **{"named-default": {"retry": {"attempts": 9}}})
    assert live_registry["named-default"].strategies[0].budget is budget and budget.balance == 2.0


def test_hedge_shares_the_budget_of_the_retry_beside_it() -> None:
    def row(burst: int, first: str) -> dict[str, Any]:
        retry = {"retry": {"budget": {"burst": burst}}}
        hedge = {"hedge": {"after": "p95", "idempotent": True, "max": 2 + (burst > 5)}}
        return {**hedge, **retry} if first == "hedge" else {**retry, **hedge}

    for first in ("hedge", "retry"):
        live_registry = registry(p=row(5, first))
        before = {type(s).__name__: s for s in live_registry["p"].strategies}
        assert live_registry["p"].hedge_budget is before["Retry"].budget
        before["Hedge"].measure(0.2)
        reload(live_registry, p=row(9, first))
        after = {type(s).__name__: s for s in live_registry["p"].strategies}
        assert after["Hedge"] is before["Hedge"] and after["Hedge"].max == 3
        assert live_registry["p"].hedge_budget is after["Retry"].budget is before["Retry"].budget
        assert after["Retry"].budget.burst == 9.0
        assert after["Hedge"]._sketch.total == 1


def test_hedge_outside_leaves_the_budget_of_the_name_alone() -> None:
    name = "hedged-then-given-a-budget"
    hedge = {"hedge": {"idempotent": True}}
    live_registry = registry(**{name: {**hedge, "retry": {}}})
    named = live_registry[name].strategies[1].budget
    assert live_registry[name].hedge_budget is named
    reload(live_registry, **{name: {**hedge, "retry": {"budget": {"ratio": 0.5}}}})
    own = live_registry[name].strategies[1].budget
    assert live_registry[name].hedge_budget is own is not named
    assert (named.ratio, own.ratio) == (0.1, 0.5)


def test_hedge_without_a_retry_keeps_its_budget() -> None:
    live_registry = registry(p={"hedge": {"idempotent": True}})
    budget: Any = live_registry["p"].hedge_budget
    budget.withdraw()
    reload(live_registry, p={"hedge": {"idempotent": True, "max": 4}})
    assert live_registry["p"].hedge_budget is budget and budget.balance == 2.0


def test_limiter_keeps_its_tokens() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"rate_limit": "1/s burst 10"})
    limiter = live_registry["p"].strategies[0].limiter
    assert limiter.allow(8)
    reload(live_registry, p={"rate_limit": {"limiter": "5/s burst 20", "max_wait": "1s"}})
    assert live_registry["p"].strategies[0].limiter is limiter
    assert (limiter.tokens(), limiter.rate, limiter.burst) == (2.0, 5.0, 20)
    assert live_registry["p"].strategies[0].max_wait == 1.0
    clock.advance(1)
    assert limiter.tokens() == 7.0


def test_pacer_keeps_its_place() -> None:
    clock = sp.testing.FakeClock()
    pacer = {"kind": "pacer", "rate": 1}
    live_registry = registry(clock, p={"rate_limit": {"limiter": pacer}})
    live = live_registry["p"].strategies[0].limiter
    assert isinstance(live, Pacer) and live.allow()
    reload(live_registry, p={"rate_limit": {"limiter": {**pacer, "rate": 2}}})
    assert live_registry["p"].strategies[0].limiter is live
    assert not live.allow()
    clock.advance(0.5)
    assert live.allow()


# --- the bulkhead ------------------------------------------------------------------------------------------


class Inside:
    """Calls that stay inside a policy until they are let go, one thread each."""

    def __init__(self, policy: sp.Policy) -> None:
        self.policy = policy
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def enter(self, count: int = 1) -> list[threading.Event]:
        doors = []
        for _ in range(count):
            door, inside = threading.Event(), threading.Event()

            def stay(door: threading.Event = door, inside: threading.Event = inside) -> None:
                inside.set()
                assert door.wait(10)

            thread = threading.Thread(target=self._run, args=(stay,))
            thread.start()
            self.threads.append(thread)
            assert inside.wait(10)
            doors.append(door)
        return doors

    def _run(self, stay: Any) -> None:
        try:
            self.policy.call(stay)
        except BaseException as error:
            self.errors.append(error)

    def close(self) -> None:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()
        assert self.errors == []


def test_bulkhead_grows_with_calls_inside() -> None:
    live_registry = registry(p={"bulkhead": 2})
    bulkhead = live_registry["p"].strategies[0]
    inside = Inside(live_registry["p"])
    doors = inside.enter(2)
    with pytest.raises(sp.BulkheadFull):
        live_registry["p"].call(lambda: None)
    reload(live_registry, p={"bulkhead": 3})
    assert live_registry["p"].strategies[0] is bulkhead
    doors += inside.enter(1)
    with pytest.raises(sp.BulkheadFull):
        live_registry["p"].call(lambda: None)
    for door in doors:
        door.set()
    inside.close()
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)
    assert len(bulkhead._permits) == 3


def test_bulkhead_shrinks_as_calls_end() -> None:
    live_registry = registry(p={"bulkhead": 4})
    bulkhead = live_registry["p"].strategies[0]
    inside = Inside(live_registry["p"])
    doors = inside.enter(4)
    reload(live_registry, p={"bulkhead": 1})
    for door in doors[:3]:
        with pytest.raises(sp.BulkheadFull):
            live_registry["p"].call(lambda: None)
        door.set()
        inside.threads[doors.index(door)].join(10)
    # One is inside, which is all there is room for now.
    with pytest.raises(sp.BulkheadFull):
        live_registry["p"].call(lambda: None)
    doors[3].set()
    inside.close()
    assert live_registry["p"].call(lambda: 5) == 5
    assert len(bulkhead._permits) == 1
    assert not bulkhead._waiting


def test_bulkhead_that_shrank_below_its_use_may_grow_again() -> None:
    live_registry = registry(p={"bulkhead": 4})
    bulkhead = live_registry["p"].strategies[0]
    inside = Inside(live_registry["p"])
    doors = inside.enter(4)
    reload(live_registry, p={"bulkhead": 1})
    reload(live_registry, p={"bulkhead": 6})
    doors += inside.enter(2)
    with pytest.raises(sp.BulkheadFull):
        live_registry["p"].call(lambda: None)
    for door in doors:
        door.set()
    inside.close()
    assert len(bulkhead._permits) == 6
    assert not bulkhead._waiting


def test_waiters_are_served_when_a_bulkhead_grows() -> None:
    live_registry = registry(p={"bulkhead": {"limit": 1, "queue": 5, "max_wait": "none"}})
    bulkhead = live_registry["p"].strategies[0]
    inside = Inside(live_registry["p"])
    (door,) = inside.enter(1)
    served = threading.Event()
    waiter = threading.Thread(target=lambda: live_registry["p"].call(served.set))
    waiter.start()
    limit = time.monotonic() + 10
    while bulkhead.queued != 1:
        assert time.monotonic() < limit
    reload(live_registry, p={"bulkhead": {"limit": 2, "queue": 5, "max_wait": "none"}})
    assert served.wait(10)
    waiter.join(10)
    door.set()
    inside.close()
    assert len(bulkhead._permits) == 2


# --- what learns -------------------------------------------------------------------------------------------


def test_adaptive_limit_keeps_its_learnt_limit() -> None:
    live_registry = registry(p={"adaptive_limit": {"kind": "aimd", "initial": 50}})
    limit = live_registry["p"].strategies[0]
    assert isinstance(limit, AdaptiveLimit)
    for _ in range(3):
        limit.admit().dropped()
    learnt = limit.limit
    assert learnt == 36
    reload(live_registry, p={"adaptive_limit": {"kind": "aimd", "initial": 50, "decrease": 0.5}})
    assert live_registry["p"].strategies[0] is limit and limit.limit == learnt
    limit.admit().dropped()
    assert limit.limit == 18
    reload(live_registry, p={"adaptive_limit": {"kind": "vegas", "initial": 50, "min": 20, "max": 60}})
    assert (limit.limit, limit.kind) == (20, "vegas")


@pytest.mark.parametrize("kind", ["vegas", "gradient2"])
def test_latencies_learnt_are_kept(kind: str) -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"adaptive_limit": {"kind": kind}})
    limit = live_registry["p"].strategies[0]
    for _ in range(5):
        ticket = limit.admit()
        clock.advance(0.1)
        ticket.success()
    learnt = {name: getattr(limit._rule, name) for name in ("rtt0", "long") if hasattr(limit._rule, name)}
    assert learnt and all(value == pytest.approx(0.1) for value in learnt.values())
    reload(live_registry, p={"adaptive_limit": {"kind": kind, "smoothing": 0.5}})
    assert {name: getattr(limit._rule, name) for name in learnt} == learnt
    assert limit._rule._smoothing == 0.5


def test_adaptive_rate_keeps_its_rate() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"adaptive_rate": {}})
    rate = live_registry["p"].strategies[0]
    assert isinstance(rate, AdaptiveRate)
    for _ in range(20):
        clock.advance(0.1)
        rate._learn(None)
    rate._cubic.settle(True, clock.now())
    before = rate.rate
    assert before is not None
    reload(live_registry, p={"adaptive_rate": {"beta": 0.5, "max_wait": 0}})
    assert live_registry["p"].strategies[0] is rate and rate.rate == before
    assert (rate._cubic._beta, rate.max_wait) == (0.5, 0.0)


def test_throttle_keeps_its_counts() -> None:
    clock = sp.testing.FakeClock()
    live_registry = registry(clock, p={"throttle": {"window": "120s"}})
    throttle = live_registry["p"].strategies[0]
    assert isinstance(throttle, Throttle)
    function = live_registry["p"](Callee())
    for _ in range(4):
        with pytest.raises((Boom, sp.Throttled)):
            function()
    before = throttle.describe()
    assert before["requests"] == 4.0
    reload(live_registry, p={"throttle": {"window": "60s", "k": 3}})
    assert live_registry["p"].strategies[0] is throttle
    assert throttle.describe()["requests"] == 4.0 and throttle.k == 3.0
    clock.advance(61)
    assert throttle.describe()["requests"] == 0.0


# --- matching ----------------------------------------------------------------------------------------------


def test_repeated_kinds_are_matched_by_name_then_position() -> None:
    def row(*breakers: dict[str, Any]) -> dict[str, Any]:
        return {"strategies": [{"breaker": options} for options in breakers]}

    live_registry = registry(p=row({"name": "outer"}, {}, {"name": "inner"}))
    outer, plain, inner = live_registry["p"].strategies
    reload(live_registry, p=row({"name": "inner", "probes": 2}, {"name": "outer"}, {"probes": 4}))
    assert live_registry["p"].strategies == (inner, outer, plain)
    assert (inner.probes, outer.probes, plain.probes) == (2, 1, 4)


def test_reload_keeps_two_strategies_of_one_name_apart() -> None:
    def row(probes: int) -> dict[str, Any]:
        return {"strategies": [{"breaker": {"name": "x", "probes": probes}}, {"breaker": {"name": "x"}}]}

    live_registry = registry(p=row(1))
    before = live_registry["p"].strategies
    reload(live_registry, p=row(2))
    assert live_registry["p"].strategies == before
    assert before[0] is not before[1]


def test_state_does_not_cross_from_one_policy_to_another() -> None:
    live_registry = registry(a={"breaker": {}}, b={"breaker": {}})
    a, b = live_registry["a"].strategies[0], live_registry["b"].strategies[0]
    reload(live_registry, b={"breaker": {"probes": 2}}, a={"breaker": {"probes": 3}})
    assert (live_registry["a"].strategies[0], live_registry["b"].strategies[0]) == (a, b)
    assert (a.probes, b.probes) == (3, 2)


def test_retune_needs_the_same_class() -> None:
    assert not retune(sp.Budget(), sp.QuotaBudget())
    assert not retune(sp.Timeout(1), sp.Timeout(2))
    budget = sp.Budget()
    assert retune(budget, budget)


def test_slices_of_another_width_keep_the_sums_within_their_reach() -> None:
    from stormproof._strategies.budget.rules import Slices

    old = Slices(20.0, 0.0)
    for second in range(20):
        old.roll(float(second))
        old.add(1.0)
    shorter = old.resliced(10.0, 19.0)
    assert 9.0 <= shorter.total <= 11.0
    longer = old.resliced(40.0, 19.0)
    assert longer.total == 20.0
    longer.roll(37.0)
    assert longer.total == 20.0
    longer.roll(60.0)
    assert longer.total == 0.0


def test_reloads_during_calls_lose_no_place() -> None:
    live_registry = registry(p={"retry": {"attempts": 2}, "breaker": {}, "bulkhead": 50, "timeout": 5})
    function = live_registry["p"](lambda x: x)
    stop = threading.Event()
    wrong: list[Any] = []

    def calls() -> None:
        while not stop.is_set():
            try:
                if function(7) != 7:
                    wrong.append("value")
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(200):
        options = {"attempts": 2 + step % 3}
        if step % 2:
            reload(
                live_registry,
                p={"retry": options, "breaker": {"probes": 1 + step % 2}, "bulkhead": 40 + step % 20},
            )
        else:
            reload(live_registry, p={"breaker": {}, "retry": options, "bulkhead": 50})
    stop.set()
    for thread in threads:
        thread.join(10)
    assert wrong == []
    assert live_registry.generation == 201
    bulkhead = live_registry["p"].strategies[2]
    assert bulkhead.in_use == 0 and len(bulkhead._permits) == bulkhead.limit
