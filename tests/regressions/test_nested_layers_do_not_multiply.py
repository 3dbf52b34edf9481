"""stamina#19; nanobot#2760: 12 requests instead of 4; code_puppy#317: 45: each layer that retries multiplies
the calls of the layers below it.

Stormproof: the innermost layer retries; those around it see that it has, and pass its error on.
"""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp


@pytest.fixture(autouse=True)
def instant():
    with sp.testing.instant() as clock:
        yield clock


class Backend:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        raise Boom(f"call {self.calls}")


def layered(backend, depth, **options):
    call = backend
    for level in range(depth):
        # A function of its own for each layer, as in real code.
        def layer(below=call):
            return below()

        call = retry(name=f"layer {level}", **options)(layer)
    return call


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.proves("invariant 8")
def test_layers_make_four_calls_at_any_depth(depth):
    backend = Backend()
    with pytest.raises(Boom, match="call 4"):
        layered(backend, depth)()
    assert backend.calls == 4


def test_layers_with_retry_exhausted_multiply():
    backend = Backend()
    with pytest.raises(Boom):
        layered(backend, 3, retry_exhausted=True)()
    assert backend.calls == 64


@each_loop
def test_async_layers_make_four_calls(loop):
    backend = Backend()

    @retry()
    async def inner():
        backend()

    @retry()
    async def outer():
        await inner()

    with pytest.raises(Boom, match="call 4"):
        loop.run(outer)
    assert backend.calls == 4


def test_nested_blocks_make_four_calls():
    backend = Backend()

    def run():
        for outer in retry().retrying():
            with outer:
                for inner in retry().retrying():
                    with inner:
                        backend()

    with pytest.raises(Boom, match="call 4"):
        run()
    assert backend.calls == 4


def test_stacked_decorators_make_four_calls():
    backend = Backend()

    @retry()
    @retry()
    def call():
        backend()

    with pytest.raises(Boom):
        call()
    assert backend.calls == 4


def test_wrapped_error_keeps_its_mark():
    backend = Backend()

    class Unavailable(Exception):
        pass

    @retry(on=Unavailable)
    def outer():
        try:
            retry().call(backend)
        except Boom as error:
            raise Unavailable from error

    with pytest.raises(Unavailable):
        outer()
    assert backend.calls == 4


def test_errors_in_a_group_keep_their_marks():
    backends = [Backend(), Backend()]

    async def ask(backend):
        backend()

    @retry()
    async def outer():
        async with asyncio.TaskGroup() as group:
            for backend in backends:
                group.create_task(retry().acall(ask, backend))

    with pytest.raises(ExceptionGroup):
        asyncio.run(outer())
    assert [backend.calls for backend in backends] == [4, 4]


def test_error_from_another_process_keeps_its_mark():
    """As a process pool does it: pickled there, raised here."""
    with pytest.raises(Boom) as caught:
        retry().call(Backend())
    calls = 0

    @retry()
    def outer():
        nonlocal calls
        calls += 1
        raise pickle.loads(pickle.dumps(caught.value))

    with pytest.raises(Boom):
        outer()
    assert calls == 1


@pytest.mark.parametrize(
    "options",
    [{"budget": sp.Budget(burst=1)}, {"within": 0.5}, {"max_hint": 0.5}],
    ids=["budget", "within", "hint"],
)
def test_every_way_of_giving_up_is_final(options):
    calls = 0

    def backend():
        nonlocal calls
        calls += 1
        raise sp.RetryAfter(1, Boom())

    @retry(on=Exception)
    def outer():
        return retry(**options).call(backend)

    with pytest.raises((Boom, sp.StormproofError)):
        outer()
    expected = calls
    calls = 0
    with pytest.raises((Boom, sp.StormproofError)):
        retry(**options).call(backend)
    assert expected <= 2 and calls <= 2


@pytest.mark.proves("invariant 8")
def test_nested_layers_pay_once():
    inner, outer = sp.Budget(burst=10), sp.Budget(burst=10)
    backend = Backend()

    @retry(budget=outer)
    def call():
        return retry(budget=inner).call(backend)

    with pytest.raises(Boom):
        call()
    assert (inner.balance, outer.balance) == (7, 10)


def test_outer_layer_retries_an_error_that_the_inner_one_did_not():
    backend = Backend()

    @retry()
    def outer():
        return retry(on=KeyError).call(backend)

    with pytest.raises(Boom):
        outer()
    assert backend.calls == 4


def test_layer_at_work_twice_in_a_worker_thread_stops_the_one_that_waits_for_it():
    """It ignores marks of its own, unless it is at work around the one that made it."""
    calls = []
    pool = ThreadPoolExecutor(1)

    @retry(attempts=3)
    def call(depth):
        if depth == 2:
            return pool.submit(call, 1).result()
        if depth == 1:
            return call(0)
        calls.append(depth)
        raise Boom

    with pool, pytest.raises(Boom):
        call(2)
    assert len(calls) == 3
