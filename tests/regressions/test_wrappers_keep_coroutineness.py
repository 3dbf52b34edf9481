"""Elsewhere a decorated ``async def`` came back as a plain function, so frameworks that ask
``iscoroutinefunction`` called it in a thread and never awaited it.

Stormproof: the wrapper returns what the function returns, and introspection shows it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from unittest import mock

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp


def plain():
    return 1


async def coroutine():
    return 1


def generator():
    yield 1


async def async_generator():
    yield 1


ASKS = [
    inspect.iscoroutinefunction,
    asyncio.iscoroutinefunction if sys.version_info < (3, 14) else inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
]
POLICIES = {
    "retry": retry(),
    "start": retry(budget=sp.WindowBudget()),
    "hooks": retry(before_attempt=lambda attempt: None),
    "deadline": sp.Policy(sp.Deadline(5)),
    "both": sp.Policy(sp.Deadline(5), sp.Retry(on=Boom)),
    "empty": sp.Policy(),
}
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@each_policy
@pytest.mark.parametrize("fn", [plain, coroutine, generator, async_generator])
def test_wrapped_functions_keep_their_kind(policy, fn):
    wrapped = policy(fn)
    assert [ask(wrapped) for ask in ASKS] == [ask(fn) for ask in ASKS]


@each_policy
def test_wrapped_methods_keep_their_kind(policy):
    class Client:
        @policy
        async def get(self, key):
            return self, key

        @policy
        @classmethod
        async def of_class(cls):
            return cls

        @classmethod
        @policy
        async def under_class(cls):
            return cls

        @policy
        @staticmethod
        async def of_nothing():
            return 1

    client = Client()
    for method in (client.get, Client.get, client.of_class, client.under_class, client.of_nothing):
        assert inspect.iscoroutinefunction(method)
    assert asyncio.run(client.get("k")) == (client, "k")
    assert asyncio.run(client.of_class()) is Client
    assert asyncio.run(client.under_class()) is Client
    assert asyncio.run(client.of_nothing()) == 1


class AsyncCallable:
    def __init__(self):
        self.calls = 0

    async def __call__(self, *args):
        self.calls += 1
        if self.calls < 2:
            raise Boom
        return self.calls


async def _fail_once(state, *args):
    return await state(*args)


def partials(state):
    return functools.partial(functools.partial(_fail_once, state), "bound")


@each_loop
@pytest.mark.parametrize(
    "make",
    [lambda state: state, partials, lambda state: state.__call__],
    ids=["callable object", "partial of a partial", "bound method"],
)
def test_other_callables_are_awaited_and_retried(loop, make):
    wrapped = retry()(make(AsyncCallable()))
    assert inspect.iscoroutinefunction(wrapped)

    async def scenario():
        with sp.testing.instant():
            return await wrapped()

    assert loop.run(scenario) == 2


def test_mocks_keep_their_kind():
    target = mock.AsyncMock(side_effect=[Boom, "ok"])
    with sp.testing.instant():
        assert asyncio.run(retry()(target)(1, key=2)) == "ok"
    assert target.await_args_list == [mock.call(1, key=2)] * 2
    target = mock.Mock(side_effect=[Boom, "ok"])
    with sp.testing.instant():
        assert retry()(target)(1, key=2) == "ok"
    assert target.call_args_list == [mock.call(1, key=2)] * 2


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="other interpreter: markcoroutinefunction is new in 3.12"
)
def test_functions_marked_as_coroutines_keep_their_kind():
    @inspect.markcoroutinefunction
    def marked():
        return coroutine()

    wrapped = retry()(marked)
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped()) == 1


def test_function_decorated_twice_keeps_its_kind():
    wrapped = retry()(retry()(coroutine))
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped()) == 1


def test_call_of_a_coroutine_function_names_acall():
    with pytest.raises(TypeError, match="use acall"):
        retry().call(coroutine)
