"""tenacity#615: a retry object could not be pickled, so no process pool could take it.

Stormproof: policies, options, budgets, errors and decorated functions travel; locks and live state stay
behind.
"""

from __future__ import annotations

import pickle

import pytest
from tests.support.scripted import SYNC, Boom

import stormproof as sp


def refused(value):
    return value == "bad"


def before(attempt):
    pass


def key(value):
    return value


@sp.retry(on=Boom, attempts=2, name="decorated")
def decorated():
    raise Boom


PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
POLICIES = {
    "defaults": sp.Policy(sp.Retry()),
    "transient": sp.retry(on=sp.transient),
    "everything": sp.Policy(
        sp.Deadline(5),
        sp.Retry(
            on=(Boom, OSError),
            attempts=3,
            backoff=sp.Exponential(1, cap=8, jitter=sp.Symmetric(0.2)),
            budget=None,
            on_result=refused,
            before_attempt=before,
            late="clip",
        ),
        name="job",
    ),
    "no strategies": sp.Policy(),
}
BUDGETS = [sp.Budget(0.5, burst=3), sp.WindowBudget(), sp.QuotaBudget(), sp.ThrottleBudget(), sp.RateBudget()]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", POLICIES)
def test_policy_survives_pickling(name, protocol):
    policy = POLICIES[name]
    copy = pickle.loads(pickle.dumps(policy, protocol))
    assert copy == policy and repr(copy) == repr(policy)


def test_pickled_copy_retries():
    policy = sp.retry(on=Boom, attempts=3, backoff=sp.Constant(2), budget=sp.Budget(burst=1))
    copy = pickle.loads(pickle.dumps(policy))
    SYNC(copy, Boom, "ok").returned("ok").slept(2)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
def test_pickled_budget_arrives_full(budget):
    full = budget.fresh().balance
    spent = budget.fresh()
    assert spent.withdraw() > 0
    copy = pickle.loads(pickle.dumps(spent))
    assert repr(copy) == repr(budget)
    assert copy.balance == pytest.approx(full, abs=0.5)
    assert copy.withdraw() > 0, "its lock came along"


def test_unpickled_policy_shares_the_budget_of_its_name():
    policy = sp.retry(on=Boom, name="shared by name")
    copy = pickle.loads(pickle.dumps(policy))
    assert copy.strategies[0].budget is policy.strategies[0].budget


def test_limiters_and_keyed_objects_survive_pickling():
    assert repr(pickle.loads(pickle.dumps(sp.Limiter(5, 7)))) == "Limiter(rate=5.0, burst=7)"
    copy = pickle.loads(pickle.dumps(sp.keyed(sp.Budget(0.5, burst=3), key=key, limit=9)))
    assert copy.limit == 9 and copy.key is key and copy["a"].burst == 3


def test_decorated_functions_survive_pickling():
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def _raised(make):
    with sp.testing.instant(), pytest.raises(Exception) as caught:
        make()
    return caught.value


ERRORS = {
    "given up": decorated,
    "deadline": lambda: sp.retry(on=Boom, within=0, budget=None, backoff=sp.Constant(1)).call(_boom),
    "budget": lambda: sp.retry(on=Boom, budget=sp.Budget(burst=0)).call(_boom),
}


def _boom():
    raise Boom("text")


@pytest.mark.parametrize("case", ERRORS)
def test_errors_raised_by_a_policy_survive_pickling(case):
    error = _raised(ERRORS[case])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.args == error.args
    assert {k: v for k, v in vars(copy).items() if k != "__stormproof_mark__"} == {
        k: v for k, v in vars(error).items() if k != "__stormproof_mark__"
    }


@pytest.mark.parametrize(
    "error",
    [
        sp.DeadlineExceeded("m", "scope"),
        sp.CircuitOpen("m", 3.0, None),
        sp.RateLimited("m", 2.0),
        sp.BudgetExhausted("m"),
        sp.AttemptTimeout("m"),
        sp.Cancelled("m"),
        sp.RetryAfter(3, None),
        sp.Permanent(KeyError("k")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_stormproof_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)
    assert {k: repr(v) for k, v in vars(copy).items()} == {k: repr(v) for k, v in vars(error).items()}


def test_events_survive_pickling():
    event = sp.events.Retrying("job", 1, 0.5, "Boom")
    assert pickle.loads(pickle.dumps(event)) == event
