"""A policy made anew for each call: a name shares the budget, without one a warning says what is lost."""

import gc
import warnings

import pytest

import stormproof as sp


def attempts_of_100_failing_calls(**options):
    made = []

    def fail():
        made.append(1)
        raise ConnectionError

    for _ in range(100):
        with pytest.raises(ConnectionError):
            sp.retry(on=ConnectionError, backoff=sp.Constant(0), **options).call(fail)
        gc.collect(0)
    return len(made)


def test_name_shares_its_budget_from_call_to_call():
    # 3 are there to begin with; failures earn nothing.
    assert attempts_of_100_failing_calls(name="made-per-call") == 103


def test_policy_without_a_name_is_warned_of_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attempts_of_100_failing_calls()
    (warned,) = [str(warning.message) for warning in caught]
    assert warned.startswith("Policy: 50 policies were made here and dropped, each with a full budget")
    assert warned.endswith("make the policy once, or give it a name")
    assert caught[0].filename == __file__


def test_policies_that_stay_and_copies_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = [sp.retry(on=ConnectionError) for _ in range(200)]
        for _ in range(200):
            kept[0].with_(attempts=2)
