"""Elsewhere ``copy()`` and ``retry_with()`` rebuilt the object from part of its options and dropped the rest.

Stormproof: every way to a copy keeps every option that it was not asked to change, and ``with_`` shares the
live state of what it does not replace.
"""

from __future__ import annotations

import builtins
import copy
import inspect
import operator
import pickle
import random

import pytest

import stormproof as sp


class Steps(sp.testing.FakeClock):
    """A clock of the user's own."""


# Every option differs from its default; `test_sample_objects_set_every_option` holds this table to it.
OBJECTS = {
    "Exponential": sp.Exponential(0.2, factor=3, cap=7, jitter="equal", min=0.1),
    "Linear": sp.Linear(0.2, cap=7, jitter="none", min=0.1),
    "Fibonacci": sp.Fibonacci(0.2, cap=7, jitter="none", min=0.1),
    "Constant": sp.Constant(2, jitter="full", min=0.1),
    "Schedule": sp.Schedule([1, 2, 3], jitter="full", min=0.1),
    "Decorrelated": sp.Decorrelated(0.2, cap=7, clip="sample", min=0.1),
    "Symmetric": sp.Symmetric(0.3),
    "Budget": sp.Budget(0.2, burst=20, window=30, observe=True),
    "WindowBudget": sp.WindowBudget(0.3, floor=20, window=30, observe=True),
    "QuotaBudget": sp.QuotaBudget(
        100, retry_cost=7, timeout_cost=8, success_credit=9, throttle_cost=6, observe=True
    ),
    "ThrottleBudget": sp.ThrottleBudget(20, token_ratio=0.3, observe=True),
    "RateBudget": sp.RateBudget(7, 8, wait=True, observe=True),
    "Deadline": sp.Deadline(3),
    "Verdict": sp.Verdict(True, 3, "timeout", "why"),
    "Retry": sp.Retry(
        on=(KeyError, ConnectionError),
        attempts=7,
        backoff=sp.Constant(3),
        within=11,
        budget=None,
        on_result=operator.not_,
        max_hint=13,
        late="clip",
        retry_exhausted=True,
        raises="refusal",
        on_retry=operator.eq,
        commit=operator.truth,
        before_attempt=operator.truth,
    ),
}
COPIERS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda obj: pickle.loads(pickle.dumps(obj)),
    "replace": lambda obj: obj.replace(),
    "repr": lambda obj: eval(
        repr(obj), {name: getattr(sp, name) for name in sp.__all__}, vars(builtins) | NAMES
    ),
}
NAMES = {"_operator": operator}


def options(obj):
    return {name: getattr(obj, name) for name in obj.fields()}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("copier", COPIERS)
def test_copy_keeps_every_option(name, copier):
    made = COPIERS[copier](OBJECTS[name])
    assert type(made) is type(OBJECTS[name])
    assert options(made) == options(OBJECTS[name])


@pytest.mark.parametrize("name", OBJECTS)
def test_sample_objects_set_every_option(name):
    obj = OBJECTS[name]
    for option, parameter in inspect.signature(type(obj)).parameters.items():
        if option not in obj._surroundings:
            assert option in obj.fields(), "every keyword of the constructor is a field"
            assert getattr(obj, option) != parameter.default, f"{option} must differ from its default here"


@pytest.mark.parametrize("option", sp.Retry.field_names())
def test_changing_one_option_keeps_the_others(option):
    default = sp.Retry(budget=sp.Budget())
    given = OBJECTS["Retry"]
    policy = sp.Policy(given, name="job").with_(**{option: getattr(default, option)})
    changed = options(policy.strategies[0])
    assert changed.pop(option) == getattr(default, option)
    assert changed == {name: value for name, value in options(given).items() if name != option}


# The policy itself


def test_with_keeps_name_clock_and_rng():
    clock, rng = Steps(), random.Random(1)
    policy = sp.retry(on=KeyError, name="job", clock=clock, rng=rng).with_(attempts=2)
    assert (policy.name, policy.clock, policy.rng) == ("job", clock, rng)
    other = Steps()
    policy = policy.with_(clock=other, name="other")
    assert (policy.name, policy.clock, policy.rng) == ("other", other, rng)
    assert policy.strategies[0].attempts == 2


def test_with_shares_live_state():
    policy = sp.retry(on=KeyError)
    assert policy.with_(attempts=2).strategies[0].budget is policy.strategies[0].budget
    replaced = policy.with_(sp.Retry(on=ValueError))
    assert replaced.strategies[0].budget is not policy.strategies[0].budget


@pytest.mark.parametrize("copier", ["copy", "deepcopy"])
def test_copies_of_a_policy_keep_clock_and_rng(copier):
    policy = sp.retry(on=KeyError, name="job", clock=Steps(start=5), rng=7)
    made = COPIERS[copier](policy)
    assert made.strategies == policy.strategies and made.name == "job"
    assert isinstance(made.clock, Steps) and made.clock.now() == 5
    assert made.rng == 7


def test_pickled_policy_keeps_its_seed():
    policy = pickle.loads(pickle.dumps(sp.retry(on=KeyError, rng=7)))
    assert policy.rng == 7


@pytest.mark.parametrize("copier", ["copy", "deepcopy"])
@pytest.mark.parametrize("name", [name for name in OBJECTS if name.endswith("Budget")])
def test_copies_of_a_budget_keep_the_clock(copier, name):
    made = COPIERS[copier](type(OBJECTS[name])(clock=Steps(start=5)))
    assert isinstance(made.clock, Steps)


def test_fresh_budget_keeps_the_clock():
    """``keyed`` makes one for each key with it: on a test's clock they must all live on that clock."""
    clock = Steps()
    assert sp.Budget(clock=clock).fresh().clock is clock
    assert sp.Budget(clock=clock).replace(ratio=0.5).clock is clock
    assert sp.keyed(sp.Budget(clock=clock))["a"].clock is clock
    assert sp.Limiter(1, 1, clock=clock).fresh().clock is clock
