"""``stormproof.compat.tenacity`` beside the real tenacity: the same script, the same transcript.

A transcript holds the result or error, every call, sleep, hook and log record, and the statistics at the end.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormproof.compat import tenacity as ours

real = pytest.importorskip("tenacity")

SUBMODULES = ("stop", "wait", "retry", "nap", "asyncio", "asyncio.retry", "before", "after", "before_sleep")


class Retryable(Exception):
    pass


class Fatal(Exception):
    pass


class Log:
    def __init__(self, into):
        self.into = into

    def log(self, level, msg, *args, **kwargs):
        self.into.append(("log", level, msg.partition("(s)")[0].partition(" after ")[0]))


OUTCOMES = {
    "fail": Retryable("no"),
    "fatal": Fatal("never"),
    "again": "again",
    "none": None,
    "value": 7,
}


def options(module, names, events):
    """The options called ``names``, made of the parts of ``module``."""

    def hook(name):
        def note(state):
            failed = state.outcome is not None and state.outcome.failed
            events.append((name, state.attempt_number, state.idle_for, failed))

        return note

    table = {
        "fixed": {"wait": module.wait_fixed(2)},
        "exponential": {"wait": module.wait_exponential(multiplier=0.5, max=3, min=0.7)},
        "incrementing": {"wait": module.wait_incrementing(start=1, increment=2, max=4)},
        "chain": {"wait": module.wait_chain(module.wait_fixed(1), module.wait_fixed(3))},
        "random": {"wait": module.wait_random(1, 2) + module.wait_fixed(1)},
        "random exponential": {"wait": module.wait_random_exponential(multiplier=2, max=5)},
        "jitter": {"wait": module.wait_exponential_jitter(max=6, jitter=2)},
        "types": {"retry": module.retry_if_exception_type(Retryable)},
        "not types": {"retry": module.retry_if_not_exception_type(Fatal)},
        "result": {"retry": module.retry_if_result(lambda value: value is None)},
        "either": {
            "retry": module.retry_if_exception_type(Retryable) | module.retry_if_result(lambda v: v is None)
        },
        "message": {"retry": module.retry_if_exception_message(match="n[o]")},
        "never": {"retry": module.retry_never},
        "reraise": {"reraise": True},
        "callback": {"retry_error_callback": lambda state: ("callback", state.attempt_number)},
        "hooks": {"before": hook("before"), "after": hook("after"), "before_sleep": hook("before_sleep")},
        "logs": {
            "before": module.before_log(Log(events), logging.INFO),
            "after": module.after_log(Log(events), logging.INFO),
            "before_sleep": module.before_sleep_log(Log(events), logging.WARNING),
        },
        "disabled": {"enabled": False},
    }
    chosen = {"stop": module.stop_after_attempt(4)}
    for name in names:
        chosen.update(table[name])
    return chosen


def described(module, run):
    """Return what ``run`` returns or raises, as plain data."""
    try:
        return "returned", run()
    except module.RetryError as error:
        last = error.last_attempt
        cause = None if error.__cause__ is None else type(error.__cause__).__name__
        return "RetryError", last.attempt_number, last.failed, cause
    except (Retryable, Fatal, module.TryAgain) as error:
        return "raised", type(error).__name__, str(error)


def transcript(module, script, names, way):
    random.seed(5)
    events = []
    outcomes = iter(script)

    def play():
        name = next(outcomes, "value")
        events.append(("call", name))
        outcome = module.TryAgain() if name == "again" else OUTCOMES[name]
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        return outcome

    chosen = options(module, names, events)
    if way in ("async", "async block"):

        async def sleep(seconds):
            events.append(("sleep", round(seconds, 9)))
    else:

        def sleep(seconds):
            events.append(("sleep", round(seconds, 9)))

    chosen["sleep"] = sleep

    def decorated():
        fn = module.retry(**chosen)(play)
        ending = described(module, fn)
        return ending, fn.statistics

    def direct():
        retrying = module.Retrying(**chosen)
        return described(module, lambda: retrying(play)), retrying.statistics

    def block():
        retrying = module.Retrying(**chosen)

        def run():
            value = "nothing returned"
            for attempt in retrying:
                with attempt:
                    value = play()
                if not attempt.retry_state.outcome.failed:
                    attempt.retry_state.set_result(value)
            return value

        return described(module, run), retrying.statistics

    def asynchronous():
        @module.retry(**chosen)
        async def fn():
            return play()

        return described(module, lambda: asyncio.run(fn())), fn.statistics

    def async_block():
        retrying = module.AsyncRetrying(**chosen)

        async def run():
            value = "nothing returned"
            async for attempt in retrying:
                with attempt:
                    value = play()
                if not attempt.retry_state.outcome.failed:
                    attempt.retry_state.set_result(value)
            return value

        return described(module, lambda: asyncio.run(run())), retrying.statistics

    ways = {
        "decorated": decorated,
        "direct": direct,
        "block": block,
        "async": asynchronous,
        "async block": async_block,
    }
    ending, statistics = ways[way]()
    known = {key: statistics.get(key) for key in ("attempt_number", "idle_for")}
    return events, ending, known if "disabled" not in names else None


PARTS = [
    ["fixed", "exponential", "incrementing", "chain", "random", "random exponential", "jitter", ""],
    ["types", "not types", "result", "either", "message", "never", ""],
    ["reraise", "callback", ""],
    ["hooks", "logs", ""],
]


@settings(max_examples=150)
@given(
    script=st.lists(st.sampled_from(sorted(OUTCOMES)), max_size=5),
    names=st.tuples(*(st.sampled_from(part) for part in PARTS)),
    way=st.sampled_from(["decorated", "direct", "block", "async", "async block"]),
)
def test_transcript_of_any_script_is_the_same(script, names, way):
    names = [name for name in names if name]
    assert transcript(ours, script, names, way) == transcript(real, script, names, way)


@pytest.mark.parametrize("way", ["decorated", "direct", "block", "async", "async block"])
def test_disabled_retry_makes_one_call(way):
    script = ["fail", "value"]
    assert transcript(ours, script, ["disabled"], way) == transcript(real, script, ["disabled"], way)


def test_public_names_are_the_same():
    assert sorted(ours.__all__) == sorted(real.__all__)
    assert all(hasattr(ours, name) for name in ours.__all__)


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodule_has_the_public_names(name):
    theirs = importlib.import_module(f"tenacity.{name}")
    mine = importlib.import_module(f"stormproof.compat.tenacity.{name}")
    defined = [
        key
        for key, value in vars(theirs).items()
        if not key.startswith("_") and getattr(value, "__module__", "").startswith("tenacity")
        if (inspect.isclass(value) or inspect.isfunction(value)) and key != "override"
    ]
    assert defined
    assert [key for key in defined if not hasattr(mine, key)] == []


def test_private_names_that_tenacitys_own_suite_imports_exist():
    from stormproof.compat.tenacity import _utils

    for name in ("override", "find_ordinal", "to_ordinal", "get_callback_name", "is_coroutine_callable"):
        assert callable(getattr(_utils, name))


@pytest.mark.parametrize("name", sorted(real.__all__))
def test_parameters_are_the_same(name):
    theirs, mine = getattr(real, name), getattr(ours, name)
    if not (inspect.isclass(theirs) or inspect.isfunction(theirs)):
        return
    try:
        expected = list(inspect.signature(theirs).parameters.values())
    except ValueError:
        return
    given = {p.name: p for p in inspect.signature(mine).parameters.values()}
    if name == "retry":
        return
    for parameter in expected:
        assert parameter.name in given
        assert given[parameter.name].kind == parameter.kind
