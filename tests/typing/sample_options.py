"""Options: what `on`, attempts, waits and budgets accept, and what they refuse."""

from datetime import timedelta
from typing import assert_type

import stormproof as sp


def busy(error: Exception) -> bool:
    return "busy" in str(error)


sp.retry(on=ConnectionError)
sp.retry(on=(ConnectionError, TimeoutError))
sp.retry(on=busy)
sp.retry(on=lambda error: isinstance(error, OSError))
sp.retry(on=sp.transient)
sp.retry(on=ConnectionError, attempts=None, within=timedelta(seconds=5))
sp.retry(on=ConnectionError, attempts=5, within=10, budget=None, backoff=sp.Exponential(base=0.2, cap=10))
sp.retry(on=ConnectionError, budget=sp.Budget(ratio=0.2), backoff=sp.Constant(1.0))
sp.retry(on=ConnectionError, late="clip", max_hint=5)

sp.retry()  # expect-error
sp.retry(on="ConnectionError")  # expect-error
sp.retry(on=ConnectionError())  # expect-error
sp.retry(on=ConnectionError, attempts="4")  # expect-error
sp.retry(on=ConnectionError, within="5s")  # expect-error
sp.retry(on=ConnectionError, backoff=0.1)  # expect-error
sp.retry(on=ConnectionError, budget=10)  # expect-error
sp.retry(on=ConnectionError, late="sometimes")  # expect-error
sp.retry(on=ConnectionError, atempts=4)  # expect-error

policy = sp.Policy(sp.Retry(on=sp.transient), name="fraud-score")
assert_type(policy.with_(sp.Retry(on=ConnectionError)), sp.Policy)
sp.Policy("retry")  # expect-error
sp.Policy(sp.Retry(), name=1)  # expect-error

assert_type(sp.Exponential().delay(0, None, 0.5), float)
assert_type(sp.remaining(), float | None)
assert_type(sp.Budget().balance, float)
sp.Exponential(base="0.1")  # expect-error
sp.Exponential(0.1, jitter="fulll")  # expect-error
sp.no_such_name  # expect-error
