"""Work under trio that is cancelled only where it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from stormproof._runtime.shielded_close import await_cancel_at_suspension_in_trio

Work = Callable[[], Awaitable[Any]]


async def guard(work: Work, seen: list[BaseException] | None = None) -> Any:
    return await await_cancel_at_suspension_in_trio(trio, work(), ([] if seen is None else seen).append)


def test_checkpoints_pass_after_a_cancellation_and_the_next_wait_raises_it() -> None:
    async def main() -> None:
        steps: list[str] = []
        seen: list[BaseException] = []

        async def work() -> None:
            scope.cancel()
            await trio.lowlevel.checkpoint()
            steps.append("checkpoint")
            async with trio.Lock():
                steps.append("lock")
            await trio.sleep_forever()
            steps.append("never")

        with trio.CancelScope() as scope:
            await trio.lowlevel.checkpoint()
            await guard(work, seen)
        assert scope.cancelled_caught
        assert steps == ["checkpoint", "lock"]
        assert [type(error) for error in seen] == [trio.Cancelled]

    trio.run(main)


def test_work_that_ends_without_a_wait_returns_its_value_though_cancelled() -> None:
    async def main() -> None:
        async def work() -> str:
            scope.cancel()
            await trio.lowlevel.checkpoint()
            return "value"

        with trio.CancelScope() as scope:
            assert await guard(work) == "value"
        assert not scope.cancelled_caught

    trio.run(main)


def test_work_that_begins_cancelled_ends_at_its_first_checkpoint() -> None:
    async def main() -> None:
        steps: list[str] = []

        async def work() -> None:
            await trio.lowlevel.checkpoint()
            steps.append("never")

        with trio.CancelScope() as scope:
            scope.cancel()
            await guard(work)
        assert scope.cancelled_caught and steps == []

    trio.run(main)


def test_error_of_work_is_raised() -> None:
    async def work() -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("own")

    with pytest.raises(LookupError, match="own"):
        trio.run(guard, work)


@pytest.mark.parametrize("children", [0, 1])
def test_nursery_inside_hands_the_cancellation_on(children: int) -> None:
    async def main() -> None:
        steps: list[str] = []

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(children):
                    nursery.start_soon(trio.sleep_forever)
                if not children:
                    await trio.sleep_forever()
            steps.append("never")

        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def guarded() -> None:
                with scope:
                    await guard(work)

            nursery.start_soon(guarded)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        assert scope.cancelled_caught and steps == []

    trio.run(main)


def test_checkpoints_pass_after_a_nursery_inside_that_cancelled_itself() -> None:
    async def main() -> None:
        async def work() -> str:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.cancel_scope.cancel()
            await trio.lowlevel.checkpoint()
            scope.cancel()
            await trio.lowlevel.checkpoint()
            return "value"

        with trio.CancelScope() as scope:
            assert await guard(work) == "value"

    trio.run(main)


def test_scope_inside_that_is_over_too_hands_the_cancellation_on() -> None:
    """As on a busy machine, where a client's own timeout is over by the time that ours is noticed."""
    clock = trio.testing.MockClock()

    async def main() -> None:
        steps: list[str] = []

        async def work() -> None:
            with trio.move_on_after(1.5):
                await trio.sleep_forever()
            steps.append("never")

        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope(deadline=trio.current_time() + 1)

            async def guarded() -> None:
                with scope:
                    await guard(work)

            nursery.start_soon(guarded)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(2)
        assert scope.cancelled_caught and steps == []

    trio.run(main, clock=clock)


def test_inner_scope_that_expires_ends_alone() -> None:
    async def main() -> None:
        async def work() -> str:
            with trio.move_on_after(1) as inner:
                await trio.sleep_forever()
            assert inner.cancelled_caught
            return "value"

        with trio.move_on_after(5):
            assert await guard(work) == "value"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
