"""Invariant 3: back by the deadline and one tick of the scheduler; no sleep begins that would end past it."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, VirtualLoop, each_loop
from tests.support.scripted import Boom, asks, every_way, retry, takes

import stormproof as sp

Measured = Callable[[str], None]


class Turns:
    """Which turn of the loop it is."""

    def __init__(self) -> None:
        self.number = 0


class CountedLoop(VirtualLoop):
    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        super().__init__()

    def _run_once(self) -> None:
        self.turns.number += 1
        super()._run_once()  # type: ignore[misc]


class CountedTrio(trio.abc.Instrument):
    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def after_io_wait(self, timeout: float) -> None:
        self.turns.number += 1


def run_counted(loop: Loop, turns: Turns, main: Callable[[], Any]) -> None:
    if loop.name == "trio":
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(main, clock=clock, instruments=[CountedTrio(turns)])
    else:
        with asyncio.Runner(loop_factory=lambda: CountedLoop(turns)) as runner:
            runner.run(main())


class Call:
    """One call under a deadline, in virtual time, whose attempts take as long as the script says."""

    def __init__(
        self, loop: Loop, limit: float, lengths: list[float], start: float, queues: bool, **options: Any
    ) -> None:
        self.loop = loop
        self.limit, self.lengths, self.start, self.options = limit, lengths, start, options
        #: Whether a retry waits for a token too.
        self.queues = queues
        self.turns = Turns()
        self.clock = LoopClock(loop)
        self.calls = 0
        #: When each wait began and how long it was to be.
        self.sleeps: list[tuple[float, float]] = []
        self.ended = 0.0
        #: The turns in which the deadline came, the callee was cancelled, and the call was back.
        self.struck = self.cancelled = self.back = 0
        self.error: BaseException | None = None

    async def callee(self) -> None:
        length = self.lengths[min(self.calls, len(self.lengths) - 1)]
        self.calls += 1
        try:
            await self.loop.sleep(length)
        except BaseException:
            self.cancelled = self.turns.number
            raise
        raise Boom

    def on_event(self, event: Any) -> None:
        if type(event).__name__ == "Retrying":
            self.sleeps.append((self.loop.time(), event.wait))

    async def run(self) -> None:
        budget = sp.RateBudget(rate=2, burst=1, wait=True, clock=self.clock) if self.queues else None
        retries = sp.Retry(on=Boom, attempts=None, within=None, budget=budget, **self.options)
        policy = sp.Policy(sp.Deadline(self.limit), retries, clock=self.clock)
        await self.loop.sleep(self.start)
        try:
            await policy.acall(self.callee)
        except (sp.DeadlineExceeded, Boom) as error:
            self.error = error
        self.back, self.ended = self.turns.number, self.loop.time()

    async def alarm(self) -> None:
        """The deadline as another timer of the same loop sees it."""
        await self.loop.sleep(self.start)
        if self.loop.name == "asyncio":
            note = lambda: setattr(self, "struck", self.turns.number)  # noqa: E731 - a timer's callback
            asyncio.get_running_loop().call_later(self.limit, note)
            await asyncio.sleep(self.limit)
        else:
            await trio.sleep(self.limit)
            self.struck = self.turns.number

    def play(self) -> Call:
        stop = sp.subscribe(self.on_event)
        try:
            run_counted(self.loop, self.turns, lambda: self.loop.together(self.alarm, self.run))
        finally:
            stop()
        return self


@pytest.mark.proves("invariant 3")
@each_loop
def test_call_is_back_within_one_tick_of_its_deadline(loop: Loop, measured: Measured) -> None:
    late: list[int] = []
    ended: list[float] = []
    waits = 0
    cut = 0

    @settings(max_examples=80)
    @given(
        limit=st.floats(0.01, 30),
        lengths=st.lists(st.floats(0, 8), min_size=1, max_size=6),
        start=st.floats(0, 5),
        backoff=st.sampled_from([sp.Constant(0.25), sp.Exponential(0.5, cap=6), sp.Decorrelated(0.2, cap=4)]),
        tail=st.booleans(),
        late_way=st.sampled_from(["stop", "clip"]),
        wait=st.booleans(),
    )
    @example(
        limit=5, lengths=[1.0], start=0, backoff=sp.Constant(0.25), tail=True, late_way="stop", wait=False
    )
    @example(
        limit=5, lengths=[1.0], start=1, backoff=sp.Constant(0.25), tail=False, late_way="clip", wait=True
    )
    def check(
        limit: float,
        lengths: list[float],
        start: float,
        backoff: Any,
        tail: bool,
        late_way: str,
        wait: bool,
    ) -> None:
        nonlocal waits, cut
        # With a tail the last attempts hang, so that it is the attempt which the deadline ends.
        script = [*lengths, 3600.0] if tail else [*lengths, 0.125]
        call = Call(loop, limit, script, start, wait, backoff=backoff, late=late_way).play()
        deadline = start + limit
        # A token that would come too late is not waited for either.
        assert isinstance(call.error, (sp.DeadlineExceeded, Boom) if wait else sp.DeadlineExceeded)
        assert call.ended <= deadline + 1e-9
        ended.append(deadline - call.ended)
        for began, seconds in call.sleeps:
            waits += 1
            assert began + seconds <= deadline + 1e-9, "a sleep that would end past the deadline"
        if call.cancelled:
            cut += 1
            assert call.back == call.cancelled, "the callee gave way, and the call went on"
            late.append(call.back - call.struck)
            assert late[-1] <= 1

    check()
    assert cut and waits
    measured(
        f"{loop.name}: {len(ended)} calls in virtual time, none back after its deadline; {cut} cut off in an "
        f"attempt, back {max(late)} tick later at most; {waits} waits, none to end past it"
    )


@pytest.mark.proves("invariant 3")
@every_way
def test_no_sleep_ends_past_the_deadline(play: Any, measured: Measured) -> None:
    waits = 0

    @settings(max_examples=40)
    @given(
        script=st.lists(
            st.sampled_from([Boom, takes(0.5, Boom), takes(4, Boom), asks(3), asks(12)]),
            min_size=1,
            max_size=8,
        ),
        limit=st.floats(0.01, 40),
        within=st.none() | st.floats(0, 40),
        late=st.sampled_from(["stop", "clip"]),
        wait=st.booleans(),
    )
    @example(script=[Boom], limit=40, within=None, late="stop", wait=False)
    def check(script: list[Any], limit: float, within: float | None, late: str, wait: bool) -> None:
        nonlocal waits
        began: list[tuple[float, float, bool]] = []
        budget = sp.RateBudget(rate=0.5, burst=1, wait=True) if wait else None
        policy = retry(
            attempts=20, backoff=sp.Exponential(0.5, cap=8), within=within, budget=budget, late=late
        )

        class Deadline(contextlib.AbstractContextManager[None]):
            """The ambient deadline, with an eye on the clock that sleeps."""

            def __enter__(self) -> None:
                self.scope = sp.deadline(limit)
                self.scope.__enter__()
                clock: Any = self.scope.clock
                sleep = clock.sleep

                def watched(seconds: float) -> None:
                    left = self.scope.remaining()
                    assert left is not None
                    began.append((seconds, left, left == 0.0))
                    sleep(seconds)

                clock.sleep = watched

            def __exit__(self, *exc: Any) -> None:
                self.scope.__exit__(*exc)

        play(policy, *script, ..., inside=Deadline)
        for seconds, left, over in began:
            waits += 1
            assert seconds <= left + 1e-9
            assert not over or seconds == 0.0

    check()
    assert waits
    measured(f"{waits:,} sleeps ({play.name}), none longer than the time left of the deadline")


class TurnSelector(selectors.DefaultSelector):
    """Counts the turns of a loop on real time."""

    turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        return super().select(timeout)


@pytest.mark.proves("invariant 3")
def test_many_calls_at_once_are_back_within_one_turn(measured: Measured) -> None:
    """The lateness in seconds is the machine's and only reported; that no turn is lost is ours."""
    selector = TurnSelector()
    lateness: list[float] = []
    turns_lost: list[int] = []

    async def one(limit: float) -> None:
        cancelled = 0
        end = 0.0

        async def hangs() -> None:
            nonlocal cancelled, end
            attempt = sp.attempt()
            left = sp.remaining()
            assert left is not None
            end = loop.time() + left
            if attempt is None or attempt.number < 3:
                raise Boom
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled = selector.turns
                raise

        policy = sp.Policy(sp.Deadline(limit), sp.Retry(on=Boom, backoff=sp.Constant(0.001), budget=None))
        with contextlib.suppress(sp.DeadlineExceeded):
            await policy.acall(hangs)
            pytest.fail("it returned")
        lateness.append(loop.time() - end)
        if cancelled:
            turns_lost.append(selector.turns - cancelled)

    async def main() -> None:
        await asyncio.gather(*(one(0.4 + place / 1_000) for place in range(200)))

    loop = asyncio.SelectorEventLoop(selector)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    assert len(lateness) == 200
    assert turns_lost and set(turns_lost) == {0}
    measured(
        f"200 calls at once in real time, {len(turns_lost):,} cut off in an attempt: each back in the turn "
        f"in which the callee gave way, at worst {max(lateness) * 1000:.1f} ms after its deadline"
    )
