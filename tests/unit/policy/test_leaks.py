"""Nothing stays behind: no reference cycle through a failed call, nothing kept per successful one."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio
from tests.support.scripted import Bang, Boom, retry

import stormproof as sp


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Only reference counts free anything here: a cycle stays, and is seen."""
    gc.disable()
    yield
    gc.enable()


class Payload:
    """Something big that a call holds on to: an argument, a local, a result."""


class Failing:
    """Fails with a new error each call; keeps weak references to all of them, and to the payloads."""

    def __init__(self, *kinds: Any) -> None:
        self.kinds = kinds
        self.seen: list[weakref.ref[Any]] = []

    def step(self) -> str:
        payload = Payload()
        self.seen.append(weakref.ref(payload))
        kind = self.kinds[min(len(self.seen) // 2, len(self.kinds) - 1)]
        if kind == "ok":
            self.seen.append(weakref.ref(payload))
            return "ok"
        error = kind("failed")
        self.seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            # The traceback holds this frame, which must not hold the error.
            del error

    def alive(self) -> list[Any]:
        return [ref() for ref in self.seen if ref() is not None]


def run_sync(policy: sp.Policy, failing: Failing) -> None:
    @policy
    def callee(argument: Payload) -> str:
        return failing.step()

    try:
        callee(Payload())
    except Exception:
        pass


def run_call(policy: sp.Policy, failing: Failing) -> None:
    try:
        policy.call(failing.step)
    except Exception:
        pass


def run_block(policy: sp.Policy, failing: Failing) -> None:
    try:
        for attempt in policy.retrying():
            with attempt:
                failing.step()
    except Exception:
        pass
    # This frame is in the errors' tracebacks, and the last attempt knows the error before it.
    del attempt


def run_generator(policy: sp.Policy, failing: Failing) -> None:
    @policy
    def callee() -> Iterator[str]:
        yield failing.step()

    try:
        list(callee())
    except Exception:
        pass


async def attempt_async(policy: sp.Policy, failing: Failing) -> None:
    @policy
    async def callee(argument: Payload) -> str:
        return failing.step()

    try:
        await callee(Payload())
    except Exception:
        pass
    assert failing.alive() == []


async def attempt_async_block(policy: sp.Policy, failing: Failing) -> None:
    try:
        async for attempt in policy.retrying():
            async with attempt:
                failing.step()
    except Exception:
        pass
    del attempt
    assert failing.alive() == []


async def attempt_async_generator(policy: sp.Policy, failing: Failing) -> None:
    @policy
    async def callee() -> AsyncIterator[str]:
        yield failing.step()

    try:
        async for _ in callee():
            pass
    except Exception:
        pass
    assert failing.alive() == []


def run_asyncio(policy: sp.Policy, failing: Failing) -> None:
    asyncio.run(attempt_async(policy, failing))


def run_trio(policy: sp.Policy, failing: Failing) -> None:
    trio.run(attempt_async, policy, failing)


def run_async_block(policy: sp.Policy, failing: Failing) -> None:
    asyncio.run(attempt_async_block(policy, failing))


def run_async_generator(policy: sp.Policy, failing: Failing) -> None:
    asyncio.run(attempt_async_generator(policy, failing))


RUNS = [
    run_sync,
    run_call,
    run_block,
    run_generator,
    run_asyncio,
    run_trio,
    run_async_block,
    run_async_generator,
]
each_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__.removeprefix("run_"))


def permanent(text: str) -> Exception:
    return sp.Permanent(Boom(text))


class Asking(sp.RetryAfter):
    """`RetryAfter` with a cause of its own; a subclass, so that it can be weakly referenced."""

    def __init__(self, text: str) -> None:
        super().__init__(1, Boom(text))


class Demanding(sp.RetryAfter):
    def __init__(self, text: str) -> None:
        super().__init__(10_000, Boom(text))


ENDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "attempts used up": ({}, [Boom]),
    "fatal": ({}, [Bang]),
    "fatal after retries": ({}, [Boom, Boom, Bang]),
    "success after retries": ({}, [Boom, Boom, "ok"]),
    "within": ({"within": 2}, [Boom]),
    "budget": ({"budget": sp.Budget(burst=1)}, [Boom]),
    "asked to wait": ({}, [Asking, Asking, "ok"]),
    "asked too much": ({}, [Demanding]),
    "result refused": ({"on_result": lambda value: True}, ["ok"]),
    "hooked": ({"before_attempt": lambda attempt: None}, [Boom]),
    "permanent": ({}, [Boom, permanent]),
}


@each_run
@pytest.mark.parametrize("end", ENDS)
def test_errors_are_freed_by_reference_counts_alone(run: Callable[..., None], end: str) -> None:
    options, kinds = ENDS[end]
    failing = Failing(*kinds)
    run(retry(**options), failing)
    assert len(failing.seen) >= 2
    assert failing.alive() == []


@each_run
def test_failed_call_with_a_subscriber_leaves_no_cycle(run: Callable[..., None]) -> None:
    failing = Failing(Boom)
    stop = sp.subscribe(lambda event: None)
    try:
        run(retry(), failing)
    finally:
        stop()
    assert failing.alive() == []


@pytest.mark.parametrize(
    "run", [run_sync, run_call, run_generator, run_asyncio, run_trio, run_async_generator]
)
@pytest.mark.parametrize("limit", [2.5, 100])
def test_failed_call_under_a_deadline_leaves_no_reference_behind(
    run: Callable[..., None], limit: float
) -> None:
    failing = Failing(Boom)
    run(sp.Policy(sp.Deadline(limit), retry().strategies[0]), failing)
    assert len(failing.seen) >= 2
    assert failing.alive() == []


@each_run
def test_deadline_scope_keeps_no_error_of_a_finished_call(run: Callable[..., None]) -> None:
    """A scope may live for hours: a call that has come to its end leaves nothing in it."""
    for kinds in ([Boom], [Boom, "ok"]):
        failing = Failing(*kinds)
        with sp.deadline(10_000):
            run(retry(), failing)
            assert failing.alive() == []


def test_nested_layers_are_freed() -> None:
    failing = Failing(Boom)
    inner = retry()(failing.step)

    @retry()
    def outer() -> str:
        return inner()

    with pytest.raises(Boom):
        outer()
    assert failing.alive() == []


def test_error_a_caller_keeps_frees_the_rest() -> None:
    """Holding the last error does not hold the ones before it."""
    failing = Failing(Boom)

    @retry()
    def callee() -> str:
        return failing.step()

    try:
        callee()
    except Boom as error:
        kept = error.with_traceback(None)
    assert failing.alive() == [kept]


# Success.


@pytest.fixture
def quiet() -> Iterator[None]:
    """pytest keeps every log record."""
    sp.logging.off()
    yield
    sp.logging.on()


LOOPS = 2_000


def grown(work: Callable[[], Any]) -> int:
    """Memory blocks more after 2,000 calls than before, at the least over a few tries."""
    for _ in range(LOOPS):
        work()
    least = sys.maxsize
    for _ in range(5):
        before = sys.getallocatedblocks()
        for _ in range(LOOPS):
            work()
        least = min(least, sys.getallocatedblocks() - before)
    return least


def by_hand(function: Callable[[], Any]) -> Callable[[], Any]:
    """The loop that anybody would write."""

    def call() -> Any:
        for attempt in range(4):
            try:
                return function()
            except Boom:
                if attempt == 3:
                    raise
        return None

    return call


def ok() -> str:
    return "ok"


POLICIES: dict[str, sp.Policy] = {
    "default": sp.retry(on=Boom),
    "named": sp.retry(on=Boom, name="named"),
    "no budget": sp.retry(on=Boom, budget=None),
    "window": sp.retry(on=Boom, budget=sp.WindowBudget()),
    "quota": sp.retry(on=Boom, budget=sp.QuotaBudget()),
    "throttle": sp.retry(on=Boom, budget=sp.ThrottleBudget()),
    "rate": sp.retry(on=Boom, budget=sp.RateBudget()),
    "keyed": sp.retry(on=Boom, budget=sp.keyed(sp.Budget(), key=lambda *args: "key")),
    "hooked": sp.retry(on=Boom, before_attempt=lambda attempt: None, on_result=lambda value: False),
    "deadline": sp.Policy(sp.Deadline(1e6), sp.Retry(on=Boom)),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("way", ["decorated", "call"])
def test_successful_call_keeps_no_more_than_a_loop_by_hand(name: str, way: str) -> None:
    policy = POLICIES[name]
    decorated = policy(ok)
    work: Callable[[], Any] = decorated if way == "decorated" else (lambda: policy.call(ok))
    # A counter's own integer may come and go; per call there must be nothing. What was in the process before
    # may be given back meanwhile, by threads that end, say: the loop itself gives nothing.
    assert grown(work) <= max(0, grown(by_hand(ok))) + 5


@pytest.mark.parametrize("name", POLICIES)
def test_successful_async_call_keeps_nothing(name: str) -> None:
    @POLICIES[name]
    async def callee() -> str:
        return "ok"

    def work() -> None:
        coroutine = callee()
        try:
            coroutine.send(None)
        except StopIteration:
            pass

    async def main() -> None:
        assert grown(work) <= 5

    asyncio.run(main())


def test_failed_call_keeps_nothing(quiet: None) -> None:
    policy = sp.retry(on=Boom, attempts=2, backoff=sp.Constant(0), budget=None, clock=sp.testing.FakeClock())

    @policy
    def fail() -> None:
        raise Boom

    def work() -> None:
        try:
            fail()
        except Boom:
            pass
        policy.clock.sleeps.clear()  # type: ignore[union-attr]

    assert grown(work) <= 5


def test_decorating_and_dropping_a_function_frees_it() -> None:
    """Compiled wrappers are shared by signature, never tied to a function."""

    def work() -> None:
        def made(a: int, b: int = 2) -> int:
            return a + b

        wrapped = retry()(made)
        wrapped(1)
        refs.append(weakref.ref(made))
        refs.append(weakref.ref(wrapped))

    refs: list[weakref.ref[Any]] = []
    for _ in range(10):
        work()
    gc.collect()
    assert [ref() for ref in refs if ref() is not None] == []
    refs.clear()


def test_policies_blocks_and_budgets_are_freed() -> None:
    refs: list[weakref.ref[Any]] = []

    def work() -> None:
        budget = sp.Budget()
        policy = retry(budget=budget, name="passing")
        policy.call(ok)
        for attempt in policy.retrying():
            with attempt:
                pass
        refs.extend([weakref.ref(budget), weakref.ref(policy)])

    work()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_ended_subscription_keeps_nothing_alive() -> None:
    def work() -> None:
        sp.subscribe(lambda event: None)()

    assert grown(work) <= 5
