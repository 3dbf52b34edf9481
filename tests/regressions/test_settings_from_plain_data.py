"""tenacity#210, #325, #498: users want settings from a dict, and to change them after decoration or per call.

Stormproof: every option is a plain keyword, ``describe()`` gives plain data back, and ``with_`` makes a
changed
copy of a policy at any time.
"""

from __future__ import annotations

import json

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp

SETTINGS = """
{
  "attempts": 2, "within": 7.5, "max_hint": 9, "late": "clip", "retry_exhausted": true,
  "backoff": {"base": 0.5, "factor": 3, "cap": 8, "jitter": "none", "min": 0.1},
  "budget": {"ratio": 0.3, "burst": 4, "window": 20}
}
"""


def read(text):
    data = json.loads(text)
    data["backoff"] = sp.Exponential(**data["backoff"])
    data["budget"] = sp.Budget(**data["budget"])
    return sp.Retry(Boom, **data)


def test_settings_read_from_json_are_written_back():
    given = json.loads(SETTINGS)
    description = json.loads(json.dumps(sp.Policy(read(SETTINGS), name="job").describe()))
    assert description["name"] == "job"
    (strategy,) = description["strategies"]
    assert strategy["kind"] == "Retry"
    for name, value in given.items():
        if isinstance(value, dict):
            assert {key: strategy[name][key] for key in value} == value
        else:
            assert strategy[name] == value


def test_unknown_settings_are_refused():
    with pytest.raises(TypeError, match="atempts"):
        sp.Retry(atempts=3)
    with pytest.raises(TypeError, match="atempts"):
        sp.retry(Boom, atempts=3)
    with pytest.raises(TypeError, match="atempts"):
        retry().with_(atempts=3)
    with pytest.raises(TypeError, match="atempts"):
        sp.Retry().replace(atempts=3)


@every_way
def test_settings_are_changed_by_with(play):
    policy = retry(attempts=4)
    play(policy.with_(attempts=2), Boom, ...).made(2)
    play(policy, Boom, ...).made(4)


def test_policy_may_be_changed_for_one_call_of_a_decorated_function():
    calls = 0

    @retry(attempts=4)
    def fetch():
        nonlocal calls
        calls += 1
        raise Boom

    with sp.testing.instant(), pytest.raises(Boom):
        fetch.__stormproof__.with_(attempts=2).call(fetch.__wrapped__)
    assert calls == 2
