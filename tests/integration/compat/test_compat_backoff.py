"""``stormproof.compat.backoff`` against the documented API of backoff 2.2.1: the two decorators."""

# ruff: noqa: F401, F811 -- fixtures are imported by name and named again as arguments

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import traceback
from unittest import mock

import pytest
from tests.integration.compat.backoff_harness import Script, run, slept, ticks

from stormproof.compat import backoff
from stormproof.compat.backoff.types import Details

# --- on_exception


def test_retries_while_the_exception_is_raised(run, slept):
    script = Script(KeyError(1), KeyError(2), "done")
    assert run(backoff.on_exception(backoff.expo, KeyError, jitter=None), script) == "done"
    assert script.calls == 3
    assert slept == [1, 2]


@pytest.mark.parametrize("kinds", [(KeyError, ValueError), [KeyError, ValueError]])
def test_on_exception_takes_several_types(run, slept, kinds):
    script = Script(KeyError(), ValueError(), "done")
    assert run(backoff.on_exception(backoff.expo, kinds), script) == "done"


def test_any_other_exception_passes_at_once(run, slept):
    error = OSError("no")
    with pytest.raises(OSError) as caught:
        run(backoff.on_exception(backoff.expo, KeyError), Script(error))
    assert caught.value is error
    assert slept == []


def test_giving_up_raises_the_last_error_with_its_traceback(run, slept):
    errors = [KeyError(n) for n in range(3)]
    script = Script(*errors)
    with pytest.raises(KeyError) as caught:
        run(backoff.on_exception(backoff.expo, KeyError, max_tries=3, jitter=None), script)
    assert caught.value is errors[2]
    assert "play" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert slept == [1, 2]


def test_raise_on_giveup_false_returns_none(run, slept):
    decorator = backoff.on_exception(backoff.expo, KeyError, max_tries=2, raise_on_giveup=False)
    assert run(decorator, Script(KeyError(), KeyError())) is None


def test_giveup_is_asked_about_each_error(run, slept):
    first, fatal = ValueError("again"), ValueError("fatal")
    asked = []

    def giveup(error):
        asked.append(error)
        return error is fatal

    script = Script(first, fatal, "never")
    with pytest.raises(ValueError, match="fatal"):
        run(backoff.on_exception(backoff.constant, ValueError, giveup=giveup), script)
    assert asked == [first, fatal]
    assert script.calls == 2


def test_giveup_is_asked_on_the_last_try_too(run, slept):
    asked = []
    decorator = backoff.on_exception(
        backoff.constant, ValueError, max_tries=2, giveup=asked.append, raise_on_giveup=False
    )
    run(decorator, Script(ValueError(), ValueError()))
    assert len(asked) == 2


def test_limits_may_be_callables_and_are_read_at_each_call(run, slept):
    limit = 2
    script = Script(*[KeyError()] * 5)
    target = run.decorated(
        backoff.on_exception(backoff.expo, KeyError, max_tries=lambda: limit, max_time=lambda: 1000), script
    )
    with pytest.raises(KeyError):
        target()
    assert script.calls == 2
    limit = 3
    with pytest.raises(KeyError):
        target()
    assert script.calls == 5


def test_max_time_is_compared_with_the_time_before_the_try(run, slept, ticks):
    left = ticks(0, 1, 9, 10.000005)
    given_up = []
    script = Script(False, False, False)
    decorator = backoff.on_predicate(
        backoff.constant, interval=4, max_time=10, jitter=None, on_giveup=given_up.append
    )
    assert run(decorator, script) is False
    assert script.calls == 3
    assert slept == [4, 1]  # the second one cut to what max_time leaves
    assert given_up[0]["elapsed"] == 10.000005
    assert left == []  # asked once at the start and once per try


def test_max_time_zero_gives_up_at_the_first_failure(run, slept):
    script = Script(KeyError())
    with pytest.raises(KeyError):
        run(backoff.on_exception(backoff.expo, KeyError, max_time=0), script)
    assert script.calls == 1


@pytest.mark.parametrize("max_tries", [None, 0, -1, 2.5])
def test_max_tries_that_no_count_equals_sets_no_limit(run, slept, max_tries):
    script = Script(*[KeyError()] * 30, "done")
    assert run(backoff.on_exception(backoff.constant, KeyError, max_tries=max_tries), script) == "done"


def test_end_of_the_waits_gives_up_and_raises(run, slept):
    errors = [KeyError(n) for n in range(3)]
    given_up = []
    decorator = backoff.on_exception(
        backoff.constant,
        KeyError,
        interval=[3, 5],
        jitter=None,
        raise_on_giveup=False,  # not heeded here, as in the original
        on_giveup=lambda details: given_up.append((details["exception"], sys.exc_info()[1])),
    )
    with pytest.raises(KeyError) as caught:
        run(decorator, Script(*errors))
    assert caught.value is errors[2]
    assert slept == [3, 5]
    assert given_up == [(errors[2], errors[2])]


# --- on_predicate


def test_predicate_defaults_to_falsy(run, slept):
    script = Script(None, [], 0, "truthy")
    assert run(backoff.on_predicate(backoff.fibo, jitter=None), script) == "truthy"
    assert slept == [1, 1, 2]


def test_predicate_may_be_given(run, slept):
    script = Script(503, 503, 200)
    assert run(backoff.on_predicate(backoff.expo, lambda status: status == 503), script) == 200


def test_predicate_giving_up_returns_the_last_value(run, slept):
    assert run(backoff.on_predicate(backoff.expo, max_tries=2), Script(0, "")) == ""


def test_predicate_at_the_end_of_the_waits_gives_up_with_the_value(run, slept):
    given_up = []
    decorator = backoff.on_predicate(backoff.constant, interval=(1,), jitter=None, on_giveup=given_up.append)
    assert run(decorator, Script(0, "")) == ""
    assert [details["value"] for details in given_up] == [""]


def test_on_predicate_passes_errors_through(run, slept):
    with pytest.raises(KeyError):
        run(backoff.on_predicate(backoff.expo), Script(KeyError()))


def test_stacked_decorators_retry_independently(run, slept):
    script = Script(KeyError(), 0, KeyError(), 7)

    def both(target):
        inner = backoff.on_exception(backoff.constant, KeyError, interval=2, jitter=None)(target)
        return backoff.on_predicate(backoff.constant, interval=5, jitter=None)(inner)

    assert run(both, script) == 7
    assert slept == [2, 5, 2]


# --- the wrapper


def test_wrapper_keeps_identity_and_kind():
    @backoff.on_exception(backoff.expo, KeyError)
    def plain(x):
        "Doc."
        return x

    @backoff.on_predicate(backoff.expo)
    async def coroutine():
        return 1

    assert (plain.__name__, plain.__doc__, str(inspect.signature(plain))) == ("plain", "Doc.", "(x)")
    assert plain.__wrapped__(3) == 3
    assert not inspect.iscoroutinefunction(plain)
    assert inspect.iscoroutinefunction(coroutine)


def test_methods_are_retried_with_their_instance(slept):
    class Client:
        def __init__(self):
            self.calls = 0

        @backoff.on_exception(backoff.expo, KeyError)
        def get(self):
            self.calls += 1
            if self.calls < 3:
                raise KeyError
            return self.calls

    assert (Client().get(), Client().get()) == (3, 3)


def test_mock_can_be_the_target(slept):
    assert backoff.on_exception(backoff.expo, KeyError)(mock.Mock(side_effect=[KeyError, 1]))() == 1
    target = backoff.on_exception(backoff.expo, KeyError)(mock.AsyncMock(side_effect=[KeyError, 1]))
    assert asyncio.run(target()) == 1


def test_calls_in_threads_are_independent(slept):
    @backoff.on_exception(backoff.expo, KeyError, jitter=None, logger=None)
    def target(errors):
        if errors:
            raise errors.pop()
        return threading.get_ident()

    results = []
    threads = [threading.Thread(target=lambda: results.append(target([KeyError()] * 5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert sorted(slept) == sorted([1, 2, 4, 8, 16] * 8)


def test_cancelling_the_wait_cancels_the_call():
    async def main():
        backing_off = asyncio.Event()

        @backoff.on_exception(
            backoff.constant, Exception, interval=3600, jitter=None, on_backoff=lambda _: backing_off.set()
        )
        async def target():
            raise KeyError

        task = asyncio.create_task(target())
        await backing_off.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


# --- arguments that are refused


@pytest.mark.parametrize("field", ["max_tries", "max_time", "jitter"])
@pytest.mark.parametrize("owner", ["on_exception", "on_predicate"])
def test_coroutine_functions_are_refused_for_options_that_are_not_awaited(field, owner):
    async def lookup(*args):
        return 1

    positional = (KeyError,) if owner == "on_exception" else ()
    with pytest.raises(TypeError, match=f"{owner}: {field} must not be a coroutine function"):
        getattr(backoff, owner)(backoff.expo, *positional, **{field: lookup})


@pytest.mark.parametrize("field", ["max_tries", "max_time"])
def test_type_error_in_a_limit_is_not_taken_for_no_limit(run, slept, field):
    with pytest.raises(TypeError, match="unsupported operand"):
        run(backoff.on_predicate(backoff.expo, **{field: lambda: 3 + "s"}), Script(0, 1))


# --- the package


def test_public_names_match_the_documented_ones():
    documented = "on_predicate on_exception constant expo fibo runtime full_jitter random_jitter"
    documented += " Attempt aretry_context decay retry_context"  # of python-backoff 3.0
    assert sorted(backoff.__all__) == sorted(documented.split())
    assert all(callable(getattr(backoff, name)) for name in backoff.__all__)
    assert backoff.__version__ == "2.2.1"
    assert backoff.types.Details is Details
    assert Details.__required_keys__ == {"target", "args", "kwargs", "tries", "elapsed"}
    assert Details.__optional_keys__ == {"wait", "value", "exception"}
