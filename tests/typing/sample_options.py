"""Options: what `on`, attempts, waits and budgets accept, and what they refuse."""

from datetime import timedelta
from typing import assert_type

import holdfast as hf


def busy(error: Exception) -> bool:
    return "busy" in str(error)


hf.retry(on=ConnectionError)
hf.retry(on=(ConnectionError, TimeoutError))
hf.retry(on=busy)
hf.retry(on=lambda error: isinstance(error, OSError))
hf.retry(on=hf.transient)
hf.retry(on=ConnectionError, attempts=None, within=timedelta(seconds=5))
hf.retry(on=ConnectionError, attempts=5, within=10, budget=None, backoff=hf.Exponential(base=0.2, cap=10))
hf.retry(on=ConnectionError, budget=hf.Budget(ratio=0.2), backoff=hf.Constant(1.0))
hf.retry(on=ConnectionError, late="clip", max_hint=5)

hf.retry()  # expect-error
hf.retry(on="ConnectionError")  # expect-error
hf.retry(on=ConnectionError())  # expect-error
hf.retry(on=ConnectionError, attempts="4")  # expect-error
hf.retry(on=ConnectionError, within="5s")  # expect-error
hf.retry(on=ConnectionError, backoff=0.1)  # expect-error
hf.retry(on=ConnectionError, budget=10)  # expect-error
hf.retry(on=ConnectionError, late="sometimes")  # expect-error
hf.retry(on=ConnectionError, atempts=4)  # expect-error

policy = hf.Policy(hf.Retry(on=hf.transient), name="fraud-score")
assert_type(policy.with_(hf.Retry(on=ConnectionError)), hf.Policy)
hf.Policy("retry")  # expect-error
hf.Policy(hf.Retry(), name=1)  # expect-error

assert_type(hf.Exponential().delay(0, None, 0.5), float)
assert_type(hf.remaining(), float | None)
assert_type(hf.Budget().balance, float)
hf.Exponential(base="0.1")  # expect-error
hf.Exponential(0.1, jitter="fulll")  # expect-error
hf.no_such_name  # expect-error
