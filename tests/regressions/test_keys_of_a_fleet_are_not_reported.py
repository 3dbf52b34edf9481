"""With a store, ``sp.keyed`` put each key, an argument of the call, into names, and so into events, logs,
errors, metrics and Redis; a thousand tenants took the metrics' names away from everything else.

Stormproof: a name has the key's hash, and metrics count all keys of one name together.
"""

from __future__ import annotations

import json
import logging

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof._events.operations import census
from stormproof._telemetry.meters import Meters
from stormproof.redis import RedisStore

pytestmark = pytest.mark.redis
SECRET = "hunter2-tenant"


def test_no_key_of_a_fleet_is_reported(caplog):
    caplog.set_level(logging.DEBUG)
    events, meters = [], Meters()
    stops = [sp.subscribe(events.append), sp.subscribe(meters.add, first_tries=False)]
    texts = []
    with Server() as server, RedisStore(server.url, timeout=1) as store:
        budgets = sp.keyed(sp.Budget(store=store, name="k-budget"), key=lambda tenant: tenant)
        breakers = sp.keyed(sp.Breaker(consecutive=1, store=store, name="k-gate"), key=lambda tenant: tenant)
        limiters = sp.keyed(sp.Limiter(1, 1, store=store, name="k-limit"))
        places = sp.keyed(sp.Bulkhead(1, store=store, name="k-places"))
        retry = sp.Retry(on=OSError, attempts=2, backoff=sp.Constant(0), budget=budgets)

        @sp.Policy(retry, breakers, name="k-call")
        def call(tenant):
            raise OSError(tenant)

        for _ in range(2):
            with pytest.raises((OSError, sp.CircuitOpen)) as caught:
                call(SECRET)
            texts += [str(caught.value) if isinstance(caught.value, sp.StormproofError) else ""]
            texts += getattr(caught.value, "__notes__", [])
        kept = [limiters[SECRET], places[SECRET]]
        # One of the keys is spoiled, which is a line in the log.
        server.ask("SET", store.key("limiter", limiters[SECRET].name), "a foreign value", "PX", 60_000)
        # The first token may have been leased before that.
        eventually(
            lambda: (limiters[SECRET].allow(), any(type(e).__name__ == "StoreDown" for e in events))[1]
        )
        texts += map(str, server.ask("KEYS", "*"))
        texts += [json.dumps(store.inspect()), *(repr(part) for part in kept)]
    for stop in stops:
        stop()
    texts += [json.dumps(event.as_dict()) for event in events]
    texts += [record.getMessage() + repr(vars(record)) for record in caplog.records]
    texts += [repr(vars_of(meters.read())), repr(census.first_tries())]
    assert {"BreakerChanged", "Refused", "LeaseExchanged", "StoreDown"} <= {type(e).__name__ for e in events}
    assert SECRET not in "\n".join(texts)


def vars_of(reading):
    return [reading.counts, reading.waits, reading.successes]


def test_metrics_of_many_keys_have_one_name():
    with RedisStore("redis://127.0.0.1:1") as store:
        breakers = sp.keyed(sp.Breaker(store=store, name="k-many"), limit=50)
        names = {census.name(breakers[f"tenant-{number}"].name) for number in range(50)}
    assert names == {"k-many"}
    assert census.name("k-many/key-of-my-own") == "k-many/key-of-my-own"
