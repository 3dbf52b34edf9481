"""A callee that follows a script, played under a policy in every way a policy can be used.

``play(policy, Boom, Boom, "ok")`` calls a function that fails twice and then returns ``"ok"``, in
virtual time, and gives a `Played`: what came out, how many calls were made, the waits, the events.

An outcome of the script is an exception (an object or a type: raised), an `asks` (a hint), a `takes`
(time passes first), a `does` (code that runs in the attempt), or anything else (returned). ``...`` at the end
repeats the outcome before it for ever. A call beyond the end of the script fails the test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import trio

import stormproof as sp


class Boom(ConnectionError):
    """The failure that passes. A subclass, so that it can be weakly referenced."""


class Bang(Exception):
    """The failure that nothing recognises."""


class takes:
    """``takes(2, Boom)``: two seconds pass in the attempt, then it fails."""

    def __init__(self, seconds: float, outcome: Any) -> None:
        self.seconds = seconds
        self.outcome = outcome


class asks:
    """``asks(5)``: the attempt fails with a new `Boom` and asks for a wait of 5 seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"asks({self.seconds})"


class does:
    """``does(fn)``: the attempt calls ``fn()`` and returns what it gives."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self.fn = fn


class Script:
    """The callee's side: plays one outcome per call and counts the calls."""

    def __init__(self, outcomes: tuple[Any, ...], clock: sp.testing.FakeClock) -> None:
        self.repeats = bool(outcomes) and outcomes[-1] is ...
        self.outcomes = outcomes[:-1] if self.repeats else outcomes
        self.clock = clock
        self.calls = 0
        self.raised: list[BaseException] = []
        self.times: list[float] = []

    def step(self) -> Any:
        self.calls += 1
        self.times.append(self.clock.now())
        place = min(self.calls, len(self.outcomes)) - 1 if self.repeats else self.calls - 1
        if place >= len(self.outcomes):
            # A BaseException: no policy may mistake it for a failure of the callee.
            raise pytest.fail.Exception(
                f"call {self.calls}, but the script has {len(self.outcomes)} outcomes"
            )
        return self._perform(self.outcomes[place])

    def _perform(self, outcome: Any) -> Any:
        if isinstance(outcome, takes):
            self.clock.advance(outcome.seconds)
            return self._perform(outcome.outcome)
        if isinstance(outcome, does):
            return outcome.fn()
        if isinstance(outcome, asks):
            self.raised.append(Boom(f"call {self.calls}"))
            raise sp.RetryAfter(outcome.seconds, self.raised[-1])
        if isinstance(outcome, type) and issubclass(outcome, BaseException):
            outcome = outcome(f"call {self.calls}")
        if isinstance(outcome, BaseException):
            self.raised.append(outcome)
            raise outcome
        return outcome


class Played:
    """The outcome of a played call."""

    def __init__(self, script: Script, started: float) -> None:
        self.script = script
        self.started = started
        self.value: Any = None
        self.error: BaseException | None = None
        self.events: list[Any] = []

    @property
    def calls(self) -> int:
        return self.script.calls

    @property
    def sleeps(self) -> list[float]:
        return self.script.clock.sleeps

    @property
    def times(self) -> list[float]:
        """Return the start of each attempt, counted from the start of the call."""
        return [at - self.started for at in self.script.times]

    @property
    def last(self) -> BaseException:
        """The last exception that the callee raised."""
        return self.script.raised[-1]

    @property
    def notes(self) -> list[str]:
        assert self.error is not None, "it succeeded"
        return getattr(self.error, "__notes__", [])

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    # Saying what was expected, one after the other.

    def returned(self, value: Any) -> Played:
        if self.error is not None:
            raise self.error
        assert self.value == value
        return self

    def raised(self, kind: type[BaseException]) -> Played:
        assert self.error is not None, f"it returned {self.value!r}"
        assert type(self.error) is kind, f"it raised {self.error!r}"
        return self

    def raised_the_last_error(self) -> Played:
        assert self.error is self.last, f"it raised {self.error!r}"
        return self

    def stopped_for(self, reason: str) -> Played:
        """It raised the failure of its last attempt, and `stopped` gives this reason."""
        self.raised_the_last_error()
        why = sp.stopped(self.error)
        assert why is not None and (why.reason, why.attempts) == (reason, self.calls), f"stopped: {why!r}"
        return self

    def caused_by_the_last_error(self) -> Played:
        assert self.error is not None
        assert self.error.__cause__ is self.last
        return self

    def made(self, calls: int) -> Played:
        assert self.calls == calls
        return self

    def slept(self, *waits: float) -> Played:
        assert self.sleeps == pytest.approx(list(waits), rel=1e-6, abs=1e-6)
        return self


Runner = Callable[[sp.Policy, Script], Any]


def _sync(policy: sp.Policy, script: Script) -> Any:
    @policy
    def callee() -> Any:
        return script.step()

    return callee()


async def _async(policy: sp.Policy, script: Script) -> Any:
    @policy
    async def callee() -> Any:
        return script.step()

    return await callee()


def _asyncio(policy: sp.Policy, script: Script) -> Any:
    return asyncio.run(_async(policy, script))


def _trio(policy: sp.Policy, script: Script) -> Any:
    return trio.run(_async, policy, script)


def _call(policy: sp.Policy, script: Script) -> Any:
    return policy.call(script.step)


def _acall(policy: sp.Policy, script: Script) -> Any:
    async def callee() -> Any:
        return script.step()

    return asyncio.run(policy.acall(callee))


def _block(policy: sp.Policy, script: Script) -> Any:
    for attempt in policy.retrying():
        with attempt:
            attempt.result = script.step()
    return attempt.result


async def _through_block(policy: sp.Policy, script: Script) -> Any:
    async for attempt in policy.retrying():
        async with attempt:
            attempt.result = script.step()
    return attempt.result


def _ablock(policy: sp.Policy, script: Script) -> Any:
    return asyncio.run(_through_block(policy, script))


class Play:
    """One way of using a policy."""

    def __init__(self, name: str, run: Runner) -> None:
        self.name = name
        self.run = run

    def __call__(
        self,
        policy: sp.Policy,
        *outcomes: Any,
        inside: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> Played:
        """Play the script; ``inside`` makes a context manager that the whole call runs in.

        The deadline of an async call is entered around its event loop, where it has no task to
        interrupt: virtual time cannot drive a loop's timers anyway.
        """
        with sp.testing.instant() as clock:
            script = Script(outcomes, clock)
            played = Played(script, clock.now())
            stop = sp.subscribe(played.events.append)
            try:
                with inside():
                    played.value = self.run(policy, script)
            except Exception as error:
                played.error = error
            finally:
                stop()
        return played


SYNC, ASYNCIO, TRIO = Play("sync", _sync), Play("asyncio", _asyncio), Play("trio", _trio)
CALL, ACALL = Play("call", _call), Play("acall", _acall)
BLOCK, ABLOCK = Play("block", _block), Play("async block", _ablock)

#: The ways that take any policy.
WAYS = [SYNC, ASYNCIO, TRIO, CALL, ACALL]
#: All ways, for policies that are one Retry.
ALL_WAYS = [*WAYS, BLOCK, ABLOCK]

each_way = pytest.mark.parametrize("play", WAYS, ids=lambda play: play.name)
every_way = pytest.mark.parametrize("play", ALL_WAYS, ids=lambda play: play.name)


def retry(**options: Any) -> sp.Policy:
    """A policy for scripts: retries `Boom`, waits exactly 1, 2, 4, ... s, has no budget."""
    given = {
        "on": Boom,
        "backoff": sp.Exponential(1, cap=1000, jitter="none"),
        "within": None,
        "budget": None,
    }
    return sp.retry(**{**given, **options})


class BudgetSpy:
    """A budget that records its calls; ``allow`` retries are paid for, then none."""

    def __init__(self, allow: float = float("inf"), price: float = 1.0) -> None:
        self.calls: list[Any] = []
        self.left = allow
        self.price = price

    def started(self) -> None:
        self.calls.append("started")

    def success(self, spent: float | None = None) -> None:
        self.calls.append(("success", spent))

    def failure(self, timeout: bool = False) -> None:
        self.calls.append(("failure", timeout))

    def withdraw(self, timeout: bool = False) -> float:
        self.calls.append(("withdraw", timeout))
        if self.left < 1:
            return 0.0
        self.left -= 1
        return self.price
