"""A rebuilt policy had one budget for its retries and another for its hedges: together twice the load.

Holdfast: a pickled, evaluated or renamed policy has one budget for both, as the original has.
"""

from __future__ import annotations

import pickle

import pytest

import holdfast as hf

NAMES = {name: getattr(hf, name) for name in hf.__all__} | {"OSError": OSError}

COPIES = {
    "original": lambda policy: policy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
    "repr": lambda policy: eval(repr(policy), dict(NAMES)),
    "with_": lambda policy: policy.with_(name="other"),
    "with_ twice": lambda policy: policy.with_(name="other").with_(name="another"),
    "pickled with_": lambda policy: pickle.loads(pickle.dumps(policy.with_(name="other"))),
}

POLICIES = {
    "hedge inside": lambda: hf.Policy(hf.Retry(on=OSError), hf.Hedge(idempotent=True)),
    "hedge outside": lambda: hf.Policy(hf.Hedge(idempotent=True), hf.Retry(on=OSError)),
    "budget given": lambda: hf.Policy(hf.Retry(on=OSError, budget=hf.Budget(0.2)), hf.Hedge(idempotent=True)),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("made", POLICIES)
def test_one_budget(made, copied):
    first, second = COPIES[copied](POLICIES[made]()).strategies
    assert first.budget is not None
    assert first.budget is second.budget
