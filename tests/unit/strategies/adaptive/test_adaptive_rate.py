"""The adaptive rate: AWS's published test sequences to the last digit, then the strategy."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Bang, each_way

import stormproof as sp
from stormproof._strategies.adaptive.rules.cubic import Cubic, Tokens


class TooMany(Exception):
    """The server's error when it throttles."""


def on(error: BaseException) -> sp.Verdict:
    if isinstance(error, TooMany):
        return sp.Verdict(True, kind="throttle")
    return sp.Verdict(isinstance(error, ConnectionError))


def cubic(now: float = 0.0) -> Cubic:
    return Cubic(now, beta=0.7, scale=0.4, smoothing=0.8, min_rate=0.5)


# The rule, by the sequences of AWS's specification of its adaptive mode.


def test_growth_after_a_throttling_follows_the_published_sequence() -> None:
    rule = cubic()
    rule._w, rule._throttled_at = 10.0, 5.0
    rates = [rule.grown(now) for now in range(5, 12)]
    assert rates == pytest.approx(
        [
            7.0,
            9.64893600966,
            10.000030849917364,
            10.453284520772092,
            13.408697022224185,
            21.26626835427364,
            36.425998516920465,
        ],
        rel=1e-9,
    )


def test_growth_and_throttling_follow_the_published_sequence() -> None:
    rule = cubic()
    rule._w, rule._throttled_at = 10.0, 5.0
    assert rule.grown(5) == pytest.approx(7.0)
    rate = rule.grown(6)
    assert rate == pytest.approx(9.64893600966)
    for now, expected in [(7, 6.754255206761999), (8, 4.727978644733399)]:
        # The specification lets each throttling cut the rate computed last.
        rule._w, rule._throttled_at = rate, now
        rate *= 0.7
        assert rate == pytest.approx(expected)
    grown = [rule.grown(now) for now in (9, 10, 11, 12)]
    assert grown == pytest.approx(
        [6.606547753887045, 6.763279816944947, 7.598174833907107, 11.511232804773524]
    )


SENDING = [
    # throttled, time, measured rate, fill rate
    (False, 0.2, 0.0, 0.5),
    (False, 0.4, 0.0, 0.5),
    (False, 0.6, 4.8, 0.5),
    (False, 0.8, 4.8, 0.5),
    (False, 1.0, 4.16, 0.5),
    (False, 1.2, 4.16, 0.6912),
    (False, 1.4, 4.16, 1.0976),
    (False, 1.6, 5.632, 1.6384),
    (False, 1.8, 5.632, 2.3328),
    (True, 2.0, 4.3264, 3.028480),
    (False, 2.2, 4.3264, 3.486639),
    (False, 2.4, 4.3264, 3.821874),
    (False, 2.6, 5.66528, 4.053386),
    (False, 2.8, 5.66528, 4.200373),
    (False, 3.0, 4.333056, 4.282037),
    (True, 3.2, 4.333056, 2.997426),
    (False, 3.4, 4.333056, 3.452226),
]


def test_sending_rate_follows_the_published_sequence() -> None:
    rule = cubic()
    for throttled, now, measured, fill in SENDING:
        rule.settle(throttled, now)
        assert rule.measured == pytest.approx(measured, abs=5e-7)
        assert rule.fill == pytest.approx(fill, abs=5e-7)
        assert rule.enabled == (now >= 2.0)


def test_throttling_cuts_the_measured_rate() -> None:
    """w = min(measured, fill) from the second on: a quiet client is not cut from its allowance."""
    rule = cubic()
    rule.settle(False, 0.4)
    rule.settle(False, 0.9)
    rule.settle(True, 1.1)
    measured = rule.measured
    assert rule.fill == pytest.approx(max(0.5, 0.7 * measured))
    rule.fill = 0.6
    rule.settle(True, 1.2)
    assert rule._w == 0.6


def test_unused_rate_grows_to_at_most_twice_the_measured_rate() -> None:
    rule = cubic()
    rule._w, rule.measured, rule._bucket = 10.0, 3.0, 100.0
    assert rule.grown(20.0) > 100
    rule.settle(False, 20.0)
    assert rule.fill == 6.0


# The tokens.


def test_tokens_refill_up_to_one_second_of_the_rate() -> None:
    tokens = Tokens(0.5, 0.0)
    tokens.change(4.0, 4.0, 0.0)
    tokens.refill(100.0)
    assert tokens.held == 4
    tokens.change(0.3, 0.5, 100.0)
    assert tokens.held == tokens.capacity == 1


def test_waiters_go_in_order_at_the_current_rate() -> None:
    tokens = Tokens(0.5, 0.0)
    dues = [tokens.take(0.0) for _ in range(3)]
    assert [tokens.wait(due, 0.0) for due in dues] == pytest.approx([2, 4, 6])
    tokens.change(2.0, 2.0, 1.0)
    assert [tokens.wait(due, 1.0) for due in dues] == pytest.approx([0.25, 0.75, 1.25])
    assert tokens.wait(dues[0], 1.25) == 0


# The strategy.


class Server:
    """Throttles whenever it is asked to."""

    def __init__(self, clock: Any, **options: Any) -> None:
        self.clock = clock
        self.rate = sp.AdaptiveRate(**{"on": on, **options})
        self.policy = sp.Policy(self.rate, name="put", clock=clock)
        self.times: list[float] = []

    def call(self, error: Exception | None = None) -> None:
        def serve() -> None:
            self.times.append(self.clock.now())
            if error is not None:
                raise error

        self.policy.call(serve)

    def throttle(self) -> None:
        with pytest.raises(TooMany):
            self.call(TooMany())


def test_adaptive_rate_is_off_until_the_server_throttles() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    for _ in range(100):
        server.call()
    for error in (ConnectionError(), ValueError()):
        with pytest.raises(type(error)):
            server.call(error)
    assert server.rate.rate is None
    assert clock.sleeps == []


def test_strategy_follows_the_published_sequence() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    for throttled, now, measured, _ in SENDING[:10]:
        clock.advance(now - clock.now())
        if throttled:
            server.throttle()
        else:
            server.call()
        assert server.rate.describe()["measured"] == pytest.approx(measured, abs=5e-7)
    assert server.rate.rate == pytest.approx(3.02848, abs=5e-7)


@each_way
def test_calls_after_a_throttled_one_wait_for_their_token(play: Any) -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.AdaptiveRate(on=on), clock=clock)
    play(policy, TooMany).raised(TooMany)
    play(policy, "fine").returned("fine").made(1)
    # Nothing measured yet: the least rate, 0.5 a second, and an empty bucket.
    assert sum(clock.sleeps) == pytest.approx(2)
    assert max(clock.sleeps) <= 1, "it looks again every second, whether the rate has grown"


def test_strategy_keeps_to_its_learnt_rate() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    for _ in range(40):
        clock.advance(0.1)
        server.call()
    clock.advance(0.1)
    server.throttle()
    rate = server.rate.rate
    assert rate == pytest.approx(7, rel=0.15)  # 10 a second were sent
    assert rate is not None
    began, sent = clock.now(), len(server.times)
    while clock.now() < began + 1:
        server.call()
    assert len(server.times) - sent == pytest.approx(7 + 7, abs=3)  # what was saved up, and what came in
    began, sent = clock.now(), len(server.times)
    while clock.now() < began + 1:
        server.call()
    assert len(server.times) - sent == pytest.approx(9, abs=2)


def test_server_that_bears_20_a_second_is_sent_about_that() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    allowed = sp.Limiter(20, 20, clock=clock)
    throttled = 0
    for turn in range(3000):
        clock.advance(0.01)
        ok = allowed.allow()
        try:
            server.call(None if ok else TooMany())
        except TooMany:
            throttled += turn > 1000
    late = [at for at in server.times if at > clock.now() - 20]
    assert 15 <= len(late) / 20 <= 25
    assert throttled < 0.1 * len(server.times)


def test_waiting_has_a_limit() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock, max_wait=1.5)
    server.throttle()
    with pytest.raises(
        sp.RateLimited, match=r"put: over the rate that the server bears, try again in 2 s"
    ) as caught:
        server.call()
    assert caught.value.retry_after == pytest.approx(2)
    assert clock.sleeps == []
    clock.advance(0.5)
    server.call()
    assert sum(clock.sleeps) == pytest.approx(1.5)


def test_max_wait_of_zero_does_not_wait() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock, max_wait=0)
    server.throttle()
    with pytest.raises(sp.RateLimited):
        server.call()
    clock.advance(2)
    server.call()
    assert clock.sleeps == []


def test_wait_past_the_deadline_is_not_begun() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    server.throttle()
    with sp.deadline(1.9, "budget", clock=clock), pytest.raises(sp.DeadlineExceeded) as caught:
        server.call()
    assert caught.value.scope == "budget"
    assert clock.sleeps == []
    # And what it had taken is there for the next.
    with sp.deadline(2.1, clock=clock):
        server.call()


@pytest.mark.parametrize("error", [sp.CircuitOpen(), sp.BulkheadFull(), sp.Cancelled(), KeyboardInterrupt()])
def test_refused_or_cancelled_calls_are_not_measured(error: BaseException) -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    clock.advance(10)
    with pytest.raises(type(error)):
        server.call(error)  # type: ignore[arg-type]
    assert server.rate.describe()["measured"] == 0


def test_any_other_failure_is_an_answer() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    clock.advance(1)
    with pytest.raises(Bang):
        server.call(Bang())
    assert server.rate.describe()["measured"] == pytest.approx(0.8)


def test_mark_counts_as_its_cause() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock)
    with pytest.raises(sp.RetryAfter):
        server.call(sp.RetryAfter(1, TooMany()))
    assert server.rate.rate == 0.5


def test_inside_a_retry_every_attempt_waits() -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(
        sp.Retry(on=on, backoff=sp.Constant(0), attempts=3, budget=None), sp.AdaptiveRate(on=on), clock=clock
    )
    calls: list[float] = []

    def call() -> None:
        calls.append(clock.now())
        raise TooMany

    with pytest.raises(TooMany):
        policy.call(call)
    assert calls == pytest.approx([0, 2, 4])


def test_clock_set_back_does_not_lengthen_a_wait() -> None:
    clock = sp.testing.FakeClock(10000.0)
    server = Server(clock)
    server.throttle()
    clock.advance(-3600)
    server.call()
    assert sum(clock.sleeps) == pytest.approx(2)


def test_adaptive_rate_takes_the_policys_clock() -> None:
    rate = sp.AdaptiveRate(on=on)
    clock = sp.testing.FakeClock()
    sp.Policy(rate, clock=clock)
    assert rate.clock is clock
    rate.use_clock(sp.testing.FakeClock())
    assert rate.clock is clock


@each_loop
def test_tasks_wait_in_order_and_a_cancelled_one_gives_its_token_back(loop: Loop) -> None:
    async def scenario() -> None:
        rate = sp.AdaptiveRate(on=on)
        policy = sp.Policy(rate, clock=LoopClock(loop))
        served: list[tuple[int, float]] = []

        async def fail() -> None:
            raise TooMany

        with pytest.raises(TooMany):
            await policy.acall(fail)
        began = loop.time()

        def worker(number: int) -> Any:
            @policy
            async def work() -> None:
                served.append((number, loop.time() - began))
                raise TooMany

            return work

        async def cancelled() -> None:
            assert await loop.cut(0.5, worker(9))

        await cancelled()
        await loop.together(worker(0))
        # Half a second of waiting was not lost with the one that was cancelled.
        assert served == [(0, pytest.approx(2))]
        await loop.together(worker(1), worker(2), worker(3))
        assert [at for _, at in served] == pytest.approx([2, 4, 6, 8])

    loop.run(scenario)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_wait": -1}, "max_wait must be >= 0 seconds, got -1"),
        ({"beta": 1}, "beta must be < 1, got 1"),
        ({"beta": 0}, "beta must be > 0, got 0"),
        ({"scale": 0}, "scale must be > 0, got 0"),
        ({"smoothing": 1.1}, "smoothing must be <= 1, got 1.1"),
        ({"min_rate": 0}, "min_rate must be > 0, got 0"),
        ({"on": "x"}, "on must be an exception type"),
        ({"name": 0}, "name must be a non-empty string or None, got 0"),
        ({"clock": 5}, "clock must have now"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"AdaptiveRate: {says}"):
        sp.AdaptiveRate(**options)


def test_copy_of_an_adaptive_rate_has_no_measured_rate() -> None:
    clock = sp.testing.FakeClock()
    server = Server(clock, max_wait=5, name="s3")
    server.throttle()
    rate = server.rate
    assert rate != rate.fresh()
    for copy in (rate.fresh(), rate.replace(beta=0.5), pickle.loads(pickle.dumps(rate))):
        assert (copy.rate, copy.max_wait, copy.name) == (None, 5, "s3")
    assert rate.describe()["rate"] == 0.5
