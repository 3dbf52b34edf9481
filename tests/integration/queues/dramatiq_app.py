"""The actors that the Dramatiq workers of these tests run."""

from __future__ import annotations

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from tests.integration.queues.run_log import ran

import stormproof as sp
import stormproof.dramatiq

broker = RedisBroker(
    url=os.environ["STORMPROOF_TEST_BROKER"],
    # What a lost worker held goes to the others after this time; looked for with every command.
    heartbeat_timeout=1000,
    maintenance_chance=1_000_000,
)
dramatiq.set_broker(broker)
keys = sp.idempotency.SqliteStore(os.environ["STORMPROOF_TEST_KEYS"])
stormproof.dramatiq.install(broker, idempotency=keys, lease=1, on_unknown="run")

quick = sp.Exponential(0.05, cap=0.1)


@dramatiq.actor(policy=sp.retry(on=ConnectionError, attempts=4, backoff=quick, budget=sp.Budget(burst=50)))
def flaky(key: str, failures: int) -> None:
    if ran(key) <= failures:
        raise ConnectionError("secret")


@dramatiq.actor(policy=sp.retry(on=ConnectionError, backoff=sp.Constant(6), budget=sp.Budget(burst=20)))
def patient(key: str) -> None:
    if ran(key) == 1:
        raise ConnectionError


@dramatiq.actor(policy=sp.retry(on=ConnectionError, attempts=2, backoff=quick, budget=sp.Budget(burst=50)))
def doomed(key: str, kind: str) -> None:
    ran(key)
    raise {"fatal": ValueError, "transient": ConnectionError}[kind](kind)


@dramatiq.actor
def unruled(key: str) -> None:
    ran(key)
    raise ConnectionError


@dramatiq.actor(policy=sp.retry(on=ConnectionError))
def careful(key: str, seconds: float) -> None:
    if ran(key) == 1:
        time.sleep(seconds)
