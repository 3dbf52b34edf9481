"""Headers that a client sends to the server, and options that a request gives its client."""

from __future__ import annotations

import gc

import pytest
from tests.support.http.each_client import Http, each_async_client, each_client, each_sync_client, retry
from tests.support.http.server import Server, answer, late

import stormproof as sp


@each_client
async def test_remaining_time_is_sent_and_shrinks(http: Http) -> None:
    http.server.on("/", late(0.05, answer(503)), late(0.05, answer(503)), answer(200))
    policy = sp.Policy(sp.Deadline(20), *retry().strategies)
    assert (await http.client(policy).get("/")).status == 200
    left = [int(seen.header("X-Request-Timeout-Ms") or 0) for seen in http.server.seen]
    assert 20_000 >= left[0] > left[1] > left[2] > 0
    assert left[0] - left[2] >= 100


@each_client
async def test_ambient_deadline_is_sent_to_the_server(http: Http) -> None:
    http.server.on("/", answer(200))
    client = http.client(retry())
    with sp.deadline(7):
        await client.get("/")
    assert 0 < int(http.server.seen[0].header("X-Request-Timeout-Ms") or 0) <= 7000


@each_client
async def test_attempt_number_is_sent_from_the_second_attempt_on(http: Http) -> None:
    http.server.on("/", answer(503), answer(503), answer(200))
    await http.client(retry()).get("/")
    assert [seen.header("X-Request-Attempt") for seen in http.server.seen] == [None, "2", "3"]
    assert [seen.header("X-Request-Timeout-Ms") for seen in http.server.seen] == [None] * 3


@each_client
async def test_propagation_headers_can_be_renamed_or_left_out(http: Http) -> None:
    http.server.on("/", answer(503), answer(200), answer(503), answer(200))
    with sp.deadline(30):
        await http.client(retry(), timeout_header="X-Left", attempt_header="X-Try").get("/")
        await http.client(retry(), timeout_header=None, attempt_header=None).get("/")
    named, bare = http.server.seen[1], http.server.seen[3]
    assert named.header("X-Try") == "2" and named.header("X-Left") is not None
    assert not [name for name, _ in bare.headers if name.lower().startswith("x-request")]


@each_client
async def test_request_override_switches_retries_off(http: Http) -> None:
    if http.kind.overrides_by_middleware:
        overrides: dict[str, object] = {"policy": sp.Policy()}
    else:
        overrides = {"retry": False}
    http.server.on("/", answer(503), answer(200))
    client = http.client(retry())
    assert (await client.get("/", override=overrides)).status == 503
    assert (await client.get("/")).status == 200


@each_client
async def test_request_override_replaces_the_policy(http: Http) -> None:
    http.server.on("/", answer(503))
    client = http.client(retry(attempts=4))
    assert (await client.get("/", override={"policy": retry(attempts=2)})).status == 503
    assert len(http.server.seen) == 2


@each_client
async def test_request_override_sets_the_idempotency_key(http: Http) -> None:
    http.server.on("/", answer(503), answer(200))
    client = http.client(retry())
    overrides = {"idempotency_key": "order-7"}
    if http.kind.overrides_by_middleware:
        overrides = {"policy": retry(), "idempotency_key": lambda request: "order-7"}  # type: ignore[dict-item]
    assert (await client.post("/", override=overrides)).status == 200
    assert [seen.header("Idempotency-Key") for seen in http.server.seen] == ["order-7", "order-7"]


@each_client
async def test_credentials_are_renewed_once(http: Http) -> None:
    http.server.on("/", answer(401, b"old"), answer(200, b"in"))
    http.server.on("/never", answer(401, b"no"))
    asked: list[int] = []

    def reauth(draft: object, response: object) -> None:
        asked.append(1)
        draft.headers["Authorization"] = "Bearer new"  # type: ignore[attr-defined]

    client = http.client(retry(), reauth=reauth)
    got = await client.get("/", headers={"Authorization": "Bearer old"})
    assert (got.status, got.body) == (200, b"in")
    assert [seen.header("Authorization") for seen in http.server.seen] == ["Bearer old", "Bearer new"]
    got = await client.get("/never")
    assert (got.status, got.body) == (401, b"no")
    assert len(http.server.requests("/never")) == 2 and len(asked) == 2


@each_client
async def test_new_credentials_last_through_the_retries(http: Http) -> None:
    http.server.on("/", answer(503), answer(401), answer(503), answer(200))

    def reauth(draft: object, response: object) -> None:
        draft.headers["Authorization"] = "new"  # type: ignore[attr-defined]

    assert (
        await http.client(retry(), reauth=reauth).post("/", headers={"Idempotency-Key": "k"})
    ).status == 200
    sent = [seen.header("Authorization") for seen in http.server.seen]
    assert sent == [None, None, "new", "new"]
    assert {seen.header("Idempotency-Key") for seen in http.server.seen} == {"k"}


@each_async_client
async def test_renewing_may_be_async(http: Http) -> None:
    http.server.on("/", answer(401), answer(200))

    async def reauth(draft: object, response: object) -> None:
        draft.headers["Authorization"] = "new"  # type: ignore[attr-defined]

    assert (await http.client(retry(), reauth=reauth).get("/")).status == 200


@each_sync_client
async def test_renewing_must_not_be_async_in_a_sync_client(http: Http) -> None:
    http.server.on("/", answer(401), answer(200))

    class Later:
        def __await__(self) -> object:
            raise NotImplementedError

    with pytest.raises(TypeError, match="async"):
        await http.client(retry(), reauth=lambda draft, response: Later()).get("/")


@each_client
async def test_before_attempt_may_try_another_instance(http: Http) -> None:
    with Server() as other:
        other.on("/", answer(200, b"other"))
        http.server.on("/", answer(503))
        seen_by: list[int] = []

        def before(attempt: sp.Attempt) -> None:
            seen_by.append(attempt.number)
            if attempt.number > 1:
                attempt.request.host = f"127.0.0.1:{other.port}"

        client = http.client(retry(before_attempt=before))
        got = await client.get("/", headers={"Authorization": "Bearer secret", "X-Mine": "1"})
        assert (got.status, got.body) == (200, b"other")
        assert seen_by == [1, 2]
        (seen,) = other.seen
        assert seen.header("Host") == f"127.0.0.1:{other.port}"
        # Credentials of one origin are not for another.
        assert (seen.header("Authorization"), seen.header("X-Mine")) == (None, "1")
        await client.close()
        # A response of urllib3 holds its pool, and that its connections.
        del got
        gc.collect()
        other.no_connection_is_open()


@each_client
async def test_before_attempt_may_change_path_and_headers_of_one_attempt(http: Http) -> None:
    http.server.on("/a", answer(503), answer(200, b"a"))
    http.server.on("/b", answer(503))

    def before(attempt: sp.Attempt) -> None:
        if attempt.number == 2:
            attempt.request.url = http.server.url("/b?x=1")
            attempt.request.headers["X-Region"] = "west"

    assert (await http.client(retry(before_attempt=before)).get("/a")).body == b"a"
    assert [seen.target for seen in http.server.seen] == ["/a", "/b?x=1", "/a"]
    assert [seen.header("X-Region") for seen in http.server.seen] == [None, "west", None]
