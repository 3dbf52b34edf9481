"""A rebuilt policy had one budget for its retries and another for its hedges: together twice the load.

Stormproof: a pickled, evaluated or renamed policy has one budget for both, as the original has.
"""

from __future__ import annotations

import pickle

import pytest

import stormproof as sp

NAMES = {name: getattr(sp, name) for name in sp.__all__} | {"OSError": OSError}

COPIES = {
    "original": lambda policy: policy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
    "repr": lambda policy: eval(repr(policy), dict(NAMES)),
    "with_": lambda policy: policy.with_(name="other"),
    "with_ twice": lambda policy: policy.with_(name="other").with_(name="another"),
    "pickled with_": lambda policy: pickle.loads(pickle.dumps(policy.with_(name="other"))),
}

POLICIES = {
    "hedge inside": lambda: sp.Policy(sp.Retry(on=OSError), sp.Hedge(idempotent=True)),
    "hedge outside": lambda: sp.Policy(sp.Hedge(idempotent=True), sp.Retry(on=OSError)),
    "budget given": lambda: sp.Policy(sp.Retry(on=OSError, budget=sp.Budget(0.2)), sp.Hedge(idempotent=True)),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("made", POLICIES)
def test_copied_policy_has_one_budget(made, copied):
    policy = COPIES[copied](POLICIES[made]())
    hedge = next(strategy for strategy in policy.strategies if isinstance(strategy, sp.Hedge))
    assert policy.retry_budget is not None
    assert hedge.budget_in(policy) is policy.retry_budget
