"""An attempt that our timeout cut off is the client's timeout error, whatever kept it from being retried.

When the budget was empty, or the circuit open by then, callers of an async client got `BudgetExhausted` or
`CircuitOpen`, which no ``except httpx.TimeoutException`` catches.
"""

from __future__ import annotations

import httpx
import pytest
from tests.support.loops import Loop, each_loop

import stormproof as sp
from stormproof._classify.exhaustion import exhausted_by
from stormproof.httpx import AsyncTransport


def _error_of(loop: Loop, policy: sp.Policy) -> Exception:
    """Return the error of a client's caller when the server says nothing."""

    async def silence(request: httpx.Request) -> httpx.Response:
        await loop.sleep(3600)
        raise AssertionError("not cut off")

    async def main() -> Exception:
        transport = AsyncTransport(policy, httpx.MockTransport(silence))
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises(Exception) as caught:
                await client.get("http://shop.example/")
        return caught.value

    error: Exception = loop.run(main)
    return error


def _is_the_clients(error: Exception, attempts: int, reason: str) -> None:
    assert isinstance(error, httpx.ReadTimeout) and isinstance(error, sp.AttemptTimeout)
    mark = exhausted_by(error)
    assert mark is not None and (mark.layer, mark.attempts) == ("shop", attempts)
    assert mark.stopped is not None and mark.stopped.reason == reason


@each_loop
@pytest.mark.parametrize("burst", [0, 1])
def test_timeout_with_an_empty_budget_is_the_clients_timeout(loop: Loop, burst: int) -> None:
    budget = sp.Budget(ratio=0, burst=burst)
    policy = sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=budget), sp.Timeout(0.5), name="shop")
    _is_the_clients(_error_of(loop, policy), burst + 1, "budget")


@each_loop
def test_timeout_whose_retry_meets_an_open_circuit_is_the_clients_timeout(loop: Loop) -> None:
    policy = sp.Policy(
        sp.Retry(on=(sp.AttemptTimeout,), backoff=sp.Constant(0), budget=None),
        sp.Breaker(consecutive=1),
        sp.Timeout(0.5),
        name="shop",
    )
    _is_the_clients(_error_of(loop, policy), 1, "circuit")


@each_loop
def test_refusal_before_any_attempt_is_raised_as_itself(loop: Loop) -> None:
    limiter = sp.Limiter(0, 1)
    assert limiter.allow()
    policy = sp.Policy(sp.Retry(budget=None), sp.RateLimit(limiter), sp.Timeout(0.5), name="shop")
    assert type(_error_of(loop, policy)) is sp.RateLimited
