"""Features of the bare clients: urllib3 keeps a redirect history, requests explains a bad timeout.

``response.retries.history`` was empty when the pool itself had followed the redirect, and ``timeout=(3, 4,
5)`` inside a deadline ended in "too many values to unpack".
"""

from __future__ import annotations

import pytest
import requests
import urllib3
from tests.support.http.server import Server, answer

import stormproof as sp
import stormproof.requests
import stormproof.urllib3


def test_history_names_the_redirects_that_a_pool_followed() -> None:
    with Server() as server:
        server.on("/from", answer(302, b"", [("Location", "/to")]))
        server.on("/to", answer(200, b"there"))

        def follow(manager: urllib3.PoolManager) -> list[tuple[object, ...]]:
            pool = manager.connection_from_url(server.url())
            response = pool.urlopen("GET", "/from", retries=urllib3.Retry(5))
            assert response.retries is not None
            return [tuple(hop) for hop in response.retries.history]

        plain, held = urllib3.PoolManager(), stormproof.urllib3.PoolManager(sp.Policy(sp.Retry()))
        assert follow(held) == follow(plain) != []
        plain.clear()
        held.clear()


@pytest.mark.parametrize("timeout", [(3, 4, 5), (1,), "soon"])
def test_bad_timeout_is_explained_as_by_the_bare_client(timeout: object) -> None:
    def said(adapter: requests.adapters.HTTPAdapter) -> str:
        with requests.Session() as session:
            session.mount("http://", adapter)
            with pytest.raises(ValueError, match=r"[Tt]imeout") as caught, sp.deadline(5):
                session.get("http://127.0.0.1:9/", timeout=timeout)  # type: ignore[arg-type]
            return str(caught.value)

    plain = said(requests.adapters.HTTPAdapter())
    assert said(stormproof.requests.Adapter(sp.Policy(sp.Retry()))) == plain
