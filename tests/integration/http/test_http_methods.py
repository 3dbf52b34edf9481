"""Which requests may be made twice: methods, keys, and failures that prove that nothing happened."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, hang, reset, unused_port

import stormproof as sp

SAFE = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]
UNSAFE = ["POST", "PATCH"]


@each_client
async def test_only_safe_methods_are_retried(http: Http) -> None:
    client = http.client(retry(attempts=2))
    for method in SAFE + UNSAFE:
        http.server.on(f"/{method}", answer(503))
        assert (await client.request(method, f"/{method}")).status == 503
    tries = {method: len(http.server.requests(f"/{method}")) for method in SAFE + UNSAFE}
    assert tries == {**dict.fromkeys(SAFE, 2), **dict.fromkeys(UNSAFE, 1)}


@each_client
async def test_post_is_not_repeated_after_a_reset_or_a_read_timeout(http: Http) -> None:
    http.server.on("/reset", reset())
    http.server.on("/hang", hang())
    client = http.client(retry())
    with pytest.raises(http.kind.lost):
        await client.post("/reset")
    with pytest.raises(http.kind.slow):
        await client.post("/hang", timeout=0.5)
    assert [seen.path for seen in http.server.seen] == ["/reset", "/hang"]


@each_client
async def test_post_is_repeated_when_nothing_was_processed(http: Http) -> None:
    for status in (425, 429):
        http.server.on(f"/{status}", answer(status), answer(201))
        assert (await http.client(retry()).post(f"/{status}", b"once")).status == 201
        assert [seen.body for seen in http.server.requests(f"/{status}")] == [b"once", b"once"]


@each_client
async def test_post_is_repeated_when_the_connection_is_refused(http: Http) -> None:
    retries: list[sp.events.Retrying] = []
    stop = sp.subscribe(
        lambda event: retries.append(event) if isinstance(event, sp.events.Retrying) else None
    )
    try:
        with pytest.raises(http.kind.refused) as caught:
            await http.client(retry(attempts=3)).post(f"http://127.0.0.1:{unused_port()}/")
    finally:
        stop()
    assert len(retries) == 2
    assert any("3 attempts" in note for note in caught.value.__notes__)


@each_client
@pytest.mark.parametrize("method", UNSAFE)
async def test_users_idempotency_key_makes_a_post_retryable(http: Http, method: str) -> None:
    http.server.on("/", answer(503), reset(), answer(201))
    got = await http.client(retry()).request(method, "/", body=b"pay", headers={"Idempotency-Key": "k-1"})
    assert got.status == 201
    assert [seen.header("Idempotency-Key") for seen in http.server.seen] == ["k-1"] * 3
    assert [seen.body for seen in http.server.seen] == [b"pay"] * 3


@each_client
async def test_auto_makes_one_key_per_logical_call(http: Http) -> None:
    http.server.on("/", answer(503), reset(), answer(201), answer(503), answer(201))
    client = http.client(retry(), idempotency_key="auto")
    assert (await client.post("/")).status == 201
    assert (await client.post("/")).status == 201
    keys = [seen.header("Idempotency-Key") for seen in http.server.seen]
    assert len(keys) == 5 and None not in keys
    assert len(set(keys[:3])) == 1 and len(set(keys[3:])) == 1 and keys[0] != keys[3]
    assert all(len(key) >= 16 for key in keys if key)


@each_client
async def test_auto_leaves_the_users_key_and_repeatable_methods_alone(http: Http) -> None:
    http.server.on("/", answer(200))
    client = http.client(retry(), idempotency_key="auto")
    await client.post("/", headers={"idempotency-key": "mine"})
    await client.get("/")
    assert [seen.header("Idempotency-Key") for seen in http.server.seen] == ["mine", None]
