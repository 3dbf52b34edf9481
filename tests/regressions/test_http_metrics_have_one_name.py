"""First tries and gauges of an unnamed client's policy went under one name, its retries under another; and
the gauges of a policy vanished when the client had tables of its own.
"""

from __future__ import annotations

import gc

import httpx

import stormproof as sp
import stormproof.httpx
from stormproof._events.operations import census


def client(policy: sp.Policy, **options: object) -> httpx.Client:
    answers = [503, 200, 200]
    mock = httpx.MockTransport(lambda request: httpx.Response(answers.pop(0)))
    return httpx.Client(transport=stormproof.httpx.Transport(policy, mock, **options))


def test_unnamed_policy_takes_the_clients_name() -> None:
    events: list[object] = []
    stop = sp.subscribe(events.append)
    try:
        before = census.first_tries().get("httpx", 0)
        policy = sp.Policy(sp.Retry(backoff=sp.Constant(0)), sp.Breaker())
        session = client(policy)
        # Two hosts, one name.
        session.get("http://a.example/")
        session.get("http://b.example/")
    finally:
        stop()
    assert {event.operation for event in events} == {"httpx"}
    assert census.first_tries()["httpx"] == before + 1
    assert [name for name, known in census.policies() if known is policy] == ["httpx"]


def test_tables_of_the_clients_own_do_not_hide_the_policy() -> None:
    breaker = sp.Breaker()
    session = client(sp.Policy(sp.Retry(), breaker, name="with tables"), statuses={503})
    gc.collect()
    policies = [policy for name, policy in census.policies() if name == "with tables"]
    assert [policy.strategies[1] for policy in policies] == [breaker]
    session.close()
