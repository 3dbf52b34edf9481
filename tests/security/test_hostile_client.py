"""One client that sends hostile keys, deadlines and headers over HTTP keeps no other from being served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.asgi.conftest import serve  # noqa: F401 - a fixture
from tests.support.http.hostile import flood
from tests.support.sizes import sized

from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, SheddingMiddleware
from stormproof.idempotency import MemoryStore

LIMIT = 100


async def _app(scope: Any, receive: Any, send: Any) -> None:
    body = b"order"
    fields = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 201, "headers": fields})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.sized
def test_hostile_client_neither_fills_the_store_nor_displaces_another_clients_key(
    serve: Callable[[Any], str],  # noqa: F811
) -> None:
    store = MemoryStore(limit=LIMIT)
    url = serve(DeadlineMiddleware(SheddingMiddleware(IdempotencyMiddleware(_app, store), limit=50)))
    quiet = {"Authorization": "Bearer quiet", "Idempotency-Key": "first"}
    count = sized(50_000, 1_000)
    with httpx.Client(trust_env=False) as client:
        assert client.post(url, headers=quiet).status_code == 201
        port = urlsplit(url).port
        assert port is not None
        seen = asyncio.run(flood(port, count))
        assert seen.total() == count
        # The well-formed ones ran; the others were refused, each with a client's error.
        assert seen[201] > count // 4
        assert not [status for status in seen if status >= 500 and status not in (503, 504)]
        again = client.post(url, headers=quiet)
        assert (again.status_code, again.headers.get("idempotency-replayed")) == (201, "true")
        assert client.post(url, headers={**quiet, "Idempotency-Key": "second"}).status_code == 201
    assert len(store) <= LIMIT
