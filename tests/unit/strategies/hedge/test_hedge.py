"""Hedging: never more than ``max`` at once, one result, losers cancelled and awaited, extra calls paid."""

from __future__ import annotations

import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Bang, Boom, BudgetSpy

import stormproof as sp
from stormproof._strategies.hedge.quantile import Sketch


class Backend:
    """Each call plays the next (seconds, outcome); the last repeats. Writes down what becomes of it."""

    def __init__(self, loop: Loop, *script: tuple[float, Any]) -> None:
        self.loop = loop
        self.script = script
        self.began: list[float] = []
        self.inside = self.most = self.cancelled = 0

    async def __call__(self) -> Any:
        seconds, outcome = self.script[min(len(self.began), len(self.script) - 1)]
        self.began.append(self.loop.time())
        self.inside += 1
        self.most = max(self.most, self.inside)
        ended = False
        try:
            await self.loop.sleep(seconds)
            ended = True
        finally:
            self.inside -= 1
            self.cancelled += not ended
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def play(self, *strategies: Any) -> tuple[Any, float]:
        """Return the outcome of a call under the policy, and its time."""

        async def main() -> tuple[Any, float]:
            function: Callable[[], Awaitable[Any]] = sp.Policy(*strategies)(self._call())
            try:
                return await function(), self.loop.time()
            except Exception as error:
                return error, self.loop.time()

        outcome = self.loop.run(main)
        assert self.inside == 0, "a loser was not awaited"
        return outcome

    def _call(self) -> Callable[[], Awaitable[Any]]:
        async def call() -> Any:
            return await self()

        return call


class Response:
    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def hedge(after: Any = 1, max: int = 3, **options: Any) -> sp.Hedge:
    return sp.Hedge(after=after, max=max, idempotent=True, **options)


@each_loop
def test_quick_answer_is_not_hedged(loop: Loop) -> None:
    backend = Backend(loop, (0.9, "a"))
    assert backend.play(hedge()) == ("a", 0.9)
    assert backend.began == [0]


@pytest.mark.proves("invariant 16")
@each_loop
def test_hedge_launches_another_attempt_after_each_delay_up_to_max(loop: Loop) -> None:
    backend = Backend(loop, (100, "a"), (100, "b"), (4, "c"))
    assert backend.play(hedge(1, 3)) == ("c", 6)
    assert backend.began == [0, 1, 2]
    assert (backend.most, backend.cancelled) == (3, 2)


@each_loop
def test_first_attempt_may_win_after_a_hedge(loop: Loop) -> None:
    backend = Backend(loop, (1.5, "a"), (100, "b"))
    assert backend.play(hedge(1, 2)) == ("a", 1.5)
    assert backend.cancelled == 1


@pytest.mark.proves("invariant 16")
@each_loop
def test_delay_of_zero_launches_all_at_once(loop: Loop) -> None:
    backend = Backend(loop, (3, "a"), (2, "b"), (1, "c"))
    assert backend.play(hedge(0, 3)) == ("c", 1)
    assert backend.began == [0, 0, 0]


@each_loop
def test_transient_failure_launches_the_next_hedge_at_once(loop: Loop) -> None:
    backend = Backend(loop, (0.5, Boom()), (0.25, "b"))
    assert backend.play(hedge(10, 3)) == ("b", 0.75)
    assert backend.began == [0, 0.5]


@pytest.mark.proves("invariant 16")
@each_loop
def test_fatal_failure_stops_all(loop: Loop) -> None:
    fatal = Bang()
    backend = Backend(loop, (100, "a"), (0.5, fatal))
    assert backend.play(hedge(1, 3)) == (fatal, 1.5)
    assert len(backend.began) == 2
    assert backend.cancelled == 1


@each_loop
def test_when_all_fail_the_first_error_is_raised(loop: Loop) -> None:
    errors = [Boom("1"), Boom("2"), Boom("3")]
    backend = Backend(loop, *((1, error) for error in errors))
    assert backend.play(hedge(10, 3)) == (errors[0], 3)
    assert len(backend.began) == 3


@each_loop
def test_every_extra_attempt_is_paid(loop: Loop) -> None:
    spy = BudgetSpy()
    Backend(loop, (100, "a"), (100, "b"), (1, "c")).play(hedge(1, 3, budget=spy))
    assert [call for call in spy.calls if call[0] == "withdraw"] == [("withdraw", False)] * 2


@each_loop
def test_hedge_that_cannot_be_paid_is_not_launched(loop: Loop) -> None:
    backend = Backend(loop, (5, "a"), (100, "b"))
    assert backend.play(hedge(1, 3, budget=BudgetSpy(allow=1))) == ("a", 5)
    assert backend.began == [0, 1]


@pytest.mark.proves("invariant 16")
def test_undeclared_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="Hedge: idempotent"):
        sp.Policy(sp.Hedge(0.1))(lambda: None)
    with pytest.raises(ValueError, match="Hedge: idempotent"):
        sp.Policy(sp.Hedge(0.1)).call(lambda: None)


@each_loop
def test_retries_and_hedges_add_up(loop: Loop) -> None:
    """attempts + max - 1 calls, not attempts * max."""
    backend = Backend(loop, (0, Boom()))
    retry = sp.Retry(on=Boom, attempts=4, backoff=sp.Constant(0), budget=None, within=None)
    outcome, _ = backend.play(retry, hedge(1, 3))
    assert isinstance(outcome, Boom)
    assert len(backend.began) == 4 + 3 - 1


class Replicas:
    """The first is slow, the others answer at once with what they were asked."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.asked: list[tuple[str, int]] = []

    async def query(self, text: str, *, replica: int = 0) -> str:
        self.asked.append((text, replica))
        await self.loop.sleep(0 if replica else 10)
        return f"{text} from {replica}"


@pytest.mark.parametrize("decorated", [True, False])
@each_loop
def test_vary_gives_the_arguments_of_the_other_attempts(loop: Loop, decorated: bool) -> None:
    """It is given the number and the arguments; the function of `Policy.acall` is not one of them."""
    given: list[Any] = []

    def vary(number: int, args: Any, kwargs: Any) -> Any:
        given.append((number, args, kwargs))
        return (f"{args[0]} again",), {"replica": number}

    policy = sp.Policy(hedge(1, vary=vary))
    replicas = Replicas(loop)

    async def main() -> str:
        if decorated:
            return await policy(replicas.query)("select")
        return await policy.acall(replicas.query, "select")

    assert loop.run(main) == "select again from 2"
    assert given == [(2, ("select",), {})]
    assert replicas.asked == [("select", 0), ("select again", 2)]


@pytest.mark.proves("invariant 16")
@each_loop
def test_response_that_comes_second_is_closed_once(loop: Loop) -> None:
    made: list[Response] = []

    async def call() -> Response:
        await loop.sleep(1)
        made.append(Response())
        return made[-1]

    won = loop.run(sp.Policy(hedge(0, 3))(call))
    assert won.closed == 0
    assert all(response.closed == 1 for response in made if response is not won)


@pytest.mark.proves("invariant 16")
@each_loop
def test_cancelled_caller_leaves_no_attempt_running(loop: Loop) -> None:
    backend = Backend(loop, (100, "a"))
    function = sp.Policy(hedge(1, 3))(backend._call())
    assert loop.run(loop.cut, 2.5, function)
    assert (len(backend.began), backend.inside, backend.cancelled) == (3, 0, 3)


def test_percentile_delay_is_measured() -> None:
    """Nothing is hedged until enough is known; then at the latency 95 % of the calls stay within."""
    made = hedge("p95", 2)
    for place in range(1, 101):
        assert (made.delay() is None) == (place <= 20)
        made.measure(place / 100)
    assert made.delay() == pytest.approx(0.95, rel=0.05)


def test_percentile_of_latencies_beyond_all_buckets_exceeds_180_s() -> None:
    """An hour is counted as more than three minutes, and as nothing less."""
    sketch = Sketch()
    assert sketch.quantile(0.95) > 180, "without samples no hedge starts early"
    for _ in range(100):
        sketch.record(3600)
    assert sketch.quantile(0.5) > 180
    for _ in range(100_000):
        sketch.record(0.01)
    assert sketch.quantile(0.99) == pytest.approx(0.01, rel=0.05)


class LoopTime:
    """The loop's own time as a policy's clock; nothing here sleeps by it."""

    drives_timers = True

    def __init__(self, loop: Loop) -> None:
        self.now = loop.time

    def asked(self, seconds: float) -> None:
        """A wait was asked for."""

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a blocking wait")


@each_loop
def test_percentile_measured_while_hedging_is_that_of_the_backend(loop: Loop) -> None:
    """The slow ones lose, and must count all the same: else "p90" hedges far more than 10 %."""
    latencies = random.Random(5)
    launched = 0

    async def call() -> None:
        nonlocal launched
        launched += 1
        await loop.sleep(latencies.lognormvariate(-3, 1))

    async def main() -> None:
        policy = sp.Policy(hedge("p90", 2, budget=BudgetSpy()), clock=LoopTime(loop))
        for _ in range(3000):
            await policy.acall(call)

    loop.run(main)
    assert launched - 3000 == pytest.approx(300, abs=60)


def test_losing_thread_counts_with_its_elapsed_time() -> None:
    clock = sp.testing.FakeClock()
    made = hedge("p99", 2, budget=BudgetSpy())
    for _ in range(20):
        made.measure(0.001)
    numbers = iter([1, 2])
    stands, go_on = threading.Event(), threading.Event()

    def call() -> str:
        if next(numbers) == 1:
            clock.advance(8)
            stands.set()
            assert go_on.wait(10)
            return "first"
        assert stands.wait(10)
        return "second"

    try:
        assert sp.Policy(made, clock=clock).call(call) == "second"
    finally:
        go_on.set()
    assert made.delay() == pytest.approx(8, rel=0.05)


@each_loop
def test_hedge_that_loses_or_is_cut_short_says_nothing_of_the_latency(loop: Loop) -> None:
    made = hedge("p1", 2, budget=BudgetSpy())
    for _ in range(20):
        made.measure(1.0)
    before = made.delay()
    backend = Backend(loop, (1.5, "a"), (100, "b"), (100, "c"))

    async def main() -> None:
        policy = sp.Policy(made, clock=LoopTime(loop))
        await policy.acall(backend._call())
        await loop.cut(0.5, policy.acall, backend._call())

    loop.run(main)
    assert len(backend.began) == 3
    assert made.delay() == before


@pytest.mark.parametrize(
    "options",
    [
        {"after": -1},
        {"after": "95"},
        {"after": "p0"},
        {"after": "p100"},
        {"max": 1},
        {"max": True},
        {"budget": 3},
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=f"Hedge: {next(iter(options))}"):
        sp.Hedge(**options)


def test_budget_uses_the_policys_clock() -> None:
    clock = sp.testing.FakeClock()
    budget = sp.RateBudget(rate=1, burst=1)
    sp.Policy(hedge(1, budget=budget), clock=clock)
    assert (budget.withdraw(), budget.withdraw()) == (1, 0)
    clock.advance(1)
    assert budget.withdraw() == 1


def test_hedges_with_equal_options_are_not_equal() -> None:
    one, other = hedge(1), hedge(1)
    assert one == one and one != other
    assert len({one, other}) == 2


# Threads.


def test_threads_the_second_wins_and_the_first_is_cancelled() -> None:
    numbers = iter([1, 2])
    stopped, done = threading.Event(), threading.Event()

    def call() -> str:
        if next(numbers) == 2:
            return "second"
        try:
            while not stopped.is_set():
                checked.call(stopped.wait, 0.01)
        except sp.Cancelled:
            done.set()
        return "first"

    # A policy looks at the scope before each call.
    checked = sp.Policy(sp.Retry(on=Boom, attempts=1))
    try:
        assert sp.Policy(hedge(0.01, 2))(call)() == "second"
        assert done.wait(10), "its scope was not cancelled"
    finally:
        stopped.set()


@pytest.mark.proves("invariant 16")
def test_late_answer_of_a_hedged_thread_is_closed_once() -> None:
    closed = threading.Event()
    times: list[int] = []
    go_on = threading.Event()
    numbers = iter([1, 2])

    class Late:
        def close(self) -> None:
            times.append(1)
            closed.set()

    def call() -> Any:
        if next(numbers) == 2:
            return "second"
        assert go_on.wait(10)
        return Late()

    assert sp.Policy(hedge(0, 2)).call(call) == "second"
    go_on.set()
    assert closed.wait(10)
    assert times == [1]


@pytest.mark.parametrize("fatal", [False, True])
def test_threads_fatal_failure_stops_and_others_launch_the_next(fatal: bool) -> None:
    errors = iter([Bang(), Bang()] if fatal else [Boom("1"), Boom("2"), Boom("3")])
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise next(errors)

    with pytest.raises(Bang if fatal else Boom) as caught:
        sp.Policy(hedge(60, 3)).call(call)
    assert len(calls) == (1 if fatal else 3)
    assert fatal or str(caught.value) == "1"
