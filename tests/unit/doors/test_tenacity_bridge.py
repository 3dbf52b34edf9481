"""``stormproof.tenacity``: pieces for programs that stay on tenacity."""

from __future__ import annotations

import asyncio

import pytest

import stormproof as sp

tenacity = pytest.importorskip("tenacity")

from stormproof.tenacity import budgeted, stop_at_deadline, wait_hinted  # noqa: E402


class Down(Exception):
    pass


def failing(calls, **options):
    @tenacity.retry(stop=tenacity.stop_after_attempt(4), **options)
    def call():
        calls.append(1)
        raise Down

    return call


@pytest.mark.parametrize("burst", [3, 10])
def test_thousand_failing_calls_make_a_thousand_attempts_and_the_burst(burst):
    calls = []
    budget = sp.Budget(ratio=0.1, burst=burst)
    call = failing(calls, retry=budgeted(tenacity.retry_if_exception_type(Down), budget))
    for _ in range(1000):
        with pytest.raises((Down, tenacity.RetryError)):
            call()
    assert len(calls) == 1000 + burst


def test_call_without_a_budget_makes_every_attempt():
    calls = []
    call = failing(calls, retry=tenacity.retry_if_exception_type(Down))
    for _ in range(10):
        with pytest.raises(tenacity.RetryError):
            call()
    assert len(calls) == 40


def test_budget_earns_from_successes():
    budget = sp.Budget(ratio=0.5, burst=0)
    outcomes = ["ok", "ok", Down, "ok", Down]

    @tenacity.retry(retry=budgeted(tenacity.retry_if_exception_type(Down), budget))
    def call():
        outcome = outcomes.pop(0)
        if outcome is Down:
            raise Down
        return outcome

    assert [call(), call(), call()] == ["ok"] * 3
    assert outcomes == [Down]
    with pytest.raises(Down):
        call()


def test_last_attempt_pays_nothing():
    calls = []
    budget = sp.Budget(ratio=0, burst=10)
    call = failing(calls, retry=budgeted(tenacity.retry_if_exception_type(Down), budget))
    with pytest.raises(tenacity.RetryError):
        call()
    assert (len(calls), budget.balance) == (4, 7)


def test_refused_retry_raises_the_error_of_the_attempt():
    call = failing([], retry=budgeted(tenacity.retry_if_exception_type(Down), sp.Budget(burst=0)))
    with pytest.raises(Down):
        call()


def test_refused_retry_of_a_result_returns_it():
    predicate = budgeted(tenacity.retry_if_result(lambda value: value is None), sp.Budget(burst=1))
    calls = []
    assert tenacity.Retrying(retry=predicate)(lambda: calls.append(1)) is None
    assert len(calls) == 2


def test_fresh_budget_is_made_when_none_is_given():
    predicate = budgeted(tenacity.retry_if_exception_type(Down))
    assert isinstance(predicate.budget, sp.Budget)


def test_async_predicate_is_awaited_and_paid_for():
    async def is_down(retry_state):
        return retry_state.outcome.failed

    calls = []

    @tenacity.retry(retry=budgeted(is_down, sp.Budget(burst=2)))
    async def call():
        calls.append(1)
        raise Down

    with pytest.raises(Down):
        asyncio.run(call())
    assert len(calls) == 3


def test_bridge_reports_starts_to_budgets_that_count_starts():
    budget = sp.WindowBudget(ratio=1.0, floor=0.0)
    outcomes = [Down, "ok"]

    @tenacity.retry(retry=budgeted(tenacity.retry_if_exception_type(Down), budget))
    def call():
        outcome = outcomes.pop(0)
        if outcome is Down:
            raise Down
        return outcome

    assert call() == "ok"


@pytest.mark.parametrize("budget", [3, object(), sp.Budget])
def test_bad_budget_is_named(budget):
    with pytest.raises(TypeError, match="budgeted: budget must be"):
        budgeted(tenacity.retry_if_exception_type(Down), budget)


def test_bad_predicate_and_wait_are_named():
    with pytest.raises(TypeError, match="predicate must be callable"):
        budgeted(None)
    with pytest.raises(TypeError, match="wait must be callable"):
        wait_hinted(3)


def state(error=None, result=None, upcoming=0.0):
    found = tenacity.RetryCallState(None, None, (), {})
    found.outcome = tenacity.Future.construct(1, result if error is None else error, error is not None)
    found.upcoming_sleep = upcoming
    return found


def test_stop_at_deadline_stops_if_the_wait_would_end_too_late():
    with sp.testing.instant() as clock, sp.deadline(5):
        stop = stop_at_deadline()
        assert not stop(state(Down(), upcoming=4.9))
        assert stop(state(Down(), upcoming=5))
        clock.advance(5)
        assert stop(state(Down()))


def test_stop_at_deadline_does_nothing_outside_a_deadline():
    assert not stop_at_deadline()(state(Down(), upcoming=1e9))


def test_stop_at_deadline_combines_with_other_stops():
    calls = []
    with sp.deadline(0.5):
        with pytest.raises(tenacity.RetryError):
            tenacity.Retrying(
                stop=tenacity.stop_after_attempt(9) | stop_at_deadline(), wait=tenacity.wait_fixed(60)
            )(failing(calls, retry=tenacity.retry_never))
    assert len(calls) == 1


def busy(after):
    """The error of a client whose server answered 503 with ``Retry-After``."""
    import httpx

    request = httpx.Request("GET", "http://service.example/")
    response = httpx.Response(503, headers={"Retry-After": after}, request=request)
    return httpx.HTTPStatusError("busy", request=request, response=response)


def test_wait_hinted_waits_at_least_the_servers_hint():
    wait = wait_hinted(tenacity.wait_fixed(1), rng=lambda: 0.5)
    assert wait(state(busy("4"))) == pytest.approx(4.2)
    assert wait(state(busy("0"))) == 1
    assert wait(state(Down())) == 1


def test_wait_hinted_reads_marks():
    wait = wait_hinted(tenacity.wait_none(), rng=lambda: 0.0)
    assert wait(state(sp.RetryAfter(7))) == 7


def test_wait_hinted_is_bounded():
    wait = wait_hinted(tenacity.wait_none(), max_hint=30, rng=lambda: 0.0)
    assert wait(state(busy("86400"))) == 30


def test_wait_hinted_adds_to_other_waits():
    wait = wait_hinted(tenacity.wait_fixed(1)) + tenacity.wait_fixed(2)
    assert wait(state(Down())) == 3
