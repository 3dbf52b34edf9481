"""The ambient deadline: how it nests, what it bounds, which sleeps it ends, and its errors.

Virtual time where no event loop's timer is at stake. The few tests on real time use deadlines that
are over at once, or sleeps that would take minutes unless woken.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import trio
import trio.lowlevel
from tests.support import loops
from tests.support.loop_clock import LoopClock
from tests.support.scripted import SYNC, Boom, does, each_way, retry, takes

import stormproof as sp

#: A wait that no test may ever sit through.
FOREVER = 3600.0

#: Long enough for a busy machine to begin an attempt, short enough to wait for its end.
SOON = 0.1


@pytest.fixture
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


def run_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    async def guarded() -> Any:
        # Far beyond what any of these takes: a hang becomes a failure.
        async with asyncio.timeout(30):
            return await main()

    return asyncio.run(guarded())


def run_trio(main: Callable[[], Awaitable[Any]]) -> Any:
    async def guarded() -> Any:
        with trio.fail_after(30):
            return await main()

    return trio.run(guarded)


class Loop:
    """An event loop's library, as far as these tests need it."""

    def __init__(self, name: str, run: Callable[..., Any], sleep: Callable[[float], Awaitable[Any]]) -> None:
        self.name = name
        self.run = run
        self.sleep = sleep


LOOPS = [Loop("asyncio", run_asyncio, asyncio.sleep), Loop("trio", run_trio, trio.sleep)]
each_loop = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
#: For what must happen before a deadline ends: a busy machine takes no virtual time.
each_virtual_loop = loops.each_loop


# What remains.


def test_remaining_without_a_deadline_is_none() -> None:
    assert sp.remaining() is None
    with sp.deadline(None):
        assert sp.remaining() is None


def test_remaining_shrinks_as_time_passes(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5):
        assert sp.remaining() == 5
        clock.advance(2)
        assert sp.remaining() == 3
    assert sp.remaining() is None


def test_remaining_is_never_negative(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5):
        clock.advance(7)
        assert sp.remaining() == 0


def test_deadline_starts_when_its_scope_is_entered(clock: sp.testing.FakeClock) -> None:
    scope = sp.deadline(5)
    clock.advance(100)
    with scope:
        assert sp.remaining() == 5


def test_durations_may_be_timedeltas(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(timedelta(minutes=2)):
        assert sp.remaining() == 120


@pytest.mark.parametrize(("outer", "inner"), [(10, 3), (3, 10), (5, 5)])
def test_nested_deadlines_take_the_smaller(clock: sp.testing.FakeClock, outer: float, inner: float) -> None:
    with sp.deadline(outer):
        with sp.deadline(inner):
            assert sp.remaining() == min(outer, inner)
        assert sp.remaining() == outer


def test_unlimited_scope_inside_a_deadline_is_bounded_by_it(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5), sp.deadline(None):
        assert sp.remaining() == 5


def test_error_in_the_block_passes_and_the_deadline_ends(clock: sp.testing.FakeClock) -> None:
    error = Boom()
    with pytest.raises(Boom) as caught, sp.deadline(5):
        raise error
    assert caught.value is error
    assert sp.remaining() is None


def test_scope_serves_one_block_at_a_time() -> None:
    with sp.deadline(5) as scope:
        with pytest.raises(RuntimeError, match="deadline"):
            scope.__enter__()
    assert sp.remaining() is None


def test_new_thread_does_not_inherit_the_deadline() -> None:
    seen: list[Any] = []
    with sp.deadline(5):
        thread = threading.Thread(target=lambda: seen.append(sp.remaining()))
        thread.start()
        thread.join()
    assert seen == [None]


@each_loop
def test_tasks_inherit_the_deadline_and_do_not_leak_their_own(loop: Loop) -> None:
    async def child(seen: list[Any]) -> None:
        with sp.deadline(1000):
            seen.append(sp.remaining())

    async def main() -> None:
        seen: list[Any] = []
        with sp.deadline(2000):
            if loop.name == "asyncio":
                await asyncio.create_task(child(seen))
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(child, seen)
            left = sp.remaining()
        assert left is not None and 1000 < left <= 2000
        assert 900 < seen[0] <= 1000

    loop.run(main)


@each_way
def test_deadline_bounds_calls_inside(play: Any) -> None:
    policy = retry(attempts=10)
    seen = play(policy, Boom, ..., inside=lambda: sp.deadline(10))
    seen.raised(sp.DeadlineExceeded).slept(1, 2, 4)


@each_way
def test_deadline_in_the_policy_is_ambient_inside(play: Any) -> None:
    seen: list[Any] = []
    policy = sp.Policy(sp.Deadline(5), name="op")
    play(policy, does(lambda: seen.append(sp.remaining())))
    assert seen == [5]
    assert sp.remaining() is None


@each_way
def test_smaller_of_policy_and_surroundings_counts(play: Any) -> None:
    for ambient, own, left in [(10, 5, 5), (5, 10, 5)]:
        seen: list[Any] = []
        policy = sp.Policy(sp.Deadline(own))
        play(policy, does(lambda: seen.append(sp.remaining())), inside=lambda: sp.deadline(ambient))  # noqa: B023
        assert seen == [left]


# The error names the scope that expired.


@each_way
def test_error_names_the_scope_that_expired(play: Any) -> None:
    for outer, inner, name in [(3.5, 100, "request"), (100, 3.5, "query")]:

        @contextlib.contextmanager
        def nested() -> Iterator[None]:
            with sp.deadline(outer, "request"), sp.deadline(inner, "query"):  # noqa: B023
                yield

        seen = play(retry(), Boom, ..., inside=nested).raised(sp.DeadlineExceeded).made(3)
        assert seen.error.scope == name
        assert name in str(seen.error)


@each_way
def test_policy_s_deadline_is_named_after_the_operation(play: Any) -> None:
    policy = sp.Policy(sp.Deadline(3), retry().strategies[0], name="fraud-score")
    seen = play(policy, Boom, ...).raised(sp.DeadlineExceeded)
    assert seen.error.scope == "fraud-score"


@each_way
def test_error_names_a_scope_that_ended_before_the_call(play: Any) -> None:
    def over() -> sp.Scope:
        return sp.deadline(0, "request")

    seen = play(retry(), "never", inside=over).raised(sp.DeadlineExceeded)
    assert seen.error.scope == "request"
    assert "request" in str(seen.error)


@each_loop
def test_cut_off_attempt_names_the_scope(loop: Loop) -> None:
    async def main() -> None:
        with sp.deadline(FOREVER, "outer"):
            with sp.deadline(0.001, "inner"):
                await loop.sleep(FOREVER)

    with pytest.raises(sp.DeadlineExceeded, match="inner") as caught:
        loop.run(main)
    assert caught.value.scope == "inner"


# In async code the end of the time cancels the running attempt.


@each_virtual_loop
def test_deadline_cancels_the_running_attempt(loop: loops.Loop) -> None:
    log: list[str] = []

    @sp.Policy(sp.Deadline(SOON), sp.Retry(on=Exception, attempts=5), name="op", clock=LoopClock(loop))
    async def callee() -> None:
        log.append("began")
        try:
            await loop.sleep(FOREVER)
        except BaseException as error:
            log.append(type(error).__name__)
            raise

    with pytest.raises(sp.DeadlineExceeded) as caught:
        loop.run(callee)
    assert log in (["began", "CancelledError"], ["began", "Cancelled"])
    assert caught.value.scope == "op"


@each_virtual_loop
def test_deadline_cancels_the_second_attempt_with_the_first_error_as_cause(loop: loops.Loop) -> None:
    error = Boom("the first")
    calls: list[int] = []

    @sp.Policy(sp.Deadline(SOON), sp.Retry(on=Boom, backoff=sp.Constant(0)), clock=LoopClock(loop))
    async def callee() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise error
        await loop.sleep(FOREVER)

    with pytest.raises(sp.DeadlineExceeded) as caught:
        loop.run(callee)
    assert len(calls) == 2
    assert caught.value.__cause__ is error


@each_virtual_loop
def test_earlier_call_s_error_is_not_the_cause_of_a_later_deadline(loop: loops.Loop) -> None:
    calls: list[int] = []

    @sp.retry(on=Boom, backoff=sp.Constant(0))
    async def fails_once() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise Boom("of the first call")

    async def main() -> None:
        with sp.deadline(SOON, clock=LoopClock(loop)):
            await fails_once()
            await loop.sleep(FOREVER)

    with pytest.raises(sp.DeadlineExceeded) as caught:
        loop.run(main)
    assert not isinstance(caught.value.__cause__, Boom)


@each_virtual_loop
def test_success_in_time_is_not_cancelled_later(loop: loops.Loop) -> None:
    @sp.Policy(sp.Deadline(SOON), clock=LoopClock(loop))
    async def quick() -> str:
        return "ok"

    async def main() -> str:
        result: str = await quick()
        # Past the deadline that was left in time: a timer left behind would strike here.
        await loop.sleep(SOON * 1.5)
        return result

    assert loop.run(main) == "ok"


@each_virtual_loop
def test_result_of_an_attempt_that_swallows_the_cancellation_is_returned(loop: loops.Loop) -> None:
    @sp.Policy(sp.Deadline(SOON), clock=LoopClock(loop))
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError, trio.Cancelled):
            await loop.sleep(FOREVER)
        return "late"

    async def main() -> str:
        result: str = await stubborn()
        await loop.sleep(0)
        return result

    assert loop.run(main) == "late"


@each_virtual_loop
def test_error_raised_while_being_cancelled_passes(loop: loops.Loop) -> None:
    @sp.Policy(sp.Deadline(SOON), clock=LoopClock(loop))
    async def untidy() -> None:
        try:
            await loop.sleep(FOREVER)
        finally:
            raise Boom("from the clean-up")

    with pytest.raises(Boom):
        loop.run(untidy)


@each_loop
@pytest.mark.parametrize("depth", [2, 5])
def test_scopes_that_end_together_give_one_error(loop: Loop, depth: int) -> None:
    async def nested(level: int) -> None:
        with sp.deadline(0.001, f"level {level}"):
            if level:
                await nested(level - 1)
            else:
                await loop.sleep(FOREVER)

    async def main() -> str:
        with pytest.raises(sp.DeadlineExceeded):
            await nested(depth)
        # Nothing of it is left in the task.
        await loop.sleep(0.002)
        return "well"

    assert loop.run(main) == "well"


@each_loop
def test_outer_scope_cuts_through_the_inner(loop: Loop) -> None:
    seen: list[str] = []

    async def main() -> None:
        with sp.deadline(0.001, "outer"):
            try:
                with sp.deadline(FOREVER, "inner"):
                    await loop.sleep(FOREVER)
            except sp.DeadlineExceeded:
                seen.append("inner claimed it")
                raise

    with pytest.raises(sp.DeadlineExceeded) as caught:
        loop.run(main)
    assert caught.value.scope == "outer"
    assert seen == []


@each_loop
def test_async_with_deadline_works(loop: Loop) -> None:
    async def main() -> None:
        async with sp.deadline(0.001) as scope:
            assert isinstance(scope, sp.Scope)
            await loop.sleep(FOREVER)

    with pytest.raises(sp.DeadlineExceeded):
        loop.run(main)


@each_loop
def test_deadline_zero_in_a_task_calls_nothing(loop: Loop) -> None:
    calls: list[int] = []

    @sp.Policy(sp.Deadline(0))
    async def callee() -> None:
        calls.append(1)

    with pytest.raises(sp.DeadlineExceeded):
        loop.run(callee)
    assert calls == []


@each_loop
def test_sync_policy_called_from_a_task_is_not_disturbed(loop: Loop) -> None:
    """Its scope is over before any timer of the loop can fire."""

    @sp.Policy(sp.Deadline(SOON))
    def blocking() -> str:
        time.sleep(SOON * 1.1)
        return "late"

    async def main() -> str:
        result: str = blocking()
        await loop.sleep(0)
        await loop.sleep(0)
        return result

    assert loop.run(main) == "late"


def test_foreign_cancellation_beats_our_deadline_in_asyncio() -> None:
    """Both in the same turn of the loop: the task was cancelled, and must know."""

    async def body() -> None:
        with sp.deadline(None) as scope:
            scopes.append(scope)
            await asyncio.sleep(FOREVER)

    scopes: list[sp.Scope] = []

    async def main() -> bool:
        task = asyncio.create_task(body())
        await asyncio.sleep(0)
        scopes[0].cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert run_asyncio(main) is True


def test_foreign_cancellation_beats_our_deadline_in_trio() -> None:
    seen: list[str] = []

    async def main() -> None:
        with trio.CancelScope() as outer:
            try:
                with sp.deadline(None) as scope:
                    scope.cancel()
                    outer.cancel()
                    await trio.sleep(FOREVER)
            except sp.Cancelled:
                seen.append("claimed")
            # The outer scope is cancelled: the next checkpoint must not pass.
            await trio.lowlevel.checkpoint()
            seen.append("went on")

    run_trio(main)
    assert "went on" not in seen


def test_asyncio_timeout_works_outside_and_inside_a_deadline() -> None:
    async def outside() -> None:
        async with asyncio.timeout(0.001):
            with sp.deadline(FOREVER):
                await asyncio.sleep(FOREVER)

    async def inside() -> None:
        with sp.deadline(0.001):
            async with asyncio.timeout(FOREVER):
                await asyncio.sleep(FOREVER)

    with pytest.raises(TimeoutError) as caught:
        run_asyncio(outside)
    assert not isinstance(caught.value, sp.StormproofError)
    with pytest.raises(sp.DeadlineExceeded):
        run_asyncio(inside)


def test_task_group_inside_is_cancelled_as_a_whole() -> None:
    ended: list[str] = []

    async def worker() -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            ended.append("worker")

    async def main() -> None:
        with sp.deadline(0.001):
            async with asyncio.TaskGroup() as group:
                group.create_task(worker())
                group.create_task(worker())

    with pytest.raises(sp.DeadlineExceeded):
        run_asyncio(main)
    assert ended == ["worker", "worker"]


def test_nursery_inside_is_cancelled_as_a_whole() -> None:
    ended: list[str] = []

    async def worker() -> None:
        try:
            await trio.sleep(FOREVER)
        finally:
            ended.append("worker")

    async def main() -> None:
        with sp.deadline(0.001):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker)
                nursery.start_soon(worker)

    with pytest.raises(sp.DeadlineExceeded):
        run_trio(main)
    assert ended == ["worker", "worker"]


def test_generator_that_is_closed_in_another_context_leaves_nothing_behind() -> None:
    def items() -> Iterator[float | None]:
        with sp.deadline(FOREVER):
            yield sp.remaining()

    made = items()
    assert contextvars.copy_context().run(next, made) is not None
    with sp.deadline(5, "ours"):
        made.close()  # type: ignore[attr-defined]
        left = sp.remaining()
    assert left is not None and left <= 5
    assert sp.remaining() is None


def test_repr_shows_the_time_left(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5, "job") as scope:
        clock.advance(2)
        assert repr(scope) == "<scope 'job': 3.000 s left>"
    assert repr(sp.deadline(5, "job")) == "<scope 'job': 5 s, not entered>"
    with sp.deadline(None, "job") as scope:
        assert repr(scope) == "<scope 'job': no limit>"
        scope.cancel()
        assert repr(scope) == "<scope 'job': cancelled>"


# Cancelling.


def test_cancelled_scope_refuses_calls_with_its_name() -> None:
    @retry()
    def callee() -> None:
        pytest.fail("called")

    with sp.deadline(None, "job") as scope:
        scope.cancel()
        with pytest.raises(sp.Cancelled, match="job"):
            callee()


def test_cancelling_an_outer_scope_reaches_inward() -> None:
    with sp.deadline(None, "outer") as outer, sp.deadline(5, "inner"):
        outer.cancel()
        with pytest.raises(sp.Cancelled, match="outer"):
            retry().call(int)


def test_cancelling_an_inner_scope_does_not_reach_outward() -> None:
    with sp.deadline(None):
        with sp.deadline(None) as inner:
            inner.cancel()
        assert retry().call(lambda: "ok") == "ok"


def test_cancelling_twice_and_after_the_end_does_nothing() -> None:
    with sp.deadline(None) as scope:
        scope.cancel()
        scope.cancel()
    scope.cancel()


@pytest.mark.parametrize("limit", [None, FOREVER])
def test_cancel_from_another_thread_wakes_a_sleeping_retry_within_50_ms(limit: float | None) -> None:
    """The best of five: a busy machine may delay any single one, never all by the same mistake."""
    policy = retry(backoff=sp.Constant(FOREVER / 2), within=None)
    delays = []
    for _ in range(5):
        sleeping = threading.Event()
        ended: list[Any] = []

        def worker(sleeping: threading.Event, scopes: list[sp.Scope], ended: list[Any]) -> None:
            def fail() -> None:
                raise Boom

            with sp.deadline(limit) as scope:
                scopes.append(scope)
                stop = sp.subscribe(lambda event: sleeping.set())
                try:
                    policy.call(fail)
                except sp.Cancelled as refusal:
                    ended.append((time.monotonic(), refusal.__cause__))
                finally:
                    stop()

        scopes: list[sp.Scope] = []
        thread = threading.Thread(target=worker, args=(sleeping, scopes, ended))
        thread.start()
        assert sleeping.wait(30)
        began = time.monotonic()
        scopes[0].cancel()
        thread.join(30)
        assert not thread.is_alive(), "still asleep"
        at, cause = ended[0]
        assert isinstance(cause, Boom)
        delays.append(at - began)
    assert min(delays) < 0.05


def test_only_the_cancelled_scope_wakes() -> None:
    """Two sleepers; one is cancelled. The other one sleeps on until it is, too."""
    asleep = threading.Semaphore(0)
    ended: dict[str, threading.Event] = {"a": threading.Event(), "b": threading.Event()}
    scopes: dict[str, sp.Scope] = {}

    def worker(name: str) -> None:
        def fail() -> None:
            raise Boom

        with sp.deadline(None, name) as scope:
            scopes[name] = scope
            with contextlib.suppress(sp.Cancelled):
                retry(backoff=sp.Constant(FOREVER), name=name).call(fail)
            ended[name].set()

    stop = sp.subscribe(lambda event: asleep.release() if isinstance(event, sp.events.Retrying) else None)
    threads = [threading.Thread(target=worker, args=(name,)) for name in ended]
    try:
        for thread in threads:
            thread.start()
        assert asleep.acquire(timeout=30) and asleep.acquire(timeout=30)
        scopes["a"].cancel()
        assert ended["a"].wait(30)
        assert not ended["b"].is_set()
    finally:
        for scope in scopes.values():
            scope.cancel()
        for thread in threads:
            thread.join(30)
        stop()
    assert ended["b"].is_set()


@each_loop
def test_cancel_from_another_thread_ends_a_sleeping_async_retry(loop: Loop) -> None:
    calls: list[int] = []

    @retry(backoff=sp.Constant(FOREVER))
    async def callee() -> None:
        calls.append(1)
        raise Boom

    async def main() -> None:
        with sp.deadline(None) as scope:
            # The subscriber runs in the task; the thread it starts cancels from outside.
            stop = sp.subscribe(lambda event: threading.Thread(target=scope.cancel).start())
            try:
                await callee()
            finally:
                stop()

    with pytest.raises(sp.Cancelled):
        loop.run(main)
    assert len(calls) == 1


@each_loop
def test_cancel_from_another_thread_cancels_the_running_attempt(loop: Loop) -> None:
    calls: list[int] = []

    async def main() -> None:
        with sp.deadline(FOREVER, "job") as scope:

            @retry(on=Exception)
            async def callee() -> None:
                calls.append(1)
                threading.Thread(target=scope.cancel).start()
                await loop.sleep(FOREVER)

            await callee()

    with pytest.raises(sp.Cancelled, match="job"):
        loop.run(main)
    assert len(calls) == 1


@each_loop
def test_cancelling_after_the_loop_has_ended_is_harmless(loop: Loop) -> None:
    scopes: list[sp.Scope] = []

    async def main() -> None:
        scopes.append(sp.deadline(FOREVER))
        scopes[0].__enter__()

    loop_error: type[BaseException] | tuple[Any, ...] = ()
    if loop.name == "trio":
        # trio itself objects to a scope that is never left.
        loop_error = (RuntimeError, BaseExceptionGroup)
    with contextlib.suppress(loop_error) if loop_error else contextlib.nullcontext():
        loop.run(main)
    scopes[0].cancel()


@each_loop
def test_cancel_in_the_same_task_without_a_checkpoint_leaves_no_trace(loop: Loop) -> None:
    async def main() -> str:
        with sp.deadline(None) as scope:
            scope.cancel()
        await loop.sleep(0)
        await loop.sleep(0)
        return "well"

    assert loop.run(main) == "well"


class CancelsItself(sp.Scope):
    """Cancelled in the middle of the sleeper's own check, as a signal handler could do it."""

    __slots__ = ("asked",)

    def ended(self) -> sp.Scope | None:
        self.asked = getattr(self, "asked", 0) + 1
        # The first time is the beginning of the sleep.
        if self.asked == 1:
            self.cancel()
        return super().ended()


def test_cancel_from_inside_the_sleep_does_not_deadlock() -> None:
    def fail() -> None:
        raise Boom

    with CancelsItself(None), pytest.raises(sp.Cancelled):
        retry(backoff=sp.Constant(FOREVER)).call(fail)


def test_sleeping_in_a_scope_leaves_nothing_behind() -> None:
    """A sleeper that can be woken is listed somewhere; after its sleep it is listed no more."""

    def fail() -> None:
        raise Boom

    def sleep_often() -> None:
        with sp.deadline(FOREVER), pytest.raises(Boom):
            policy.call(fail)

    policy = retry(attempts=200, backoff=sp.Constant(1e-9))
    sleep_often()
    grown = []
    for _ in range(3):
        before = sys.getallocatedblocks()
        sleep_often()
        grown.append(sys.getallocatedblocks() - before)
    assert min(grown) < 100


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="other platform: no interval timers")
def test_signal_handler_may_cancel_the_sleep_of_its_own_thread() -> None:
    def fail() -> None:
        raise Boom

    with sp.deadline(None) as scope:
        before = signal.signal(signal.SIGALRM, lambda *_: scope.cancel())
        signal.setitimer(signal.ITIMER_REAL, SOON)
        try:
            with pytest.raises(sp.Cancelled):
                retry(backoff=sp.Constant(FOREVER)).call(fail)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


# Switching policies off.


@each_way
def test_disabled_makes_one_plain_call(play: Any) -> None:
    seen = play(retry(), Boom, "never", inside=sp.disabled).raised_the_last_error().made(1).slept()
    assert seen.notes == []
    assert seen.events == []


@each_way
def test_disabled_switches_off_every_strategy_of_a_pipeline(play: Any) -> None:
    one, none = retry().strategies[0], sp.Deadline(0)
    for row in [(none,), (none, one), (one, none), (none, one, none)]:
        with warnings.catch_warnings():
            # It may say that a Deadline inside Retry is rarely meant.
            warnings.simplefilter("ignore")
            policy = sp.Policy(*row)
        play(policy, "ok", inside=sp.disabled).returned("ok").made(1)


@each_way
def test_disabled_covers_an_ended_deadline(play: Any) -> None:
    @contextlib.contextmanager
    def off() -> Iterator[None]:
        with sp.deadline(0), sp.disabled():
            yield

    play(retry(), "ok", inside=off).returned("ok")


@each_way
def test_disabled_reaches_through_a_deadline_inside_it(play: Any) -> None:
    @contextlib.contextmanager
    def off() -> Iterator[None]:
        with sp.disabled(), sp.deadline(60):
            yield

    play(retry(), Boom, "never", inside=off).raised_the_last_error().made(1)


def test_disabled_ends_with_its_block() -> None:
    with sp.disabled():
        pass
    SYNC(retry(), Boom, "ok").returned("ok").made(2)


def test_disabled_spends_and_earns_nothing() -> None:
    budget = sp.Budget(ratio=1, burst=0)
    with sp.disabled():
        retry(budget=budget).call(lambda: "ok")
    assert budget.balance == 0


def test_disabled_covers_blocks_and_generators() -> None:
    calls: list[str] = []
    with sp.disabled():
        with pytest.raises(Boom):
            for attempt in sp.retrying(on=Boom):
                with attempt:
                    calls.append("block")
                    raise Boom

        @retry()
        def items() -> Iterator[int]:
            calls.append("generator")
            raise Boom
            yield

        with pytest.raises(Boom):
            next(items())
    assert calls == ["block", "generator"]


# Into other threads.


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_thread_of_a_pool_does_not_inherit_the_deadline(pool: ThreadPoolExecutor) -> None:
    with sp.deadline(5):
        assert pool.submit(sp.remaining).result() is None


def test_carry_takes_the_deadline_along(clock: sp.testing.FakeClock, pool: ThreadPoolExecutor) -> None:
    with sp.deadline(5):
        assert sp.carry(pool).submit(sp.remaining).result() == 5
    assert sp.carry(pool).submit(sp.remaining).result() is None


def test_carry_passes_arguments_results_and_errors(pool: ThreadPoolExecutor) -> None:
    carried = sp.carry(pool)
    assert carried.submit(divmod, 7, 2).result() == (3, 1)
    assert carried.submit(int, "ff", base=16).result() == 255
    with pytest.raises(ZeroDivisionError):
        carried.submit(divmod, 1, 0).result()


@pytest.mark.parametrize("make", [list, iter, lambda items: (item for item in items)])
def test_carry_maps_any_iterable(pool: ThreadPoolExecutor, make: Callable[[Any], Any]) -> None:
    with sp.deadline(FOREVER):
        results = list(sp.carry(pool).map(lambda n: (n, sp.remaining() is not None), make([1, 2, 3])))
    assert results == [(1, True), (2, True), (3, True)]


def test_carry_maps_several_iterables_to_the_shortest(pool: ThreadPoolExecutor) -> None:
    assert list(sp.carry(pool).map(pow, [2, 3, 4], [5, 6])) == [32, 729]


def test_carry_takes_disabled_along(pool: ThreadPoolExecutor) -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise Boom

    with sp.disabled(), pytest.raises(Boom):
        sp.carry(pool).submit(retry().call, fail).result()
    assert len(calls) == 1


def test_cancel_reaches_a_retry_that_was_carried_to_another_thread(pool: ThreadPoolExecutor) -> None:
    def fail() -> None:
        raise Boom

    asleep = threading.Event()
    stop = sp.subscribe(lambda event: asleep.set())
    try:
        with sp.deadline(None) as scope:
            future = sp.carry(pool).submit(retry(backoff=sp.Constant(FOREVER)).call, fail)
            assert asleep.wait(30)
            scope.cancel()
            with pytest.raises(sp.Cancelled):
                future.result(30)
    finally:
        stop()


def test_carry_works_with_run_in_executor(pool: ThreadPoolExecutor) -> None:
    async def main() -> Any:
        with sp.deadline(FOREVER):
            return await asyncio.get_running_loop().run_in_executor(sp.carry(pool), sp.remaining)  # type: ignore[arg-type]

    assert run_asyncio(main) > FOREVER / 2


def test_carry_is_left_like_the_pool() -> None:
    with sp.carry(ThreadPoolExecutor(1)) as carried:
        assert carried.submit(int).result() == 0
    with pytest.raises(RuntimeError):
        carried.submit(int)


# Clocks of their own.


def test_fake_clock_policy_obeys_a_real_deadline() -> None:
    """Remaining times are compared, never two clocks' readings."""
    for start in (0.0, 1e9, -1e9):
        fake = sp.testing.FakeClock(start)
        policy = retry(clock=fake, attempts=3)
        calls: list[int] = []

        def fail(calls: list[int] = calls) -> None:
            calls.append(1)
            raise Boom

        with sp.deadline(FOREVER), pytest.raises(Boom):
            policy.call(fail)
        assert fake.sleeps == [1, 2]
        with sp.deadline(1.5), pytest.raises(sp.DeadlineExceeded):
            policy.call(fail)
        assert fake.sleeps == [1, 2, 1]


def test_real_clock_policy_obeys_a_fake_deadline() -> None:
    fake = sp.testing.FakeClock(1e12)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        if len(calls) == 2:
            fake.advance(5)
        raise Boom

    with sp.deadline(5, clock=fake), pytest.raises(sp.DeadlineExceeded):
        retry(backoff=sp.Constant(0), attempts=10).call(fail)
    assert len(calls) == 2


@each_loop
def test_deadline_on_a_fake_clock_sets_no_timer_in_the_loop(loop: Loop) -> None:
    fake = sp.testing.FakeClock()

    async def main() -> str:
        with sp.deadline(0.001, clock=fake):
            await loop.sleep(0.01)
        return "ok"

    assert loop.run(main) == "ok"


@each_loop
def test_fake_deadline_still_bounds_the_retries(loop: Loop) -> None:
    fake = sp.testing.FakeClock()

    @retry(clock=fake, attempts=10)
    async def fail() -> None:
        raise Boom

    async def main() -> None:
        with sp.deadline(10, clock=fake):
            await fail()

    with pytest.raises(sp.DeadlineExceeded):
        loop.run(main)
    assert fake.sleeps == [1, 2, 4]


def test_clock_set_back_breaks_nothing(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5):
        clock.advance(-3600)
        assert sp.remaining() == 5
        clock.advance(3606)
        with pytest.raises(sp.DeadlineExceeded):
            retry().call(pytest.fail, "called")


@each_way
def test_time_used_in_the_attempt_shrinks_the_remaining_time(play: Any) -> None:
    seen = play(retry(), takes(3, Boom), "never", inside=lambda: sp.deadline(3.5))
    seen.raised(sp.DeadlineExceeded).made(1).slept()
