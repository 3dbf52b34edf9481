"""A server that denies commands or keys to the store's user: what to grant is said, and is enough."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Server

import stormproof as sp
from stormproof.redis import RedisStore, StoreUnavailable

pytestmark = pytest.mark.redis

DOCS = Path(__file__).parents[3] / "docs" / "fleet.md"

GRANTS = r"NoPermissionError: its user needs ~PREFIX:\* \+eval \+evalsha .* to inspect it"


def make_user(server: Server, name: str, *rules: str) -> str:
    server.ask("ACL", "SETUSER", name, "reset", "on", ">secret", *rules)
    return f"redis://{name}:secret@127.0.0.1:{server.port}/0"


@pytest.mark.parametrize(
    "rules", [("~*", "+@all", "-@scripting"), ("~other:*", "+@all")], ids=["command", "key"]
)
def test_denied_store_reports_the_rights_it_needs(
    shared_server: Server, rules: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "stormproof")
    url = make_user(shared_server, "denied", *rules)
    with RedisStore(url, prefix="denied", timeout=PATIENT_S) as store:
        limiter = sp.Limiter(100, 10, store=store, name="api")
        assert limiter.allow()
        eventually(lambda: any(re.search(GRANTS, message) for message in caplog.messages))
        with pytest.raises(sp.idempotency.StoreUnavailable, match=GRANTS):
            sp.idempotency.RedisStore(store).begin("key", "fingerprint", "owner", 10)


def test_denied_inspection_reports_the_rights_it_needs(shared_server: Server) -> None:
    url = make_user(shared_server, "blind", "~*", "+evalsha")
    with (
        RedisStore(url, prefix="blind", timeout=PATIENT_S) as store,
        pytest.raises(StoreUnavailable, match=GRANTS),
    ):
        store.inspect()


def test_rights_in_the_docs_are_enough(shared_server: Server) -> None:
    (line,) = re.findall(r"^ACL SETUSER app on >password (.*)$", DOCS.read_text(encoding="utf-8"), re.M)
    url = make_user(shared_server, "least", *line.split())
    events: list[Any] = []
    unsubscribe = sp.subscribe(events.append)
    try:
        with RedisStore(url, prefix="sp", timeout=PATIENT_S) as store:
            budget = sp.Budget(store=store, name="least")
            limiter = sp.Limiter(100, 10, store=store, name="least")
            breaker = sp.Breaker(consecutive=1, store=store, name="least")
            policy = sp.Policy(breaker, sp.Bulkhead(5, store=store, name="least"))
            assert budget.withdraw() and limiter.allow() and policy.call(lambda: "ok") == "ok"
            breaker.admit().failure()
            sp.idempotency.RedisStore(store).begin("key", "fingerprint", "owner", 10)
            eventually(lambda: len(store.inspect()) >= 4)
    finally:
        unsubscribe()
    assert "StoreDown" not in [type(event).__name__ for event in events]
