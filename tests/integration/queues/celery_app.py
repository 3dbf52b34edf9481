"""The tasks that the Celery workers of these tests run."""

from __future__ import annotations

import os
import time

import celery
from tests.integration.queues.run_log import ran

import stormproof as sp
import stormproof.celery

app = celery.Celery(
    "tests", broker=os.environ["STORMPROOF_TEST_BROKER"], backend=os.environ["STORMPROOF_TEST_BROKER"]
)
app.conf.update(
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 5},
    # A message waits in the worker until its time has come; it need not wait to be noticed as well.
    worker_timer_precision=0.02,
)
keys = sp.idempotency.SqliteStore(os.environ["STORMPROOF_TEST_KEYS"])
quick = sp.Exponential(0.05, cap=0.1)


@app.task(
    base=stormproof.celery.task_base(
        sp.retry(on=ConnectionError, attempts=4, backoff=quick, budget=sp.Budget(burst=50))
    )
)
def flaky(key: str, failures: int) -> str:
    if ran(key) <= failures:
        raise ConnectionError("secret")
    return "done"


@app.task(
    base=stormproof.celery.task_base(
        sp.retry(on=ConnectionError, backoff=sp.Constant(6), budget=sp.Budget(burst=20))
    )
)
def patient(key: str) -> str:
    if ran(key) == 1:
        raise ConnectionError
    return "done"


@app.task(
    base=stormproof.celery.task_base(
        sp.retry(on=ConnectionError, attempts=2, backoff=quick, budget=sp.Budget(burst=50)),
        dead_letter="dead",
    )
)
def doomed(key: str, kind: str) -> None:
    ran(key)
    raise {"fatal": ValueError, "transient": ConnectionError}[kind](kind)


@app.task(
    base=stormproof.celery.task_base(sp.retry(on=ConnectionError, backoff=quick, budget=sp.Budget(burst=0)))
)
def broke(key: str) -> None:
    ran(key)
    raise ConnectionError


@app.task(
    base=stormproof.celery.task_base(
        sp.retry(on=ConnectionError), idempotency=keys, lease=1, on_unknown="run"
    )
)
def careful(key: str, seconds: float) -> int:
    runs = ran(key)
    if runs == 1:
        time.sleep(seconds)
    return runs


@app.task(
    base=stormproof.celery.task_base(
        sp.retry(on=ConnectionError), idempotency=keys, lease=1, dead_letter="dead"
    )
)
def once(key: str, seconds: float) -> int:
    runs = ran(key)
    time.sleep(seconds)
    return runs
