"""One layer retries: what an inner layer has retried to exhaustion is final to the layers around it."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.scripted import Bang, Boom, BudgetSpy, retry

import stormproof as sp
from stormproof._classify.exhaustion import READ_ATTRIBUTES, exhausted_by, is_bare, is_permanent


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


class Backend:
    """Fails every call, with a new error each or always the same object."""

    def __init__(self, error: Callable[[], Exception] = Boom) -> None:
        self.error = error
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        raise self.error()


def nested_sync(backend: Backend, *policies: sp.Policy) -> BaseException:
    """Call the backend through these policies, innermost first; gives what surfaced."""

    def layer(policy: sp.Policy, inner: Callable[[], Any]) -> Callable[[], Any]:
        @policy
        def wrapped() -> Any:
            return inner()

        return wrapped

    call: Callable[[], Any] = backend
    for policy in policies:
        call = layer(policy, call)
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def nested_async(backend: Backend, *policies: sp.Policy) -> BaseException:
    async def innermost() -> None:
        backend()

    def layer(policy: sp.Policy, inner: Callable[[], Any]) -> Callable[[], Any]:
        @policy
        async def wrapped() -> Any:
            return await inner()

        return wrapped

    call: Callable[[], Any] = innermost
    for policy in policies:
        call = layer(policy, call)
    with pytest.raises(Exception) as caught:
        asyncio.run(call())
    return caught.value


def nested_calls(backend: Backend, *policies: sp.Policy) -> BaseException:
    call: Callable[[], Any] = backend
    for policy in policies:
        call = lambda policy=policy, inner=call: policy.call(inner)  # noqa: E731
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def nested_blocks(backend: Backend, *policies: sp.Policy) -> BaseException:
    def layer(policy: sp.Policy, inner: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            for attempt in policy.retrying():
                with attempt:
                    inner()

        return run

    call: Callable[[], Any] = backend
    for policy in policies:
        call = layer(policy, call)
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


each_nesting = pytest.mark.parametrize(
    "nested",
    [nested_sync, nested_async, nested_calls, nested_blocks],
    ids=["sync", "async", "call", "block"],
)


@each_nesting
def test_three_layers_of_four_attempts_make_four_calls(nested: Any) -> None:
    backend = Backend()
    error = nested(backend, retry(), retry(), retry())
    assert type(error) is Boom
    assert backend.calls == 4


@each_nesting
def test_three_layers_under_one_policy_make_four_calls(nested: Any) -> None:
    """The mark belongs to the layer, not to the policy that several layers may share."""
    backend, one = Backend(), retry()
    nested(backend, one, one, one)
    assert backend.calls == 4


@each_nesting
def test_error_that_surfaces_is_the_backend_s_own(nested: Any) -> None:
    errors: list[Exception] = []

    def make() -> Exception:
        errors.append(Boom(str(len(errors))))
        return errors[-1]

    assert nested(Backend(make), retry(), retry(), retry()) is errors[3]


@each_nesting
def test_outer_layer_with_retry_exhausted_retries(nested: Any) -> None:
    backend = Backend()
    nested(backend, retry(attempts=3), retry(attempts=2, retry_exhausted=True))
    assert backend.calls == 6


@each_nesting
def test_nested_layers_pay_once(nested: Any) -> None:
    """Invariant 8: the retries are paid by the layer that makes them, and by no other."""
    inner, outer = BudgetSpy(), BudgetSpy()
    nested(Backend(), retry(budget=inner), retry(budget=outer))
    assert inner.calls.count(("withdraw", False)) == 3
    assert ("withdraw", False) not in outer.calls
    assert ("failure", False) not in outer.calls


@each_nesting
def test_budget_shared_by_all_layers_is_charged_once_per_retry(nested: Any) -> None:
    budget = sp.Budget(ratio=0, burst=10)
    backend = Backend()
    nested(backend, *[retry(budget=budget)] * 3)
    assert backend.calls == 4
    assert budget.balance == 7


@each_nesting
def test_denial_by_the_inner_budget_is_final_outside(nested: Any) -> None:
    backend = Backend()
    error = nested(backend, retry(budget=sp.Budget(burst=1)), retry(on=Exception), retry(on=Exception))
    assert type(error) is Boom and sp.stopped(error).reason == "budget"
    assert backend.calls == 2


@each_nesting
def test_fatal_error_of_the_inner_layer_may_be_retried_outside(nested: Any) -> None:
    """No layer has retried it yet: the outer layer may know better."""
    backend = Backend(Bang)
    nested(backend, retry(), retry(on=Bang))
    assert backend.calls == 4


@each_nesting
def test_single_attempt_inside_counts_as_exhausted(nested: Any) -> None:
    backend = Backend()
    nested(backend, retry(attempts=1), retry())
    assert backend.calls == 1


@each_nesting
def test_hint_beyond_the_limit_inside_is_final_outside(nested: Any) -> None:
    backend = Backend(lambda: sp.RetryAfter(100, Boom()))
    error = nested(backend, retry(), retry())
    assert type(error) is Boom
    assert error.retry_after == 100
    assert backend.calls == 1


@each_nesting
def test_outer_layer_gives_up_with_reason_exhausted(nested: Any) -> None:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        nested(Backend(), retry(name="inner"), retry(name="outer"))
    finally:
        stop()
    ends = [event for event in events if isinstance(event, sp.events.GaveUp)]
    assert [(end.operation, end.reason) for end in ends] == [("inner", "attempts"), ("outer", "exhausted")]


@each_nesting
def test_outer_success_after_an_inner_exhaustion_carries_no_mark(nested: Any) -> None:
    """Only errors carry the mark; the next call starts anew."""
    backend = Backend()
    inner, outer = retry(), retry()
    nested(backend, inner, outer)
    nested(backend, inner, outer)
    assert backend.calls == 8


@pytest.mark.parametrize("depth", [2, 3])
def test_function_that_calls_itself_makes_four_calls(depth: int) -> None:
    backend = Backend()

    @retry()
    def recursive(level: int) -> None:
        if level:
            recursive(level - 1)
        else:
            backend()

    with pytest.raises(Boom):
        recursive(depth)
    assert backend.calls == 4


def test_async_function_that_calls_itself_makes_four_calls() -> None:
    backend = Backend()

    @retry()
    async def recursive(level: int) -> None:
        if level:
            await recursive(level - 1)
        else:
            backend()

    with pytest.raises(Boom):
        asyncio.run(recursive(3))
    assert backend.calls == 4


@pytest.mark.parametrize("layers", [2, 3])
def test_layers_in_tasks_of_their_own_make_four_calls(layers: int) -> None:
    """Nothing of the outer layer is on the stack where the inner one gives up."""
    backend = Backend()

    async def innermost() -> None:
        backend()

    def layer(inner: Callable[[], Any]) -> Callable[[], Any]:
        @retry()
        async def wrapped() -> Any:
            return await asyncio.create_task(inner())

        return wrapped

    call: Callable[[], Any] = innermost
    for _ in range(layers):
        call = layer(call)
    with pytest.raises(Boom):
        asyncio.run(call())
    assert backend.calls == 4


@pytest.mark.parametrize("layers", [2, 3])
def test_layers_in_threads_of_their_own_make_four_calls(layers: int) -> None:
    backend = Backend()

    def layer(inner: Callable[[], Any]) -> Callable[[], Any]:
        @retry()
        def wrapped() -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(inner).result()

        return wrapped

    call: Callable[[], Any] = backend
    for _ in range(layers):
        call = layer(call)
    with pytest.raises(Boom):
        call()
    assert backend.calls == 4


# The mark travels with what is made of the error.


def test_error_raised_from_an_exhausted_one_is_exhausted() -> None:
    backend = Backend()
    inner = retry()(backend)

    @retry(on=Exception)
    def outer() -> None:
        try:
            inner()
        except Boom as error:
            raise Bang("translated") from error

    with pytest.raises(Bang):
        outer()
    assert backend.calls == 4


def test_group_with_an_exhausted_leaf_is_exhausted() -> None:
    backend = Backend()
    inner = retry()(backend)

    @retry()
    def outer() -> None:
        try:
            inner()
        except Boom as error:
            raise ExceptionGroup("several", [Boom("fresh"), error]) from None

    with pytest.raises(ExceptionGroup):
        outer()
    assert backend.calls == 4


def test_retry_after_around_an_exhausted_error_is_classified_by_it() -> None:
    """It is classified by its cause, and the cause has been retried."""
    backend = Backend()
    inner = retry()(backend)

    @retry()
    def outer() -> None:
        try:
            inner()
        except Boom as error:
            raise sp.RetryAfter(1, error) from None

    with pytest.raises(Boom):
        outer()
    assert backend.calls == 4


def test_pickled_error_still_carries_its_mark() -> None:
    with pytest.raises(Boom) as caught:
        retry()(Backend())()
    travelled = pickle.loads(pickle.dumps(caught.value))
    backend = Backend(lambda: travelled)
    with pytest.raises(Boom):
        retry()(backend)()
    assert backend.calls == 1


def test_copy_of_an_error_is_retried_in_a_later_call() -> None:
    with pytest.raises(Boom) as caught:
        retry()(Backend())()
    stored = copy.copy(caught.value)
    backend = Backend(lambda: stored)
    with pytest.raises(Boom):
        retry()(backend)()
    assert backend.calls == 4


# A layer ignores its own mark.


def test_same_error_object_raised_again_is_retried_again() -> None:
    error = Boom("reused")
    backend = Backend(lambda: error)
    decorated = retry()(backend)
    for _ in range(3):
        backend.calls = 0
        with pytest.raises(Boom):
            decorated()
        assert backend.calls == 4


def test_reused_error_object_in_an_async_function_is_retried_each_time() -> None:
    error, calls = Boom("reused"), []

    @retry()
    async def callee() -> None:
        calls.append(1)
        raise error

    for _ in range(3):
        with pytest.raises(Boom):
            asyncio.run(callee())
    assert len(calls) == 12


class Client:
    def __init__(self) -> None:
        self.error = Boom("reused")
        self.calls = 0

    def get(self) -> None:
        self.calls += 1
        raise self.error


def test_reused_error_object_from_a_method_is_retried_each_time() -> None:
    """``client.get`` is a new object each time it is looked up; the layer is the same."""
    client, policy = Client(), retry()
    for _ in range(3):
        with pytest.raises(Boom):
            policy.call(client.get)
    assert client.calls == 12


def test_reused_error_object_from_a_new_lambda_is_retried_each_time() -> None:
    client, policy = Client(), retry()
    for _ in range(3):
        with pytest.raises(Boom):
            policy.call(lambda: client.get())  # noqa: PLW0108 (the point is that it is another one)
    assert client.calls == 12


def test_reused_error_object_in_a_block_is_retried_each_time() -> None:
    client, policy = Client(), retry()
    for _ in range(3):
        with pytest.raises(Boom):
            for attempt in policy.retrying():
                with attempt:
                    client.get()
    assert client.calls == 12


def test_reused_error_object_in_a_generator_is_retried_each_time() -> None:
    client = Client()

    @retry()
    def stream() -> Iterator[int]:
        client.get()
        yield 1

    for _ in range(3):
        with pytest.raises(Boom):
            next(stream())
    assert client.calls == 12


# Notes.


def ours(error: BaseException) -> list[str]:
    return [note for note in error.__notes__ if note.startswith("stormproof")]


def test_notes_are_replaced_not_piled_up() -> None:
    error = Boom("reused")
    decorated = retry(attempts=3)(Backend(lambda: error))
    for _ in range(5):
        with pytest.raises(Boom):
            decorated()
    assert len(ours(error)) == 1
    assert "3 attempts" in ours(error)[0]


def test_user_s_own_notes_are_kept() -> None:
    error = Boom("reused")
    error.add_note("mine, first")
    decorated = retry()(Backend(lambda: error))
    for _ in range(2):
        with pytest.raises(Boom):
            decorated()
    error.add_note("mine, last")
    assert [note for note in error.__notes__ if not note.startswith("stormproof")] == [
        "mine, first",
        "mine, last",
    ]


@each_nesting
def test_layers_leave_one_note(nested: Any) -> None:
    error = nested(Backend(), retry(), retry(), retry())
    assert len(ours(error)) == 1


@each_nesting
def test_note_keeps_the_number_of_calls_of_the_inner_layer(nested: Any) -> None:
    """The layers around made none: theirs must not take the place of the one that did."""
    error = nested(Backend(), retry(name="inner"), retry(name="outer"))
    assert "4 attempts" in ours(error)[0]


# Exceptions that take neither attributes nor notes.


class Rigid(Exception):
    """Refuses every attribute."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)

    def add_note(self, note: str) -> None:
        raise TypeError("no notes here")


class Odd(Exception):
    """Has notes that are not a list of strings."""

    __notes__ = (1, 2)  # type: ignore[assignment]


class Worse(Exception):
    """Reading any of its attributes may raise."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("__class__", "__traceback__", "with_traceback")):
            return super().__getattribute__(name)
        raise RuntimeError(name)


@pytest.mark.parametrize("kind", [Rigid, Odd, Worse])
def test_error_that_refuses_notes_is_raised_unchanged(kind: type[Exception]) -> None:
    error = kind("stubborn")
    backend = Backend(lambda: error)
    with pytest.raises(kind) as caught:
        retry(on=kind)(backend)()
    assert caught.value is error
    assert backend.calls == 4


@pytest.mark.parametrize("kind", [Rigid, Odd, Worse])
def test_hint_on_an_error_that_refuses_attributes_is_ignored(kind: type[Exception]) -> None:
    error = kind("stubborn")
    with pytest.raises(kind) as caught:
        retry(on=kind)(Backend(lambda: sp.RetryAfter(100, error)))()
    assert caught.value is error


def test_cyclic_chain_of_causes_ends() -> None:
    first, second = Boom("first"), Boom("second")
    first.__cause__, second.__cause__ = second, first
    backend = Backend(lambda: first)
    with pytest.raises(Boom):
        retry()(backend)()
    assert backend.calls == 4
    assert first.__cause__ is second
    # Cut, so that no garbage collector or traceback printer has to deal with it.
    first.__cause__ = second.__cause__ = None


# What an error with nothing to read is.


class Silent(ConnectionError):
    """Defines nothing that could be read."""


class Speaking(ConnectionError):
    response = None


class Slotted(ConnectionError):
    __slots__ = ("response",)


class Answering(ConnectionError):
    def __getattr__(self, name: str) -> object:
        raise AttributeError(name)


class Coded(ConnectionError):
    """Has attributes, none of which is read."""

    retries = 3

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 17

    @property
    def text(self) -> str:
        return str(self)


@pytest.mark.parametrize("kind", [ConnectionError, KeyError, Silent, Coded])
def test_error_is_bare_until_what_is_read_is_attached(kind: type[Exception]) -> None:
    assert is_bare(kind("x"))
    noted, caused, answered = kind("x"), kind("x"), kind("x")
    noted.add_note("tried")
    assert is_bare(noted)
    caused.__cause__ = ValueError()
    assert not is_bare(caused)
    answered.response = None  # type: ignore[attr-defined]
    assert not is_bare(answered)


class Asked(ConnectionError):
    """Has no attribute of its own, and remembers which ones are asked for."""

    def __getattr__(self, name: str) -> object:
        asked.append(name)
        raise AttributeError(name)


class AskedForStatus(Exception):
    """The same, of a type that is not known."""

    __getattr__ = Asked.__getattr__


asked: list[str] = []


@pytest.mark.parametrize("kind", [Asked, AskedForStatus])
@pytest.mark.parametrize(
    "on", [sp.transient, Exception, (Asked, AskedForStatus)], ids=["transient", "all", "types"]
)
def test_error_has_only_known_attributes_read(kind: type[Exception], on: Any) -> None:
    asked.clear()
    error = kind("x")
    sp.Retry(on=on).judge(error)
    exhausted_by(error)
    is_permanent(error)
    assert "response" in asked
    assert set(asked) <= READ_ATTRIBUTES


@pytest.mark.parametrize(
    "error",
    [Speaking(), Slotted(), Answering(), sp.Permanent(ValueError()), sp.RetryAfter(1), sp.CircuitOpen()],
)
def test_error_whose_type_has_something_to_read_is_not_bare(error: Exception) -> None:
    assert not is_bare(error)


def test_group_is_not_bare() -> None:
    assert not is_bare(ExceptionGroup("both", [ValueError(), KeyError()]))
