"""A POST is never hedged, whatever the policy declares: only a key makes it safe to send twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.http.each_client import Http, each_client
from tests.support.http.server import answer, late, once

import stormproof as sp

pytestmark = pytest.mark.proves("fault hedged-post")


def _hedged(**options: Any) -> sp.Policy:
    return sp.Policy(sp.Hedge(**{"after": 0.01, "budget": sp.Budget(burst=50), **options}))


@each_client
async def test_post_without_a_key_is_not_hedged(http: Http, measured: Callable[[str], None]) -> None:
    made = 0
    for declared in (False, True):
        for method in ("POST", "PATCH"):
            path = f"/{method}-{declared}"
            http.server.on(path, late(0.05, answer(200, b"first")), answer(200, b"second"))
            client = http.client(_hedged(idempotent=declared, max=3))
            assert (await client.request(method, path, body=b"order")).body == b"first"
            assert len(http.server.requests(path)) == 1
            made += 1
    measured(f"{http.kind.__name__}: {made} slow POST and PATCH requests, 0 hedges")


@each_client
async def test_failed_post_launches_no_hedge(http: Http) -> None:
    http.server.on("/", answer(503, b"down"), answer(200))
    got = await http.client(_hedged(idempotent=True, after=30.0)).post("/")
    assert (got.status, got.body) == (503, b"down")
    assert len(http.server.seen) == 1


@each_client
async def test_repeatable_requests_are_hedged(http: Http) -> None:
    """Else the tests above would prove nothing: a GET, and a POST whose key is on both requests."""
    for method, options in (("GET", {}), ("POST", {"idempotency_key": "auto"})):
        answered = threading.Event()
        http.server.on(f"/{method}", once(answered.is_set, answer(200, b"slow")), answer(200, b"fast"))
        body = None if method == "GET" else b"order"
        got = await http.client(_hedged(), **options).request(method, f"/{method}", body=body)
        assert got.body == b"fast"
        answered.set()
        first, second = http.server.requests(f"/{method}")
        assert first.body == second.body == (body or b"")
        assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert first.header("Idempotency-Key") is not None


def test_plain_function_is_hedged_only_if_declared() -> None:
    calls: list[int] = []

    def post() -> None:
        calls.append(threading.get_ident())

    async def post_async() -> None:
        calls.append(0)

    for call in (lambda: _hedged()(post), lambda: _hedged()(post_async)):
        with pytest.raises(ValueError, match="idempotent must be True"):
            call()
    with pytest.raises(ValueError, match="idempotent must be True"):
        _hedged().call(post)
    with pytest.raises(ValueError, match="idempotent must be True"):
        asyncio.run(_hedged().acall(post_async))
    assert calls == []
