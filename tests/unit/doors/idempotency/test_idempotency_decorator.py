"""`idempotent`: what runs, what is answered from the store, what is raised."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.polling import eventually

import stormproof as sp
from stormproof import events
from stormproof.idempotency import (
    AnswerNotKept,
    IdempotencyConflict,
    IdempotencyMismatch,
    MemoryStore,
    OutcomeUnknown,
    Store,
    StoreUnavailable,
    idempotent,
    lease_renewal,
)
from stormproof.idempotency.lease_renewal import RenewedLease
from stormproof.idempotency.records import Begin, Finish, Renew
from stormproof.testing import FakeClock

Caller = Callable[[Callable[..., Any], Any], Any]


class Colour:
    """Decorates a function as it is, or as a coroutine function, and calls it so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop = None if name == "sync" else Loop(name)

    def decorate(self, fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        if self.loop is None:
            return idempotent(**options)(fn)

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        wrapped = idempotent(**options)(coroutine)
        return lambda *args, **kwargs: self.loop.run(lambda: wrapped(*args, **kwargs))

    def __repr__(self) -> str:
        return self.name


each_colour = pytest.mark.parametrize("colour", [Colour("sync"), Colour("asyncio"), Colour("trio")], ids=repr)


def first(value: Any, *rest: Any, **named: Any) -> Any:
    return value


class Calls:
    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.made: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> Any:
        self.made.append(args)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@each_colour
def test_second_call_gets_the_first_result(colour: Colour) -> None:
    calls = Calls({"id": 7}, {"id": 8})
    charge = colour.decorate(calls, key=first, store=MemoryStore())
    assert charge("order-1") == {"id": 7}
    assert charge("order-1") == {"id": 7}
    assert charge("order-2") == {"id": 8}
    assert calls.made == [("order-1",), ("order-2",)]


@each_colour
@pytest.mark.parametrize("result", [None, 0, "", [], {"a": [1, 2.5, None, True]}, "ünï"])
def test_every_json_result_comes_back(colour: Colour, result: Any) -> None:
    charge = colour.decorate(Calls(result), key=first, store=MemoryStore())
    assert charge("k") == result
    assert charge("k") == result


@each_colour
def test_error_is_raised_and_not_stored(colour: Colour) -> None:
    calls = Calls(ConnectionError("down"), 7)
    charge = colour.decorate(calls, key=first, store=MemoryStore())
    with pytest.raises(ConnectionError, match="down"):
        charge("k")
    assert charge("k") == 7
    assert charge("k") == 7
    assert len(calls.made) == 2


@each_colour
def test_error_can_be_an_unknown_outcome(colour: Colour) -> None:
    calls = Calls(ConnectionError("down"), 7)
    charge = colour.decorate(calls, key=first, store=MemoryStore(), on_error="unknown")
    with pytest.raises(ConnectionError):
        charge("k")
    with pytest.raises(OutcomeUnknown):
        charge("k")
    assert len(calls.made) == 1


@each_colour
def test_interrupted_call_is_an_unknown_outcome_at_once(colour: Colour) -> None:
    store = MemoryStore(clock=FakeClock())
    calls = Calls(KeyboardInterrupt(), 7)
    charge = colour.decorate(calls, key=first, store=store, scope="s")
    with pytest.raises(KeyboardInterrupt):
        charge("k")
    with pytest.raises(OutcomeUnknown):
        charge("k")
    again = colour.decorate(calls, key=first, store=store, scope="s", on_unknown="run")
    assert again("k") == 7
    assert charge("k") == 7


@each_loop
def test_cancelled_call_is_an_unknown_outcome_at_once(loop: Loop) -> None:
    store = MemoryStore(clock=FakeClock())

    @idempotent(key=first, store=store)
    async def charge(key: str) -> None:
        await loop.sleep(1000)

    async def main() -> None:
        assert await loop.cut(1, charge, "k")
        with pytest.raises(OutcomeUnknown):
            await charge("k")

    loop.run(main)


@each_colour
def test_same_key_with_another_payload_is_a_mismatch(colour: Colour) -> None:
    charge = colour.decorate(
        Calls(1), key=first, store=MemoryStore(), fingerprint=lambda key, amount: str(amount)
    )
    assert charge("k", 100) == 1
    assert charge("k", 100) == 1
    with pytest.raises(IdempotencyMismatch, match="another payload"):
        charge("k", 200)


@each_colour
def test_functions_have_their_own_keys_unless_they_share_a_scope(colour: Colour) -> None:
    store = MemoryStore()
    one = colour.decorate(Calls(1), key=first, store=store, scope="one")
    two = colour.decorate(Calls(2), key=first, store=store, scope="two")
    same = colour.decorate(Calls(), key=first, store=store, scope="one")
    assert (one("k"), two("k"), same("k")) == (1, 2, 1)
    by_tenant = colour.decorate(Calls(3, 4), key=first, store=store, scope=lambda key, tenant: tenant)
    assert (by_tenant("k", "a"), by_tenant("k", "b"), by_tenant("k", "a")) == (3, 4, 3)


def test_two_functions_do_not_answer_for_each_other() -> None:
    store = MemoryStore()

    @idempotent(key=first, store=store)
    def charge(key: str) -> str:
        return "charged"

    @idempotent(key=first, store=store)
    def refund(key: str) -> str:
        return "refunded"

    assert (charge("order-1"), refund("order-1")) == ("charged", "refunded")


def test_codec_encodes_and_decodes_results() -> None:
    codec = (lambda value: repr(value).encode(), lambda kept: ("decoded", kept.decode()))

    @idempotent(key=first, store=MemoryStore(), codec=codec)
    def charge(key: str) -> tuple[int, int]:
        return (1, 2)

    assert charge("k") == (1, 2)
    assert charge("k") == ("decoded", "(1, 2)")


@each_colour
def test_result_that_cannot_be_stored_raises_and_is_not_run_again(colour: Colour) -> None:
    calls = Calls(object(), 1)
    charge = colour.decorate(calls, key=first, store=MemoryStore())
    with pytest.raises(TypeError, match="result cannot be stored: Object of type object is not JSON"):
        charge("k")
    with pytest.raises(AnswerNotKept):
        charge("k")
    assert len(calls.made) == 1


@each_colour
def test_codec_that_does_not_return_bytes_raises_and_is_not_run_again(colour: Colour) -> None:
    calls = Calls(1, 2)
    charge = colour.decorate(calls, key=first, store=MemoryStore(), codec=(str, int))
    with pytest.raises(TypeError, match="result cannot be stored: the codec must give bytes, got str"):
        charge("k")
    with pytest.raises(AnswerNotKept):
        charge("k")
    assert len(calls.made) == 1


@each_colour
def test_result_that_is_too_large_goes_to_the_first_caller_only(colour: Colour) -> None:
    calls = Calls("x" * 200, 1)
    charge = colour.decorate(calls, key=first, store=MemoryStore(max_answer=100))
    assert charge("k") == "x" * 200
    with pytest.raises(AnswerNotKept, match="result was not kept"):
        charge("k")
    assert len(calls.made) == 1


class Failing(MemoryStore):
    """Does not answer operations of the kinds in ``down``."""

    down: tuple[type, ...] = ()

    def run(self, operation: Any) -> Any:
        if isinstance(operation, self.down):
            raise StoreUnavailable("gone")
        return super().run(operation)


@each_colour
def test_unavailable_store_lets_no_call_run(colour: Colour) -> None:
    store = Failing()
    calls = Calls(1)
    charge = colour.decorate(calls, key=first, store=store)
    store.down = (Begin,)
    with pytest.raises(StoreUnavailable) as caught:
        charge("k")
    assert calls.made == []
    assert sp.transient(caught.value).retry
    store.down = ()
    assert charge("k") == 1


@each_colour
def test_record_that_cannot_be_written_does_not_lose_the_result(colour: Colour) -> None:
    clock = FakeClock()
    store = Failing(clock=clock)
    store.down = (Finish,)
    seen: list[Any] = []
    charge = colour.decorate(Calls(1), key=first, store=store, lease=10)
    unsubscribe = sp.subscribe(seen.append)
    try:
        assert charge("k") == 1
    finally:
        unsubscribe()
    assert [event.decision for event in seen] == ["new", "unrecorded"]
    with pytest.raises(IdempotencyConflict):
        charge("k")
    clock.advance(11)
    with pytest.raises(OutcomeUnknown):
        charge("k")


def test_every_decision_is_emitted() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    seen: list[Any] = []

    def charge(key: str, payload: str = "p") -> int:
        if payload == "nested":
            with pytest.raises(IdempotencyConflict):
                guarded(key, payload)
        if payload == "slow":
            clock.advance(11)
            with pytest.raises(OutcomeUnknown):
                guarded(key, payload)
            assert taking_over(key, payload) == 2
        return 1

    options: dict[str, Any] = {
        "key": first,
        "store": store,
        "lease": 10,
        "scope": "s",
        "fingerprint": lambda key, payload="p": payload,
    }
    guarded = idempotent(**options)(charge)

    @idempotent(**options, on_unknown="run")
    def taking_over(key: str, payload: str) -> int:
        return 2

    unsubscribe = sp.subscribe(seen.append)
    try:
        guarded("a")
        guarded("a")
        with pytest.raises(IdempotencyMismatch):
            guarded("a", "q")
        guarded("b", "nested")
        guarded("c", "slow")
    finally:
        unsubscribe()
    assert [event.decision for event in seen] == [
        *("new", "replay", "mismatch"),
        *("new", "in_progress"),
        *("new", "unknown", "taken_over", "lost"),
    ]
    assert {type(event) for event in seen} == {events.IdempotentCall}
    assert all(event.operation.endswith(("charge", "taking_over")) for event in seen)
    assert guarded("c", "slow") == 2, "the result of the call that held the key counts"


@each_loop
def test_coroutine_that_lost_its_key_emits_lost(loop: Loop) -> None:
    clock = FakeClock()
    options: dict[str, Any] = {"key": first, "store": MemoryStore(clock=clock), "lease": 10, "scope": "s"}
    seen: list[Any] = []

    @idempotent(**options)
    async def charge(key: str) -> int:
        clock.advance(11)
        assert await taking_over(key) == 2
        return 1

    @idempotent(**options, on_unknown="run")
    async def taking_over(key: str) -> int:
        return 2

    unsubscribe = sp.subscribe(seen.append)
    try:
        assert loop.run(charge, "k") == 1
    finally:
        unsubscribe()
    assert [event.decision for event in seen] == ["new", "taken_over", "lost"]
    assert loop.run(charge, "k") == 2


def test_conflict_is_worth_retrying_and_the_others_are_not() -> None:
    assert sp.transient(IdempotencyConflict("x")).retry
    assert sp.transient(StoreUnavailable("x")).retry
    for final in (IdempotencyMismatch, OutcomeUnknown, AnswerNotKept):
        assert not sp.transient(final("x")).retry


class Counting(MemoryStore):
    def __init__(self) -> None:
        # Its own time stands still, so that no stall of the machine ends a lease.
        super().__init__(clock=FakeClock())
        self.renewals = threading.Semaphore(0)

    def run(self, operation: Any) -> Any:
        result = super().run(operation)
        if isinstance(operation, Renew):
            self.renewals.release()
        return result


def test_lease_is_renewed_while_the_function_runs() -> None:
    store = Counting()

    @idempotent(key=first, store=store, lease=0.03)
    def charge(key: str) -> int:
        for _ in range(5):
            assert store.renewals.acquire(timeout=60)
        with pytest.raises(IdempotencyConflict):
            charge(key)
        return 1

    assert charge("k") == 1
    assert charge("k") == 1


def test_lease_is_renewed_while_a_coroutine_blocks_its_loop() -> None:
    store = Counting()

    @idempotent(key=first, store=store, lease=0.03)
    async def charge(key: str) -> int:
        for _ in range(5):
            assert store.renewals.acquire(timeout=60)
        return 1

    assert asyncio.run(charge("k")) == 1


def test_renewal_is_repeated_after_an_error_of_the_store() -> None:
    failures = iter([True, True])

    class Shaky(Counting):
        def run(self, operation: Any) -> Any:
            if isinstance(operation, Renew) and next(failures, False):
                raise StoreUnavailable("gone")
            return super().run(operation)

    store = Shaky()

    @idempotent(key=first, store=store, lease=0.3)
    def charge(key: str) -> int:
        assert store.renewals.acquire(timeout=60)
        return 1

    assert charge("k") == 1


def test_short_lease_is_renewed_in_time_although_a_long_one_was_there_first() -> None:
    store = Counting()

    @idempotent(key=first, store=store, lease=600)
    def long(key: str) -> int:
        wake: Any = lease_renewal._renewal_threads[store]._wake
        eventually(lambda: wake._waiters)
        return short(key)

    @idempotent(key=first, store=store, lease=0.03)
    def short(key: str) -> int:
        assert store.renewals.acquire(timeout=30), "the thread still sleeps until the long one is due"
        return 1

    assert long("k") == 1


def test_key_of_another_owner_is_not_renewed_again() -> None:
    store = Counting()
    with RenewedLease(store, Renew(b"not ours", "a", 0.03, 60.0)) as kept:
        keeper = lease_renewal._renewal_threads[store]
        assert store.renewals.acquire(timeout=60)
        eventually(lambda: not keeper._running)
        assert not kept.active
    assert not store.renewals.acquire(blocking=False)


def test_ended_leases_are_released_long_before_their_renewal() -> None:
    store = MemoryStore(clock=FakeClock())

    @idempotent(key=first, store=store, lease=600)
    def charge(key: str) -> int:
        return 1

    @idempotent(key=first, store=store, lease=500)
    def busy(key: str) -> int:
        keeper = lease_renewal._renewal_threads[store]
        (own,) = [entry[2] for entry in keeper._due]
        most = 0
        for number in range(3000):
            charge(str(number))
            most = max(most, len(keeper._due))
        assert most <= lease_renewal._SWEEP + 1
        assert own.active and keeper._due[0][2] is own, "the one that runs was let go too"
        return most

    assert busy("k") > 100


def test_decorated_function_keeps_name_and_signature() -> None:
    @idempotent(key=first, store=MemoryStore())
    async def charge(order: str, *, amount: int = 3) -> int:
        """Charge it."""
        return amount

    assert inspect.iscoroutinefunction(charge)
    assert (charge.__name__, charge.__doc__) == ("charge", "Charge it.")
    assert list(inspect.signature(charge).parameters) == ["order", "amount"]


def test_decorated_method_runs_once_per_key() -> None:
    class Shop:
        def __init__(self) -> None:
            self.charged = 0

        @idempotent(key=lambda self, order: order, store=MemoryStore())
        def charge(self, order: str) -> int:
            self.charged += 1
            return self.charged

    shop = Shop()
    assert (shop.charge("a"), shop.charge("a"), shop.charge("b")) == (1, 1, 2)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"key": "order"}, TypeError, "key must be a callable"),
        ({"store": {}}, TypeError, "store must be a Store"),
        ({"lease": 0}, ValueError, "lease must be > 0"),
        ({"lease": float("nan")}, ValueError, "lease must be a number"),
        ({"ttl": -1}, ValueError, "ttl must be > 0"),
        ({"on_unknown": "retry"}, ValueError, "on_unknown must be one of 'error', 'run', got 'retry'"),
        ({"on_error": "store"}, ValueError, "on_error must be one of"),
        ({"fingerprint": 3}, TypeError, "fingerprint must be callable or None"),
        ({"scope": 3}, TypeError, "scope must be a string"),
        ({"codec": "json"}, TypeError, "codec must be a pair"),
        ({"codec": (str,)}, TypeError, "codec must be a pair"),
    ],
)
def test_options_are_checked_when_given(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        idempotent(**{"key": first, "store": MemoryStore(), **options})


def test_only_functions_can_be_decorated() -> None:
    decorate = idempotent(key=first, store=MemoryStore())

    def generator() -> Any:
        yield 1

    for wrong in (generator, 3):
        with pytest.raises(TypeError, match="only functions and coroutine functions"):
            decorate(wrong)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        (None, TypeError, "the key of a call must be a string, got NoneType"),
        ("", ValueError, "must not be empty"),
        ("k" * 256, ValueError, "at most 255"),
        ("a\tb", ValueError, "printable"),
    ],
)
@each_colour
def test_invalid_key_is_refused_without_a_call(
    colour: Colour, key: Any, error: type[Exception], says: str
) -> None:
    calls = Calls(1)
    charge = colour.decorate(calls, key=first, store=MemoryStore())
    with pytest.raises(error, match=says):
        charge(key)
    assert calls.made == []


@each_colour
def test_invalid_fingerprint_is_refused_without_a_call(colour: Colour) -> None:
    calls = Calls(1)
    charge = colour.decorate(calls, key=first, store=MemoryStore(), fingerprint=lambda key: {"amount": 7})
    with pytest.raises(TypeError, match="fingerprint must give str or bytes, got dict"):
        charge("k")
    assert calls.made == []


def test_bare_store_is_only_an_interface() -> None:
    with pytest.raises(NotImplementedError):
        Store().begin("k", "", "a", 10)
