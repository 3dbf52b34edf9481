"""Exceptions that fight back: no text, no attributes, no truth, no end of causes, or many in one.

The one that was raised must come out, whatever it is like, after the attempts it was due.
"""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Bang, Boom, BudgetSpy, does, every_way, retry

import stormproof as sp

pytestmark = [pytest.mark.usefixtures("watchdog"), pytest.mark.proves("fault odd-exceptions")]


class NoText(Boom):
    """Neither str() nor repr() works."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class NoAttributes(Boom):
    """Takes no attribute, and so no note and no mark."""

    def __setattr__(self, name, value):
        raise AttributeError(name)


class Slots(Boom):
    __slots__ = ("only",)


class NoReading(Boom):
    """Reading an attribute that it does not have is a bug of its own."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


class FrozenNotes(Boom):
    __notes__ = ("cannot be appended to",)


class OddNotes(Boom):
    def __init__(self, *args):
        super().__init__(*args)
        self.__notes__ = [1, None, object()]


class Falsy(Boom):
    def __bool__(self):
        return False


class Empty(Boom):
    def __len__(self):
        return 0


class NoTruth(Boom):
    def __bool__(self):
        raise RuntimeError("neither true nor false")


class EqualToAll(Boom):
    def __eq__(self, other):
        return True

    def __hash__(self):
        raise RuntimeError("no hash")


class NoEquality(Boom):
    def __eq__(self, other):
        raise RuntimeError("incomparable")

    __hash__ = None


class OddModule(Boom):
    __module__ = 5


class NoNotes(Boom):
    def add_note(self, note):
        raise RuntimeError("no note")


class OwnCause(Boom):
    """Its causes never end."""

    def __init__(self, *args):
        super().__init__(*args)
        self.__cause__ = self


class CircleOfCauses(Boom):
    def __init__(self, *args):
        super().__init__(*args)
        other = Boom("other")
        self.__context__, other.__cause__ = other, self


ODD = [
    OwnCause, CircleOfCauses,
    NoText, NoAttributes, Slots, NoReading, FrozenNotes, OddNotes, NoNotes, OddModule,
    Falsy, Empty, NoTruth, EqualToAll, NoEquality,
]  # fmt: skip
each_odd = pytest.mark.parametrize("kind", ODD)


def settle(way, policy, fn):
    """Return the error of ``fn()``. Caught inside the loop: asyncio.run itself needs an error's repr."""
    caught = []

    async def body():
        fn()

    async def in_task():
        try:
            await policy(body)()
        except Exception as error:
            caught.append(error)

    async def in_async_block():
        try:
            async for attempt in policy.retrying():
                async with attempt:
                    fn()
        except Exception as error:
            caught.append(error)

    with sp.testing.instant():
        if way in ("asyncio", "trio"):
            Loop(way).run(in_task)
        elif way == "async block":
            Loop("asyncio").run(in_async_block)
        else:
            try:
                policy(fn)()
            except Exception as error:
                caught.append(error)
    (error,) = caught
    return error


def raises(*errors):
    """A function that raises ``errors`` in turn; its ``calls`` are counted, a call too many fails."""
    left = list(errors)

    def call():
        call.calls += 1
        raise left.pop(0)

    call.calls = 0
    return call


each_use = pytest.mark.parametrize("way", ["sync", "asyncio", "trio", "async block"])
each_rule = pytest.mark.parametrize(
    "on",
    [Boom, sp.transient, lambda error: type(error) is not Bang and isinstance(error, Boom)],
    ids=["type", "transient", "callable"],
)
each_mark = pytest.mark.parametrize(
    "wrap", [sp.Permanent, lambda error: sp.RetryAfter(1, error)], ids=["Permanent", "RetryAfter"]
)


@each_use
@each_odd
@each_rule
def test_odd_exception_is_retried_and_raised(way, kind, on, caplog):
    caplog.set_level(logging.DEBUG)
    events = []
    stop = sp.subscribe(events.append)
    errors = [kind(), kind(), kind()]
    call = raises(*errors)
    error = settle(way, retry(on=on, attempts=3), call)
    stop()
    assert error is errors[-1]
    assert call.calls == 3
    assert [type(event).__name__ for event in events] == ["Retrying", "Retrying", "GaveUp"]
    assert isinstance(events[-1].error, str)


@each_use
@each_odd
def test_odd_exception_that_is_fatal_is_raised_unchanged(way, kind):
    error = kind("text")
    assert settle(way, retry(on=LookupError), raises(error)) is error


@each_use
@each_odd
@each_mark
def test_odd_exception_inside_a_mark_is_raised_unchanged(way, kind, wrap):
    error = kind()
    assert settle(way, retry(attempts=2), raises(wrap(error), wrap(error))) is error


@each_use
@each_odd
@pytest.mark.parametrize(
    "options", [{"within": 0.5}, {"budget": BudgetSpy(allow=0)}], ids=["within", "budget"]
)
def test_odd_exception_is_the_cause_of_a_refusal(way, kind, options):
    error = kind()
    assert settle(way, retry(**options), raises(error)) is error
    error = kind()
    refusal = settle(way, retry(raises="refusal", **options), raises(error))
    assert isinstance(refusal, sp.StormproofError)
    assert refusal.__cause__ is error


@each_loop
@each_odd
def test_odd_exception_is_the_cause_of_deadline_exceeded(loop, kind):
    error = kind()
    calls = 0

    @sp.Policy(sp.Deadline(5), sp.Retry(on=Boom, backoff=sp.Constant(1), budget=None))
    async def call():
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error
        await loop.sleep(60)

    async def scenario():
        with pytest.raises(sp.DeadlineExceeded) as caught:
            await call()
        assert caught.value.__cause__ is error

    loop.run(scenario)


# Groups


def group(*errors):
    return ExceptionGroup("several", errors)


RETRIED = {
    "flat": lambda: group(Boom(), Boom()),
    "nested": lambda: group(Boom(), group(Boom(), group(Boom()))),
    "deep": lambda: deep(500),
    "wide": lambda: group(*[Boom()] * 1000),
}
FINAL = {
    "mixed": lambda: group(Boom(), Bang()),
    "nested mixed": lambda: group(Boom(), group(Boom(), Bang())),
    "with a refusal": lambda: group(Boom(), sp.DeadlineExceeded("over")),
    "with a permanent one": lambda: group(Boom(), sp.Permanent(Boom())),
}


def deep(levels):
    error = Boom()
    for _ in range(levels):
        error = group(error)
    return error


@each_use
@pytest.mark.parametrize("shape", RETRIED)
@each_rule
def test_group_is_retried_if_every_leaf_is(way, shape, on):
    error = RETRIED[shape]()
    call = raises(error, error, error)
    assert settle(way, retry(on=on, attempts=3), call) is error
    assert call.calls == 3


@each_use
@pytest.mark.parametrize("shape", FINAL)
@each_rule
def test_one_final_leaf_makes_a_group_final(way, shape, on):
    error = FINAL[shape]()
    assert settle(way, retry(on=on), raises(error)) is error


@each_use
@pytest.mark.parametrize("shape", ["with a refusal", "with a permanent one"])
@pytest.mark.parametrize("on", [Exception, lambda error: True], ids=["Exception", "any"])
def test_final_leaves_stay_final_when_everything_is_retried(way, shape, on):
    """The rule matches the group itself, but its leaves decide."""
    error = FINAL[shape]()
    assert settle(way, retry(on=on), raises(error)) is error


@every_way
@pytest.mark.parametrize("leaf", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("on", [Exception, BaseException, lambda error: True], ids=["Exc", "BaseExc", "any"])
def test_group_with_an_interrupt_is_an_interrupt(play, leaf, on):
    def call():
        raise BaseExceptionGroup("several", [Boom(), leaf()])

    with pytest.raises(BaseExceptionGroup) as caught:
        play(retry(on=on), does(call))
    assert isinstance(caught.value.exceptions[1], leaf)


@every_way
def test_longest_hint_of_a_group_counts(play):
    error = group(sp.RetryAfter(5, Boom()), sp.RetryAfter(9, Boom()), Boom())
    for on in (Boom, sp.transient, lambda error: isinstance(error, Boom)):
        play(retry(on=on, rng=lambda: 0.0), error, "ok").returned("ok").slept(9)


def test_task_groups_error_is_retried():
    calls = 0

    async def one():
        nonlocal calls
        calls += 1
        raise Boom

    @retry(attempts=3)
    async def call():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one())
            tasks.create_task(one())

    with sp.testing.instant(), pytest.raises(ExceptionGroup):
        asyncio.run(call())
    assert calls >= 3


# Errors of Python's own that are easily mistaken for something else.


@every_way
@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration])
def test_stop_iteration_is_an_error_like_any_other(play, kind):
    """As far as Python lets it out: a coroutine or generator turns it into RuntimeError by itself."""
    played = play(retry(on=(kind, RuntimeError), attempts=3), kind, ...).made(3)
    assert played.error is played.last or played.error.__cause__ is played.last


def test_recursion_error_is_retried():
    calls = 0

    def endless():
        endless()

    def call():
        nonlocal calls
        calls += 1
        endless()

    with sp.testing.instant(), pytest.raises(RecursionError):
        retry(on=RecursionError, attempts=3).call(call)
    assert calls == 3


def test_memory_error_is_retried():
    errors = [MemoryError(), MemoryError()]
    call = raises(*errors)
    assert settle("sync", retry(on=MemoryError, attempts=2), call) is errors[-1]
    assert call.calls == 2
