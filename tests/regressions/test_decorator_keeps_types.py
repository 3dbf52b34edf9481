"""tenacity#187, #221, #346, #532: a decorated function lost its signature, for type checkers and for people.

Stormproof: the wrapper has the function's own signature, names, annotations and docs, and refuses the same
wrong calls. What mypy and pyright see of it is checked in ``tests/typing``.
"""

from __future__ import annotations

import inspect
import typing

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp

POLICIES = {
    "retry": retry(),
    "hooks": retry(on_result=lambda value: False),
    "deadline": sp.Policy(sp.Deadline(5), sp.Retry(on=Boom)),
    "empty": sp.Policy(),
}
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def full(a: int, /, b: str = "b", *rest: float, key: bytes, other: str = "o", **more: object) -> tuple:
    """Do nothing."""
    return a, b, rest, key, other, more


async def coroutine(a: int, *, key: bytes = b"") -> tuple:
    return a, key


def generator(a: int) -> typing.Iterator[int]:
    yield a


async def async_generator(a: int) -> typing.AsyncIterator[int]:
    yield a


@each_policy
@pytest.mark.parametrize("fn", [full, coroutine, generator, async_generator])
def test_signature_hints_and_names_survive(policy, fn):
    wrapped = policy(fn)
    assert inspect.signature(wrapped) == inspect.signature(fn)
    assert typing.get_type_hints(wrapped) == typing.get_type_hints(fn)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(wrapped, name) == getattr(fn, name)
    assert wrapped.__wrapped__ is fn


def calls(fn):
    """The same calls, good and bad, of ``fn``: what each gives."""
    yield lambda: fn(1, key=b"k")
    yield lambda: fn(1, "x", 2.0, 3.0, key=b"k", other="p", extra=4)
    yield lambda: fn(1, b="x", key=b"k")
    yield lambda: fn(a=1, key=b"k")
    yield lambda: fn(1)
    yield lambda: fn(key=b"k")
    yield fn


def outcome(call):
    try:
        return call()
    except TypeError as error:
        return str(error)


@each_policy
def test_same_calls_are_taken_and_refused(policy):
    for plain, wrapped in zip(calls(full), calls(policy(full)), strict=True):
        actual, expected = outcome(wrapped), outcome(plain)
        if isinstance(expected, str):
            # The sentence names the wrapper's own function; the complaint is the same.
            assert actual.split("()", 1)[-1] == expected.split("()", 1)[-1]
        else:
            assert actual == expected


def test_wrong_call_is_the_callers_bug_and_not_retried():
    events = []
    stop = sp.subscribe(events.append)

    @sp.retry(on=Exception, backoff=sp.Constant(0))
    def call(a):
        pytest.fail("it cannot even be called")

    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        call()
    stop()
    assert events == []


@each_policy
def test_defaults_are_the_functions_own(policy):
    marker = object()

    def fn(value=marker, *, key=marker):
        return value, key

    assert policy(fn)() == (marker, marker)


@each_policy
@each_loop
def test_awkward_parameter_names_are_kept(policy, loop):
    async def fn(args, kwargs, self, error, _sp_call, call, failed):
        return args, kwargs, self, error, _sp_call, call, failed

    assert loop.run(policy(fn), *range(7)) == tuple(range(7))

    def sync(args, kwargs, attempt, result, ambient, _sp_result=6):
        return args, kwargs, attempt, result, ambient, _sp_result

    assert policy(sync)(*range(5)) == (0, 1, 2, 3, 4, 6)


def test_decorated_methods_bind():
    class Client:
        @retry()
        def get(self, key: str) -> tuple:
            return self, key

    client = Client()
    assert client.get("k") == (client, "k")
    assert inspect.signature(client.get) == inspect.Signature(
        [inspect.Parameter("key", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="str")],
        return_annotation="tuple",
    )
