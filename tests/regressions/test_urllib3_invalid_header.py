"""Bare urllib3 raises ``InvalidHeader`` in place of a 503 whose ``Retry-After`` it cannot read."""

from __future__ import annotations

import pytest
import requests
import urllib3
from tests.support.http.each_client import retry
from tests.support.http.server import Server, answer

import stormproof.requests
import stormproof.urllib3

BROKEN = [("Retry-After", "whenever you like")]


def test_bare_urllib3_loses_the_answer() -> None:
    with Server() as server:
        server.on("/", answer(503, b"busy", BROKEN))
        own = urllib3.Retry(1, status_forcelist=[503])
        with urllib3.PoolManager(retries=own) as manager, pytest.raises(urllib3.exceptions.InvalidHeader):
            manager.request("GET", server.url())


def test_answer_with_an_invalid_retry_after_is_returned() -> None:
    with Server() as server:
        server.on("/", answer(503, b"busy", BROKEN))
        with stormproof.urllib3.PoolManager(retry(attempts=2)) as manager:
            response = manager.request("GET", server.url())
        assert (response.status, response.data) == (503, b"busy")
        with requests.Session() as session:
            session.mount("http://", stormproof.requests.Adapter(retry(attempts=2)))
            got = session.get(server.url())
        assert (got.status_code, got.content) == (503, b"busy")
        assert len(server.seen) == 4
