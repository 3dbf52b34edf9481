"""Invariant 5: what is not an `Exception` is never retried, never counted, and leaves nothing held.

In an attempt and in a sleep; raised by the callee, thrown by an event loop, or a real SIGINT.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from tests.support.scripted import ALL_WAYS, Boom, BudgetSpy, does, every_way, retry

import stormproof as sp

FOREVER = 3600.0


class Halt(BaseException):
    """A user's own: whatever is not an Exception passes."""


INTERRUPTS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, Halt]


class Watch:
    """A policy that would retry anything it could, and what it did."""

    def __init__(self, **options: Any) -> None:
        self.budget = BudgetSpy()
        self.judged: list[BaseException] = []
        options = {"on": self._anything, "budget": self.budget, "backoff": sp.Constant(0), **options}
        self.policy = retry(**options)

    def _anything(self, error: BaseException) -> bool:
        self.judged.append(error)
        return True


def interrupted(play: Any, policy: sp.Policy, *outcomes: Any) -> tuple[BaseException, int, list[Any]]:
    """Play a script that ends in a BaseException: it, the calls made, the events."""
    calls = 0

    def counted(outcome: Any) -> Callable[[], Any]:
        def run() -> Any:
            nonlocal calls
            calls += 1
            raise outcome

        return run

    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        with pytest.raises(BaseException) as caught:
            play(policy, *(does(counted(outcome)) for outcome in outcomes), "never")
    finally:
        stop()
    return caught.value, calls, events


@every_way
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_interrupt_in_the_first_attempt_passes_at_once(play: Any, kind: type[BaseException]) -> None:
    watch, error = Watch(), kind()
    raised, calls, events = interrupted(play, watch.policy, error)
    assert raised is error or _same_through_the_loop(raised, kind)
    assert calls == 1
    assert watch.judged == []
    assert ("failure", False) not in watch.budget.calls
    assert ("withdraw", False) not in watch.budget.calls
    assert not any(isinstance(call, tuple) and call[0] == "success" for call in watch.budget.calls)
    assert events == []
    assert not hasattr(error, "__notes__")


@every_way
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_interrupt_in_a_later_attempt_passes_at_once(play: Any, kind: type[BaseException]) -> None:
    watch, error = Watch(), kind()
    raised, calls, events = interrupted(play, watch.policy, Boom(), error)
    assert raised is error or _same_through_the_loop(raised, kind)
    assert calls == 2
    assert len(watch.judged) == 1
    assert watch.budget.calls == ["started", ("failure", False), ("withdraw", False)]
    assert [type(event).__name__ for event in events] == ["Retrying"]
    assert not hasattr(error, "__notes__")


def _same_through_the_loop(raised: BaseException, kind: type[BaseException]) -> bool:
    """asyncio hands out a CancelledError of its own; some loops wrap what ends them."""
    return type(raised) is kind


@every_way
def test_group_with_an_interrupt_in_it_is_an_interrupt(play: Any) -> None:
    watch, group = Watch(), BaseExceptionGroup("mixed", [Boom(), KeyboardInterrupt()])
    raised, calls, _ = interrupted(play, watch.policy, group)
    assert raised is group
    assert calls == 1
    assert watch.judged == []


@pytest.mark.parametrize("kind", [*INTERRUPTS, trio.Cancelled, (Boom, KeyboardInterrupt)])
def test_on_with_a_cancellation_type_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="never retried"):
        sp.Retry(on=kind)


@every_way
@pytest.mark.parametrize("kind", INTERRUPTS)
@pytest.mark.proves("invariant 5")
def test_interrupted_call_holds_no_place(play: Any, kind: type[BaseException]) -> None:
    """No attempt, no scope, no budget lock: the same policy works on, here and in another thread."""
    budget = sp.Budget(burst=1)
    policy = retry(budget=budget, backoff=sp.Constant(0))
    interrupted(play, policy, Boom(), kind())
    assert sp.attempt() is None
    assert sp.remaining() is None
    assert budget.balance == 0
    play(policy, "ok").returned("ok")


@pytest.mark.parametrize("play", ALL_WAYS, ids=lambda play: play.name)
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_interrupt_in_the_sleep_passes(play: Any, kind: type[BaseException]) -> None:
    error = kind()

    class Struck(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            raise error

    watch = Watch(clock=Struck())
    raised, calls, events = interrupted(play, watch.policy, Boom())
    assert raised is error or _same_through_the_loop(raised, kind)
    assert calls == 1
    assert [type(event).__name__ for event in events] == ["Retrying"]
    assert sp.attempt() is None


# Event loops.


@contextlib.contextmanager
def recorded() -> Iterator[list[Any]]:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        yield events
    finally:
        stop()


@pytest.mark.parametrize("where", ["attempt", "sleep"])
@pytest.mark.proves("invariant 5")
def test_cancelled_asyncio_task_ends_within_one_turn(where: str) -> None:
    calls: list[int] = []
    ready = asyncio.Event()

    @retry(on=Exception, backoff=sp.Constant(FOREVER))
    async def callee() -> None:
        calls.append(1)
        ready.set()
        if where == "sleep":
            raise Boom
        await asyncio.sleep(FOREVER)

    async def main() -> None:
        task = asyncio.create_task(callee())
        await ready.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        # One turn: the cancellation is delivered. It must be the end.
        await asyncio.sleep(0)
        assert task.done()
        assert task.cancelled()
        for _ in range(10):
            await asyncio.sleep(0)

    with recorded() as events:
        asyncio.run(main())
    assert len(calls) == 1
    assert [type(event).__name__ for event in events] == (["Retrying"] if where == "sleep" else [])


@pytest.mark.parametrize("where", ["attempt", "sleep"])
@pytest.mark.proves("invariant 5")
def test_cancelled_trio_task_ends_at_once(where: str) -> None:
    calls: list[int] = []

    @retry(on=Exception, backoff=sp.Constant(FOREVER))
    async def callee() -> None:
        calls.append(1)
        if where == "sleep":
            raise Boom
        await trio.sleep(FOREVER)

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(callee)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught

    with recorded() as events:
        trio.run(main)
    assert len(calls) == 1
    assert [type(event).__name__ for event in events] == (["Retrying"] if where == "sleep" else [])


def test_with_a_zero_wait_an_asyncio_cancellation_still_lands() -> None:
    """One checkpoint per retry: a loop that never waits and never awaits can be cancelled."""
    calls: list[int] = []

    @retry(backoff=sp.Constant(0), attempts=1_000)
    async def callee() -> None:
        calls.append(1)
        if len(calls) == 3:
            asyncio.current_task().cancel()  # type: ignore[union-attr]
        raise Boom

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(callee())
    assert len(calls) == 3


@pytest.mark.parametrize("clock", [None, sp.testing.FakeClock()], ids=["real", "fake"])
def test_with_a_zero_wait_a_trio_cancellation_still_lands(clock: Any) -> None:
    calls: list[int] = []

    async def main() -> None:
        with trio.CancelScope() as scope:

            @retry(backoff=sp.Constant(0), attempts=1_000, clock=clock)
            async def callee() -> None:
                calls.append(1)
                if len(calls) == 3:
                    scope.cancel()
                raise Boom

            await callee()

    trio.run(main)
    assert len(calls) == 3


def test_zero_wait_lets_other_tasks_run() -> None:
    turns: list[str] = []

    @retry(backoff=sp.Constant(0), attempts=4)
    async def callee() -> None:
        turns.append("attempt")
        raise Boom

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(callee(), other(), return_exceptions=True)

    asyncio.run(main())
    assert turns[:6] == ["attempt", "other"] * 3


def test_wait_for_around_a_policy_is_not_retried() -> None:
    """A call that `asyncio.wait_for` cancels must not be run again to a success that no caller awaits."""
    calls: list[int] = []

    @retry(on=lambda error: True)
    async def callee() -> str:
        calls.append(1)
        await asyncio.sleep(FOREVER)
        return "ok"

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(callee(), 0.05)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert len(calls) == 1


def test_each_of_many_cancelled_tasks_ends_and_the_others_continue() -> None:
    done: list[int] = []

    @retry(backoff=sp.Constant(0), attempts=3)
    async def callee(number: int) -> int:
        await asyncio.sleep(0)
        attempt = sp.attempt()
        assert attempt is not None
        if attempt.number < 3:
            raise Boom
        done.append(number)
        return number

    async def main() -> list[Any]:
        tasks = [asyncio.create_task(callee(number)) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(main())
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False] * 10
    assert results[1::2] == list(range(1, 20, 2))
    assert sorted(done) == list(range(1, 20, 2))


def test_closed_coroutine_makes_no_further_call() -> None:
    calls: list[int] = []

    @retry(on=Exception, backoff=sp.Constant(FOREVER))
    async def callee() -> None:
        calls.append(1)
        await asyncio.sleep(FOREVER)

    async def main() -> None:
        running = callee()
        running.send(None)
        running.close()

    asyncio.run(main())
    assert len(calls) == 1


# A real SIGINT, in the middle of each phase.

CHILD = """
    import sys
    sys.path.insert(0, {source!r})
    import stormproof as sp
    {imports}

    calls = 0
    where, library = {where!r}, {library!r}
    budget = sp.Budget()

    def ready(*_):
        print("ready", flush=True)

    def step():
        global calls
        calls += 1
        if where == "sleep":
            raise ConnectionError
        ready()

    policy = sp.retry(on=Exception, backoff=sp.Constant(3600), within=None, budget=budget)
    if where == "sleep":
        sp.subscribe(ready)
    try:
        if library == "sync":
            import time

            @policy
            def callee():
                step()
                time.sleep(3600)

            with sp.deadline({limit!r}):
                callee()
        else:
            @policy
            async def callee():
                step()
                await sleep(3600)

            async def main():
                with sp.deadline({limit!r}):
                    await callee()

            run(main)
    except KeyboardInterrupt:
        print("interrupted", calls, budget.balance, sp.attempt(), sp.remaining(), flush=True)
        sys.exit(0)
    print("not interrupted", flush=True)
"""

IMPORTS = {
    "sync": "",
    "asyncio": "import asyncio; sleep = asyncio.sleep; run = lambda main: asyncio.run(main())",
    "trio": "import trio; from trio import run, sleep",
}


@pytest.mark.skipif(os.name != "posix", reason="other platform: no SIGINT to a single process")
@pytest.mark.parametrize("limit", [None, FOREVER * 2], ids=["no limit", "deadline"])
@pytest.mark.parametrize("where", ["attempt", "sleep"])
@pytest.mark.parametrize("library", ["sync", "asyncio", "trio"])
@pytest.mark.proves("invariant 5")
def test_sigint_ends_the_call(library: str, where: str, limit: float | None) -> None:
    source = str(Path(sp.__file__).parents[1])
    code = CHILD.format(source=source, where=where, library=library, limit=limit, imports=IMPORTS[library])
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None and child.stderr is not None
        try:
            first = child.stdout.readline()
            assert first == "ready\n", first + child.stderr.read()
            child.send_signal(signal.SIGINT)
            try:
                out, err = child.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                # asyncio has no wake-up for a signal that comes just before it blocks in select.
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=30)
        finally:
            child.kill()
    # One call, the budget as the one Retrying left it, nothing held.
    balance = 2.0 if where == "sleep" else 3.0
    assert out == f"interrupted 1 {balance} None None\n", err
    assert child.returncode == 0
