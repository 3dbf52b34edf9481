"""A refusal whose `last_failure` survives no pickle broke the process pool that it was raised in."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import httpx
import pytest

import stormproof as sp


def with_a_lock() -> Exception:
    error = ConnectionError("lost")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    return error


def with_a_response() -> Exception:
    request = httpx.Request("GET", "http://example.test/")
    return httpx.HTTPStatusError("503", request=request, response=httpx.Response(503, request=request))


def refusal(error: Exception) -> sp.CircuitOpen:
    breaker = sp.Breaker(consecutive=1, clock=sp.testing.FakeClock(), name="shop")
    ticket = breaker.admit()
    ticket.failure(error)
    with pytest.raises(sp.CircuitOpen) as caught:
        breaker.admit()
    return caught.value


@pytest.mark.parametrize("make", [with_a_lock, with_a_response])
def test_refusal_is_unpickled_without_a_failure_that_cannot_travel(make: Any) -> None:
    sent = refusal(make())
    received = pickle.loads(pickle.dumps(sent))
    assert type(received) is sp.CircuitOpen and str(received) == str(sent)
    assert (received.retry_after, received.state, received.last_failure) == (30, "open", None)


def test_refusal_is_unpickled_with_a_plain_failure() -> None:
    received = pickle.loads(pickle.dumps(refusal(ConnectionError("lost"))))
    assert repr(received.last_failure) == "ConnectionError('lost')"
