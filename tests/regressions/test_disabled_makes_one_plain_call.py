"""Elsewhere the switch that turns retrying off left it on in part: calls were still made again.

Stormproof: inside ``disabled()`` a policy is one plain call of the function, whatever its strategies are.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import ALL_WAYS, Boom, BudgetSpy, each_way, every_way, retry

import stormproof as sp


@every_way
def test_disabled_policy_does_not_retry(play):
    budget = BudgetSpy()
    played = play(retry(budget=budget), Boom, inside=sp.disabled).raised_the_last_error().made(1)
    assert played.sleeps == [] and played.events == []
    assert budget.calls == []
    assert not hasattr(played.error, "__notes__")


@every_way
def test_disabled_policy_refuses_no_result_and_runs_no_hook(play):
    hook = []
    policy = retry(on_result=lambda value: True, before_attempt=hook.append)
    play(policy, "as it is", inside=sp.disabled).returned("as it is")
    assert hook == []


@each_way
@pytest.mark.parametrize(
    "strategies",
    [[sp.Deadline(0)], [sp.Deadline(0), sp.Retry(on=Boom)], [sp.Retry(on=Boom), sp.Deadline(0)]],
    ids=["deadline", "deadline, retry", "retry, deadline"],
)
@pytest.mark.filterwarnings("ignore:Policy")  # a Deadline inside Retry is rarely meant
def test_disabled_strategies_refuse_nothing(play, strategies):
    play(sp.Policy(*strategies), "ok", inside=sp.disabled).returned("ok")


@every_way
def test_disabled_reaches_through_a_deadline(play):
    def inside():
        from contextlib import ExitStack

        stack = ExitStack()
        stack.enter_context(sp.disabled())
        stack.enter_context(sp.deadline(0))
        return stack

    play(retry(), Boom, inside=inside).raised_the_last_error().made(1)


@pytest.mark.parametrize("play", ALL_WAYS, ids=lambda play: play.name)
def test_disabled_ends_with_its_block(play):
    policy = retry()
    with sp.disabled():
        pass
    play(policy, Boom, "ok").returned("ok").made(2)


@each_loop
def test_disabled_streams_are_opened_once(loop):
    opened = 0

    @retry()
    async def items():
        nonlocal opened
        opened += 1
        raise Boom
        yield

    async def scenario():
        with sp.disabled(), pytest.raises(Boom):
            async for _ in items():
                pass

    loop.run(scenario)
    assert opened == 1


@each_loop
def test_disabled_applies_only_to_its_own_task(loop):
    calls = {"off": 0, "on": 0}

    @retry()
    async def call(who):
        calls[who] += 1
        raise Boom

    async def off():
        with sp.disabled():
            await loop.sleep(1)
            await call("off")

    async def scenario():
        await loop.together(off, lambda: call("on"))

    loop.run(scenario)
    assert calls == {"off": 1, "on": 4}
