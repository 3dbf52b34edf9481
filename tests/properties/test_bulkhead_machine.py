"""A bulkhead against a simple model: a limit inside, a limit in line, first come first served.

Every caller is a task in an event loop of virtual time, so each step is exact.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import stormproof as sp
from stormproof._runtime.virtual_loop import VirtualLoop


class BulkheadMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.inside: list[int] = []
        self.line: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[str]] = {}
        self.entered: list[int] = []
        self.expected: list[int] = []

    @initialize(limit=st.integers(1, 3), queue=st.integers(0, 3))
    def make(self, limit: int, queue: int) -> None:
        self.bulkhead = sp.Bulkhead(limit, queue=queue)
        self.policy = sp.Policy(self.bulkhead)

    def settle(self) -> None:
        async def idle() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        self.loop.run_until_complete(idle())

    def move_up(self) -> None:
        while self.line and len(self.inside) < self.bulkhead.limit:
            self.inside.append(self.line.pop(0))
            self.expected.append(self.inside[-1])

    @rule()
    def arrive(self) -> None:
        number = len(self.tasks)
        gate = self.gates[number] = asyncio.Event()

        async def work() -> str:
            self.entered.append(number)
            await gate.wait()
            return "done"

        async def caller() -> str:
            try:
                return await self.policy.acall(work)
            except sp.BulkheadFull:
                return "full"

        self.tasks[number] = self.loop.create_task(caller())
        self.settle()
        if len(self.inside) < self.bulkhead.limit:
            self.inside.append(number)
            self.expected.append(number)
        elif len(self.line) < self.bulkhead.queue:
            self.line.append(number)
        else:
            assert self.tasks[number].result() == "full"

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        number = data.draw(st.sampled_from(self.inside))
        self.gates[number].set()
        self.settle()
        assert self.tasks[number].result() == "done"
        self.inside.remove(number)
        self.move_up()

    @precondition(lambda self: self.inside or self.line)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        number = data.draw(st.sampled_from(self.inside + self.line))
        self.tasks[number].cancel()
        self.settle()
        assert self.tasks[number].cancelled()
        (self.inside if number in self.inside else self.line).remove(number)
        self.move_up()

    @invariant()
    def it_agrees_with_the_model(self) -> None:
        if hasattr(self, "bulkhead"):
            assert (self.bulkhead.in_use, self.bulkhead.queued) == (len(self.inside), len(self.line))
            assert self.entered == self.expected

    def teardown(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        self.settle()
        if hasattr(self, "bulkhead"):
            assert (self.bulkhead.in_use, self.bulkhead.queued) == (0, 0)
        self.loop.close()


BulkheadMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestBulkheadMachine = pytest.mark.proves("invariant 14")(BulkheadMachine.TestCase)
