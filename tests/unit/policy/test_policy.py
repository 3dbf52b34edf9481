"""Policies as objects: what they decorate, what they keep, how they are shared, and what they refuse."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import json
import math
import pickle
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest
import trio
from tests.support.scripted import SYNC, Boom, BudgetSpy, each_way, retry, takes

import stormproof as sp


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


# What can be decorated.


def fails_twice() -> Callable[[], None]:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise Boom

    return step


def plays(*outcomes: Any) -> Callable[[], Any]:
    """A function that raises or returns these, one a call."""
    rest = iter(outcomes)

    def callee() -> Any:
        outcome = next(rest)
        if outcome is Boom:
            raise Boom
        return outcome

    return callee


def test_function_is_retried() -> None:
    step = fails_twice()

    @retry()
    def add(a: int, b: int = 2, *, c: int = 3) -> int:
        step()
        return a + b + c

    assert add(1) == 6
    assert add(1, 1, c=1) == 3


def test_coroutine_function_is_retried() -> None:
    step = fails_twice()

    @retry()
    async def add(a: int, b: int = 2) -> int:
        step()
        await asyncio.sleep(0)
        return a + b

    assert inspect.iscoroutinefunction(add)
    assert asyncio.run(add(1)) == 3


def test_generator_function_is_retried() -> None:
    step = fails_twice()

    @retry()
    def items(n: int) -> Iterator[int]:
        step()
        yield from range(n)

    assert inspect.isgeneratorfunction(items)
    assert list(items(3)) == [0, 1, 2]


def test_async_generator_function_is_retried() -> None:
    step = fails_twice()

    @retry()
    async def items(n: int) -> AsyncIterator[int]:
        step()
        for item in range(n):
            yield item

    async def main() -> list[int]:
        return [item async for item in items(3)]

    assert inspect.isasyncgenfunction(items)
    assert asyncio.run(main()) == [0, 1, 2]


class Service:
    """Every kind of method, under a policy from the inside and from the outside."""

    made = 0

    def __init__(self, name: str = "it") -> None:
        self.name = name
        self.step = fails_twice()

    @retry()
    def method(self, a: int) -> tuple[str, int]:
        self.step()
        return self.name, a

    @retry()
    async def async_method(self, a: int) -> tuple[str, int]:
        self.step()
        return self.name, a

    @retry()
    def generator_method(self, a: int) -> Iterator[tuple[str, int]]:
        self.step()
        yield self.name, a

    @retry()
    async def async_generator_method(self, a: int) -> AsyncIterator[tuple[str, int]]:
        self.step()
        yield self.name, a

    @classmethod
    @retry()
    def inner_class_method(cls, step: Callable[[], None]) -> str:
        step()
        return cls.__name__

    @retry()
    @classmethod
    def outer_class_method(cls, step: Callable[[], None]) -> str:
        step()
        return cls.__name__

    @staticmethod
    @retry()
    def inner_static_method(step: Callable[[], None]) -> str:
        step()
        return "static"

    @retry()
    @staticmethod
    def outer_static_method(step: Callable[[], None]) -> str:
        step()
        return "static"

    @property
    @retry()
    def value(self) -> str:
        self.step()
        return self.name


class Child(Service):
    pass


def test_methods_are_retried() -> None:
    assert Service("a").method(1) == ("a", 1)
    assert Service.method(Service("b"), 2) == ("b", 2)
    assert asyncio.run(Service("c").async_method(3)) == ("c", 3)
    assert list(Service("d").generator_method(4)) == [("d", 4)]
    assert Service("e").value == "e"

    async def main() -> list[Any]:
        return [item async for item in Service("f").async_generator_method(5)]

    assert asyncio.run(main()) == [("f", 5)]


@pytest.mark.parametrize("name", ["inner_class_method", "outer_class_method"])
def test_class_methods_are_retried_in_either_order(name: str) -> None:
    assert getattr(Service, name)(fails_twice()) == "Service"
    assert getattr(Child, name)(fails_twice()) == "Child"
    assert getattr(Child(), name)(fails_twice()) == "Child"


@pytest.mark.parametrize("name", ["inner_static_method", "outer_static_method"])
def test_static_methods_are_retried_in_either_order(name: str) -> None:
    assert getattr(Service, name)(fails_twice()) == "static"
    assert getattr(Child(), name)(fails_twice()) == "static"


def test_bound_method_is_retried() -> None:
    assert retry()(Service("x").method)(1) == ("x", 1)
    assert asyncio.run(retry()(Service("x").async_method)(1)) == ("x", 1)


def test_partials_are_retried() -> None:
    def sync(step: Callable[[], None], a: int, b: int = 0) -> int:
        step()
        return a + b

    async def aio(step: Callable[[], None], a: int, b: int = 0) -> int:
        step()
        return a + b

    def gen(step: Callable[[], None], a: int) -> Iterator[int]:
        step()
        yield a

    assert retry()(functools.partial(sync, fails_twice(), b=5))(1) == 6
    nested = functools.partial(functools.partial(aio, fails_twice()), b=5)
    assert asyncio.run(retry()(nested)(1)) == 6
    assert list(retry()(functools.partial(gen, fails_twice()))(7)) == [7]


def test_callable_objects_are_retried() -> None:
    class Sync:
        def __init__(self) -> None:
            self.step = fails_twice()

        def __call__(self, a: int) -> int:
            self.step()
            return a

    class Async(Sync):
        async def __call__(self, a: int) -> int:  # type: ignore[override]
            self.step()
            return a

    class Generates(Sync):
        def __call__(self, a: int) -> Iterator[int]:  # type: ignore[override]
            self.step()
            yield a

    assert retry()(Sync())(1) == 1
    assert asyncio.run(retry()(Async())(2)) == 2
    assert list(retry()(Generates())(3)) == [3]


def test_builtins_and_lambdas_are_retried() -> None:
    assert retry()(len)([1, 2]) == 2
    assert retry()(divmod)(7, 2) == (3, 1)
    assert retry()(lambda a, *rest, k=1, **more: (a, rest, k, more))(1, 2, k=3, z=4) == (1, (2,), 3, {"z": 4})
    assert retry()("{}-{}".format)("a", "b") == "a-b"


@pytest.mark.parametrize("mock", [Mock, MagicMock])
def test_mocks_are_retried(mock: type[Mock]) -> None:
    fake = mock(side_effect=[Boom(), Boom(), "ok"])
    assert retry()(fake)(1, key=2) == "ok"
    assert fake.call_count == 3
    fake.assert_called_with(1, key=2)


def test_async_mocks_are_retried() -> None:
    fake = AsyncMock(side_effect=[Boom(), Boom(), "ok"])
    wrapped = retry()(fake)
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped(1, key=2)) == "ok"
    assert fake.await_count == 3
    fake.assert_awaited_with(1, key=2)


def test_async_mocks_are_retried_by_acall() -> None:
    fake = AsyncMock(side_effect=[Boom(), "ok"])
    assert asyncio.run(retry().acall(fake, 1)) == "ok"
    assert fake.await_count == 2


@pytest.mark.parametrize("thing", [int, Service, 5, None, "name", [1]])
def test_value_that_is_not_a_function_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="decorated"):
        retry()(thing)


def test_decorated_function_can_be_decorated_again() -> None:
    step = fails_twice()

    @retry(attempts=2)
    @retry(attempts=4)
    def callee() -> str:
        step()
        return "ok"

    assert callee() == "ok"


# The decorated function is still itself.


def test_signature_is_kept() -> None:
    def original(a: int, /, b: str = "x", *args: int, c: float, d: bool = True, **rest: str) -> list[int]:
        """Its words."""
        return [a, len(b), *args, int(c), int(d), len(rest)]

    wrapped = retry()(original)
    assert inspect.signature(wrapped) == inspect.signature(original)
    assert wrapped.__name__ == "original"
    assert wrapped.__qualname__ == original.__qualname__
    assert wrapped.__doc__ == "Its words."
    assert wrapped.__module__ == original.__module__
    assert wrapped.__annotations__ == original.__annotations__
    assert wrapped.__wrapped__ is original  # type: ignore[attr-defined]
    assert wrapped(1, "two", 3, 4, c=5, e="6") == original(1, "two", 3, 4, c=5, e="6")


SIGNATURES: list[Callable[..., Any]] = [
    lambda: (),
    lambda a: (a,),
    lambda a, b=2: (a, b),
    lambda a, /: (a,),
    lambda a, /, b: (a, b),
    lambda a=1, /, b=2: (a, b),
    lambda *a: (a,),
    lambda **k: (k,),
    lambda *, k: (k,),
    lambda *, k=9: (k,),
    lambda a, *b, c, d=4, **e: (a, b, c, d, e),
    lambda a, /, b=1, *, c=2, **d: (a, b, c, d),
    lambda self, cls, args, kwargs: (self, cls, args, kwargs),
    lambda call, error, failed, result: (call, error, failed, result),
    lambda _sp_call, _sp_error: (_sp_call, _sp_error),
    lambda fn, args=(), kwargs=None: (fn, args, kwargs),
    lambda größe: (größe,),  # noqa: PLC2401
]
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3, 4), {}),
    ((), {"k": 1}),
    ((1,), {"b": 2}),
    ((1,), {"c": 3}),
    ((1, 2), {"c": 3, "e": 5}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 2}),
    ((), {"self": 1, "cls": 2, "args": 3, "kwargs": 4}),
    ((), {"call": 1, "error": 2, "failed": 3, "result": 4}),
    ((), {"fn": 1, "args": 2}),
    ((), {"größe": 1}),
]


def outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except TypeError:
        return TypeError


@pytest.mark.parametrize("original", SIGNATURES, ids=lambda f: str(inspect.signature(f)))
def test_arguments_arrive_as_without_a_policy(original: Callable[..., Any]) -> None:
    """For every way of passing them, on the first attempt and after a failure."""
    fail = False

    @functools.wraps(original)
    def fails_first(*args: Any, **kwargs: Any) -> Any:
        nonlocal fail
        result = original(*args, **kwargs)
        fail = not fail
        if fail:
            raise Boom
        return result

    for args, kwargs in ARGUMENTS:
        expected = outcome(original, args, kwargs)
        for policy in (
            retry(),
            retry(before_attempt=lambda attempt: None),
            sp.Policy(),
            sp.Policy(sp.Deadline(9)),
        ):
            assert outcome(policy(original), args, kwargs) == expected
        assert outcome(retry()(fails_first), args, kwargs) == expected


def test_arguments_arrive_after_a_failure_in_the_function_s_own_signature() -> None:
    seen: list[Any] = []

    @retry(attempts=2)
    def callee(a: int, /, b: int, *rest: int, c: int, d: int = 4, **more: int) -> None:
        seen.append((a, b, rest, c, d, more))
        raise Boom

    with pytest.raises(Boom):
        callee(1, 2, 3, 3, c=5, z=6)
    assert seen == [(1, 2, (3, 3), 5, 4, {"z": 6})] * 2


def test_defaults_are_the_function_s_own_objects() -> None:
    shared: list[int] = []

    @retry()
    def callee(item: int, into: list[int] = shared, *, also: list[int] = shared) -> list[int]:
        into.append(item)
        return also

    assert callee(1) is shared
    assert shared == [1]


def test_wrong_call_fails_like_the_function_s_own() -> None:
    @retry(on=Exception)
    def callee(a: int) -> int:
        return a

    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'a'"):
        callee()  # type: ignore[call-arg]


def test_attributes_of_the_function_are_kept() -> None:
    def original() -> None: ...

    original.tag = "x"  # type: ignore[attr-defined]
    assert retry()(original).tag == "x"  # type: ignore[attr-defined]


# call, acall, retrying.


def test_call_passes_everything_on() -> None:
    def callee(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert retry().call(callee, 1, 2, fn=3, self=4) == ((1, 2), {"fn": 3, "self": 4})


def test_acall_passes_everything_on() -> None:
    async def callee(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert asyncio.run(retry().acall(callee, 1, fn=3)) == ((1,), {"fn": 3})


def test_acall_takes_anything_that_gives_an_awaitable() -> None:
    step = fails_twice()

    async def callee() -> str:
        step()
        return "ok"

    def gives_awaitable() -> Awaitable[str]:
        return callee()

    assert asyncio.run(retry().acall(gives_awaitable)) == "ok"


def test_call_refuses_async_functions_and_generators() -> None:
    async def aio() -> None: ...

    def gen() -> Iterator[int]:
        yield 1

    async def agen() -> AsyncIterator[int]:
        yield 1

    for function in (aio, gen, agen):
        with pytest.raises(TypeError, match="call"):
            retry().call(function)


def test_acall_refuses_generators() -> None:
    def gen() -> Iterator[int]:
        yield 1

    async def agen() -> AsyncIterator[int]:
        yield 1

    for function in (gen, agen):
        with pytest.raises(TypeError):
            asyncio.run(retry().acall(function))  # type: ignore[arg-type]


def test_policy_without_strategies_is_a_plain_call() -> None:
    assert sp.Policy().call(lambda: "ok") == "ok"
    with pytest.raises(Boom):
        SYNC(sp.Policy(), Boom).returned("never")


@each_way
def test_first_strategy_is_the_outermost(play: Any) -> None:
    """A deadline outside Retry bounds all attempts together, one inside each of them."""
    one = sp.Retry(on=Boom, backoff=sp.Constant(0), budget=None)
    outside = sp.Policy(sp.Deadline(5), one)
    with warnings.catch_warnings():
        # It may say that this order is rarely meant.
        warnings.simplefilter("ignore")
        inside = sp.Policy(one, sp.Deadline(5))
    script = [takes(3, Boom), takes(3, Boom), "ok"]
    play(outside, *script).raised(sp.DeadlineExceeded).made(2)
    play(inside, *script).returned("ok").made(3)


# with_.


def test_with_replaces_an_option_by_name() -> None:
    policy = sp.Policy(sp.Deadline(5), sp.Retry(on=Boom, attempts=3), name="op")
    changed = policy.with_(attempts=7)
    assert changed.strategies[1].attempts == 7
    assert policy.strategies[1].attempts == 3
    assert changed.strategies[1].on is Boom
    assert changed.strategies[0] == sp.Deadline(5)
    assert changed.name == "op"


def test_with_replaces_a_strategy_by_type() -> None:
    policy = sp.Policy(sp.Deadline(5), sp.Retry(on=Boom))
    changed = policy.with_(sp.Deadline(9))
    assert changed.strategies[0] == sp.Deadline(9)
    assert changed.strategies[1].on is Boom


def test_with_replaces_name_clock_and_rng() -> None:
    clock = sp.testing.FakeClock()
    changed = retry().with_(name="other", clock=clock, rng=lambda: 0.5)
    assert changed.name == "other"
    with pytest.raises(Boom):
        changed.call(plays(*[Boom] * 9))
    assert clock.sleeps


@pytest.mark.parametrize("settings", [{}, {"name": "shared"}, {"clock": sp.testing.FakeClock()}], ids=str)
def test_with_shares_the_state_of_strategies_it_does_not_replace(settings: dict[str, Any]) -> None:
    policy = sp.retry(on=Boom, **settings)
    changed = policy.with_(attempts=2)
    assert changed.strategies[0].budget is policy.strategies[0].budget


def test_with_keeps_a_budget_that_was_given() -> None:
    budget = sp.Budget()
    assert retry(budget=budget).with_(attempts=2).strategies[0].budget is budget
    assert retry(budget=None).with_(attempts=2).strategies[0].budget is None


def test_with_keeps_the_clock_and_the_draws() -> None:
    clock = sp.testing.FakeClock()
    policy = retry(clock=clock, rng=lambda: 0.5, backoff=sp.Exponential(1, cap=100)).with_(attempts=3)
    with pytest.raises(Boom):
        policy.call(plays(*[Boom] * 9))
    assert clock.sleeps == [0.5, 1]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda p: p.with_(nonsense=1), "nonsense"),
        (lambda p: p.with_(attempts=0), "attempts"),
        (lambda p: sp.Policy(sp.Deadline(5)).with_(sp.Retry(on=Boom)), "Retry"),
        (lambda p: sp.Policy(sp.Deadline(5), sp.Deadline(6)).with_(seconds=7), "seconds"),
        (lambda p: sp.Policy(sp.Deadline(5), sp.Deadline(6)).with_(sp.Deadline(7)), "Deadline"),
    ],
)
def test_with_refuses_options_that_fit_no_strategy(change: Callable[[sp.Policy], Any], word: str) -> None:
    with pytest.raises((TypeError, ValueError), match=word):
        change(retry())


# Frozen, compared, copied, written down.


def test_policies_and_options_are_frozen() -> None:
    policy = retry()
    for owner, field in [(policy, "name"), (policy, "strategies"), (policy.strategies[0], "attempts")]:
        with pytest.raises(AttributeError, match=field):
            setattr(owner, field, 5)
    with pytest.raises(AttributeError):
        policy.strategies[0].typo = 1
    with pytest.raises(AttributeError):
        del policy.strategies[0].attempts


POLICIES = [
    sp.Policy(),
    sp.Policy(name="named"),
    sp.Policy(sp.Deadline(5)),
    sp.Policy(sp.Deadline(timedelta(seconds=1.5)), sp.Retry(), name='it\'s "quoted"'),
    sp.retry(on=ConnectionError),
    sp.retry(on=(ConnectionError, TimeoutError), attempts=None, within=1e-9),
    sp.retry(on=(OSError,), budget=None, late="clip", retry_exhausted=True, max_hint=math.inf),
    sp.retry(on=sp.transient, budget=sp.Budget(0.25, burst=3, window=7)),
    sp.retry(on=sp.AttemptTimeout, budget=sp.WindowBudget(0.5, floor=2, window=3)),
    sp.retry(on=OSError, budget=sp.QuotaBudget(100, retry_cost=2)),
    sp.retry(on=OSError, budget=sp.ThrottleBudget(20, token_ratio=0.5)),
    sp.retry(on=OSError, budget=sp.RateBudget(math.inf, burst=0, wait=True)),
    sp.retry(on=OSError, backoff=sp.Constant(0)),
    sp.retry(on=OSError, backoff=sp.Decorrelated(0.5, cap=9, clip="sample")),
    sp.retry(on=OSError, backoff=sp.Schedule([0.1, 0.5, 2])),
    sp.retry(on=OSError, backoff=sp.Exponential(jitter=sp.Symmetric(0.25), min=0.01)),
]
each_policy = pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))


def options_of(policy: sp.Policy) -> Any:
    """Everything but the live state."""

    def strip(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: strip(value) for key, value in data.items() if key != "balance"}
        return [strip(item) for item in data] if isinstance(data, list) else data

    return strip(policy.describe())


@each_policy
def test_repr_of_a_policy_rebuilds_the_policy(policy: sp.Policy) -> None:
    names = {name: getattr(sp, name) for name in sp.__all__}
    rebuilt = eval(repr(policy), {"inf": math.inf, **names})
    assert repr(rebuilt) == repr(policy)
    assert options_of(rebuilt) == options_of(policy)


@each_policy
def test_pickle_rebuilds_the_policy(policy: sp.Policy) -> None:
    # From 3 on: the older ones rename ConnectionError for Python 2.
    for protocol in range(3, pickle.HIGHEST_PROTOCOL + 1):
        rebuilt = pickle.loads(pickle.dumps(policy, protocol))
        assert options_of(rebuilt) == options_of(policy)


def test_pickle_carries_options_not_tokens() -> None:
    policy = sp.retry(on=Boom, budget=sp.Budget(burst=5))
    for _ in range(3):
        policy.strategies[0].budget.withdraw()
    rebuilt = pickle.loads(pickle.dumps(policy))
    assert rebuilt.strategies[0].budget.balance == 5
    assert policy.strategies[0].budget.balance == 2


def test_used_policy_can_still_be_pickled() -> None:
    policy = sp.retry(on=Boom)
    policy.call(int)
    asyncio.run(policy.acall(AsyncMock()))
    assert pickle.loads(pickle.dumps(policy)).call(lambda: "ok") == "ok"


@each_policy
def test_describe_is_plain_data(policy: sp.Policy) -> None:
    described = policy.describe()
    assert described["name"] == policy.name
    assert [strategy["kind"] for strategy in described["strategies"]] == [
        type(strategy).__name__ for strategy in policy.strategies
    ]
    json.loads(json.dumps(described))


@each_policy
def test_describe_is_strict_json(policy: sp.Policy) -> None:
    """`Infinity` is not JSON: readers elsewhere would choke on it."""
    json.dumps(policy.describe(), allow_nan=False)


def test_describe_names_functions_and_types() -> None:
    described = sp.retry(on=(KeyError, Boom), before_attempt=print).describe()["strategies"][0]
    assert described["on"] == ["KeyError", "Boom"]
    assert described["before_attempt"] == "print"
    assert described["budget"]["balance"] == 3


@each_policy
def test_copies_share_the_live_state(policy: sp.Policy) -> None:
    copied = copy.copy(policy)
    assert options_of(copied) == options_of(policy)


def test_policies_of_equal_options_are_equal() -> None:
    assert sp.Policy(sp.Deadline(5), name="a") == sp.Policy(sp.Deadline(5.0), name="a")
    assert sp.Policy(sp.Deadline(5)) != sp.Policy(sp.Deadline(6))
    assert sp.Policy(sp.Deadline(5)) != "Policy"
    assert hash(sp.Policy(sp.Deadline(5))) == hash(sp.Policy(sp.Deadline(5)))


def test_retry_is_a_policy_of_one_retry() -> None:
    policy = sp.retry(Boom, 7, sp.Constant(1), 9, None, max_hint=3, name="op")
    assert policy == sp.Policy(
        sp.Retry(on=Boom, attempts=7, backoff=sp.Constant(1), within=9, budget=None, max_hint=3), name="op"
    )


def test_defaults_are_the_documented_ones() -> None:
    one = sp.Retry()
    assert (one.on, one.attempts, one.within) == (sp.transient, 4, 30.0)
    assert one.backoff == sp.Exponential(base=0.1, factor=2.0, cap=5.0, jitter="full", min=0.0)
    assert (one.on_result, one.max_hint, one.late) == (None, 60.0, "stop")
    assert (one.retry_exhausted, one.before_attempt) == (False, None)
    assert isinstance(one.budget, sp.Budget)


def test_durations_may_be_timedeltas() -> None:
    one = sp.Retry(on=Boom, within=timedelta(minutes=1), max_hint=timedelta(milliseconds=1500))
    assert (one.within, one.max_hint) == (60.0, 1.5)
    assert sp.Deadline(timedelta(hours=25)).seconds == 90_000


# Sharing.


def test_policy_shared_by_threads_retries_each_call() -> None:
    policy = retry(attempts=3, backoff=sp.Constant(0))

    @policy
    def callee(number: int) -> int:
        attempt = sp.attempt()
        assert attempt is not None
        if attempt.number < 3:
            raise Boom
        return number

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(callee, range(500))) == list(range(500))
    finally:
        sys.setswitchinterval(interval)


def test_first_use_in_many_threads_at_once() -> None:
    """The compiled callers are made on first use: all racers must get a working one."""
    for _ in range(20):
        policy = retry(attempts=2, backoff=sp.Constant(0))
        barrier = threading.Barrier(4)

        def use(_: int, policy: sp.Policy = policy, barrier: threading.Barrier = barrier) -> Any:
            barrier.wait(30)
            return policy.call(plays(Boom, "ok"))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(use, range(4))) == ["ok"] * 4


def test_policy_may_be_shared_by_tasks() -> None:
    @retry(attempts=3)
    async def callee(number: int) -> int:
        await asyncio.sleep(0)
        attempt = sp.attempt()
        assert attempt is not None
        if attempt.number < 3:
            raise Boom(str(number))
        if number % 2:
            raise Boom(str(number))
        return number

    async def main() -> list[Any]:
        return await asyncio.gather(*map(callee, range(100)), return_exceptions=True)

    for number, result in enumerate(asyncio.run(main())):
        # No caller gets another one's result or error.
        assert str(result) == str(number)


def test_policy_may_be_shared_by_loops_and_libraries() -> None:
    policy = sp.Policy(sp.Deadline(60), sp.Retry(on=Boom, budget=None))

    @policy
    async def callee(step: Callable[[], None]) -> str:
        step()
        return "ok"

    for _ in range(3):
        assert asyncio.run(callee(fails_twice())) == "ok"
        assert trio.run(callee, fails_twice()) == "ok"
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: asyncio.run(callee(fails_twice())), range(9))) == ["ok"] * 9


def test_sync_and_async_use_of_a_policy_share_the_budget() -> None:
    budget = sp.Budget(burst=2)
    policy = retry(budget=budget)
    assert policy.call(plays(Boom, "ok")) == "ok"
    assert asyncio.run(policy.acall(AsyncMock(side_effect=[Boom, "ok"]))) == "ok"
    with pytest.raises(Boom):
        policy.call(plays(Boom, "never"))


def test_policies_of_the_same_name_share_their_default_budget() -> None:
    one, two, other = (sp.retry(on=Boom, name=name) for name in ("shared", "shared", "other"))
    assert one.strategies[0].budget is two.strategies[0].budget
    assert one.strategies[0].budget is not other.strategies[0].budget


def test_policies_without_a_name_do_not_share() -> None:
    assert sp.retry(on=Boom).strategies[0].budget is not sp.retry(on=Boom).strategies[0].budget


def test_budget_that_was_given_is_not_replaced_by_the_name_s() -> None:
    budget = sp.Budget()
    assert sp.retry(on=Boom, name="shared", budget=budget).strategies[0].budget is budget
    assert sp.retry(on=Boom, name="shared", budget=None).strategies[0].budget is None


def test_names_budget_outlives_its_last_policy() -> None:
    policy = sp.retry(on=Boom, name="short-lived")
    policy.strategies[0].budget.withdraw()
    del policy
    gc.collect()
    assert sp.retry(on=Boom, name="short-lived").strategies[0].budget.balance == 2


def test_every_retry_has_its_own_budget() -> None:
    first, second = sp.Retry(on=Boom), sp.Retry(on=Boom)
    assert isinstance(first.budget, sp.Budget)
    assert first.budget is not second.budget
    assert (first.budget.ratio, first.budget.burst, first.budget.window) == (0.1, 3, 10)


# What is refused: every option names its owner, its field, the value and the rule.

NOT_NUMBERS: list[Any] = [True, False, "5", b"5", [1], {}, object(), 1j]
NOT_FINITE = [math.nan, math.inf, -math.inf]
NOT_SECONDS = [*NOT_NUMBERS, math.nan, -math.inf, -1, -0.001, timedelta(seconds=-1)]
NOT_COUNTS = [0, -1, 1.5, 2.0, "4", True, math.nan, math.inf, [4]]
NOT_FLAGS = [0, 1, None, "yes", "", []]
NOT_HOOKS: list[Any] = [0, False, "print", [print], 5]
HUGE = 10**400


def retry_with(**options: Any) -> sp.Retry:
    return sp.Retry(**{"on": Boom, **options})


def refusals() -> Iterator[Any]:
    """(make, owner, field, bad values)."""
    yield retry_with, "Retry", "attempts", NOT_COUNTS
    yield retry_with, "Retry", "raises", ["error", None, 1]
    yield retry_with, "Retry", "within", [*NOT_SECONDS, math.inf, HUGE]
    yield retry_with, "Retry", "max_hint", [*NOT_SECONDS, None]
    yield retry_with, "Retry", "late", ["never", "", None, True, 0, ["stop"]]
    yield retry_with, "Retry", "retry_exhausted", NOT_FLAGS
    yield retry_with, "Retry", "on_result", NOT_HOOKS
    for hook in ("before_attempt", "on_retry", "commit"):
        yield retry_with, "Retry", hook, NOT_HOOKS
    yield retry_with, "Retry", "backoff", [0, 1.5, "exponential", [1, 2], False, sp.Exponential, sp.Constant]
    yield retry_with, "Retry", "budget", [0, 10, True, False, "budget", object(), sp.Budget, sp.QuotaBudget]
    yield retry_with, "Retry", "on", [None, 0, "ConnectionError", (), [], [Boom], (Boom, 5), (Boom, "x")]
    yield retry_with, "Retry", "on", [int, (int,), Boom(), KeyboardInterrupt]
    yield sp.Deadline, "Deadline", "seconds", [*NOT_SECONDS, None, math.inf, HUGE]
    yield sp.deadline, "deadline", "limit", [*NOT_SECONDS, math.inf, HUGE]
    yield sp.Policy, "Policy", "name", ["", 5, b"x", True, ["x"]]
    yield sp.Policy, "Policy", "clock", [5, True, object(), "now", sp.testing.FakeClock]
    yield sp.Policy, "Policy", "rng", ["seed", True, object(), 1.5]
    for field in ("ratio", "burst"):
        yield sp.Budget, "Budget", field, [*NOT_NUMBERS, *NOT_FINITE, -1, -0.1, None, HUGE]
    for field in ("ratio", "floor"):
        yield sp.WindowBudget, "WindowBudget", field, [*NOT_NUMBERS, *NOT_FINITE, -1, None, HUGE]
    for kind in (sp.Budget, sp.WindowBudget):
        yield kind, kind.__name__, "window", [*NOT_SECONDS, 0, math.inf, None, HUGE]
    for field in ("capacity", "retry_cost", "timeout_cost"):
        yield sp.QuotaBudget, "QuotaBudget", field, [*NOT_NUMBERS, *NOT_FINITE, 0, -1, None, HUGE]
    yield sp.QuotaBudget, "QuotaBudget", "success_credit", [*NOT_NUMBERS, *NOT_FINITE, -1, None, HUGE]
    yield sp.ThrottleBudget, "ThrottleBudget", "max_tokens", [*NOT_NUMBERS, *NOT_FINITE, 0, -1, 1000.5, None]
    yield sp.ThrottleBudget, "ThrottleBudget", "token_ratio", [*NOT_NUMBERS, *NOT_FINITE, 0, -0.1, None]
    yield sp.RateBudget, "RateBudget", "rate", [*NOT_NUMBERS, math.nan, -math.inf, -1, None]
    yield sp.RateBudget, "RateBudget", "burst", [-1, 1.5, "4", True, math.nan, math.inf, None]
    yield sp.RateBudget, "RateBudget", "wait", NOT_FLAGS
    for kind in (sp.Budget, sp.WindowBudget, sp.QuotaBudget, sp.ThrottleBudget, sp.RateBudget):
        yield kind, kind.__name__, "observe", NOT_FLAGS
    for kind in (sp.Budget, sp.WindowBudget, sp.QuotaBudget, sp.ThrottleBudget, sp.RateBudget):
        yield kind, kind.__name__, "clock", [5, True, object(), sp.testing.FakeClock]
        yield kind, kind.__name__, "rng", ["seed", True, object(), 1.5]
    for kind in (sp.Budget, sp.RateBudget):
        yield kind, kind.__name__, "store", [0, True, False, "redis://localhost", object(), sp.Budget]
        yield kind, kind.__name__, "name", ["", 0, 5, True, b"x", ["x"]]


def cases() -> list[Any]:
    return [
        pytest.param(
            make, owner, field, value, id=f"{owner}.{field}={str(value).partition(' at 0x')[0][:30]}-{number}"
        )
        for make, owner, field, values in refusals()
        for number, value in enumerate(values)
    ]


@pytest.mark.parametrize(("make", "owner", "field", "value"), cases())
def test_bad_input_is_refused_by_name(make: Callable[..., Any], owner: str, field: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        make(**{field: value})
    message = str(caught.value)
    assert message.startswith(f"{owner}: "), message
    assert field in message
    assert " must " in message
    shown = value if not isinstance(value, tuple) else value[-1] if value else value
    names = [repr(shown), getattr(shown, "__qualname__", None)]
    if isinstance(shown, timedelta):
        names.append(repr(shown.total_seconds()))
    assert any(name is not None and name in message for name in names), message


def test_every_option_of_the_retry_family_has_a_case() -> None:
    covered = {(owner, field) for _, owner, field, _ in refusals()}
    for kind in (
        sp.Retry,
        sp.Deadline,
        sp.Budget,
        sp.WindowBudget,
        sp.ThrottleBudget,
        sp.RateBudget,
        sp.Policy,
    ):
        for name, parameter in inspect.signature(kind).parameters.items():
            if parameter.kind is not parameter.VAR_POSITIONAL:
                assert (kind.__name__, name) in covered, f"no case for {kind.__name__}({name}=)"


@pytest.mark.parametrize("thing", [5, "Retry", None, sp.Retry, Boom, print, sp.Budget()])
def test_policy_takes_strategies_only(thing: Any) -> None:
    with pytest.raises(TypeError, match="Policy: strategies must"):
        sp.Policy(thing)


def test_unknown_option_is_refused() -> None:
    for make in (sp.Retry, sp.retry, sp.retrying, sp.Deadline, sp.Budget):
        with pytest.raises(TypeError):
            make(on=Boom, atempts=3)  # type: ignore[operator]


def test_on_is_required_by_retry_and_retrying() -> None:
    for make in (sp.retry, sp.retrying):
        with pytest.raises(TypeError, match="on"):
            make()


@pytest.mark.parametrize("settings", [{"attempts": None, "within": None}])
def test_loop_that_nothing_bounds_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="attempts"):
        sp.retry(on=Boom, **settings)
    with pytest.raises(ValueError, match="attempts"):
        # A deadline inside bounds one attempt, not the loop.
        sp.Policy(sp.Retry(on=Boom, **settings), sp.Deadline(5))
    with pytest.raises(ValueError, match="attempts"):
        sp.retry(on=Boom).with_(**settings)


@pytest.mark.parametrize("budget", [BudgetSpy(), sp.keyed(sp.Budget(), key=lambda: "k")])
def test_budget_may_be_anything_that_behaves_like_one(budget: Any) -> None:
    SYNC(retry(budget=budget), Boom, "ok").returned("ok")


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: sp.Permanent("text"), "Permanent: error"),
        (lambda: sp.RetryAfter(-1), "RetryAfter: seconds"),
        (lambda: sp.RetryAfter(math.nan), "RetryAfter: seconds"),
        (lambda: sp.RetryAfter(True), "RetryAfter: seconds"),
        (lambda: sp.RetryAfter(1, "text"), "RetryAfter: cause"),
        (lambda: sp.subscribe(5), "subscribe: callback"),
        (lambda: sp.keyed(5), "keyed: template"),
        (lambda: sp.keyed(sp.Budget(), key=5), "keyed: key"),
        (lambda: sp.keyed(sp.Budget(), limit=0), "keyed: limit"),
        (lambda: sp.testing.FakeClock("now"), "FakeClock: start"),
        (lambda: sp.testing.FakeClock().advance(math.nan), "FakeClock: seconds"),
    ],
)
def test_other_public_makers_refuse_bad_options(make: Callable[[], Any], word: str) -> None:
    with pytest.raises((TypeError, ValueError), match=word):
        make()


def test_signature_shows_the_default_budget() -> None:
    for call in (sp.Retry, sp.retry):
        assert "= <a fresh Budget()>" in str(inspect.signature(call))
