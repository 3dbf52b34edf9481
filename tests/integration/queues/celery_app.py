"""The tasks that the Celery workers of these tests run."""

from __future__ import annotations

import os
import time

import celery
from tests.queues.runs import ran

import holdfast as hf
import holdfast.celery

app = celery.Celery(
    "tests", broker=os.environ["HOLDFAST_TEST_BROKER"], backend=os.environ["HOLDFAST_TEST_BROKER"]
)
app.conf.update(
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 5},
    # A message waits in the worker until its time has come; it need not wait to be noticed as well.
    worker_timer_precision=0.02,
)
keys = hf.idempotency.SqliteStore(os.environ["HOLDFAST_TEST_KEYS"])
quick = hf.Exponential(0.05, cap=0.1)


@app.task(base=holdfast.celery.task_base(hf.retry(on=ConnectionError, attempts=4, backoff=quick)))
def flaky(key: str, failures: int) -> str:
    if ran(key) <= failures:
        raise ConnectionError("secret")
    return "done"


@app.task(base=holdfast.celery.task_base(hf.retry(on=ConnectionError, backoff=hf.Constant(1.5))))
def patient(key: str) -> str:
    if ran(key) == 1:
        raise ConnectionError
    return "done"


@app.task(
    base=holdfast.celery.task_base(
        hf.retry(on=ConnectionError, attempts=2, backoff=quick), dead_letter="dead"
    )
)
def doomed(key: str, kind: str) -> None:
    ran(key)
    raise {"fatal": ValueError, "transient": ConnectionError}[kind](kind)


@app.task(
    base=holdfast.celery.task_base(hf.retry(on=ConnectionError, backoff=quick, budget=hf.Budget(burst=0)))
)
def broke(key: str) -> None:
    ran(key)
    raise ConnectionError


@app.task(
    base=holdfast.celery.task_base(hf.retry(on=ConnectionError), idempotency=keys, lease=1, on_unknown="run")
)
def careful(key: str, seconds: float) -> int:
    runs = ran(key)
    if runs == 1:
        time.sleep(seconds)
    return runs


@app.task(
    base=holdfast.celery.task_base(
        hf.retry(on=ConnectionError), idempotency=keys, lease=1, dead_letter="dead"
    )
)
def once(key: str, seconds: float) -> int:
    runs = ran(key)
    time.sleep(seconds)
    return runs
