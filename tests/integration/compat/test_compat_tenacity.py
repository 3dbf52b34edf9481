"""``stormproof.compat.tenacity``: what it adds to tenacity, what it puts right, and what tests reach into."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import weakref

import pytest

import stormproof as sp
from stormproof.compat import tenacity


class Down(Exception):
    pass


def counted(calls, fail=10**9):
    def call(*args, **kwargs):
        calls.append(args)
        if len(calls) <= fail:
            raise Down
        return "up"

    return call


def down_forever(budget, **options):
    """A sync and an async function that always fail, with the same options."""
    calls = []
    chosen = {"stop": tenacity.stop_after_attempt(4), "budget": budget, **options}

    @tenacity.retry(**chosen)
    def fail():
        calls.append(1)
        raise Down

    @tenacity.retry(**chosen)
    async def fail_async():
        calls.append(1)
        raise Down

    return calls, {"sync": fail, "async": lambda: asyncio.run(fail_async())}


@pytest.mark.parametrize("way", ["sync", "async"])
def test_budget_bounds_the_attempts_of_failing_calls(way):
    calls, ways = down_forever(sp.Budget(ratio=0.1, burst=10))
    for _ in range(100):
        with pytest.raises(tenacity.RetryError):
            ways[way]()
    assert len(calls) == 100 + 10


def test_budget_that_refuses_is_named_in_a_note():
    _, ways = down_forever(sp.Budget(burst=0), reraise=True)
    with pytest.raises(Down) as caught:
        ways["sync"]()
    assert any("budget is exhausted" in note for note in caught.value.__notes__)


def test_budget_that_refuses_calls_the_error_callback():
    _, ways = down_forever(sp.Budget(burst=0), retry_error_callback=lambda state: state.attempt_number)
    assert ways["sync"]() == 1


def test_budget_is_earned_by_calls_that_return():
    budget = sp.Budget(ratio=0.5, burst=1)
    outcomes = []

    @tenacity.retry(budget=budget, stop=tenacity.stop_after_attempt(2), reraise=True)
    def work():
        outcome = outcomes.pop(0)
        if outcome is Down:
            raise Down
        return outcome

    outcomes[:] = [Down, "ok"]
    assert work() == "ok"
    assert budget.balance == pytest.approx(0.5)
    outcomes[:] = ["ok"]
    assert work() == "ok"
    outcomes[:] = [Down, "ok"]
    assert work() == "ok"


def test_retry_with_and_copy_keep_the_budget():
    budget = sp.Budget()
    fn = tenacity.retry(budget=budget)(lambda: 1)
    assert fn.retry_with(stop=tenacity.stop_after_attempt(2)).retry.budget is budget
    assert fn.retry.copy(budget=None).budget is None


def test_wait_past_the_ambient_deadline_is_not_begun():
    calls = []
    with sp.testing.instant() as clock:
        with sp.deadline(5):
            retrying = tenacity.Retrying(wait=tenacity.wait_fixed(2), reraise=True)
            with pytest.raises(Down) as caught:
                retrying(counted(calls))
    assert len(calls) == 3
    assert clock.sleeps == [2, 2]
    assert any("deadline" in note for note in caught.value.__notes__)


def test_disabled_scope_makes_one_call():
    calls = []
    with sp.disabled():
        with pytest.raises(Down):
            tenacity.Retrying()(counted(calls))
    assert len(calls) == 1


def test_instant_frees_the_waits_of_sync_and_async_calls():
    with sp.testing.instant() as clock:
        assert tenacity.Retrying(wait=tenacity.wait_fixed(60))(counted([], fail=2)) == "up"
        call = counted([], fail=1)

        @tenacity.retry(wait=tenacity.wait_fixed(30))
        async def fetch():
            return call()

        assert asyncio.run(fetch()) == "up"
    assert clock.sleeps == [60, 60, 30]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_interrupt_is_not_retried_unless_it_is_named(interrupt):
    calls = []

    def work():
        calls.append(1)
        raise interrupt

    with pytest.raises(interrupt):
        tenacity.Retrying(retry=tenacity.retry_if_not_exception_type(ValueError))(work)
    assert len(calls) == 1
    with pytest.raises(interrupt):
        for attempt in tenacity.Retrying(retry=lambda state: True):
            with attempt:
                work()
    assert len(calls) == 2
    named = tenacity.retry_if_exception_type((ValueError, interrupt))
    with pytest.raises(tenacity.RetryError):
        tenacity.Retrying(retry=named, stop=tenacity.stop_after_attempt(3))(work)
    assert len(calls) == 5


def test_cancelled_task_is_not_run_to_its_end():
    calls = []

    @tenacity.retry(retry=tenacity.retry_if_exception(lambda error: True))
    async def wait_long():
        calls.append(1)
        await asyncio.sleep(60)

    async def main():
        task = asyncio.ensure_future(wait_long())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(calls) == 1


def test_attributes_of_the_retry_object_are_live():
    calls, slept = [], []
    fn = tenacity.retry(stop=tenacity.stop_after_attempt(5))(counted(calls))
    fn.retry.sleep = slept.append
    fn.retry.wait = tenacity.wait_fixed(3)
    fn.retry.stop = tenacity.stop_after_attempt(2)
    seen = []
    fn.retry.before = lambda state: seen.append(state.attempt_number)
    with pytest.raises(tenacity.RetryError):
        fn()
    assert (len(calls), slept, seen) == (2, [3], [1, 2])
    fn.retry.retry = tenacity.retry_if_result(lambda value: value == "up")
    fn.retry.stop = tenacity.stop_after_attempt(3)
    calls.clear()
    fn.retry.enabled = False
    with pytest.raises(Down):
        fn()
    assert len(calls) == 1


def test_result_condition_set_later_is_used():
    fn = tenacity.retry(stop=tenacity.stop_after_attempt(3))(lambda: None)
    assert fn() is None
    fn.retry.retry = tenacity.retry_if_result(lambda value: value is None)
    with pytest.raises(tenacity.RetryError):
        fn()


def test_later_attempt_has_no_earlier_error_as_context():
    calls = []

    @tenacity.retry(stop=tenacity.stop_after_attempt(3), reraise=True)
    def fail():
        calls.append(1)
        raise Down(len(calls))

    with pytest.raises(Down) as caught:
        fail()
    assert caught.value.args == (3,)
    assert caught.value.__context__ is None


def test_error_raised_in_an_attempt_may_be_stop_iteration():
    @tenacity.retry(stop=tenacity.stop_after_attempt(2), reraise=True)
    def empty():
        return next(iter(()))

    with pytest.raises(StopIteration):
        empty()


def test_failed_call_leaves_no_cycle_behind():
    class Loud(Exception):
        pass

    @tenacity.retry(stop=tenacity.stop_after_attempt(2), reraise=True)
    def fail():
        raise Loud

    gc.collect()
    gc.disable()
    try:
        try:
            fail()
        except Loud as error:
            gone = weakref.ref(error)
        assert gone() is None
    finally:
        gc.enable()


def test_concurrent_calls_of_one_function_count_their_own_attempts():
    numbers = {"a": [], "b": []}
    gate = threading.Barrier(2)

    @tenacity.retry(
        stop=tenacity.stop_after_attempt(3),
        before_sleep=lambda state: numbers[state.args[0]].append(state.attempt_number),
        reraise=True,
    )
    def fail(name):
        gate.wait()
        raise Down

    def run(name):
        with pytest.raises(Down):
            fail(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers == {"a": [1, 2], "b": [1, 2]}


def test_subclasses_of_the_strategies_are_called():
    class Three(tenacity.stop.stop_base):
        def __call__(self, retry_state):
            return retry_state.attempt_number >= 3

    class Twice(tenacity.wait_exponential):
        def __call__(self, retry_state):
            return 2 * super().__call__(retry_state=retry_state)

    class OnNone(tenacity.retry_base):
        def __call__(self, retry_state):
            return not retry_state.outcome.failed and retry_state.outcome.result() is None

    class Any(tenacity.retry_if_exception):
        def __init__(self):
            super().__init__(lambda error: isinstance(error, Down))

    slept = []
    retrying = tenacity.Retrying(stop=Three(), wait=Twice(), retry=OnNone() | Any(), sleep=slept.append)
    with pytest.raises(tenacity.RetryError):
        retrying(lambda: None)
    assert slept == [2, 4]


def test_subclass_of_retrying_with_a_call_of_its_own_is_used_by_the_decorator():
    calls = []

    class Loud(tenacity.Retrying):
        def __call__(self, fn, *args, **kwargs):
            calls.append("mine")
            return super().__call__(fn, *args, **kwargs)

    class LoudAsync(tenacity.AsyncRetrying):
        async def __call__(self, fn, *args, **kwargs):
            calls.append("mine too")
            return await super().__call__(fn, *args, **kwargs)

    async def answer():
        return 42

    fn = Loud(stop=tenacity.stop_after_attempt(2)).wraps(counted([], fail=1))
    assert fn() == "up"
    assert fn.statistics["attempt_number"] == 2
    assert asyncio.run(LoudAsync().wraps(answer)()) == 42
    assert calls == ["mine", "mine too"]


def test_async_hooks_and_strategies_are_awaited():
    seen = []

    def asynchronous(name, answer=None):
        async def hook(state):
            await asyncio.sleep(0)
            seen.append(name)
            return answer

        return hook

    async def is_down(error):
        return isinstance(error, Down)

    call = counted([], fail=1)

    @tenacity.retry(
        retry=tenacity.asyncio.retry_if_exception(is_down),
        wait=asynchronous("wait", 0),
        stop=asynchronous("stop", False),
        before=asynchronous("before"),
        after=asynchronous("after"),
        before_sleep=asynchronous("before_sleep"),
    )
    async def fetch():
        return call()

    assert asyncio.run(fetch()) == "up"
    assert seen == ["before", "after", "wait", "stop", "before_sleep", "before"]


def test_trio_runs_the_waits():
    trio = pytest.importorskip("trio")
    call = counted([], fail=2)

    @tenacity.retry(wait=tenacity.wait_fixed(0.001))
    async def fetch():
        await trio.sleep(0)
        return call()

    assert trio.run(fetch) == "up"


def test_retry_error_and_states_are_pickled():
    error = tenacity.RetryError(3)
    assert pickle.loads(pickle.dumps(error)).last_attempt == 3
    retrying = pickle.loads(pickle.dumps(tenacity.Retrying(stop=tenacity.stop_after_attempt(2))))
    with pytest.raises(tenacity.RetryError):
        retrying(counted([]))


def test_sleep_using_event_ends_early():
    event = threading.Event()
    event.set()
    assert tenacity.Retrying(sleep=tenacity.sleep_using_event(event), wait=tenacity.wait_fixed(3600))(
        counted([], fail=1)
    )


def test_stop_when_event_set_stops():
    event = threading.Event()
    event.set()
    calls = []
    with pytest.raises(tenacity.RetryError):
        tenacity.Retrying(stop=tenacity.stop_when_event_set(event))(counted(calls))
    assert len(calls) == 1


def test_huge_attempt_number_waits_the_maximum():
    state = tenacity.RetryCallState(None, None, (), {})
    state.attempt_number = 10**6
    assert tenacity.wait_exponential(max=30)(state) == 30
    assert tenacity.wait_exponential()(state) > 10**18
    assert tenacity.wait_exponential(exp_base=0.5)(state) == 0


def test_condition_given_to_decorate_is_warned_about():
    with pytest.warns(UserWarning, match="did you mean"):
        tenacity.retry(tenacity.retry_if_exception_type(Down))
