"""An attempt that our timeout cut off is the client's timeout error, whatever kept it from being retried.

When the budget was empty, or the circuit open by then, callers of an async client got `BudgetExhausted` or
`CircuitOpen`, which no ``except httpx.TimeoutException`` catches.
"""

from __future__ import annotations

import httpx
import pytest
from tests.loops import Loop, each_loop

import holdfast as hf
from holdfast.httpx import AsyncTransport


def _error_of(loop: Loop, policy: hf.Policy) -> Exception:
    """What a client's caller gets when the server says nothing."""

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
    assert isinstance(error, httpx.ReadTimeout) and isinstance(error, hf.AttemptTimeout)
    mark = hf.classify.exhausted_by(error)
    assert mark is not None and (mark.layer, mark.attempts) == ("shop", attempts)
    assert mark.reason.startswith(reason)


@each_loop
@pytest.mark.parametrize("burst", [0, 1])
def test_the_budget_is_empty(loop: Loop, burst: int) -> None:
    budget = hf.Budget(ratio=0, burst=burst)
    policy = hf.Policy(hf.Retry(backoff=hf.Constant(0), budget=budget), hf.Timeout(0.5), name="shop")
    _is_the_clients(_error_of(loop, policy), burst + 1, "BudgetExhausted: ")


@each_loop
def test_the_circuit_is_open_by_then(loop: Loop) -> None:
    policy = hf.Policy(
        hf.Retry(on=(hf.AttemptTimeout,), backoff=hf.Constant(0), budget=None),
        hf.Breaker(consecutive=1),
        hf.Timeout(0.5),
        name="shop",
    )
    _is_the_clients(_error_of(loop, policy), 2, "CircuitOpen: ")


@each_loop
def test_a_refusal_before_any_attempt_stays_one(loop: Loop) -> None:
    limiter = hf.Limiter(0, 1)
    assert limiter.allow()
    policy = hf.Policy(hf.Retry(budget=None), hf.RateLimit(limiter), hf.Timeout(0.5), name="shop")
    assert type(_error_of(loop, policy)) is hf.RateLimited
