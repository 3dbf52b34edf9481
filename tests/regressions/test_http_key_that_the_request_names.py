"""A key that one request named for itself was dropped where its method is safe to repeat anyway."""

from __future__ import annotations

import httpx
import pytest
import requests
from tests.support.http.each_client import retry
from tests.support.http.server import Server, answer

import stormproof.httpx
import stormproof.requests
import stormproof.urllib3

NAMED = {"idempotency_key": "order-17"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
def test_named_key_is_sent_with_any_method(method: str) -> None:
    with Server() as server:
        server.on("/", answer(503), answer(200))
        with httpx.Client(transport=stormproof.httpx.Transport(retry()), trust_env=False) as client:
            client.request(method, server.url(), extensions={"stormproof": NAMED})
        with requests.Session() as session, stormproof.requests.override(**NAMED):
            session.mount("http://", stormproof.requests.Adapter(retry()))
            session.request(method, server.url())
        with stormproof.urllib3.PoolManager(retry()) as manager:
            manager.request(method, server.url(), stormproof=NAMED)
        assert [seen.header("Idempotency-Key") for seen in server.seen] == ["order-17"] * 4


def test_clients_own_option_is_for_methods_that_need_it() -> None:
    with Server() as server:
        server.on("/", answer(200))
        transport = stormproof.httpx.Transport(retry(), idempotency_key="auto")
        with httpx.Client(transport=transport, trust_env=False) as client:
            client.put(server.url())
        assert server.seen[0].header("Idempotency-Key") is None
