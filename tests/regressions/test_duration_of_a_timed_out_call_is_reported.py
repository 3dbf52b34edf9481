"""`fetch gave up after 1 attempt in 0.000 s: retry budget exhausted (TimeoutError)`: it took its 5 s.

No clock is read before the first failure, so the seconds reported are those since then, and the line says so.
"""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof.testing import FakeClock


def test_duration_of_slow_attempts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    retry = sp.Retry(on=OSError, backoff=sp.Constant(2), budget=sp.Budget(burst=1), raises="refusal")

    @sp.Policy(retry, clock=clock, name="fetch")
    def fetch() -> None:
        clock.advance(5)
        raise TimeoutError

    # The first call spends the one token there is on a second attempt, and leaves none for the next call.
    for tries in ("2 attempts in 7.000 s since the first failure", "1 attempt"):
        caplog.clear()
        with pytest.raises(sp.BudgetExhausted) as caught:
            fetch()
        assert str(caught.value) == f"fetch: gave up after {tries}: retry budget exhausted"
        logged = f"fetch gave up after {tries}: retry budget exhausted (TimeoutError)"
        assert caplog.messages == [logged]
