"""``policy_from_tenacity``: the policy that retries as a tenacity object does."""

from __future__ import annotations

import random

import pytest

import stormproof as sp
from stormproof.compat import tenacity as ours

real = pytest.importorskip("tenacity")


class Down(Exception):
    pass


class Fatal(Exception):
    pass


@pytest.fixture(params=[real, ours], ids=["tenacity", "compat"])
def tenacity(request):
    return request.param


WAITS = {
    "none": lambda t: t.wait_none(),
    "fixed": lambda t: t.wait_fixed(2),
    "exponential": lambda t: t.wait_exponential(multiplier=0.5, max=10, min=1),
    "exponential, no maximum": lambda t: t.wait_exponential(),
    "chain": lambda t: t.wait_chain(t.wait_fixed(1), t.wait_fixed(5), t.wait_none()),
    "incrementing": lambda t: t.wait_incrementing(start=1, increment=2, max=6),
    "sum": lambda t: t.wait_fixed(1) + t.wait_exponential(max=4) + t.wait_fixed(0.5),
}
SPREAD = {
    "random": lambda t: t.wait_random(1, 3),
    "fixed and random": lambda t: t.wait_fixed(2) + t.wait_random(0, 1),
    "random exponential": lambda t: t.wait_random_exponential(multiplier=2, max=10),
    "random exponential with a least wait": lambda t: t.wait_random_exponential(max=10, min=3),
    "exponential jitter": lambda t: t.wait_exponential_jitter(max=6, jitter=2),
    "exponential and random": lambda t: t.wait_exponential(max=4) + t.wait_random(0, 2),
}


def waits_of(module, wait):
    state = module.RetryCallState(None, None, (), {})
    state.set_result(None)
    found = []
    for number in range(1, 9):
        state.attempt_number = number
        found.append(wait(state))
    return found


@pytest.mark.parametrize("name", WAITS)
def test_waits_are_the_same(tenacity, name):
    retrying = tenacity.Retrying(wait=WAITS[name](tenacity), stop=tenacity.stop_after_attempt(9))
    backoff = sp.policy_from_tenacity(retrying).strategies[0].backoff
    assert [backoff.delay(n, None, 0.5) for n in range(8)] == waits_of(tenacity, retrying.wait)


@pytest.mark.parametrize("draw", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("name", SPREAD)
def test_random_waits_are_the_same_for_the_same_draw(tenacity, name, draw, monkeypatch):
    monkeypatch.setattr(random, "random", lambda: draw)
    monkeypatch.setattr(random, "uniform", lambda low, high: low + draw * (high - low))
    retrying = tenacity.Retrying(wait=SPREAD[name](tenacity), stop=tenacity.stop_after_attempt(9))
    backoff = sp.policy_from_tenacity(retrying).strategies[0].backoff
    expected = pytest.approx(waits_of(tenacity, retrying.wait))
    assert [backoff.delay(n, None, draw) for n in range(8)] == expected


def test_limits_are_the_tightest_of_any(tenacity):
    stop = tenacity.stop_after_attempt(5) | tenacity.stop_after_delay(30) | tenacity.stop_before_delay(20)
    retry = sp.policy_from_tenacity(tenacity.Retrying(stop=stop)).strategies[0]
    assert (retry.attempts, retry.within, retry.budget) == (5, 20, None)


def test_retried_types_are_copied_from_tenacity(tenacity):
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((Down, OSError)), stop=tenacity.stop_after_attempt(2)
    )
    retry = sp.policy_from_tenacity(retrying).strategies[0]
    assert (retry.on, retry.on_result) == ((Down, OSError), None)


def script(outcomes, calls):
    def call():
        outcome = outcomes[len(calls)]
        calls.append(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call


@pytest.mark.parametrize(
    "outcomes",
    [[Down(), 7], [None, None, 7], [Fatal()], [Down(), None, Fatal()], [Down(), Down(), Down(), Down()]],
)
def test_policy_makes_the_same_calls(tenacity, outcomes):
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_not_exception_type(Fatal) | tenacity.retry_if_result(lambda v: v is None),
        stop=tenacity.stop_after_attempt(4),
        reraise=True,
    )
    seen, expected = [], []
    endings = []
    for call, calls in ((retrying, expected), (sp.policy_from_tenacity(retrying).call, seen)):
        try:
            endings.append(call(script(outcomes, calls)))
        except (Down, Fatal) as error:
            endings.append(error)
    assert endings == [outcomes[-1]] * 2
    assert seen == expected == outcomes


def test_decorated_function_is_read(tenacity):
    @tenacity.retry(stop=tenacity.stop_after_attempt(3), name="fetch")
    def fetch():
        pass

    policy = sp.policy_from_tenacity(fetch)
    assert policy.strategies[0].attempts == 3
    assert policy.name == "fetch"


def test_budget_of_the_drop_in_is_kept():
    budget = sp.Budget()
    retrying = ours.Retrying(stop=ours.stop_after_attempt(3), budget=budget)
    assert sp.policy_from_tenacity(retrying).strategies[0].budget is budget


def test_policy_runs_in_the_lab(tenacity):
    from stormproof import lab

    retrying = tenacity.Retrying(stop=tenacity.stop_after_attempt(4), wait=tenacity.wait_fixed(0.1))
    scenario = lab.Scenario(
        clients=20, arrival_rps=40, capacity_rps=50, outage=lab.Outage(at=1, lasts=1, mode="fail"), duration=4
    )
    result = lab.simulate(sp.policy_from_tenacity(retrying), scenario, seed=1)
    assert result.amplification > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda t: {}, "stop_never"),
        (lambda t: {"stop": t.stop_after_attempt(3) & t.stop_after_delay(3)}, "stop must be one of"),
        (lambda t: {"stop": lambda state: True}, "stop must be one of"),
        (lambda t: {"stop": t.stop_after_attempt(3), "wait": lambda state: 1}, "wait must be one of"),
        (
            lambda t: {"stop": t.stop_after_attempt(3), "wait": t.wait_random(0, 1) + t.wait_random(0, 1)},
            "wait must be one of",
        ),
    ],
)
def test_option_without_a_counterpart_is_refused(tenacity, options, message):
    with pytest.raises(ValueError, match=message):
        sp.policy_from_tenacity(tenacity.Retrying(**options(tenacity)))


def test_foreign_object_is_refused():
    with pytest.raises(TypeError, match="must be a tenacity retry object"):
        sp.policy_from_tenacity(3)
