"""The bulkhead: a limit of calls at once, a limit in the queue, the rest refused."""

from __future__ import annotations

import asyncio
import pickle
import threading
import types
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop, watchdog
from tests.support.scripted import Boom, Play, does, each_way

import stormproof as sp
from stormproof._drivers.waiter import Waiter

__all__ = ["watchdog"]


@each_way
def test_place_is_taken_inside_and_free_after(play: Play) -> None:
    bulkhead = sp.Bulkhead(2)
    policy = sp.Policy(bulkhead)
    play(policy, does(lambda: bulkhead.in_use)).returned(1)
    assert bulkhead.in_use == 0
    play(policy, Boom).raised_the_last_error()
    assert bulkhead.in_use == 0


@each_loop
def test_more_than_the_limit_are_refused_at_once(loop: Loop) -> None:
    bulkhead = sp.Bulkhead(2, name="db")

    @sp.Policy(bulkhead)
    async def call() -> float:
        await loop.sleep(1)
        return loop.time()

    outcomes = loop.run(loop.together, call, call, call)
    assert sorted(str(type(o).__name__) for o in outcomes) == ["BulkheadFull", "float", "float"]
    assert [o for o in outcomes if isinstance(o, float)] == [1, 1]
    assert "db" in str(next(o for o in outcomes if isinstance(o, sp.BulkheadFull)))
    assert bulkhead.in_use == 0


@each_loop
def test_queue_is_served_first_come_first_served(loop: Loop) -> None:
    bulkhead = sp.Bulkhead(1, queue=3)
    order: list[int] = []

    @sp.Policy(bulkhead)
    async def call(number: int) -> None:
        order.append(number)
        await loop.sleep(1)

    async def main() -> list[Any]:
        async def late() -> None:
            # Comes just when the second has its place; two are before it.
            await loop.sleep(1.5)
            await call(9)

        return await loop.together(*(lambda n=n: call(n) for n in range(5)), late)

    outcomes = loop.run(main)
    full = [o for o in outcomes if isinstance(o, sp.BulkheadFull)]
    assert len(full) == 1
    served = [n for n in range(5) if outcomes[n] is None]
    # trio starts tasks in no particular order; asyncio in the order given.
    assert sorted(order) == [*served, 9]
    assert order[-1] == 9
    if loop.name == "asyncio":
        assert order == [0, 1, 2, 3, 9]


@each_loop
def test_wait_in_the_queue_is_bounded(loop: Loop) -> None:
    bulkhead = sp.Bulkhead(1, queue=5, max_wait=2)

    @sp.Policy(bulkhead)
    async def call(seconds: float) -> None:
        await loop.sleep(seconds)

    async def main() -> list[Any]:
        async def second() -> float:
            await loop.sleep(0.5)
            with pytest.raises(sp.BulkheadFull):
                await call(1)
            return loop.time()

        async def third() -> float:
            await loop.sleep(9)
            await call(1)
            return loop.time()

        return await loop.together(lambda: call(10), second, third)

    assert loop.run(main) == [None, 2.5, 11]
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)


def test_deadline_bounds_the_wait_for_a_place() -> None:
    bulkhead = sp.Bulkhead(1, queue=5)
    policy = sp.Policy(bulkhead)

    async def main(clock: Any) -> None:
        holder = asyncio.ensure_future(policy.acall(asyncio.sleep, 10))
        await asyncio.sleep(0.5)
        with pytest.raises(sp.DeadlineExceeded):
            with sp.deadline(2):
                await policy.acall(asyncio.sleep, 1)
        assert clock.now() == 2.5
        assert (bulkhead.in_use, bulkhead.queued) == (1, 0)
        await holder

    sp.testing.run(main)


@pytest.mark.usefixtures("watchdog")
def test_bulkhead_admits_threads_in_the_order_of_their_arrival() -> None:
    bulkhead = sp.Bulkhead(1, queue=8)
    order: list[int] = []
    go_on = threading.Event()

    @sp.Policy(bulkhead)
    def call(number: int) -> None:
        order.append(number)
        assert go_on.wait(10)

    threads = []
    for number in range(6):
        threads.append(threading.Thread(target=call, args=(number,), daemon=True))
        threads[-1].start()
        while bulkhead.in_use + bulkhead.queued <= number:
            pass
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert order == list(range(6))
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)


@pytest.mark.usefixtures("watchdog")
def test_cancelled_scope_ends_a_threads_wait() -> None:
    bulkhead = sp.Bulkhead(1, queue=1)
    policy = sp.Policy(bulkhead)
    inside, go_on = threading.Event(), threading.Event()
    holder = threading.Thread(target=policy.call, args=(lambda: (inside.set(), go_on.wait(10)),), daemon=True)
    holder.start()
    assert inside.wait(10)
    with sp.deadline(100) as scope:

        def cancel() -> None:
            while not bulkhead.queued:
                pass
            scope.cancel()

        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(sp.Cancelled):
            policy.call(lambda: None)
    assert bulkhead.queued == 0
    go_on.set()
    holder.join(10)
    assert bulkhead.in_use == 0


def test_refusal_is_final_for_retry() -> None:
    bulkhead = sp.Bulkhead(1)
    calls = []
    policy = sp.Policy(sp.Retry(on=sp.transient, attempts=5, budget=None), bulkhead)

    def nested() -> None:
        calls.append(1)
        policy.call(nested)

    with sp.testing.instant() as clock, pytest.raises(sp.BulkheadFull):
        policy.call(nested)
    assert calls == [1]
    assert clock.sleeps == []


def test_ten_are_inside_together() -> None:
    meeting = threading.Barrier(10)
    call = sp.Policy(sp.Bulkhead(10))(lambda: meeting.wait(10))
    threads = [threading.Thread(target=call, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not meeting.broken


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": 2.5}, "limit"),
        ({"limit": None}, "limit"),
        ({"limit": 1, "queue": -1}, "queue"),
        ({"limit": 1, "queue": 1, "max_wait": -1}, "max_wait"),
        ({"limit": 1, "queue": 1, "max_wait": float("nan")}, "max_wait"),
        ({"limit": 1, "max_wait": 1}, "max_wait"),
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"Bulkhead.*{field}"):
        sp.Bulkhead(**options)


def test_copy_of_a_bulkhead_has_no_place_in_use() -> None:
    bulkhead = sp.Bulkhead(1, queue=2, max_wait=3, name="b")

    def look() -> tuple[Any, ...]:
        again = pickle.loads(pickle.dumps(bulkhead))
        return bulkhead.in_use, bulkhead.fresh().in_use, again.in_use, repr(again)

    assert sp.Policy(bulkhead).call(look) == (1, 0, 0, repr(bulkhead))
    assert eval(repr(bulkhead), {"Bulkhead": sp.Bulkhead}) != bulkhead
    assert bulkhead.describe()["in_use"] == 0


def test_cancelled_task_keeps_no_place() -> None:
    bulkhead = sp.Bulkhead(1, queue=1)
    policy = sp.Policy(bulkhead)

    async def main(clock: Any) -> None:
        holder = asyncio.ensure_future(policy.acall(asyncio.sleep, 10))
        await asyncio.sleep(0)
        waiter = asyncio.ensure_future(policy.acall(asyncio.sleep, 10))
        await asyncio.sleep(1)
        assert (bulkhead.in_use, bulkhead.queued) == (1, 1)
        waiter.cancel()
        await asyncio.wait([waiter])
        assert (bulkhead.in_use, bulkhead.queued) == (1, 0)
        holder.cancel()
        await asyncio.wait([holder])
        assert (bulkhead.in_use, bulkhead.queued) == (0, 0)

    sp.testing.run(main)


# The queue itself.


@each_loop
def test_place_handed_over_before_the_wait_begins_is_not_waited_for(loop: Loop) -> None:
    async def main() -> tuple[bool, float]:
        waiter = Waiter()
        waiter.grant()
        return await waiter.wait_async(10), loop.time()

    assert loop.run(main) == (True, 0)


@each_loop
def test_grant_after_the_loop_has_ended_is_harmless(loop: Loop) -> None:
    waiter = Waiter()
    assert loop.run(waiter.wait_async, 1) is False
    waiter.grant()
    assert waiter.granted


def test_place_taken_by_a_race_is_queued_for_or_refused() -> None:
    """The success path takes no lock: the second caller queues, or is refused."""

    class Taken(list[None]):
        def __bool__(self) -> bool:
            found = len(self) > 0
            self.clear()
            return found

    bulkhead = sp.Bulkhead(1)
    object.__setattr__(bulkhead, "_permits", Taken([None]))
    with pytest.raises(sp.BulkheadFull):
        bulkhead._enqueue()
    assert bulkhead.queued == 0
    bulkhead = sp.Bulkhead(1, queue=1)
    object.__setattr__(bulkhead, "_permits", Taken([None]))
    assert bulkhead._enqueue() is not None
    assert bulkhead.queued == 1


@pytest.mark.parametrize(
    "strategy", [sp.Bulkhead(1, queue=1), sp.Hedge(1, idempotent=True)], ids=["queue", "race"]
)
def test_unknown_event_loop_is_refused(strategy: Any) -> None:
    @sp.Policy(strategy)
    async def call() -> None:
        await held()

    @types.coroutine
    def held() -> Any:
        yield

    first, second = call(), call()
    with pytest.raises(RuntimeError, match="an async policy runs under asyncio or trio"):
        for asked in (first, second):
            asked.send(None)
    first.close()
    second.close()
