"""Scopes in generators that were advanced in turn left a dead one behind.

And what was started in a scope stayed bound after the scope was left in success.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import stormproof as sp
from stormproof._context.deadlines import ambient


def inside(make: Callable[[], Any]) -> Iterator[None]:
    with make():
        yield


@pytest.mark.parametrize("how", ["ended", "closed"])
@pytest.mark.parametrize("make", [lambda: sp.deadline(5), sp.disabled], ids=["deadline", "disabled"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first in, first out", "last in, first out"])
def test_interleaved_generators_leave_nothing_behind(
    make: Callable[[], Any], order: tuple[int, int], how: str
) -> None:
    both = [inside(make), inside(make)]
    for items in both:
        next(items)
    for place in order:
        if how == "closed":
            both[place].close()  # type: ignore[attr-defined]
        else:
            assert list(both[place]) == []
    assert ambient() is None and sp.remaining() is None


def test_nearest_scope_still_entered_is_in_force() -> None:
    clock = sp.testing.FakeClock()
    with sp.deadline(10, clock=clock):
        first = inside(lambda: sp.deadline(1, clock=clock))
        second = inside(lambda: sp.deadline(5, clock=clock))
        next(first)
        next(second)
        assert sp.remaining() == 1
        list(first)
        assert sp.remaining() == 5
        list(second)
        assert sp.remaining() == 10


@pytest.mark.parametrize("kind", ["block", "policy"])
def test_work_started_in_a_scope_is_unbounded_after_its_success(kind: str) -> None:
    clock = sp.testing.FakeClock()
    kept: list[contextvars.Context] = []

    def start() -> None:
        kept.append(contextvars.copy_context())

    if kind == "block":
        with sp.deadline(2, clock=clock):
            start()
    else:
        sp.Policy(sp.Deadline(2), clock=clock)(start)()
    clock.advance(3)
    assert kept[0].run(sp.remaining) is None
    assert kept[0].run(sp.retry(on=OSError).call, lambda: "ok") == "ok"


def test_task_started_inside_a_deadline_outlives_the_deadline() -> None:
    async def main(clock: sp.testing.VirtualClock) -> str:
        async def refresh() -> str:
            await asyncio.sleep(5)
            return await sp.retry(on=OSError).acall(answer)

        async def answer() -> str:
            return "fresh"

        @sp.Policy(sp.Deadline(2))
        async def begin() -> asyncio.Task[str]:
            task = asyncio.ensure_future(refresh())
            await asyncio.sleep(0)
            return task

        return await (await begin())

    assert sp.testing.run(main) == "fresh"


def test_scope_left_by_an_error_still_bounds_work_inside() -> None:
    clock = sp.testing.FakeClock()
    with pytest.raises(KeyError), sp.deadline(2, clock=clock):
        kept = contextvars.copy_context()
        raise KeyError
    assert kept.run(sp.remaining) == 2
    clock.advance(2)
    with pytest.raises(sp.DeadlineExceeded):
        kept.run(sp.retry(on=OSError).call, lambda: "ok")


def test_scope_may_be_entered_again_after_it_was_left() -> None:
    clock = sp.testing.FakeClock()
    scope = sp.deadline(2, clock=clock)
    for _ in range(2):
        with scope:
            assert sp.remaining() == 2
            with pytest.raises(RuntimeError, match="already entered"):
                scope.__enter__()
            clock.advance(1)
