"""Chaos: off unless switched on, four kinds, by rate and by predicate, in one context alone."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop
from tests.support.scripted import ASYNCIO, SYNC, Boom, each_way, retry

import stormproof as sp


def chaos_policy(*more: Any, rate: float = 1.0, rng: Any = None, **kinds: Any) -> sp.Policy:
    return sp.Policy(*more, sp.Chaos(rate=rate, **kinds), name="pay", rng=rng)


# The switch.


@each_way
def test_chaos_is_off_unless_switched_on(play: Any) -> None:
    seen = play(chaos_policy(fault=Boom, rate=1), "fine").returned("fine").made(1)
    assert seen.events == []


@each_way
def test_chaos_is_on_inside_the_block(play: Any) -> None:
    policy = chaos_policy(fault=Boom)
    seen = play(policy, "never", inside=sp.chaos).raised(Boom).made(0)
    assert seen.events == [sp.events.ChaosInjected("pay", "fault")]
    play(policy, "fine").returned("fine")


def test_block_may_name_the_rate() -> None:
    policy = chaos_policy(fault=Boom, rate=0)
    SYNC(policy, "fine", inside=sp.chaos).returned("fine")
    SYNC(policy, "never", inside=lambda: sp.chaos(rate=1)).raised(Boom)
    always = chaos_policy(fault=Boom, rate=1)
    SYNC(always, "fine", inside=lambda: sp.chaos(rate=0)).returned("fine")


def test_chaos_block_may_name_its_policies() -> None:
    policy = chaos_policy(fault=Boom, name="db")
    SYNC(policy, "never", inside=lambda: sp.chaos("cache", "db")).raised(Boom)
    SYNC(policy, "fine", inside=lambda: sp.chaos("cache")).returned("fine")
    SYNC(chaos_policy(fault=Boom), "fine", inside=lambda: sp.chaos("cache")).returned("fine")


def test_inner_block_replaces_the_outer_one() -> None:
    policy = chaos_policy(fault=Boom, outcome=None)

    def inner() -> str:
        with sp.chaos(rate=0):
            return policy.call(lambda: "fine")

    with sp.chaos():
        assert inner() == "fine"
        with pytest.raises(Boom):
            policy.call(lambda: "never")
    assert policy.call(lambda: "fine") == "fine"


def test_chaos_ends_with_its_block_after_an_error() -> None:
    with pytest.raises(KeyError), sp.chaos(rate=1):
        raise KeyError
    assert chaos_policy(fault=Boom).call(lambda: "fine") == "fine"


def test_block_is_entered_once_at_a_time() -> None:
    block = sp.chaos(rate=0.5)
    with block, pytest.raises(RuntimeError, match="already entered"):
        block.__enter__()
    with block:
        pass
    assert repr(sp.chaos("db", rate=0.5)) == "chaos('db', rate=0.5)"


def test_chaos_spares_other_threads_and_tasks() -> None:
    policy = chaos_policy(fault=Boom)
    answers: list[Any] = []
    with sp.chaos():
        thread = threading.Thread(target=lambda: answers.append(policy.call(lambda: "fine")))
        thread.start()
        thread.join()
    assert answers == ["fine"]

    async def main() -> None:
        outside = contextvars.copy_context()
        with sp.chaos():
            inherits = asyncio.create_task(policy.acall(answer))
            spared = asyncio.create_task(policy.acall(answer), context=outside)
        with pytest.raises(Boom):
            await inherits
        assert await spared == "fine"

    async def answer() -> str:
        return "fine"

    asyncio.run(main())


def test_switched_off_policies_have_no_chaos() -> None:
    with sp.chaos():
        SYNC(chaos_policy(fault=Boom), "fine", inside=sp.disabled).returned("fine")


# The kinds.


@each_way
def test_outcome_is_given_without_a_call(play: Any) -> None:
    seen = play(chaos_policy(outcome="stale"), "never", inside=sp.chaos).returned("stale").made(0)
    assert seen.events == [sp.events.ChaosInjected("pay", "outcome")]


@each_way
def test_outcome_may_be_made(play: Any) -> None:
    play(chaos_policy(outcome=lambda: None), "never", inside=sp.chaos).returned(None).made(0)


@each_way
def test_latency_comes_before_the_call(play: Any) -> None:
    seen = play(chaos_policy(latency=2), "fine", inside=sp.chaos).returned("fine").made(1).slept(2)
    assert seen.times == pytest.approx([2])
    assert seen.events == [sp.events.ChaosInjected("pay", "latency")]


@each_way
@pytest.mark.parametrize("latency", [lambda: 3, timedelta(seconds=3), lambda: timedelta(seconds=3)])
def test_latency_may_be_made_or_a_timedelta(play: Any, latency: Any) -> None:
    play(chaos_policy(latency=latency), "fine", inside=sp.chaos).slept(3)


@each_way
def test_behaviour_runs_before_the_call(play: Any) -> None:
    ran: list[str] = []
    seen = (
        play(chaos_policy(behaviour=lambda: ran.append("ran")), "fine", inside=sp.chaos)
        .returned("fine")
        .made(1)
    )
    assert ran == ["ran"]
    assert seen.events == [sp.events.ChaosInjected("pay", "behaviour")]


@each_way
def test_kinds_of_chaos_happen_in_a_fixed_order(play: Any) -> None:
    policy = chaos_policy(fault=Boom, latency=1, behaviour=lambda: None, name="all")
    seen = play(policy, "never", inside=sp.chaos).raised(Boom).made(0).slept(1)
    assert [event.what for event in seen.events] == ["behaviour", "latency", "fault"]
    assert {event.name for event in seen.events} == {"all"}


@each_loop
def test_async_behaviour_is_awaited(loop: Loop) -> None:
    async def behaviour() -> None:
        await loop.sleep(1)

    @chaos_policy(behaviour=behaviour)
    async def call() -> float:
        return loop.time()

    async def scenario() -> None:
        with sp.chaos():
            assert await call() == 1

    loop.run(scenario)


async def async_behaviour() -> None: ...


def test_async_behaviour_is_refused_in_sync_code() -> None:
    with pytest.raises(TypeError, match=r"behaviour must not be async where the call is not, got .*async_b"):
        chaos_policy(behaviour=async_behaviour)(lambda: None)


@each_loop
def test_latency_is_cancellable(loop: Loop) -> None:
    calls = 0

    @chaos_policy(latency=60)
    async def call() -> None:
        nonlocal calls
        calls += 1

    async def scenario() -> None:
        with sp.chaos():
            assert await loop.cut(1, call)
        assert loop.time() == 1

    loop.run(scenario)
    assert calls == 0


# Faults.


class WithState(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@pytest.mark.parametrize("fault", [WithState(7), lambda: WithState(7)], ids=["object", "factory"])
def test_fault_is_a_new_object_each_time(fault: Any) -> None:
    policy = chaos_policy(fault=fault)
    raised = []
    for _ in range(2):
        error = SYNC(policy, "never", inside=sp.chaos).raised(WithState).error
        assert isinstance(error, WithState) and error.code == 7
        raised.append(error)
    assert raised[0] is not raised[1]
    assert fault not in raised


def test_fault_that_cannot_be_copied_is_raised_itself() -> None:
    # A class of this moment: libraries such as tblib teach all that exist to be copied.
    class Unyielding(Exception):
        def __init__(self, *, code: int) -> None:
            super().__init__("unyielding")
            self.code = code

    fault = Unyielding(code=1)
    assert SYNC(chaos_policy(fault=fault), "never", inside=sp.chaos).error is fault


def test_retries_meet_chaos_at_every_attempt() -> None:
    draws = iter([0.0, 0.0, 0.9, 0.9, 0.9])
    policy = chaos_policy(
        *retry(attempts=5, on=Boom, backoff=sp.Constant(0)).strategies, fault=Boom, rate=0.5
    )
    policy = policy.with_(rng=lambda: next(draws))
    # Draws: hit, the wait's jitter, and the next attempt is spared.
    seen = SYNC(policy, "fine", inside=sp.chaos).returned("fine").made(1)
    assert seen.kinds() == ["ChaosInjected", "Retrying", "Succeeded"]


def test_chaos_factory_that_makes_no_error_raises_type_error() -> None:
    SYNC(chaos_policy(fault=lambda: "oops"), "never", inside=sp.chaos).raised(TypeError)


# Rate and predicate.


def test_rate_is_the_share_of_calls() -> None:
    hits = 0
    draws = iter([i / 100 for i in range(100)])
    policy = chaos_policy(fault=Boom, rate=0.3, rng=lambda: next(draws))
    with sp.chaos():
        for _ in range(100):
            try:
                policy.call(lambda: None)
            except Boom:
                hits += 1
    assert hits == 30


def test_same_seed_hits_the_same_calls() -> None:
    def hits(seed: int) -> list[int]:
        policy = chaos_policy(outcome="hit", rate=0.5, rng=seed)
        with sp.chaos():
            return [i for i in range(50) if policy.call(lambda: "spared") == "hit"]

    assert hits(1) == hits(1) != hits(2)


@each_way
def test_predicate_chooses_calls(play: Any) -> None:
    play(chaos_policy(fault=Boom, when=lambda args, kwargs: False), "fine", inside=sp.chaos).returned("fine")
    play(chaos_policy(fault=Boom, when=lambda args, kwargs: True), "never", inside=sp.chaos).raised(Boom)


def test_predicate_sees_the_arguments_of_every_form_of_call() -> None:
    seen: list[Any] = []

    def when(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        seen.append((args, kwargs))
        return False

    policy = chaos_policy(fault=Boom, when=when)

    def work(a: int, *, b: int = 0) -> int:
        return a + b

    with sp.chaos():
        assert policy(work)(1, b=2) == policy.call(work, 1, b=2) == 3
    assert seen == [((1,), {"b": 2})] * 2


def test_only_calls_that_may_be_hit_draw() -> None:
    draws = iter([0.0])
    policy = chaos_policy(fault=Boom, rate=0.5, when=lambda args, kwargs: bool(args), rng=lambda: next(draws))
    with sp.chaos():
        policy.call(lambda: None)
        with sp.chaos("another operation"):
            policy.call(lambda *_: None, 1)
        with pytest.raises(Boom):
            policy.call(lambda *_: None, 1)


# Deadlines.


@pytest.mark.parametrize("play", [SYNC, ASYNCIO], ids=["sync", "async"])
def test_latency_ends_with_the_deadline(play: Any) -> None:
    policy = chaos_policy(sp.Deadline(1), latency=60)
    play(policy, "never", inside=sp.chaos).raised(sp.DeadlineExceeded).made(0).slept(1)


@pytest.mark.parametrize("play", [SYNC, ASYNCIO], ids=["sync", "async"])
def test_latency_longer_than_the_timeout_is_an_attempt_timed_out(play: Any) -> None:
    policy = sp.Policy(sp.Timeout(2), sp.Chaos(latency=60, rate=1))
    play(policy, "never", inside=sp.chaos).raised(sp.AttemptTimeout).made(0).slept(2)


@each_loop
def test_latency_is_interrupted_by_a_real_timeout(loop: Loop) -> None:
    async def scenario() -> None:
        policy = sp.Policy(sp.Timeout(2), sp.Chaos(latency=60, rate=1), clock=LoopClock(loop))
        with sp.chaos(), pytest.raises(sp.AttemptTimeout):
            await policy.acall(async_behaviour)
        assert loop.time() == pytest.approx(2)

    loop.run(scenario)


# Streams.


def test_stream_may_be_replaced_or_broken() -> None:
    def items() -> Iterator[int]:
        yield 1

    async def async_items() -> AsyncIterator[int]:
        yield 1

    async def collected() -> list[int]:
        return [item async for item in chaos_policy(outcome=[7, 8])(async_items)()]

    with sp.chaos():
        assert list(chaos_policy(outcome=[7, 8])(items)()) == [7, 8]
        assert asyncio.run(collected()) == [7, 8]
        with pytest.raises(Boom):
            next(chaos_policy(fault=Boom)(items)())
    assert list(chaos_policy(outcome=[7, 8])(items)()) == [1]


# The object.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "one of fault, outcome, latency and behaviour must be given"),
        ({"fault": Boom, "outcome": 1}, "fault and outcome must not both be given"),
        ({"fault": "boom"}, "fault must be an Exception or a callable that makes one, got 'boom'"),
        ({"fault": KeyboardInterrupt}, "fault must be an Exception, got KeyboardInterrupt"),
        ({"fault": WithState}, "fault must be an Exception that needs no arguments"),
        ({"fault": async_behaviour}, "fault must not be async"),
        ({"outcome": async_behaviour}, "outcome must not be async"),
        ({"latency": -1}, "latency must be >= 0 seconds, got -1"),
        ({"latency": "1"}, "latency must be a number of seconds, got '1'"),
        ({"latency": async_behaviour}, "latency must not be async"),
        ({"behaviour": 5}, "behaviour must be callable or None, got 5"),
        ({"latency": 1, "rate": 1.1}, "rate must be <= 1, got 1.1"),
        ({"latency": 1, "rate": -0.1}, "rate must be >= 0, got -0.1"),
        ({"latency": 1, "rate": float("nan")}, "rate must be a number, not NaN"),
        ({"latency": 1, "when": True}, "when must be callable or None, got True"),
        ({"latency": 1, "name": ""}, "name must be a non-empty string or None, got ''"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Chaos: {says}"):
        sp.Chaos(**options)


def test_bad_latency_from_a_factory_is_refused_at_the_call() -> None:
    SYNC(chaos_policy(latency=lambda: -1), "never", inside=sp.chaos).raised(ValueError)


@pytest.mark.parametrize(("args", "rate"), [((5,), None), (("",), None), ((), 2), ((), float("nan"))])
def test_bad_switch_is_refused(args: Any, rate: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="chaos: "):
        sp.chaos(*args, rate=rate)


def test_chaos_has_defaults_and_compares_by_value() -> None:
    chaos = sp.Chaos(fault=ValueError, when=sum)
    assert chaos.rate == 0.001
    assert pickle.loads(pickle.dumps(chaos)) == chaos
    assert eval(repr(chaos), {"Chaos": sp.Chaos}) == chaos
