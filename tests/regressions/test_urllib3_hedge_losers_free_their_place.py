"""Of two hedged answers that both came, the loser was closed but kept its place in urllib3's pool.

Stormproof: an exchange answers for every response that comes to it, and each is handed on or discarded,
once, in the way of its client.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from tests.support.http.server import Server, chunked
from tests.support.polling import eventually

import stormproof as sp
import stormproof.urllib3

PLACES = 200
CALLS = 60


def test_every_place_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    port = stormproof.urllib3._Urllib3Port
    discarded: list[object] = []
    own = port.discard
    monkeypatch.setattr(port, "discard", lambda *given: (discarded.append(given[1]), own(*given))[1])
    # Both answers are there before the race looks at either.
    fetch, both = port.fetch, threading.Barrier(2, timeout=20)
    monkeypatch.setattr(port, "fetch", lambda *given: (fetch(*given), both.wait())[0])
    policy = sp.Policy(sp.Hedge(after=0, budget=sp.RateBudget(rate=1e6, burst=10**6)))
    with Server() as server:
        server.on("/", chunked(b"x" * 1000))
        with stormproof.urllib3.PoolManager(policy, maxsize=PLACES, block=True) as manager:
            for _ in range(CALLS):
                response = manager.request("GET", server.url(), preload_content=False)
                assert response.read() == b"x" * 1000
                response.release_conn()
            pool = manager.connection_from_url(server.url())
            eventually(lambda: pool.pool.qsize() == PLACES, "every place")
    assert Counter(map(id, discarded)).most_common(1)[0][1] == 1
    assert len(discarded) == CALLS
