"""`sp.reconnecting`: live connections one after the other, in virtual time, sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import scipy.stats
import trio
import trio.testing
from tests.support.loops import watchdog
from tests.support.scripted import Bang, Boom, BudgetSpy

import stormproof as sp
from stormproof import events
from stormproof._programs.reconnect_loop import ConnectionLost
from stormproof._programs.reconnecting import reconnecting

__all__ = ["watchdog"]

pytestmark = pytest.mark.usefixtures("watchdog")


class Line:
    """A server as its clients see it: each connect comes to the next outcome of the script.

    An exception is raised; a number is how many seconds the connection lives until it breaks with
    `Boom`; a pair is the seconds and the exception that it breaks with. After the script the client
    has to leave.
    """

    def __init__(self, clock: sp.testing.FakeClock, *outcomes: Any) -> None:
        self.clock = clock
        self.outcomes = list(outcomes)
        self.times: list[float] = []
        self.open = 0
        self.closed = 0

    def connect(self) -> Connection:
        assert self.open == 0, "the old connection is still open"
        self.times.append(self.clock.now())
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        self.open += 1
        return Connection(self, *(outcome if isinstance(outcome, tuple) else (outcome, Boom("dropped"))))


class Connection:
    def __init__(self, line: Line, life: float, error: Exception | None) -> None:
        self.line = line
        self.life = life
        self.error = error

    def use(self) -> None:
        self.line.clock.advance(self.life)
        if self.error is not None:
            raise self.error

    async def use_async(self) -> None:
        await asyncio.sleep(self.life)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.line.open -= 1
        self.line.closed += 1


class Ridden:
    """The outcome of a loop over connections."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.events: list[Any] = []
        self.line: Line
        self.sleeps: list[float] = []
        self.times: list[float] = []

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


OnLoss = Callable[[Any, Exception], object]


def _nothing(link: Any, error: Exception) -> None:
    """The plainest use: catch the error and go on."""


def _sync(outcomes: tuple[Any, ...], policy: Any, on_loss: OnLoss, inside: Any, options: Any) -> Ridden:
    ridden = Ridden()
    with sp.testing.instant() as clock:
        clock.advance(-clock.now())
        line = ridden.line = Line(clock, *outcomes)
        try:
            with inside(), reconnecting(line.connect, policy, **options) as link:
                for connection in link:
                    try:
                        connection.use()
                    except Exception as error:
                        if not line.outcomes:
                            break
                        on_loss(link, error)
                        continue
        except Exception as error:
            ridden.error = error
        ridden.sleeps, ridden.times = clock.sleeps, line.times
    assert line.open == 0
    return ridden


def _async(outcomes: tuple[Any, ...], policy: Any, on_loss: OnLoss, inside: Any, options: Any) -> Ridden:
    ridden = Ridden()

    async def main(clock: sp.testing.FakeClock) -> None:
        line = ridden.line = Line(clock, *outcomes)

        async def connect() -> Connection:
            return line.connect()

        try:
            with inside():
                async with reconnecting(connect, policy, **options) as link:
                    async for connection in link:
                        try:
                            await connection.use_async()
                        except Exception as error:
                            if not line.outcomes:
                                break
                            on_loss(link, error)
                            continue
        except Exception as error:
            ridden.error = error
        ridden.sleeps, ridden.times = clock.sleeps, line.times
        assert line.open == 0

    sp.testing.run(main)
    return ridden


class Way:
    def __init__(self, name: str, run: Callable[..., Ridden]) -> None:
        self.name = name
        self.run = run

    def __call__(
        self,
        *outcomes: Any,
        policy: Any = None,
        on_loss: OnLoss = _nothing,
        inside: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
        **options: Any,
    ) -> Ridden:
        seen: list[Any] = []
        stop = sp.subscribe(seen.append)
        try:
            ridden = self.run(outcomes, policy, on_loss, inside, options)
        finally:
            stop()
        ridden.events = seen
        return ridden


each_way = pytest.mark.parametrize(
    "ride", [Way("sync", _sync), Way("async", _async)], ids=lambda way: way.name
)


def policy(draw: float = 0.5, **options: Any) -> sp.Policy:
    """Waits exactly 8, 16, 32 s after a failed connect; the draw of every spread is ``draw``."""
    given: dict[str, Any] = {
        "on": Boom,
        "attempts": 10,
        "backoff": sp.Exponential(8, cap=32, jitter="none"),
        "within": 10_000,
        "budget": None,
    }
    return sp.Policy(sp.Retry(**{**given, **options}), rng=lambda: draw, name="feed")


# The waits.


@each_way
def test_first_connect_does_not_wait(ride: Way) -> None:
    ridden = ride(100, policy=policy())
    assert ridden.error is None
    assert (ridden.times, ridden.sleeps) == ([0], [])
    assert ridden.line.closed == 1


@each_way
def test_every_reconnect_after_a_loss_is_spread_from_zero(ride: Way) -> None:
    # Half of the 8 s that the backoff would wait at most, although its jitter is "none".
    ridden = ride(100, 100, 100, policy=policy(0.5))
    assert ridden.sleeps == [4, 4]
    assert ridden.times == [0, 104, 208]
    assert ride(100, 100, policy=policy(0.0)).sleeps == [0]


@each_way
def test_failed_connect_waits_as_the_backoff_says(ride: Way) -> None:
    ridden = ride(Boom(), Boom(), 100, policy=policy())
    assert ridden.sleeps == [8, 16]


@each_way
def test_backoff_goes_on_from_the_wait_after_the_loss(ride: Way) -> None:
    assert ride(100, Boom(), Boom(), 100, 1, policy=policy()).sleeps == [4, 16, 32, 4]


@each_way
def test_loss_before_the_stable_time_makes_the_next_wait_longer(ride: Way) -> None:
    ridden = ride(1, 29, 1, 100, 1, 1, policy=policy(), stable=30)
    assert ridden.sleeps == [4, 8, 16, 4, 8]


@each_way
def test_losses_and_failed_connects_belong_to_one_streak(ride: Way) -> None:
    ridden = ride(1, Boom(), 1, Boom(), 100, 1, policy=policy())
    assert ridden.sleeps == [4, 16, 16, 32, 4]


@each_way
def test_backoff_restarts_after_exactly_the_stable_time(ride: Way) -> None:
    assert ride(1, 50, 100, policy=policy(), stable=50).sleeps == [4, 4]
    assert ride(1, 49.99, 100, policy=policy(), stable=50).sleeps == [4, 8]


@each_way
def test_stable_of_zero_resets_the_backoff_and_inf_never_does(ride: Way) -> None:
    assert ride(0, 0, 0, policy=policy(), stable=0).sleeps == [4, 4]
    assert ride(1e6, 1e6, 1, policy=policy(within=1e9), stable=float("inf")).sleeps == [4, 8]


@each_way
def test_shortest_wait_holds_after_a_loss(ride: Way) -> None:
    backoff = sp.Exponential(8, cap=32, min=3)
    assert ride(100, 100, policy=policy(0.1, backoff=backoff)).sleeps == [3]


@each_way
def test_first_reconnect_of_any_backoff_waits_half_its_longest_wait(ride: Way) -> None:
    for backoff, longest in [
        (sp.Exponential(8, cap=32), 8),
        (sp.Exponential(8, cap=32, jitter="equal"), 8),
        (sp.Exponential(8, cap=32, jitter=sp.Symmetric(0.5)), 12),
        (sp.Exponential(8, cap=32, jitter=lambda u, ceiling: ceiling * u), 8),
        (sp.Decorrelated(8, cap=60), 24),
        (sp.Constant(8), 8),
        (sp.Constant(0), 0),
        (sp.Schedule([8, 9]), 8),
    ]:
        assert ride(100, 100, policy=policy(backoff=backoff)).sleeps == [longest / 2], backoff


# Giving up.


@each_way
def test_attempts_count_connects_of_one_streak(ride: Way) -> None:
    last = Boom("third")
    ridden = ride(100, Boom(), Boom(), last, policy=policy(attempts=3))
    assert ridden.error is last
    assert ridden.sleeps == [4, 16, 32]
    assert "3 attempts" in last.__notes__[0]


@each_way
def test_stable_connection_gives_all_attempts_back(ride: Way) -> None:
    ridden = ride(Boom(), Boom(), 100, Boom(), Boom(), 100, 1, policy=policy(attempts=3))
    assert ridden.error is None


@each_way
def test_connection_that_never_stays_is_given_up(ride: Way) -> None:
    ridden = ride(1, 1, 1, 1, policy=policy(attempts=3))
    assert type(ridden.error) is ConnectionLost
    assert isinstance(ridden.error, ConnectionError)
    assert "the connection ended after 1 s" in str(ridden.error)
    assert len(ridden.times) == 3


@each_way
def test_fatal_error_ends_the_loop(ride: Way) -> None:
    bang = Bang()
    ridden = ride(100, bang, 1, policy=policy())
    assert ridden.error is bang
    assert ridden.sleeps == [4]


@each_way
def test_within_counts_from_the_first_failure_of_a_streak(ride: Way) -> None:
    ridden = ride(100, Boom(), 100, Boom(), Boom(), 1, policy=policy(within=20))
    assert isinstance(ridden.error, Boom) and sp.stopped(ridden.error).reason == "within"
    assert ridden.sleeps == [4, 16, 4, 16]


@each_way
def test_wait_that_would_end_past_the_deadline_is_refused(ride: Way) -> None:
    # Entered around the loop's own code in the sync ride only: in a task it would cut the body.
    ridden = ride(100, 1, policy=policy(), inside=lambda: sp.deadline(103))
    assert isinstance(ridden.error, sp.DeadlineExceeded)
    assert isinstance(ridden.error.__cause__, ConnectionLost)
    assert ridden.sleeps == []


@each_way
def test_late_clip_sleeps_the_time_left(ride: Way) -> None:
    ridden = ride(100, 1, policy=policy(late="clip"), inside=lambda: sp.deadline(103))
    assert isinstance(ridden.error, sp.DeadlineExceeded)
    assert ridden.sleeps == [3] or ridden.sleeps == pytest.approx([3])


@each_way
def test_deadline_that_is_over_lets_no_connect_start(ride: Way) -> None:
    ridden = ride(100, policy=policy(), inside=lambda: sp.deadline(0))
    assert isinstance(ridden.error, sp.DeadlineExceeded)
    assert ridden.times == []


@each_way
def test_scope_that_ends_while_a_lost_connection_is_waited_for_lets_no_connect_start(ride: Way) -> None:
    scope = sp.deadline(None, "job")

    def cancel(event: Any) -> None:
        if isinstance(event, events.Disconnected):
            scope.cancel()

    stop = sp.subscribe(cancel)
    try:
        ridden = ride(100, 1, policy=policy(), inside=lambda: scope)
    finally:
        stop()
    assert isinstance(ridden.error, sp.Cancelled)
    assert ridden.times == [0]


# The budget.


@each_way
def test_first_connect_of_a_streak_is_free_and_retries_are_paid(ride: Way) -> None:
    budget = BudgetSpy()
    ridden = ride(100, Boom(), 1, 100, 1, policy=policy(budget=budget))
    assert ridden.error is None
    assert budget.calls == [
        "started",
        ("success", None),  # the first connection stayed
        "started",  # reconnecting after it: no retry
        ("failure", False),
        ("withdraw", False),
        ("failure", False),  # lost after one second
        ("withdraw", False),
        ("success", 1.0),
        "started",
    ]


@each_way
def test_empty_budget_ends_the_loop_without_a_wait(ride: Way) -> None:
    boom = Boom()
    ridden = ride(100, boom, 1, policy=policy(budget=BudgetSpy(allow=0)))
    assert ridden.error is boom and sp.stopped(boom).reason == "budget"
    assert ridden.sleeps == [4]


# Saying why.


def _report_loss(link: Any, error: Exception) -> None:
    link.lost(error)


@each_way
def test_reported_loss_is_the_error_that_surfaces(ride: Way) -> None:
    ridden = ride(1, (1, Boom("the last")), 1, policy=policy(attempts=2), on_loss=_report_loss)
    assert isinstance(ridden.error, Boom) and str(ridden.error) == "the last"


@each_way
@pytest.mark.parametrize("life", [1, 100])
def test_reported_fatal_error_is_raised(ride: Way, life: float) -> None:
    bang = Bang()
    ridden = ride((life, bang), 1, policy=policy(), on_loss=_report_loss)
    assert ridden.error is bang
    assert ridden.sleeps == [] and len(ridden.times) == 1
    assert ridden.line.closed == 1


@each_way
@pytest.mark.parametrize("life", [1, 100])
def test_hint_is_a_floor(ride: Way, life: float) -> None:
    ridden = ride((life, sp.RetryAfter(20, Boom())), 1, policy=policy(), on_loss=_report_loss)
    # 20 s and half of the 10 % spread.
    assert ridden.sleeps == pytest.approx([21])


@each_way
def test_hint_beyond_the_limit_is_raised(ride: Way) -> None:
    boom = Boom()
    ridden = ride((100, sp.RetryAfter(61, boom)), 1, policy=policy(), on_loss=_report_loss)
    assert ridden.error is boom
    assert boom.retry_after == 61  # type: ignore[attr-defined]


@each_way
def test_loss_reported_for_one_connection_is_not_used_for_the_next(ride: Way) -> None:
    def on_loss(link: Any, error: Exception) -> None:
        if str(error) == "reported":
            link.lost(error)

    ridden = ride((1, Boom("reported")), (1, Boom("kept")), 1, policy=policy(attempts=2), on_loss=on_loss)
    assert type(ridden.error) is ConnectionLost


def test_guard_reconnects_after_errors_that_a_new_connection_may_cure() -> None:
    with sp.testing.instant() as clock:
        line = Line(clock, 100, (100, Bang()), 1)
        link = reconnecting(line.connect, policy())
        seen = 0
        with pytest.raises(Bang), link:
            for connection in link:
                seen += 1
                with link.guard():
                    connection.use()
        assert seen == 2 and len(clock.sleeps) == 1
        assert line.open == 0


def test_guard_lets_cancellation_and_success_pass() -> None:
    link = reconnecting(lambda: contextlib.nullcontext(1), policy())
    for _ in link:
        with link.guard():
            pass
        with pytest.raises(KeyboardInterrupt), link.guard():
            raise KeyboardInterrupt
        break


def test_lost_needs_a_loop_and_an_exception() -> None:
    link = reconnecting(object, policy())
    with pytest.raises(RuntimeError, match="no connection"):
        link.lost(Boom())
    for _ in link:
        with pytest.raises(TypeError, match="takes an exception, got 'why'"):
            link.lost("why")  # type: ignore[arg-type]
        break


# Events.


@each_way
def test_events_describe_the_connections(ride: Way) -> None:
    ridden = ride(100, Boom(), 1, 100, 1, policy=policy(), on_loss=_report_loss)
    name = "tests.support.scripted.Boom"
    assert [event.as_dict() for event in ridden.events] == [
        {"event": "Connected", "operation": "feed", "attempts": 1},
        {"event": "Succeeded", "operation": "feed", "attempts": 1, "elapsed": 0.0},
        {"event": "Disconnected", "operation": "feed", "alive": 100, "error": name, "wait": 4},
        {"event": "Retrying", "operation": "feed", "attempt": 1, "wait": 16, "error": name, "hint": None},
        {"event": "Connected", "operation": "feed", "attempts": 2},
        {"event": "Disconnected", "operation": "feed", "alive": 1, "error": name, "wait": None},
        {"event": "Retrying", "operation": "feed", "attempt": 2, "wait": 16, "error": name, "hint": None},
        {"event": "Connected", "operation": "feed", "attempts": 3},
        # 16 s wait, 1 s alive, 16 s wait: when it connected, not when that connection ended.
        {"event": "Succeeded", "operation": "feed", "attempts": 3, "elapsed": 33.0},
        {"event": "Disconnected", "operation": "feed", "alive": 100, "error": name, "wait": 4},
        {"event": "Connected", "operation": "feed", "attempts": 1},
    ]


@each_way
def test_end_of_reconnecting_is_emitted(ride: Way) -> None:
    ridden = ride(100, Boom(), Boom(), policy=policy(attempts=2))
    assert ridden.kinds() == ["Connected", "Succeeded", "Disconnected", "Retrying", "GaveUp"]


# Switched off, and what else belongs to a policy.


@each_way
def test_disabled_reconnecting_connects_without_retries(ride: Way) -> None:
    boom = Boom()
    ridden = ride(1, 1, boom, policy=policy(), inside=sp.disabled)
    assert ridden.error is boom
    assert ridden.sleeps == []
    assert len(ridden.times) == 3


@each_way
def test_strategies_inside_the_retry_apply_to_each_connect(ride: Way) -> None:
    breaker = sp.Breaker(consecutive=2, open_for=100)
    given = policy()
    wrapped = sp.Policy(given.strategies[0], breaker, rng=lambda: 0.5)
    ridden = ride(100, Boom(), Boom(), 1, policy=wrapped)
    # The refusal of the open breaker is final, and the failure before it is what surfaces.
    assert isinstance(ridden.error, Boom) and sp.stopped(ridden.error).reason == "circuit"
    assert len(ridden.times) == 3


def test_timeout_inside_bounds_one_connect_and_not_the_connection() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        connects = itertools.count()

        async def connect() -> object:
            await asyncio.sleep(100 if next(connects) == 0 else 1)
            return object()

        given = sp.Policy(
            sp.Retry(backoff=sp.Constant(8), budget=None), sp.Timeout(5), rng=lambda: 0.5, clock=clock
        )
        async with reconnecting(connect, given) as link:
            async for _ in link:
                assert clock.now() == 5 + 8 + 1
                await asyncio.sleep(50)
                break
            assert clock.now() == 64

    sp.testing.run(main)


@each_way
def test_connect_sees_its_attempt(ride: Way) -> None:
    seen: list[int] = []
    given = policy(before_attempt=lambda attempt: seen.append(attempt.number))
    ride(100, Boom(), 100, 1, policy=given)
    assert seen == [1, 1, 2, 1]


def test_error_of_a_hook_is_not_retried() -> None:
    def hook(attempt: sp.Attempt) -> None:
        raise Boom("in the hook")

    with pytest.raises(Boom, match="in the hook"):
        next(iter(reconnecting(object, policy(before_attempt=hook))))


def test_reconnecting_loop_can_be_started_again() -> None:
    with sp.testing.instant() as clock:
        line = Line(clock, 1, 1, 1)
        link = reconnecting(line.connect, policy())
        for _ in range(3):
            for _ in link:
                break
        assert clock.sleeps == []


# Opening and closing.


class Recorder:
    """Connections of every make; ``log`` says what was done to them."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @contextlib.asynccontextmanager
    async def managed(self) -> AsyncIterator[str]:
        self.log.append("enter")
        try:
            yield "connection"
        finally:
            self.log.append("exit")

    def with_aclose(self) -> Any:
        log = self.log

        class Closes:
            async def aclose(self) -> None:
                log.append("aclose")

            def close(self) -> None:
                raise AssertionError("aclose comes first")

        return Closes()

    def with_close(self) -> Any:
        log = self.log

        class Closes:
            def close(self) -> None:
                log.append("close")

        return Closes()

    def itself(self) -> Any:
        """Like a database connection: its own context manager, whose exit is something else."""
        log = self.log

        class Itself:
            def __enter__(self) -> Any:
                log.append("enter")
                return self

            def __exit__(self, *exc: Any) -> None:
                raise AssertionError("that would commit")

            async def __aenter__(self) -> Any:
                return self.__enter__()

            async def __aexit__(self, *exc: Any) -> None:
                raise AssertionError("that would commit")

            def close(self) -> None:
                log.append("close")

        return Itself()

    def both(self) -> Any:
        """Like `websockets.connect`: awaitable, and an async context manager that closes."""
        managed = self.managed()

        class Both:
            def __await__(self) -> Any:
                raise AssertionError("entered, so that it is closed")

            def __aenter__(self) -> Any:
                return managed.__aenter__()

            def __aexit__(self, *exc: Any) -> Any:
                return managed.__aexit__(*exc)

        return Both()


def in_turn(make: Callable[[], Any], **options: Any) -> None:
    """Two connections in an async loop."""

    async def main(clock: sp.testing.FakeClock) -> None:
        async with reconnecting(make, policy(), **options) as link:
            turns = 0
            async for _ in link:
                turns += 1
                if turns == 2:
                    break

    sp.testing.run(main)


def later(value: Callable[[], Any]) -> Callable[[], Any]:
    async def connect() -> Any:
        return value()

    return connect


def test_connection_is_closed_by_its_own_protocol() -> None:
    for name, log in [
        ("managed", ["enter", "exit"] * 2),
        ("both", ["enter", "exit"] * 2),
        ("with_aclose", ["aclose"] * 2),
        ("with_close", ["close"] * 2),
    ]:
        recorder = Recorder()
        in_turn(getattr(recorder, name))
        assert recorder.log == log, name
        if name != "both":
            recorder = Recorder()
            in_turn(later(getattr(recorder, name)))
            assert recorder.log == log, name


def test_connection_that_is_its_own_context_manager() -> None:
    recorder = Recorder()
    in_turn(recorder.itself)
    assert recorder.log == ["enter", "close"] * 2
    recorder = Recorder()
    # Awaited, it is there already.
    in_turn(later(recorder.itself))
    assert recorder.log == ["close"] * 2
    recorder = Recorder()
    with sp.testing.instant():
        for turn, _ in enumerate(reconnecting(recorder.itself, policy())):
            if turn == 1:
                break
    assert recorder.log == ["enter", "close"] * 2


def test_close_option_replaces_the_protocol() -> None:
    closed: list[Any] = []
    in_turn(later(lambda: ("reader", "writer")), close=closed.append)
    assert closed == [("reader", "writer")] * 2

    async def close(connection: Any) -> None:
        await asyncio.sleep(1)
        closed.append("async")

    closed.clear()
    in_turn(Recorder().with_close, close=close)
    assert closed == ["async", "async"]


def test_connection_without_close_is_left_alone() -> None:
    in_turn(later(object))


def test_sync_context_managers_are_left() -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def connect() -> Any:
        log.append("enter")
        try:
            yield 1
        finally:
            log.append("exit")

    with sp.testing.instant():
        for turn, connection in enumerate(link := reconnecting(connect, policy())):
            assert connection == 1
            if turn == 1:
                break
    assert log == ["enter", "exit"] * 2
    assert link.stable == 30


def test_error_while_closing_does_not_stop_the_loop() -> None:
    class Broken:
        def close(self) -> None:
            raise OSError("already gone")

    in_turn(Broken)
    with sp.testing.instant():
        for turn, _ in enumerate(reconnecting(Broken, policy())):
            if turn == 1:
                break


def test_closing_is_given_up_after_a_while() -> None:
    class Stuck:
        async def aclose(self) -> None:
            await asyncio.sleep(10_000)

    async def main(clock: sp.testing.FakeClock) -> None:
        seen: list[float] = []
        async with reconnecting(Stuck, policy()) as link:
            async for _ in link:
                seen.append(clock.now())
                if len(seen) == 2:
                    break
        assert seen == [0, 14]  # 10 s for closing, 4 s of wait

    sp.testing.run(main)


def test_break_closes_without_a_with() -> None:
    recorder = Recorder()

    async def main(clock: sp.testing.FakeClock) -> None:
        async for _ in reconnecting(recorder.managed, policy()):
            break
        await asyncio.sleep(1)
        assert recorder.log == ["enter", "exit"]

    gc.disable()
    try:
        sp.testing.run(main)
        for _ in reconnecting(recorder.with_close, policy()):
            break
        assert recorder.log == ["enter", "exit", "close"]
    finally:
        gc.enable()


def test_error_in_the_body_closes_the_connection() -> None:
    recorder = Recorder()

    async def main(clock: sp.testing.FakeClock) -> None:
        with pytest.raises(Bang):
            async with reconnecting(recorder.managed, policy()) as link:
                async for _ in link:
                    raise Bang
        assert recorder.log == ["enter", "exit"]

    sp.testing.run(main)


def test_cancellation_in_every_phase_closes_the_connection() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        for at, log in [(1, []), (5, ["enter", "exit"]), (13, ["enter", "exit"])]:
            recorder = Recorder()

            @contextlib.asynccontextmanager
            async def connect(recorder: Recorder = recorder) -> AsyncIterator[str]:
                await asyncio.sleep(2)
                async with recorder.managed() as connection:
                    yield connection

            async def loop(connect: Any = connect) -> None:
                async with reconnecting(connect, policy()) as link:
                    async for _ in link:
                        await asyncio.sleep(8)

            # Connecting until 2, connected until 10, waiting until 14.
            task = asyncio.ensure_future(loop())
            await asyncio.sleep(at)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert recorder.log == log, at

    sp.testing.run(main)


def test_deadline_around_the_loop_cuts_the_body() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        recorder = Recorder()
        with pytest.raises(sp.DeadlineExceeded):
            with sp.deadline(7):
                async with reconnecting(recorder.managed, policy()) as link:
                    async for _ in link:
                        await asyncio.sleep(100)
        assert clock.now() == 7
        assert recorder.log == ["enter", "exit"]

    sp.testing.run(main)


@pytest.mark.parametrize("subscribed", [False, True])
def test_old_connection_and_its_error_are_released(subscribed: bool) -> None:
    connections: list[weakref.ref[Any]] = []
    errors: list[weakref.ref[Any]] = []

    class Live:
        pass

    def connect() -> Live:
        made = Live()
        connections.append(weakref.ref(made))
        return made

    link = reconnecting(connect, policy(), stable=0)
    with sp.testing.instant():
        for turn, _ in enumerate(link):
            if turn == 2:
                gc.collect()
                assert [made() is None for made in connections] == [True, True, False]
                assert all(error() is None for error in errors)
                break
            try:
                raise Boom
            except Boom as error:
                errors.append(weakref.ref(error))
                if subscribed:
                    link.lost(error)


def test_reconnecting_works_under_trio() -> None:
    recorder = Recorder()
    times: list[float] = []
    given = sp.Retry(backoff=sp.Exponential(8, cap=8), budget=None)

    async def main() -> None:
        async with reconnecting(recorder.managed, given, stable=0) as link:
            async for connection in link:
                assert connection == "connection"
                times.append(trio.current_time())
                if len(times) == 3:
                    break
                await trio.sleep(100)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert recorder.log == ["enter", "exit"] * 3
    for before, after in itertools.pairwise(times):
        assert 100 <= after - before <= 108


# Bad input.


def test_bad_input_is_refused() -> None:
    bad: Any
    for bad in (None, "ws://localhost", 3):
        with pytest.raises(TypeError, match="connect must be a function that connects"):
            reconnecting(bad)
    bad = sp.Exponential()
    with pytest.raises(TypeError, match="policy must be a Policy, a Retry or None, got Exponential"):
        reconnecting(object, bad)
    for bad in (sp.Policy(), sp.Policy(sp.Timeout(1)), sp.Policy(sp.Deadline(9), sp.Retry())):
        with pytest.raises(TypeError, match="first strategy must be a Retry"):
            reconnecting(object, bad)
    with pytest.raises(TypeError, match="keyed budget"):
        reconnecting(object, sp.Retry(budget=sp.keyed(sp.Budget())))
    with pytest.raises(TypeError, match="on_result"):
        reconnecting(object, sp.Retry(on_result=lambda value: True))
    for bad in (-1, float("nan")):
        with pytest.raises(ValueError, match="reconnecting: stable must be"):
            reconnecting(object, stable=bad)
    bad = 3
    with pytest.raises(TypeError, match="close must be callable or None, got 3"):
        reconnecting(object, close=bad)


def test_async_connect_in_a_sync_loop_raises() -> None:
    async def connect() -> None: ...

    with pytest.raises(TypeError, match="is async; use `async for`"):
        next(iter(reconnecting(connect)))

    class Promise:
        """To be awaited, and no coroutine: there is nothing to close."""

        def __await__(self) -> Any:
            yield

    with pytest.raises(TypeError, match="is async; use `async for`"):
        next(iter(reconnecting(Promise)))


def test_with_without_a_loop_opens_nothing_and_closes_nothing() -> None:
    recorder = Recorder()

    async def main(clock: sp.testing.FakeClock) -> None:
        async with reconnecting(recorder.managed, policy()):
            pass

    sp.testing.run(main)
    with reconnecting(recorder.managed, policy()) as link:
        pass
    with pytest.raises(RuntimeError, match="no connection has been asked for yet"):
        link.lost(Boom())
    assert recorder.log == []


def test_repr_names_the_operation() -> None:
    assert repr(reconnecting(object)) == "<reconnecting object>"
    assert repr(reconnecting(object, policy())) == "<reconnecting feed>"


# The herd: two hundred clients, and a server that drops all of them at one instant.


def herd(make: Callable[[int], Any], down: float = 0.0) -> list[list[float]]:
    """For each of 200 clients: when it tried to connect, counted from the drop. The server is down
    for ``down`` seconds after it."""

    async def main(clock: sp.testing.FakeClock) -> list[list[float]]:
        dropped = asyncio.Event()
        tries: list[list[float]] = [[] for _ in range(200)]

        async def client(number: int) -> None:
            async def connect() -> object:
                if dropped.is_set():
                    tries[number].append(clock.now() - 100)
                    if clock.now() < 100 + down:
                        raise ConnectionRefusedError
                return object()

            connections = 0
            async for _ in reconnecting(connect, make(number)):
                connections += 1
                if connections == 2:
                    break
                await dropped.wait()

        clients = [asyncio.ensure_future(client(number)) for number in range(200)]
        await asyncio.sleep(100)
        dropped.set()
        await asyncio.gather(*clients)
        return tries

    return sp.testing.run(main)


def test_two_hundred_dropped_clients_come_back_spread_out() -> None:
    tries = herd(lambda number: sp.Policy(sp.Retry(backoff=sp.Exponential(5, jitter="none")), rng=number))
    waits = [first for (first,) in tries]
    assert len(waits) == 200
    # Uniform over the five seconds of the first window: seeded, so this cannot flicker.
    assert scipy.stats.kstest(waits, "uniform", args=(0, 5)).pvalue > 0.01
    busiest = max(sum(t <= wait < t + 0.25 for wait in waits) for t in waits)
    assert busiest <= 25, "a quarter of a second saw more than an eighth of the herd"


def test_default_policy_spreads_reconnects() -> None:
    # Not seeded: each bound is missed less often than once in 10**8 runs.
    waits = [first for (first,) in herd(lambda number: None)]
    assert min(waits) >= 0 and max(waits) < 5
    assert min(waits) < 1 and max(waits) > 4
    assert max(sum(t <= wait < t + 0.5 for wait in waits) for t in waits) < 60


def test_clients_stay_desynchronized_after_a_longer_outage() -> None:
    retry = sp.Retry(attempts=None, within=None, backoff=sp.Exponential(5, cap=60), budget=None)
    tries = herd(lambda number: sp.Policy(retry.replace(within=3600), rng=number), down=30)
    assert all(times[-1] >= 30 for times in tries)
    per_second = [sum(s <= t < s + 1 for times in tries for t in times) for s in range(120)]
    # The first five seconds are the densest, and hold at most about 40 a second out of 200 clients.
    assert max(per_second) == max(per_second[:8]) <= 70
    assert max(per_second[30:]) <= 15
