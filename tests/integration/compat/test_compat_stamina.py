"""``stormproof.compat.stamina``: beside the real stamina, what it adds, and what it puts right."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import inspect
import random

import pytest

import stormproof as sp
from stormproof.compat import stamina as ours

real = pytest.importorskip("stamina")


class Down(Exception):
    pass


class Fatal(Exception):
    pass


@pytest.fixture(autouse=True)
def quiet():
    for module in (ours, real):
        module.instrumentation.set_on_retry_hooks(())
    yield
    for module in (ours, real):
        module.set_active(True)
        module.set_testing(False)
        module.instrumentation.set_on_retry_hooks(None)


def transcript(module, script, options, way):
    """Everything that can be seen from outside of a call whose attempts end as ``script`` says."""
    random.seed(11)
    events = []
    module.instrumentation.set_on_retry_hooks(
        [lambda d: events.append((d.retry_num, round(d.wait_for, 9), round(d.waited_so_far, 9)))]
    )
    outcomes = iter(script)

    def play():
        outcome = next(outcomes, 7)
        events.append(repr(outcome))
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        return outcome

    def block():
        for attempt in module.retry_context(**options):
            with attempt:
                events.append((attempt.num, attempt.next_wait))
                return play()

    async def async_block():
        async for attempt in module.retry_context(**options):
            with attempt:
                events.append((attempt.num, attempt.next_wait))
                return play()

    async def target():
        return play()

    def generator():
        yield play()

    ways = {
        "sync": module.retry(**options)(play),
        "async": lambda: asyncio.run(module.retry(**options)(target)()),
        "block": block,
        "async block": lambda: asyncio.run(async_block()),
        "generator": lambda: list(module.retry(**options)(generator)()),
        "caller": lambda: module.RetryingCaller(**{k: v for k, v in options.items() if k != "on"})(
            options["on"], play
        ),
    }
    try:
        ending = ways[way]()
    except (Down, Fatal) as error:
        ending = type(error).__name__
    return events, ending


FAST = {"wait_initial": 0.001, "wait_jitter": 0.001, "wait_max": 0.003}
OPTIONS = {
    "default": {},
    "attempts": {"attempts": 2},
    "no attempts": {"attempts": 0},
    "timeout": {"timeout": -1},
    "timedelta": {"wait_initial": dt.timedelta(milliseconds=1), "timeout": dt.timedelta(days=1)},
    "hook": {"on": lambda error: isinstance(error, Down)},
    "hook with a wait": {"on": lambda error: 0.002 if isinstance(error, Down) else False},
    "base": {"wait_exp_base": 3},
}


@pytest.mark.parametrize("way", ["sync", "async", "block", "async block", "generator", "caller"])
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(
    "script", [[7], [Down(), 7], [Down(), Down(), Down(), 7], [Down(), Fatal()]], ids=["0", "1", "3", "fatal"]
)
def test_transcript_is_the_same(script, name, way):
    options = {"on": Down, **FAST, **OPTIONS[name]}
    assert transcript(ours, script, options, way) == transcript(real, script, options, way)


@pytest.mark.parametrize("way", ["sync", "async", "block", "async block", "generator"])
@pytest.mark.parametrize("cap", [False, True])
def test_testing_mode_is_the_same(way, cap):
    for module in (ours, real):
        module.set_testing(True, attempts=3, cap=cap)
    script, options = [Down()] * 5, {"on": Down, "attempts": 2}
    assert transcript(ours, script, options, way) == transcript(real, script, options, way)


def test_public_names_and_parameters_are_the_same():
    assert sorted(ours.__all__) == sorted(real.__all__)
    assert sorted(ours.instrumentation.__all__) == sorted(real.instrumentation.__all__)
    for name in ("retry", "retry_context", "RetryingCaller", "AsyncRetryingCaller", "set_testing"):
        theirs = inspect.signature(getattr(real, name)).parameters
        mine = inspect.signature(getattr(ours, name)).parameters
        assert [*theirs] == [p for p in mine if p != "budget"]
        assert all(theirs[p].default == mine[p].default and theirs[p].kind == mine[p].kind for p in theirs)


@pytest.mark.parametrize("way", ["sync", "async", "generator"])
def test_budget_bounds_the_attempts(way):
    budget = sp.Budget(ratio=0.1, burst=5)
    calls = []

    def play():
        calls.append(1)
        raise Down

    async def target():
        play()

    def generator():
        yield play()

    target, run = {
        "sync": (play, lambda: wrapped() and None),
        "async": (target, lambda: asyncio.run(wrapped())),
        "generator": (generator, lambda: list(wrapped())),
    }[way]
    wrapped = ours.retry(on=Down, attempts=4, wait_max=0, budget=budget)(target)
    for _ in range(50):
        with pytest.raises(Down):
            run()
    assert len(calls) == 55


def test_context_managers_of_hooks_are_left_when_the_wait_is_cancelled():
    seen = []

    @contextlib.contextmanager
    def waiting(details):
        seen.append("enter")
        try:
            yield
        finally:
            seen.append("exit")

    ours.instrumentation.set_on_retry_hooks([waiting])

    @ours.retry(on=Down, wait_initial=60, wait_max=60)
    async def fail():
        raise Down

    async def main():
        task = asyncio.ensure_future(fail())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["enter", "exit"]


def test_context_managers_of_hooks_are_entered_and_left_once_per_retry():
    seen = []

    @contextlib.contextmanager
    def waiting(details):
        seen.append(f"enter {details.retry_num}")
        yield
        seen.append(f"exit {details.retry_num}")

    ours.instrumentation.set_on_retry_hooks([waiting])
    with pytest.raises(Down):
        for attempt in ours.retry_context(on=Down, attempts=3, wait_max=0):
            with attempt:
                raise Down
    assert seen == ["enter 1", "exit 1", "enter 2", "exit 2"]


def test_interrupt_is_not_retried_by_a_hook():
    calls = []

    @ours.retry(on=lambda error: True, wait_max=0)
    def work():
        calls.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(calls) == 1


def test_waits_are_free_inside_instant():
    calls = []

    @ours.retry(on=Down, timeout=None, wait_initial=60, wait_max=600, wait_jitter=0)
    def work():
        calls.append(1)
        if len(calls) < 3:
            raise Down
        return "up"

    with sp.testing.instant() as clock:
        assert work() == "up"
    assert clock.sleeps == [60, 120]


def test_async_generator_is_closed_before_it_is_started_again():
    seen = []

    @ours.retry(on=Down, wait_max=0)
    async def items():
        seen.append("open")
        try:
            yield 1
            if len(seen) < 2:
                raise Down
        finally:
            seen.append("close")

    async def main():
        return [item async for item in items()]

    assert asyncio.run(main()) == [1, 1]
    assert seen == ["open", "close", "open", "close"]
