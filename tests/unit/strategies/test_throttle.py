"""Adaptive throttling: the formula, what counts, the window, and the path without a lock."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.scripted import SYNC, Bang, Boom, each_way

import stormproof as sp


class Draws:
    """Draws that never refuse, unless set otherwise; counts them."""

    def __init__(self, value: float = 1.0) -> None:
        self.value = value
        self.count = 0

    def __call__(self) -> float:
        self.count += 1
        return self.value


class Bench:
    """A throttle under a policy, in time that stands still, and a backend with given answers."""

    def __init__(self, draw: float = 1.0, **options: Any) -> None:
        self.clock = sp.testing.FakeClock(1000.0)
        self.throttle = sp.Throttle(**{"on": Boom, **options})
        self.draws = Draws(draw)
        self.policy = sp.Policy(self.throttle, clock=self.clock, rng=self.draws)
        self.calls = 0

    def call(self, outcome: Any = "ok") -> Any:
        def backend() -> Any:
            self.calls += 1
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        return self.policy.call(backend)

    def send(self, accepted: int = 0, failed: int = 0) -> None:
        for _ in range(accepted):
            self.call()
        for _ in range(failed):
            with pytest.raises(Boom):
                self.call(Boom())


# The formula: max(0, (requests - k * accepts) / (requests + 1)).


@pytest.mark.parametrize(
    ("k", "accepted", "failed", "share"),
    [
        (2, 0, 1, 1 / 2),
        (2, 0, 9, 9 / 10),
        (2, 10, 10, 0),
        (2, 10, 11, 1 / 22),
        (2, 10, 30, 20 / 41),
        (1, 10, 10, 10 / 21),
        (1, 10, 0, 0),
        (1.5, 10, 10, 5 / 21),
    ],
)
def test_rejection_follows_the_formula(k: float, accepted: int, failed: int, share: float) -> None:
    bench = Bench(k=k)
    bench.send(accepted, failed)
    assert bench.throttle.rejection == pytest.approx(share, abs=1e-12)


def test_call_is_refused_when_the_draw_is_below_the_share() -> None:
    bench = Bench()
    bench.send(10, 30)
    bench.draws.value = 20 / 41 - 1e-9
    with pytest.raises(sp.Throttled, match=r"throttle refuses 48.8% of the calls"):
        bench.call()
    assert bench.calls == 40
    bench.draws.value = 21 / 42 + 1e-9
    assert bench.call() == "ok"


def test_refused_calls_count_as_requests() -> None:
    bench = Bench()
    bench.send(10, 30)
    bench.draws.value = 0.0
    for _ in range(5):
        with pytest.raises(sp.Throttled):
            bench.call()
    assert bench.throttle.rejection == pytest.approx((45 - 20) / 46)


def test_backend_recovers_and_the_share_falls() -> None:
    bench = Bench()
    bench.send(0, 10)
    shares = []
    for _ in range(12):
        shares.append(bench.throttle.rejection)
        bench.call()
    assert shares == sorted(shares, reverse=True)
    assert bench.throttle.rejection == 0


@each_way
def test_throttle_works_in_every_way_of_calling(play: Any) -> None:
    throttle = sp.Throttle(on=Boom)
    policy = sp.Policy(throttle, rng=lambda: 0.0)
    play(policy, "fine").returned("fine")
    play(policy, Boom).raised(Boom).made(1)
    play(policy, Boom).raised(Boom).made(1)
    # 1 of 3 accepted, k = 2: a share of 1/4 is refused, and a draw of 0 is below it.
    play(policy, "never").raised(sp.Throttled).made(0)


# What counts.


def test_failure_outside_on_counts_as_an_answer() -> None:
    bench = Bench()
    for _ in range(5):
        with pytest.raises(Bang):
            bench.call(Bang())
    assert bench.throttle.describe()["accepts"] == 5
    assert bench.throttle.rejection == 0


@pytest.mark.parametrize(
    "error", [sp.CircuitOpen(), sp.BulkheadFull(), sp.DeadlineExceeded(), sp.Cancelled()]
)
def test_refusal_by_an_inner_strategy_does_not_count(error: Exception) -> None:
    bench = Bench(on=sp.transient)
    with pytest.raises(type(error)):
        bench.call(error)
    described = bench.throttle.describe()
    assert (described["requests"], described["accepts"]) == (0, 0)


def test_attempt_that_timed_out_is_a_failure() -> None:
    bench = Bench(on=sp.transient)
    with pytest.raises(sp.AttemptTimeout):
        bench.call(sp.AttemptTimeout())
    assert bench.throttle.rejection == 0.5


def test_refusal_counts_where_on_names_it() -> None:
    bench = Bench(on=(sp.CircuitOpen,))
    with pytest.raises(sp.CircuitOpen):
        bench.call(sp.CircuitOpen())
    assert bench.throttle.rejection == 0.5


def test_mark_counts_as_its_cause() -> None:
    bench = Bench(on=Boom)
    with pytest.raises(sp.RetryAfter):
        bench.call(sp.RetryAfter(1, Boom()))
    assert bench.throttle.rejection == 0.5


def test_interrupted_call_does_not_count() -> None:
    bench = Bench()
    with pytest.raises(KeyboardInterrupt):
        bench.call(KeyboardInterrupt())
    assert bench.throttle.describe()["requests"] == 0


@each_loop
def test_cancelled_call_does_not_count(loop: Loop) -> None:
    throttle = sp.Throttle(on=BaseException)

    @sp.Policy(throttle)
    async def call() -> None:
        await loop.sleep(60)

    async def scenario() -> None:
        assert await loop.cut(1, call)

    loop.run(scenario)
    assert throttle.describe()["requests"] == 0


def test_calls_under_way_at_a_cold_start_are_not_lost_calls() -> None:
    """Counted at their start, ten calls under way and none answered would refuse the eleventh."""
    throttle = sp.Throttle(on=Boom)
    policy = sp.Policy(throttle, rng=lambda: 0.0)

    def nested(depth: int) -> int:
        return depth if depth == 10 else policy.call(nested, depth + 1)

    assert policy.call(nested, 0) == 10


# Options.


def test_too_few_calls_are_not_judged() -> None:
    bench = Bench(min_calls=10)
    bench.send(failed=9)
    assert bench.throttle.rejection == 0
    bench.send(failed=1)
    assert bench.throttle.rejection == 10 / 11


def test_share_may_be_capped() -> None:
    bench = Bench(max_rejection=0.8)
    bench.send(failed=100)
    assert bench.throttle.rejection == 0.8


# The window.


def test_window_forgets_old_calls() -> None:
    bench = Bench(window=120)
    bench.send(failed=10)
    bench.clock.advance(60)
    assert bench.throttle.rejection == 10 / 11
    bench.clock.advance(60)
    assert bench.throttle.rejection == 0
    assert bench.throttle.describe()["requests"] == 0


def test_successes_counted_without_a_clock_are_spread_over_their_time() -> None:
    bench = Bench(window=120, k=1)
    bench.send(accepted=1000)
    # They came in at once, but no clock was read until 240 s later: half of that is the window.
    bench.clock.advance(240)
    bench.send(failed=1)
    assert bench.throttle.describe()["accepts"] == pytest.approx(500)


def test_clock_set_back_stops_neither_counting_nor_forgetting() -> None:
    bench = Bench(window=120)
    bench.send(failed=10)
    bench.clock.advance(-3600)
    assert bench.throttle.rejection == 10 / 11
    bench.clock.advance(121)
    assert bench.throttle.rejection == 0


def test_clock_set_forward_forgets() -> None:
    bench = Bench(window=120)
    bench.send(failed=10)
    bench.clock.advance(10 * 365 * 86400)
    assert bench.throttle.rejection == 0


def test_policys_clock_is_taken_and_counts_are_kept() -> None:
    throttle = sp.Throttle(on=Boom)
    SYNC(sp.Policy(throttle), Boom)
    clock = sp.testing.FakeClock(5.0)
    sp.Policy(throttle, clock=clock)
    assert throttle.rejection == 0.5
    clock.advance(121)
    assert throttle.rejection == 0


def test_throttle_with_its_own_clock_keeps_the_clock() -> None:
    own, policys = sp.testing.FakeClock(5.0), sp.testing.FakeClock(5.0)
    throttle = sp.Throttle(on=Boom, clock=own)
    SYNC(sp.Policy(throttle, clock=policys), Boom)
    policys.advance(121)
    assert throttle.clock is own and throttle.rejection == 0.5
    own.advance(121)
    assert throttle.rejection == 0


# The path without a lock.


def test_throttle_without_failures_takes_no_lock_clock_or_draw() -> None:
    bench = Bench()

    class Counting:
        taken = 0

        def __enter__(self) -> None:
            Counting.taken += 1

        def __exit__(self, *exc: object) -> None: ...

    reads = 0
    now = bench.clock.now

    def counted() -> float:
        nonlocal reads
        reads += 1
        return now()

    bench.clock.now = counted  # type: ignore[method-assign]
    bench.throttle._lock = Counting()
    bench.send(accepted=100)
    assert (Counting.taken, reads, bench.draws.count) == (0, 0, 0)
    # After a failure all three are needed; when the window has passed, none again.
    bench.send(failed=1)
    bench.send(accepted=1)
    assert Counting.taken and reads
    bench.clock.advance(121)
    bench.send(accepted=1)
    before = (Counting.taken, reads, bench.draws.count)
    bench.send(accepted=100)
    assert (Counting.taken, reads, bench.draws.count) == before
    assert 101 <= bench.throttle.describe()["accepts"] <= 102


# The object.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0.9}, "k must be >= 1, got 0.9"),
        ({"k": float("inf")}, "k must be finite, got inf"),
        ({"k": True}, "k must be a number, got True"),
        ({"window": 0}, "window must be > 0 seconds, got 0"),
        ({"window": None}, "window must be a number of seconds, got None"),
        ({"on": 5}, "on must be an exception type"),
        ({"min_calls": -1}, "min_calls must be >= 0, got -1"),
        ({"max_rejection": 0}, "max_rejection must be > 0, got 0"),
        ({"max_rejection": 1.5}, "max_rejection must be <= 1, got 1.5"),
        ({"name": 5}, "name must be a non-empty string or None, got 5"),
        ({"clock": 5}, "clock must have now"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Throttle: {says}"):
        sp.Throttle(**options)


def test_copy_of_a_throttle_is_another_throttle_without_history() -> None:
    bench = Bench()
    bench.send(failed=3)
    throttle = bench.throttle
    assert throttle != throttle.fresh()
    for copy in (throttle.fresh(), throttle.replace(k=3), pickle.loads(pickle.dumps(sp.Throttle()))):
        assert copy.rejection == 0
    assert eval(repr(sp.Throttle(k=3)), {"Throttle": sp.Throttle, "transient": sp.transient}).k == 3
    assert throttle.describe() == {
        "kind": "Throttle",
        "k": 2.0,
        "window": 120.0,
        "on": "Boom",
        "min_calls": 0,
        "max_rejection": 1.0,
        "name": None,
        "requests": 3.0,
        "accepts": 0.0,
        "rejection": 0.75,
    }


def test_keyed_throttles_are_independent() -> None:
    policy = sp.Policy(sp.keyed(sp.Throttle(on=Boom), key=lambda host: host), rng=lambda: 0.0)

    @policy
    def call(host: str) -> str:
        if host == "bad":
            raise Boom
        return "ok"

    with pytest.raises(Boom):
        call("bad")
    with pytest.raises(sp.Throttled):
        call("bad")
    assert call("good") == "ok"


def test_key_sees_the_arguments_of_every_form_of_call() -> None:
    """``policy.call(fn, "a")`` must find the key of ``fn("a")``, as a decorated ``fn`` does."""
    strategy = sp.keyed(sp.Throttle(on=Boom), key=lambda host: host)
    policy = sp.Policy(strategy)
    assert policy(lambda host: host)("a") == "a"
    assert policy.call(lambda host: host, "a") == "a"
    assert list(strategy) == ["a"]
