"""The rate limit: refuse, wait, wait up to; costs, and their correction; deadlines and cancellation."""

from __future__ import annotations

import math
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Boom, each_way, retry

import stormproof as sp


def limited(limiter: Any = "1/s burst 2", *around: Any, clock: Any = None, **options: Any) -> sp.Policy:
    return sp.Policy(*around, sp.RateLimit(limiter, **options), name="chat", clock=clock)


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock(10.0)


# Refuse, wait, wait up to.


@each_way
def test_rate_limit_refuses_at_once_with_retry_after(play: Any) -> None:
    clock = sp.testing.FakeClock()
    policy = limited(clock=clock)
    play(policy, "one").returned("one")
    play(policy, "two").returned("two")
    clock.advance(0.25)
    seen = play(policy, "never").raised(sp.RateLimited).made(0)
    assert isinstance(seen.error, sp.RateLimited)
    assert seen.error.retry_after == 0.75
    assert str(seen.error) == "chat: over the rate limit, try again in 0.75 s"
    assert clock.sleeps == []
    clock.advance(0.75)
    play(policy, "three").returned("three")


@each_way
def test_rate_limit_without_max_wait_waits_for_its_token(play: Any) -> None:
    clock = sp.testing.FakeClock()
    policy = limited(max_wait=None, clock=clock)
    for _ in range(4):
        play(policy, "fine").returned("fine").made(1)
    assert clock.sleeps == [1, 1]


@each_way
def test_rate_limit_waits_up_to_max_wait(play: Any) -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(1, 1, clock=clock)
    policy = limited(limiter, max_wait=1.5, clock=clock)
    play(policy, "one").returned("one")
    play(policy, "two").returned("two")
    assert clock.sleeps == [1]
    limiter.reserve()
    seen = play(policy, "never").raised(sp.RateLimited).made(0)
    assert isinstance(seen.error, sp.RateLimited) and seen.error.retry_after == 2
    assert clock.sleeps == [1]
    assert limiter.tokens() == -1, "a refusal takes nothing"


def test_retry_waits_as_the_limit_asks_when_on_names_it() -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(
        sp.Retry(on=(Boom, sp.RateLimited), backoff=sp.Constant(0), budget=None),
        sp.RateLimit("1/s"),
        clock=clock,
        rng=lambda: 0.0,
    )
    for _ in range(2):
        assert policy.call(lambda: "fine") == "fine"
    assert clock.sleeps == [1]


def test_rate_limited_is_not_retried_by_default() -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(*retry().strategies, sp.RateLimit("1/s"), clock=clock)
    policy.call(lambda: None)
    with pytest.raises(sp.RateLimited):
        policy.call(lambda: None)
    assert clock.sleeps == []


def test_every_attempt_pays_a_token() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(0, 10, clock=clock)
    policy = sp.Policy(*retry(attempts=3).strategies, sp.RateLimit(limiter), clock=clock)

    def fail() -> None:
        raise Boom

    with pytest.raises(Boom):
        policy.call(fail)
    assert limiter.tokens() == 7


# Deadlines and cancellation.


@each_way
@pytest.mark.parametrize("max_wait", [None, 60])
def test_wait_past_the_deadline_is_not_begun(play: Any, max_wait: float | None) -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(0.1, 1, clock=clock)
    limiter.allow()
    policy = sp.Policy(sp.Deadline(5), sp.RateLimit(limiter, max_wait=max_wait), name="chat", clock=clock)
    seen = play(policy, "never").raised(sp.DeadlineExceeded).made(0)
    assert isinstance(seen.error, sp.DeadlineExceeded)
    assert (seen.error.retry_after, seen.error.scope) == (10, "chat")
    assert clock.sleeps == []
    assert limiter.tokens() == 0


def test_wait_beyond_max_wait_is_refused_before_the_deadline_check(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0.1, 1, clock=clock)
    limiter.allow()
    for max_wait in (0, 2):
        policy = sp.Policy(sp.Deadline(5), sp.RateLimit(limiter, max_wait=max_wait), clock=clock)
        with pytest.raises(sp.RateLimited):
            policy.call(lambda: None)


def test_wait_within_the_deadline_is_made(clock: sp.testing.FakeClock) -> None:
    policy = sp.Policy(sp.Deadline(5), sp.RateLimit("1/s", max_wait=None), clock=clock)
    for _ in range(3):
        policy.call(lambda: None)
    assert clock.sleeps == [1, 1]


def test_scope_cancelled_during_the_wait_ends_the_wait() -> None:
    class Cancelling(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds / 2)
            scope.cancel()

    clock = Cancelling()
    limiter = sp.Limiter(1, 1, clock=clock)
    policy = limited(limiter, max_wait=None, clock=clock)
    policy.call(lambda: None)
    with sp.deadline(None, clock=clock) as scope, pytest.raises(sp.Cancelled):
        policy.call(lambda: pytest.fail("called"))
    assert limiter.tokens() == 0.5


@each_loop
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer])
def test_cancelled_wait_gives_its_tokens_back(loop: Loop, make: Any) -> None:
    async def scenario() -> None:
        clock = LoopClock(loop)
        limiter = make(1, 1, clock=clock)
        calls = []

        @limited(limiter, max_wait=None, clock=clock)
        async def call() -> None:
            calls.append(loop.time())

        began = loop.time()
        await call()
        assert await loop.cut(0.25, call)
        await call()
        assert [at - began for at in calls] == pytest.approx([0, 1])

    loop.run(scenario)


@each_loop
def test_tasks_go_at_the_rate(loop: Loop) -> None:
    async def scenario() -> None:
        clock = LoopClock(loop)
        times: list[float] = []

        @limited("4/s burst 2", max_wait=None, clock=clock)
        async def call() -> None:
            times.append(loop.time())

        await loop.together(*[call for _ in range(6)])
        began = times[0]
        assert [at - began for at in times] == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1], abs=1e-9)
        assert len(clock.sleeps) == 4

    loop.run(scenario)


# Costs.


def test_fixed_cost_is_charged(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 10, clock=clock)
    policy = limited(limiter, cost=4, clock=clock)
    policy.call(lambda: None)
    assert limiter.tokens() == 6
    policy.call(lambda: None)
    with pytest.raises(sp.RateLimited) as caught:
        policy.call(lambda: None)
    assert caught.value.retry_after == 2


def test_cost_of_zero_is_not_charged(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0, 1, clock=clock)
    policy = limited(limiter, cost=0, clock=clock)
    for _ in range(3):
        policy.call(lambda: None)
    assert limiter.tokens() == 1


@each_way
def test_cost_may_depend_on_the_arguments(play: Any) -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(0, 10, clock=clock)
    play(limited(limiter, cost=lambda: 7, clock=clock), "fine").returned("fine")
    assert limiter.tokens() == 3


def test_cost_sees_the_arguments_of_every_form_of_call(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0, 100, clock=clock)
    policy = limited(limiter, cost=lambda prompt, *, most=0: len(prompt) + most, clock=clock)

    def ask(prompt: str, *, most: int = 0) -> str:
        return prompt

    policy(ask)("12345", most=10)
    assert limiter.tokens() == 85
    policy.call(ask, "12345", most=10)
    assert limiter.tokens() == 70


@pytest.mark.parametrize("cost", [-1, 1.5, True, "1"])
def test_invalid_cost_is_refused(cost: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="RateLimit: cost must be"):
        sp.RateLimit("1/s", cost=cost)
    with pytest.raises((TypeError, ValueError), match="RateLimit: cost must be"):
        limited(cost=lambda: cost).call(lambda: None)


def test_cost_above_the_burst_can_never_be_paid(clock: sp.testing.FakeClock) -> None:
    policy = limited("1/s burst 2", cost=3, max_wait=None, clock=clock)
    with pytest.raises(sp.RateLimited, match=r"cost must be <= the limiter's burst \(2\), got 3") as caught:
        policy.call(lambda: None)
    assert caught.value.retry_after is None
    with pytest.raises(sp.RateLimited, match="will never be there"):
        policy = limited("0/s burst 1", clock=clock)
        policy.call(lambda: None)
        policy.call(lambda: None)


@each_way
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer])
def test_cost_is_corrected_by_the_result(play: Any, make: Any) -> None:
    clock = sp.testing.FakeClock()
    limiter = make(1, 100, clock=clock)
    policy = limited(limiter, cost=40, cost_of_result=lambda usage: usage, clock=clock)
    play(policy, 25).returned(25)
    assert limiter.tokens() == 75
    play(policy, 70).returned(70)
    assert limiter.tokens() == 5
    # Charged into debt: later callers wait for its real cost.
    clock.advance(35)
    play(policy, 140).returned(140)
    assert limiter.tokens() == -100
    play(policy, "never").raised(sp.RateLimited).made(0)


class Foreign:
    """A limiter of the user's own."""

    def __init__(self) -> None:
        self.charged: list[int] = []

    def allow(self, n: int = 1) -> bool:
        return True

    def reserve(self, n: int = 1, max_wait: float | None = None) -> Any:
        raise NotImplementedError

    def tokens(self) -> float:
        return 1.0

    def charge(self, n: int) -> None:
        self.charged.append(n)


@each_way
def test_foreign_limiter_is_charged_only_the_difference(play: Any) -> None:
    limiter = Foreign()
    policy = limited(limiter, cost=3, cost_of_result=lambda usage: usage, clock=sp.testing.FakeClock())
    for usage in (3, 5, 3, 1):
        play(policy, usage).returned(usage)
    assert limiter.charged == [2, -2]


def test_refund_never_exceeds_the_burst(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 10, clock=clock)
    policy = limited(limiter, cost=10, cost_of_result=lambda result: 0, clock=clock)

    def slow() -> None:
        clock.advance(5)

    policy.call(slow)
    assert limiter.tokens() == 10


def test_call_that_fails_has_paid(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0, 10, clock=clock)
    policy = limited(limiter, cost=4, cost_of_result=lambda result: 0, clock=clock)
    with pytest.raises(ZeroDivisionError):
        policy.call(lambda: 1 / 0)
    assert limiter.tokens() == 6


@pytest.mark.parametrize("usage", [-1, 1.5, None])
def test_invalid_cost_of_result_is_refused(usage: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="RateLimit: cost_of_result must be"):
        limited(cost_of_result=lambda result: usage).call(lambda: None)


def test_cost_of_result_is_refused_for_a_generator() -> None:
    def items() -> Iterator[int]:
        yield 1

    async def async_items() -> AsyncIterator[int]:
        yield 1

    for stream in (items, async_items):
        with pytest.raises(TypeError, match="cost_of_result must be None for a generator function"):
            limited(cost_of_result=len)(stream)
    assert list(limited(cost=2)(items)()) == [1]


def test_requests_and_tokens_are_two_limits(clock: sp.testing.FakeClock) -> None:
    requests, tokens = sp.Limiter(1, 2, clock=clock), sp.Limiter(100, 1000, clock=clock)
    policy = sp.Policy(sp.RateLimit(requests), sp.RateLimit(tokens, cost=len), clock=clock)
    policy.call(str, "x" * 900)
    with pytest.raises(sp.RateLimited) as caught:
        policy.call(str, "x" * 200)
    assert caught.value.retry_after == 1
    assert requests.tokens() == 0


# Sharing, keys, options.


def test_policies_share_a_limiter_by_sharing_the_object(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0, 2, clock=clock)
    for policy in (limited(limiter), limited(limiter)):
        policy.call(lambda: None)
    with pytest.raises(sp.RateLimited):
        limited(limiter).call(lambda: None)


@pytest.mark.parametrize("inside", [True, False], ids=["keyed limiter", "keyed strategy"])
def test_keyed_rate_limits_are_independent(inside: bool) -> None:
    def by_host(host: str) -> str:
        return host

    if inside:
        strategy: Any = sp.RateLimit(sp.keyed(sp.Limiter(0, 1), key=by_host))
    else:
        strategy = sp.keyed(sp.RateLimit("0/s burst 1"), key=by_host)
    call = sp.Policy(strategy)(by_host)
    assert call("a") == "a"
    with pytest.raises(sp.RateLimited):
        call("a")
    assert call("b") == "b"


def test_copy_shares_the_limiter_and_a_fresh_one_does_not(clock: sp.testing.FakeClock) -> None:
    limit = sp.RateLimit(sp.Limiter(0, 1, clock=clock), max_wait=2)
    assert limit.replace(max_wait=None).limiter is limit.limiter
    limit.limiter.allow()
    fresh = limit.fresh()
    assert fresh.limiter.tokens() == 1 and fresh.max_wait == 2
    keyed = sp.RateLimit(sp.keyed(sp.Limiter(0, 1), key=str))
    assert keyed.fresh().limiter is not keyed.limiter
    assert pickle.loads(pickle.dumps(sp.RateLimit("1/s burst 3"))).limiter.burst == 3
    assert (
        eval(repr(sp.RateLimit("1/s")), {"RateLimit": sp.RateLimit, "Limiter": sp.Limiter}).limiter.rate == 1
    )
    assert sp.RateLimit("2/s burst 3", cost=2).describe() == {
        "kind": "RateLimit",
        "limiter": {"kind": "Limiter", "rate": 2.0, "burst": 3, "tokens": 3.0},
        "max_wait": 0.0,
        "cost": 2,
        "cost_of_result": None,
    }


def test_limiter_uses_the_policys_clock(clock: sp.testing.FakeClock) -> None:
    limit = sp.RateLimit("1/s")
    policy = sp.Policy(limit, clock=clock)
    policy.call(lambda: None)
    clock.advance(1)
    policy.call(lambda: None)
    assert limit.limiter.clock is clock


def test_infinite_rate_never_refuses() -> None:
    policy = limited(sp.Limiter(math.inf, 0))
    for _ in range(3):
        policy.call(lambda: None)


@pytest.mark.parametrize(
    ("args", "options", "says"),
    [
        ((5,), {}, "limiter must be a Limiter, a Pacer, a keyed one or a text like '100/s', got 5"),
        ((sp.Limiter,), {}, "limiter must be a Limiter"),
        ((None,), {}, "limiter must be a Limiter"),
        (("1/s",), {"max_wait": -1}, "max_wait must be >= 0 seconds, got -1"),
        (("1/s",), {"max_wait": math.inf}, "max_wait must be finite, got inf"),
        (("1/s",), {"max_wait": True}, "max_wait must be a number of seconds, got True"),
        (("1/s",), {"cost_of_result": 5}, "cost_of_result must be callable or None, got 5"),
    ],
)
def test_invalid_option_is_refused(args: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"RateLimit: {says}"):
        sp.RateLimit(*args, **options)
