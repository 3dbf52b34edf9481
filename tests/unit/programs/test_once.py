"""`sp.once`: one set-up for all concurrent callers; success is kept, failure is not."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import os
import pickle
import signal
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from tests.support.loops import Loop, each_loop, watchdog
from tests.support.polling import eventually
from tests.support.scripted import Boom, retry

import stormproof as sp
from stormproof._programs import once_cell
from stormproof._programs.once import once

__all__ = ["watchdog"]

pytestmark = pytest.mark.usefixtures("watchdog")


class LoopClock:
    """A clock that follows a loop's virtual time."""

    drives_timers = True

    def __init__(self, loop: Loop) -> None:
        self.now = loop.time

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def waiting(shared: Any) -> int:
    """Return how many callers wait for the set-up under way."""
    turn = shared._cell.turn
    return 0 if turn is None else len(turn.waiting)


class Gate:
    """A set-up that stops in the middle until the test opens it, and plays one outcome per run."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.runs = 0
        self.entered = threading.Event()
        self.opened = threading.Event()

    def call_through(self) -> Any:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def __call__(self) -> Any:
        self.runs += 1
        self.entered.set()
        assert self.opened.wait(10)
        return self.call_through()


class Crowd:
    """Threads that all call ``fn``; ``outcomes`` holds what each returned or raised, in their order."""

    def __init__(self, fn: Callable[[], Any], count: int) -> None:
        self.outcomes: list[Any] = [None] * count
        self.threads = [threading.Thread(target=self._run, args=(i, fn), daemon=True) for i in range(count)]

    def _run(self, place: int, fn: Callable[[], Any]) -> None:
        try:
            self.outcomes[place] = fn()
        except BaseException as error:
            self.outcomes[place] = error

    def start(self) -> Crowd:
        for thread in self.threads:
            thread.start()
        return self

    def join(self) -> list[Any]:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive(), "a thread hangs"
        return self.outcomes


# The plain cases.


@pytest.mark.parametrize("value", ["pool", None, False, 0])
def test_result_is_made_once_and_kept(value: Any) -> None:
    calls: list[int] = []

    @once
    def setup() -> Any:
        """Makes it."""
        calls.append(1)
        return value

    assert not setup.ready
    assert setup() is value and setup.get() is value
    assert setup.ready
    assert calls == [1]
    assert (setup.__name__, setup.__doc__) == ("setup", "Makes it.")


def test_calling_once_equals_its_get() -> None:
    shared = once(object)
    assert shared() is shared.get()


def test_once_accepts_a_class() -> None:
    class Settings:
        pass

    assert isinstance(once(Settings)(), Settings)
    settings = once(Settings, retry())
    assert settings() is settings()


def test_failure_is_not_kept() -> None:
    outcomes: list[Any] = [Boom("first"), Boom("second"), "ok"]

    @once
    def setup() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    for text in ("first", "second"):
        with pytest.raises(Boom, match=text):
            setup()
        assert not setup.ready
    assert setup() == setup() == "ok"


def test_once_under_a_policy_is_retried() -> None:
    calls: list[int] = []

    @once(policy=retry(attempts=3))
    def setup() -> int:
        calls.append(1)
        if len(calls) < 3 or len(calls) == 5:
            raise Boom
        return len(calls)

    with sp.testing.instant() as clock:
        assert setup() == 3
        assert clock.sleeps == [1, 2]
        assert setup.reset()
        assert setup() == 4
        assert setup.reset()
        assert setup() == 6


@each_loop
def test_async_set_up_under_a_policy(loop: Loop) -> None:
    calls: list[int] = []

    @once(policy=retry(attempts=2))
    async def setup() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise Boom
        return "ok"

    async def main() -> None:
        assert await setup() == "ok"
        assert await setup.get() == "ok"

    loop.run(main)
    assert len(calls) == 2 and setup.ready


# Threads.


def test_threads_share_one_run() -> None:
    gate = Gate("pool")
    shared = once(gate)
    crowd = Crowd(shared, 16).start()
    eventually(lambda: waiting(shared) == 15)
    gate.opened.set()
    assert crowd.join() == ["pool"] * 16
    assert gate.runs == 1


def test_waiters_share_the_error_and_the_next_call_starts_again() -> None:
    boom = Boom("down")
    gate = Gate(boom, "pool")
    shared = once(gate)
    crowd = Crowd(shared, 16).start()
    eventually(lambda: waiting(shared) == 15)
    gate.opened.set()
    assert all(outcome is boom for outcome in crowd.join())
    assert gate.runs == 1
    assert shared() == "pool"
    assert gate.runs == 2


def test_shared_error_keeps_its_traceback_at_a_constant_length() -> None:
    gate = Gate(Boom("down"))
    shared = once(gate)
    seen: list[list[str]] = []

    def call() -> None:
        try:
            shared()
        except Boom as error:
            seen.append([frame.name for frame in traceback.extract_tb(error.__traceback__)])

    crowd = Crowd(call, 8).start()
    eventually(lambda: waiting(shared) == 7)
    gate.opened.set()
    assert crowd.join() == [None] * 8
    assert len(seen) == 8
    for frames in seen:
        assert "call_through" in frames
        assert len(frames) < 12


def test_interrupted_runner_hands_the_set_up_over() -> None:
    gate = Gate(KeyboardInterrupt(), "pool")
    shared = once(gate)
    crowd = Crowd(shared, 4).start()
    eventually(lambda: waiting(shared) == 3)
    gate.opened.set()
    outcomes = crowd.join()
    assert outcomes.count("pool") == 3
    assert [type(o) for o in outcomes if o != "pool"] == [KeyboardInterrupt]
    assert gate.runs == 2


def test_interrupt_without_waiters_lets_the_next_call_start_again() -> None:
    gate = Gate(SystemExit(1), "pool")
    gate.opened.set()
    shared = once(gate)
    with pytest.raises(SystemExit):
        shared()
    assert shared() == "pool"


def test_deadline_of_the_runner_does_not_fail_the_waiters() -> None:
    clock = sp.testing.FakeClock()
    gate = Gate(Boom("late"), "pool")
    shared = once(gate)
    runner: list[BaseException] = []

    def hurried() -> None:
        with sp.deadline(1, clock=clock):
            try:
                shared()
            except Boom as error:
                runner.append(error)

    first = Crowd(hurried, 1).start()
    assert gate.entered.wait(10)
    crowd = Crowd(shared, 3).start()
    eventually(lambda: waiting(shared) == 3)
    clock.advance(2)
    gate.opened.set()
    first.join()
    assert crowd.join() == ["pool"] * 3
    assert [str(e) for e in runner] == ["late"]
    assert gate.runs == 2


def test_wait_beyond_the_runners_deadline_hands_over() -> None:
    # The loop refuses to sleep past the deadline: DeadlineExceeded before the deadline is over.
    gate = Gate(Boom("first"), "pool")
    shared = once(gate, retry(attempts=3, backoff=sp.Constant(60)))

    def hurried() -> Any:
        with sp.deadline(30):
            return shared()

    first = Crowd(hurried, 1).start()
    assert gate.entered.wait(10)
    crowd = Crowd(shared, 2).start()
    eventually(lambda: waiting(shared) == 2)
    gate.opened.set()
    assert [type(outcome) for outcome in first.join()] == [sp.DeadlineExceeded]
    assert crowd.join() == ["pool"] * 2


def test_deadline_inside_the_set_up_fails_every_waiter() -> None:
    gate = Gate(sp.DeadlineExceeded("too slow", "inner"), "pool")
    shared = once(gate)

    def call() -> Any:
        with sp.deadline(30, "outer"):
            return shared()

    crowd = Crowd(call, 3).start()
    eventually(lambda: waiting(shared) == 2)
    gate.opened.set()
    assert [type(outcome) for outcome in crowd.join()] == [sp.DeadlineExceeded] * 3
    assert gate.runs == 1


def test_waiters_own_deadline_ends_only_its_wait() -> None:
    gate = Gate("pool")
    shared = once(gate)
    crowd = Crowd(shared, 1).start()
    assert gate.entered.wait(10)
    with pytest.raises(sp.DeadlineExceeded), sp.deadline(0.01):
        shared()
    assert waiting(shared) == 0
    gate.opened.set()
    assert crowd.join() == ["pool"]
    assert gate.runs == 1


def test_waiter_can_be_cancelled() -> None:
    gate = Gate("pool")
    shared = once(gate)
    runner = Crowd(shared, 1).start()
    assert gate.entered.wait(10)
    scope = sp.deadline(None)

    def call() -> Any:
        with scope:
            return shared()

    crowd = Crowd(call, 1).start()
    eventually(lambda: waiting(shared) == 1)
    scope.cancel()
    assert [type(outcome) for outcome in crowd.join()] == [sp.Cancelled]
    gate.opened.set()
    assert runner.join() == ["pool"]


# A set-up that needs itself.


def test_setup_that_calls_itself_raises() -> None:
    @once
    def setup() -> int:
        return int(setup()) + 1

    with pytest.raises(RuntimeError, match="needs its own result"):
        setup()
    assert not setup.ready


def test_circle_in_one_thread_raises() -> None:
    @once
    def first() -> int:
        return int(second())

    @once
    def second() -> int:
        return int(first())

    with pytest.raises(RuntimeError, match="first needs its own result"):
        first()


def test_circle_over_two_threads_raises() -> None:
    both = threading.Barrier(2)
    meet = True

    def enter() -> None:
        if meet:
            both.wait(10)

    @once
    def first() -> str:
        enter()
        return str(second())

    @once
    def second() -> str:
        enter()
        return str(first())

    one, two = Crowd(first, 1).start(), Crowd(second, 1).start()
    errors = [*one.join(), *two.join()]
    assert all(isinstance(error, RuntimeError) for error in errors)
    assert "wait for each other" in str(errors[0])
    # The thread that noticed failed, and the other one got that error from its dependency.
    assert errors[0] is errors[1]


def test_set_ups_may_need_each_other_in_one_direction() -> None:
    gate = Gate("base")
    base = once(gate)

    @once
    def upper() -> str:
        return f"on {base()}"

    lower, uppers = Crowd(base, 2).start(), Crowd(upper, 4).start()
    eventually(lambda: waiting(upper) == 3 and waiting(base) == 2)
    gate.opened.set()
    assert lower.join() == ["base"] * 2
    assert uppers.join() == ["on base"] * 4


@each_loop
def test_task_started_by_the_set_up_cannot_wait_for_the_set_up(loop: Loop) -> None:
    @once
    async def setup() -> Any:
        (outcome,) = await loop.together(setup)
        return outcome

    async def main() -> Any:
        return await setup()

    with sp.deadline(30):
        outcome = loop.run(main)
    assert isinstance(outcome, RuntimeError)


def test_task_left_by_an_earlier_set_up_is_not_part_of_the_next() -> None:
    left: list[contextvars.Context] = []
    gate = Gate("new")
    values: list[Callable[[], Any]] = [lambda: "old", gate]

    @once
    def setup() -> Any:
        left.append(contextvars.copy_context())
        return values.pop(0)()

    assert setup() == "old"
    setup.reset()
    runner = Crowd(setup, 1).start()
    assert gate.entered.wait(10)
    waiter = Crowd(lambda: left[0].run(setup), 1).start()
    eventually(lambda: waiting(setup) == 1)
    gate.opened.set()
    assert [*runner.join(), *waiter.join()] == ["new", "new"]


# Tasks. Which of two tasks begins first is the loop's business, so the waiters come later.


def later(loop: Loop, seconds: float, fn: Callable[[], Any]) -> Callable[[], Any]:
    async def call() -> Any:
        await loop.sleep(seconds)
        return await fn()

    return call


@each_loop
def test_tasks_share_one_run(loop: Loop) -> None:
    runs: list[int] = []

    @once
    async def setup() -> object:
        runs.append(1)
        await loop.sleep(5)
        return runs

    async def main() -> None:
        outcomes = await loop.together(*[setup] * 50)
        assert all(outcome is runs for outcome in outcomes)
        assert loop.time() == pytest.approx(5)

    loop.run(main)
    assert runs == [1]


@each_loop
def test_tasks_share_the_error(loop: Loop) -> None:
    boom = Boom("down")
    runs: list[int] = []

    @once
    async def setup() -> str:
        runs.append(1)
        await loop.sleep(1)
        if len(runs) == 1:
            raise boom
        return "ok"

    async def main() -> None:
        outcomes = await loop.together(*[setup] * 10)
        assert all(outcome is boom for outcome in outcomes)
        assert await setup() == "ok"

    loop.run(main)
    assert len(runs) == 2


@each_loop
def test_cancelled_runner_hands_over(loop: Loop) -> None:
    began: list[float] = []

    @once
    async def setup() -> str:
        began.append(loop.time())
        await loop.sleep(10)
        return "pool"

    async def main() -> None:
        waiting = later(loop, 1, setup)
        outcomes = await loop.together(lambda: loop.cut(3, setup), waiting, waiting)
        assert outcomes == [True, "pool", "pool"]
        assert loop.time() == pytest.approx(13)

    loop.run(main)
    assert began == pytest.approx([0, 3])


@each_loop
def test_cancelled_successor_hands_over(loop: Loop) -> None:
    began: list[float] = []

    @once
    async def setup() -> str:
        began.append(loop.time())
        await loop.sleep(10)
        return "pool"

    async def main() -> None:
        heir = later(loop, 1, lambda: loop.cut(4, setup))
        outcomes = await loop.together(lambda: loop.cut(3, setup), heir, later(loop, 2, setup))
        assert outcomes == [True, True, "pool"]

    loop.run(main)
    assert began == pytest.approx([0, 3, 5])


@each_loop
def test_runner_whose_deadline_comes_hands_over(loop: Loop) -> None:
    began: list[float] = []

    @once
    async def setup() -> str:
        began.append(loop.time())
        await loop.sleep(10)
        return "pool"

    async def hurried() -> Any:
        # The loop's own timer, so it comes in virtual time.
        with sp.deadline(3, clock=LoopClock(loop)):
            return await setup()

    async def main() -> None:
        outcomes = await loop.together(hurried, later(loop, 1, setup))
        assert isinstance(outcomes[0], sp.DeadlineExceeded)
        assert outcomes[1] == "pool"

    loop.run(main)
    assert began == pytest.approx([0, 3])


@each_loop
def test_runner_and_successor_cancelled_at_one_instant_hand_over(loop: Loop) -> None:
    began: list[float] = []

    @once
    async def setup() -> str:
        began.append(loop.time())
        await loop.sleep(10)
        return "pool"

    async def main() -> None:
        cuts = [later(loop, at, partial(loop.cut, 3 - at, setup)) for at in (0, 1, 1.5, 2)]
        outcomes = await loop.together(*cuts, later(loop, 2.5, setup))
        assert outcomes == [True, True, True, True, "pool"]
        assert loop.time() == pytest.approx(13)

    loop.run(main)
    assert began[0] == 0 and began[-1] == pytest.approx(3)


@each_loop
def test_call_after_all_were_cancelled_starts_again(loop: Loop) -> None:
    began: list[float] = []

    @once
    async def setup() -> str:
        began.append(loop.time())
        await loop.sleep(10 if len(began) == 1 else 0)
        return "pool"

    async def main() -> None:
        assert await loop.together(*[lambda: loop.cut(3, setup)] * 3) == [True] * 3
        assert not setup.ready
        assert await setup() == "pool"

    loop.run(main)


@each_loop
def test_cancelled_waiter_leaves_the_others_alone(loop: Loop) -> None:
    runs: list[int] = []

    @once
    async def setup() -> str:
        runs.append(1)
        await loop.sleep(10)
        return "pool"

    async def main() -> None:
        waiting = later(loop, 1, lambda: loop.cut(3, setup))
        outcomes = await loop.together(setup, waiting, later(loop, 2, setup))
        assert outcomes == ["pool", True, "pool"]

    loop.run(main)
    assert runs == [1]


def test_waiter_cancelled_as_the_set_up_ends_leaves_the_result_to_others() -> None:
    """It has its place no longer, and there is nothing left to hand over."""

    @once
    async def setup() -> str:
        await opened.wait()
        asyncio.get_running_loop().call_soon(waiters[0].cancel)
        return "pool"

    async def main() -> list[Any]:
        opened.set()
        return await asyncio.gather(runner, *waiters, return_exceptions=True)

    with asyncio.Runner() as loop:
        opened = asyncio.Event()
        runner = loop.get_loop().create_task(setup.get())
        waiters = [loop.get_loop().create_task(setup.get()) for _ in range(2)]
        first, cancelled, other = loop.run(main())
    assert (first, other) == ("pool", "pool")
    assert isinstance(cancelled, asyncio.CancelledError)
    assert setup.ready


def test_stray_wait_may_be_closed_from_inside_another_set_up() -> None:
    async def main() -> None:
        opened = asyncio.Event()

        @once
        async def slow() -> str:
            await opened.wait()
            return "slow"

        running = asyncio.ensure_future(slow.get())
        await asyncio.sleep(0)
        stray: Any = slow()
        contextvars.copy_context().run(stray.send, None)
        assert waiting(slow) == 1

        @once
        async def other() -> str:
            stray.close()
            return "other"

        assert await other() == "other"
        assert waiting(slow) == 0
        opened.set()
        assert await running == "slow"

    asyncio.run(main())


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_reader_at_the_moment_the_setup_ends_gets_its_result(colour: str) -> None:
    @once
    def setup() -> list[int]:
        return [1]

    made = setup()

    def again() -> None:
        raise AssertionError("it is there already")

    # They have seen it under way, and join it when it is done.
    if colour == "sync":
        assert once_cell.get(setup._cell, again, ()) is made
    else:
        assert asyncio.run(once_cell.get_async(setup._cell, again, ())) is made


def test_loops_share_one_run() -> None:
    gate = Gate("pool")

    @once
    async def setup() -> Any:
        # Blocks this loop on purpose: the others wait in loops of their own.
        return gate()

    def asyncio_loop() -> Any:
        async def main() -> Any:
            return await asyncio.gather(setup(), setup())

        return asyncio.run(main())

    crowd = Crowd(asyncio_loop, 3).start()
    trios = Crowd(lambda: trio.run(setup.get), 2).start()
    eventually(lambda: waiting(setup) >= 6)
    gate.opened.set()
    assert crowd.join() == [["pool", "pool"]] * 3
    assert trios.join() == ["pool"] * 2
    assert gate.runs == 1


def test_loop_that_ends_hands_over_to_another_loop() -> None:
    runs: list[str] = []
    leave = threading.Event()

    @once
    async def setup() -> str:
        runs.append(threading.current_thread().name)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return "pool"

    async def abandon() -> None:
        task = asyncio.ensure_future(setup())
        await asyncio.to_thread(leave.wait, 10)
        # The loop ends with the task still under way: asyncio.run cancels it.
        assert not task.done()

    first = Crowd(lambda: asyncio.run(abandon()), 1).start()
    eventually(lambda: runs)
    others = [
        Crowd(lambda: asyncio.run(setup.get()), 1).start(),
        Crowd(lambda: trio.run(setup.get), 1).start(),
    ]
    eventually(lambda: waiting(setup) == 2)
    leave.set()
    assert first.join() == [None]
    assert [outcome for crowd in others for outcome in crowd.join()] == ["pool", "pool"]
    assert len(runs) == 2


def test_closed_coroutine_hands_the_setup_over() -> None:
    runs: list[int] = []

    @once
    async def setup() -> str:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return "pool"

    async def main() -> None:
        stray: Any = setup()
        contextvars.copy_context().run(stray.send, None)
        waiter = asyncio.ensure_future(setup.get())
        await asyncio.sleep(0)
        assert not waiter.done()
        stray.close()
        assert await waiter == "pool"

    asyncio.run(main())


# Forgetting.


def test_reset_makes_the_next_call_run() -> None:
    values = iter(range(10))
    shared = once(lambda: next(values))
    assert not shared.reset()
    assert shared() == 0
    assert shared.reset() and not shared.ready
    assert shared() == 1


def test_reset_of_an_object_already_replaced_changes_nothing() -> None:
    shared = once(object)
    broken = shared()
    assert shared.reset(broken)
    fresh = shared()
    assert not shared.reset(broken)
    assert shared() is fresh


def test_set_up_under_way_at_a_reset_is_not_kept() -> None:
    gate = Gate("old", "new")
    shared = once(gate)
    crowd = Crowd(shared, 3).start()
    eventually(lambda: waiting(shared) == 2)
    assert not shared.reset("old")
    assert waiting(shared) == 2
    assert not shared.reset()
    gate.opened.set()
    assert crowd.join() == ["old"] * 3
    assert not shared.ready
    assert shared() == "new"


@each_loop
def test_set_up_that_was_forgotten_and_cancelled_leaves_the_next_one_alone(loop: Loop) -> None:
    began: list[float] = []

    @once
    async def setup() -> float:
        began.append(loop.time())
        await loop.sleep(10)
        return began[-1]

    async def forget() -> None:
        setup.reset()

    async def main() -> None:
        outcomes = await loop.together(
            lambda: loop.cut(5, setup), later(loop, 1, forget), later(loop, 2, setup), later(loop, 6, setup)
        )
        assert outcomes == [True, None, pytest.approx(2), pytest.approx(2)]
        assert setup.ready

    loop.run(main)
    assert began == pytest.approx([0, 2])


def test_reset_releases_the_result() -> None:
    class Pool:
        pass

    shared = once(Pool)
    seen = weakref.ref(shared())
    shared.reset()
    gc.collect()
    assert seen() is None


# Methods.


class Client:
    made = 0

    def __init__(self, name: str) -> None:
        self.name = name

    @once
    def pool(self) -> tuple[str, int]:
        Client.made += 1
        return self.name, Client.made

    @once(policy=retry())
    async def apool(self) -> str:
        return self.name

    @staticmethod
    @once
    def shared() -> object:
        return object()


class Special(Client):
    @once
    def pool(self) -> tuple[str, int]:
        name, number = super().pool()
        return f"special {name}", number


def test_method_has_one_result_per_instance() -> None:
    a, b = Client("a"), Client("b")
    first = a.pool()
    assert first[0] == "a" and b.pool()[0] == "b"
    assert a.pool() is first and a.pool.ready
    a.pool.reset()
    assert not a.pool.ready and b.pool.ready
    assert a.pool() != first
    assert asyncio.run(a.apool()) == "a" and asyncio.run(b.apool()) == "b"
    assert a.shared() is b.shared() is Client.shared()


def test_attribute_of_the_class_is_the_decorated_function() -> None:
    assert Client.pool is Client.__dict__["pool"]
    assert Client.pool.__name__ == "pool"


def test_threads_that_first_use_an_instance_at_once_share_one_place_for_its_result() -> None:
    client = Client("a")
    kept: dict[str, Any] = {}
    first, second = once_cell.Cell("pool", client), once_cell.Cell("pool", client)
    assert once_cell.adopt(kept, "pool", first, client) is first
    # This thread had found nothing either, and comes second.
    assert once_cell.adopt(kept, "pool", second, client) is first
    assert kept == {"pool": first}


def test_override_may_call_the_overridden_method() -> None:
    name, _ = Special("s").pool()
    assert name == "special s"


def test_copy_sets_up_its_own() -> None:
    original = Client("a")
    original.pool()
    for twin in (copy.copy(original), copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert not twin.pool.ready
        twin.name = "twin"
        assert twin.pool()[0] == "twin"
    assert original.pool()[0] == "a"


def test_instance_is_released_with_its_result() -> None:
    client = Client("a")
    client.pool()
    seen = weakref.ref(client)
    del client
    gc.collect()
    assert seen() is None


def test_instance_without_a_dict_is_refused() -> None:
    class Slotted:
        __slots__ = ()

        @once
        def pool(self) -> int:
            return 1

    with pytest.raises(TypeError, match="Slotted has none"):
        Slotted().pool()


@once
def module_level() -> list[int]:
    return [1]


def test_once_is_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(Client("a").pool))()[0] == "a"
    assert copy.copy(module_level) is module_level


# Odd uses.


def test_bad_uses_are_refused() -> None:
    def items() -> Any:
        yield 1

    async def aitems() -> Any:
        yield 1

    bad: Any
    for bad, says in [
        (3, "must be a function, got 3"),
        (items, "got the generator function"),
        (aitems, "got the async generator function"),
        (staticmethod(Client.shared), "@staticmethod above @once"),
        (classmethod(lambda cls: 1), "a classmethod cannot"),
    ]:
        with pytest.raises(TypeError, match=says):
            once(bad)
    bad = sp.Retry()
    with pytest.raises(TypeError, match="policy must be a Policy or None, got Retry"):
        once(lambda: 1, policy=bad)


def test_repr_shows_the_state() -> None:
    shared = once(module_level.__wrapped__)
    assert repr(shared) == "<once module_level: not set up>"
    shared()
    assert repr(shared) == "<once module_level: ready>"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_does_not_wait_for_its_parents_thread() -> None:
    gate = Gate("parent's")
    kept, shared = once(lambda: "kept"), once(gate)
    kept()
    crowd = Crowd(shared, 1).start()
    assert gate.entered.wait(10)
    child = os.fork()
    if child == 0:
        try:
            # A child that hangs ends by itself.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            gate.opened.set()
            gate.outcomes[:] = ["child's"]
            os._exit(0 if (shared(), kept.ready) == ("child's", True) else 1)
        finally:
            os._exit(2)
    gate.opened.set()
    assert crowd.join() == ["parent's"]
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_many_threads_in_many_rounds_share_one_value_per_round() -> None:
    """No lost wake-up and no second run, however the threads meet."""
    runs = 0

    @once
    def setup() -> int:
        nonlocal runs
        runs += 1
        if runs % 3 == 0:
            raise Boom
        return runs

    start = threading.Barrier(8)
    seen: list[set[Any]] = []

    def call() -> list[Any]:
        got: list[Any] = []
        for _ in range(200):
            if start.wait(10) == 0:
                setup.reset()
            start.wait(10)
            try:
                got.append(setup())
            except Boom:
                got.append(None)
        return got

    rounds = zip(*Crowd(call, 8).start().join(), strict=True)
    seen = [set(values) - {None} for values in rounds]
    # Every round ends with one value: those who met a failure apart.
    assert all(len(values) <= 1 for values in seen)
    assert sum(map(len, seen)) > 100


def test_turn_that_fails_while_being_read_does_not_count_as_a_result() -> None:
    """Without a GIL, another thread may settle the turn between two steps of one that reads it."""
    runs = 0

    @once
    def setup() -> int:
        nonlocal runs
        runs += 1
        if runs == 1:
            seen.append(setup._cell.turn)
            raise Boom
        return runs

    seen: list[Any] = []
    with pytest.raises(Boom):
        setup()
    (failed,) = seen
    assert failed.done

    # What a reader still has in hand.
    setup._cell.turn = failed
    assert not setup.ready
    setup._cell.turn = None
    assert setup() == 2
    assert setup.ready
    assert not failed.succeeded
