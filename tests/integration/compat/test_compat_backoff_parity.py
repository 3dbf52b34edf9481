"""``stormproof.compat.backoff`` beside the real backoff: the same script, the same transcript.

A transcript holds the result or error, how often the target, ``giveup`` and the settings were called, every
sleep, every details dict and every log record. ``known_differences`` names the two places where ours
deliberately differs; nothing else is forgiven.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
import itertools
import logging
import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormproof.compat import backoff as ours

real = pytest.importorskip("backoff")

START = datetime.datetime(2020, 1, 1)


class ScriptOver(BaseException):
    """The script has no outcome left. Nothing retries it, so every run ends."""


class Retryable(Exception):
    pass


class Fatal(Retryable):
    pass


class Clock:
    """Stands for datetime.datetime; each reading moves it on by the next step."""

    def __init__(self, steps):
        self.readings = 0
        self._times = itertools.accumulate(itertools.chain(steps, itertools.repeat(0.25)))

    def now(self):
        self.readings += 1
        return START + datetime.timedelta(seconds=next(self._times))


class Records(logging.Handler):
    def __init__(self, into):
        super().__init__()
        self.into = into

    def emit(self, record):
        self.into.append(
            ("log", record.name, record.levelno, record.msg, list(record.args), record.getMessage())
        )


def transcript(module, scenario, *, is_async):
    """Run ``scenario`` with ``module`` and write down everything that can be seen from outside."""
    events = []
    outcomes = iter(scenario["outcomes"])

    def play():
        events.append("call")
        outcome = next(outcomes, ScriptOver())
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def target(*args, **kwargs):
        return play()

    async def async_target(*args, **kwargs):
        return play()

    if is_async:
        target = async_target

    def handler(name):
        def record(details):
            seen = dict(details)
            assert seen.pop("target") is target
            events.append((name, seen))

        async def async_record(details):
            record(details)

        return async_record if is_async and scenario["async_handlers"] else record

    async def sleep(seconds):
        events.append(("sleep", seconds))

    decorator = decorate(module, scenario, handler, events)
    random.seed(scenario["seed"])
    clock = Clock(scenario["steps"])
    logger = logging.getLogger("backoff")
    records = Records(events)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("time.sleep", lambda seconds: events.append(("sleep", seconds))))
        stack.enter_context(mock.patch("asyncio.sleep", sleep))
        stack.enter_context(mock.patch("datetime.datetime", clock))
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.INFO)
        logger.addHandler(records)
        stack.callback(logger.removeHandler, records)
        try:
            result = decorator(target)(1, key=2)
            if is_async:
                result = asyncio.run(result)
            events.append(("returned", result))
        except BaseException as error:
            events.append(("raised", type(error), error.args))
    events.append(("readings", clock.readings))
    return events


def decorate(module, scenario, handler, events):
    def looked_up(name, value):
        if not scenario["callables"]:
            return value

        def lookup():
            events.append(("lookup", name))
            return value

        return lookup

    name, kwargs = scenario["waits"]
    kwargs = {key: value if callable(value) else looked_up(key, value) for key, value in kwargs.items()}
    kwargs["max_tries"] = looked_up("max_tries", scenario["max_tries"])
    kwargs["max_time"] = looked_up("max_time", scenario["max_time"])
    kwargs["jitter"] = getattr(module, scenario["jitter"]) if scenario["jitter"] else None
    kwargs["logger"] = scenario["logger"]
    for event in ("on_success", "on_backoff", "on_giveup"):
        kwargs[event] = [handler(event), handler(event + " again")] if scenario["many"] else handler(event)
    wait_gen = getattr(module, name) if isinstance(name, str) else name
    if scenario["kind"] == "on_predicate":
        return module.on_predicate(wait_gen, **kwargs)

    def giveup(error):
        events.append(("giveup", error))
        return isinstance(error, Fatal)

    kwargs["giveup"] = giveup
    kwargs["raise_on_giveup"] = scenario["raise_on_giveup"]
    return module.on_exception(wait_gen, scenario["exception"], **kwargs)


def known_differences(theirs, mine):
    """``theirs`` as it would be without the two bugs that show when a finite wait generator ends."""
    put_right = []
    for event, other in zip(theirs, mine, strict=True):
        if event[0] == "log" and event[4][2] == "StopIteration":
            event = other  # it logs the generator's end in place of the error or value
        elif event[0].startswith("on_giveup") and not {"value", "exception"} & event[1].keys():
            event = (
                event[0],
                {**event[1], "value": other[1]["value"]},
            )  # sync on_predicate forgets the value
        put_right.append(event)
    return put_right


def assert_same(scenario, *, is_async):
    theirs = transcript(real, scenario, is_async=is_async)
    mine = transcript(ours, scenario, is_async=is_async)
    assert len(mine) == len(theirs)
    assert mine == known_differences(theirs, mine)
    return theirs


def own_waits(start=1):
    yield
    while start < 20:
        yield start
        start += 3


def wait_from_outcome(outcome):
    return 7 if isinstance(outcome, Exception) else 2


numbers = st.integers(1, 9) | st.floats(0.1, 9, allow_nan=False)
wait_choices = st.one_of(
    st.tuples(
        st.just("expo"),
        st.fixed_dictionaries({}, optional={"base": numbers, "factor": numbers, "max_value": numbers}),
    ),
    st.tuples(st.just("fibo"), st.fixed_dictionaries({}, optional={"max_value": st.integers(1, 20)})),
    st.tuples(
        st.just("constant"),
        st.fixed_dictionaries({}, optional={"interval": numbers | st.lists(numbers, max_size=4)}),
    ),
    st.tuples(st.just("runtime"), st.just({"value": wait_from_outcome})),
    st.tuples(st.just(own_waits), st.fixed_dictionaries({}, optional={"start": st.integers(1, 20)})),
)
outcome_choices = st.one_of(
    st.just(0),
    st.just(""),
    st.just("done"),
    st.builds(Retryable, st.text(max_size=3)),
    st.builds(Fatal),
    st.builds(KeyError, st.just("other")),
)
scenarios = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["on_exception", "on_predicate"]),
        "waits": wait_choices,
        "outcomes": st.lists(outcome_choices, max_size=7),
        "max_tries": st.none() | st.integers(-1, 6),
        "max_time": st.none() | st.integers(0, 12) | st.floats(0, 12, allow_nan=False),
        "steps": st.lists(st.floats(0, 6, allow_nan=False), max_size=9),
        "jitter": st.sampled_from([None, "full_jitter", "random_jitter"]),
        "exception": st.sampled_from([Retryable, (Retryable, OSError), Exception]),
        "raise_on_giveup": st.booleans(),
        "callables": st.booleans(),
        "many": st.booleans(),
        "async_handlers": st.booleans(),
        "logger": st.sampled_from(["backoff", None, "backoff.child"]),
        "seed": st.integers(0, 2**32),
    }
)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@settings(max_examples=200)
@given(scenario=scenarios)
def test_transcript_of_any_scenario_is_the_same(scenario, is_async):
    *_, end, _ = assert_same(scenario, is_async=is_async)
    # Anything else would be a mistake in this file that both sides share.
    assert end[0] == "returned" or end[1] in {ScriptOver, Retryable, Fatal, KeyError}


PLAIN = {
    "kind": "on_exception",
    "waits": ("expo", {}),
    "outcomes": [],
    "max_tries": None,
    "max_time": None,
    "steps": [],
    "jitter": "full_jitter",
    "exception": Retryable,
    "raise_on_giveup": True,
    "callables": False,
    "many": False,
    "async_handlers": True,
    "logger": "backoff",
    "seed": 1,
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"outcomes": [Retryable(), "done"]}, ("returned", "done")),
        ({"outcomes": [Retryable(1), Retryable(2)], "max_tries": 2}, ("raised", Retryable, (2,))),
        ({"outcomes": [Retryable(1)], "max_tries": 1, "raise_on_giveup": False}, ("returned", None)),
        ({"outcomes": [Fatal("stop"), "done"]}, ("raised", Fatal, ("stop",))),
        ({"outcomes": [Retryable(1)] * 9, "max_time": 3, "steps": [0, 1, 1, 1]}, ("raised", Retryable, (1,))),
        ({"outcomes": [Retryable(1)] * 40, "max_tries": 0}, ("raised", ScriptOver, ())),
        (
            {
                "outcomes": [Retryable(1)] * 3,
                "waits": ("constant", {"interval": [1]}),
                "raise_on_giveup": False,
            },
            ("raised", Retryable, (1,)),
        ),
        ({"kind": "on_predicate", "outcomes": [0, "", "done"]}, ("returned", "done")),
        ({"kind": "on_predicate", "outcomes": [0, ""], "max_tries": 2}, ("returned", "")),
        (
            {"kind": "on_predicate", "outcomes": [0, ""], "waits": ("constant", {"interval": (1,)})},
            ("returned", ""),
        ),
        ({"kind": "on_predicate", "outcomes": [0] * 900 + [1], "logger": None}, ("returned", 1)),
    ],
)
def test_transcript_of_chosen_scenarios_is_the_same_and_as_expected(change, expected, is_async):
    """The random scenarios cannot say which ends they reached; these can."""
    events = assert_same(PLAIN | change, is_async=is_async)
    assert events[-2] == expected


@given(
    name=st.sampled_from(["expo", "fibo"]),
    base=numbers,
    factor=numbers | st.just(0),
    max_value=st.none() | st.integers(0, 10**9),
)
def test_generators_yield_the_same_numbers(name, base, factor, max_value):
    kwargs = {"max_value": max_value} | ({"base": base, "factor": factor} if name == "expo" else {})
    assert first_waits(ours, name, kwargs) == first_waits(real, name, kwargs)


def first_waits(module, name, kwargs):
    generator = getattr(module, name)(**kwargs)
    first = generator.send(None)
    waits = list(itertools.islice(generator, 250))
    return first, waits, [type(wait) for wait in waits]


@given(value=st.floats(0, 1e9), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", ["full_jitter", "random_jitter"])
def test_jitters_draw_the_same_numbers(name, value, seed):
    draws = []
    for module in (ours, real):
        random.seed(seed)
        draws.append([getattr(module, name)(value) for _ in range(3)])
    assert draws[0] == draws[1]


@pytest.mark.parametrize("name", sorted(real.__all__))
def test_signatures_are_the_same(name):
    def shape(function):
        parameters = inspect.signature(function).parameters.values()
        parameters = [p for p in parameters if p.name != "on_try"]  # of python-backoff 3.0
        return [(p.name, p.kind, p.default if not callable(p.default) else "callable") for p in parameters]

    assert shape(getattr(ours, name)) == shape(getattr(real, name))


def test_public_names_are_the_same():
    from backoff.types import Details as RealDetails

    assert set(ours.__all__) - set(real.__all__) == {"Attempt", "aretry_context", "decay", "retry_context"}
    assert set(real.__all__) <= set(ours.__all__)
    assert ours.__version__ == real.__version__ == "2.2.1"
    assert ours.types.Details.__required_keys__ == RealDetails.__required_keys__
    assert ours.types.Details.__optional_keys__ == RealDetails.__optional_keys__ | {"exception"}
