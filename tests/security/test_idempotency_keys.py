"""Keys and answers are other people's data: bounded, kept apart, and shown to no other caller."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi_calls import Answer, call, read, respond

import stormproof as sp
from stormproof._server import replay
from stormproof.asgi import IdempotencyMiddleware, RefusalMiddleware
from stormproof.idempotency import MemoryStore, SqliteStore
from stormproof.idempotency.keys import digest, fingerprint

pytestmark = pytest.mark.proves("security keys")

BODY = b'{"amount": 100}'


class Bank:
    """Answers with the account it has charged; puts a secret into a header and a cookie."""

    def __init__(self) -> None:
        self.charged: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await read(receive)
        headers = dict(scope["headers"])
        self.charged.append(headers.get(b"authorization", b"anonymous").decode())
        cookie = (b"set-cookie", b"session=cookie-s3cret")
        await respond(send, 200, f"charged {self.charged[-1]}".encode(), [cookie])


def post(app: Any, key: str = "k", **headers: str) -> Answer:
    async def main() -> Answer:
        fields = {"Idempotency-Key": key, **headers}
        return await call(app, "POST", "/charge", fields, BODY)

    return asyncio.run(main())


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.mark.parametrize(
    "key",
    [
        "k" * 256,
        "k" * 100_000,
        "a\r\nX-Evil: 1",
        "a\nb",
        "a\x00b",
        "\x7f",
        "\x1b[31m",
        "\xff\xfe",
        "",
        '"' * 300,
    ],
    ids=lambda key: repr(key)[:20],
)
def test_keys_of_a_bad_kind_run_nothing(bank: Bank, key: str) -> None:
    answer = post(IdempotencyMiddleware(bank, store=MemoryStore()), key)
    assert answer.status == 400
    assert bank.charged == []
    if key:
        assert key.encode("latin-1") not in answer.body, "what came in does not come out"


def test_answer_of_one_tenant_is_never_given_to_another(bank: Bank) -> None:
    """The same key, the same request, other credentials."""
    app = IdempotencyMiddleware(bank, store=MemoryStore())
    answers = [post(app, authorization=f"Bearer {name}").body for name in ("ann", "bob", "ann")]
    assert answers == [b"charged Bearer ann", b"charged Bearer bob", b"charged Bearer ann"]
    assert bank.charged == ["Bearer ann", "Bearer bob"]
    assert post(app).body == b"charged anonymous", "requests without credentials share no key"


def test_credentials_that_change_need_a_scope_of_their_own(bank: Bank) -> None:
    """A tenant whose token was renewed between two attempts is still the same tenant."""

    def tenant(scope: Any) -> str:
        return dict(scope["headers"])[b"authorization"].decode().split("/")[0]

    app = IdempotencyMiddleware(bank, store=MemoryStore(), scope=tenant)
    for token in ("ann/1", "ann/2", "bob/1"):
        post(app, authorization=token)
    assert bank.charged == ["ann/1", "bob/1"]


def test_equal_keys_in_different_scopes_have_different_digests() -> None:
    """However a key is made, it does not reach into another scope."""
    parts = ["", "a", "b", "ab", "a:", ":a", "1:a", "a\\0b", "\x01"]
    seen = [digest(scope, key) for scope in parts for key in parts]
    assert len(set(seen)) == len(parts) ** 2
    lists = [(b"ab", b"c"), (b"a", b"bc"), (b"abc",), (b"abc", b""), (b"", b"abc"), ()]
    assert len({fingerprint(*parts) for parts in lists}) == len(lists)


def test_path_query_and_body_are_fingerprinted_apart() -> None:
    """Path, query and body are kept apart, not joined."""
    bank = Bank()
    app = IdempotencyMiddleware(bank, store=MemoryStore())

    async def main() -> list[int]:
        key = {"Idempotency-Key": "k"}
        first = await call(app, "POST", "/a", key, b"xy", query="q=1")
        moved = await call(app, "POST", "/a", key, b"1xy", query="q=")
        return [first.status, moved.status]

    assert asyncio.run(main()) == [200, 422]


EVIL = [
    b'[200,[["x-a","1\\r\\nX-Evil: 1"]]]\nbody',
    b'[200,[["x-a\\r\\nX-Evil","1"]]]\nbody',
    b'[200,[["x-a","1\\u0000"]]]\nbody',
    b'[200,[["","1"]]]\nbody',
    b'[200,[["x a","1"]]]\nbody',
    b'[200,[["x-a","\\u20ac"]]]\nbody',
    b"[99,[]]\nbody",
    b'["200",[]]\nbody',
    b"[true,[]]\nbody",
    b"[200]\nbody",
    b"[200,[]]",
    b"{}",
    b"",
    b"\xff\n",
    b'[200,[["a"]]]\n',
    b"[200,[[1,2]]]\n",
    b"null\n",
]


@pytest.mark.parametrize("stored", EVIL, ids=repr)
def test_record_that_was_tampered_with_is_not_replayed(bank: Bank, stored: bytes) -> None:
    assert replay.unpack(stored) is None
    store = MemoryStore()
    app = IdempotencyMiddleware(bank, store=store, scope=lambda scope: "s")
    payload = fingerprint(b"POST", b"/charge", b"", BODY)
    store.begin("k", payload, "mallory", 60, scope="s")
    store.finish("k", "mallory", stored, scope="s")
    answer = post(app)
    assert (answer.status, answer.problem["code"]) == (409, "idempotency_not_kept")
    assert b"evil" not in repr(answer.messages).lower().encode()
    assert bank.charged == []


def test_packed_answer_keeps_any_bytes() -> None:
    headers = [(b"x-latin", bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)))]
    body = bytes(range(256)) + b"\n[200,[]]\n"
    assert replay.unpack(replay.pack(200, headers, body)) == (200, headers, body)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.db"


def test_no_credential_reaches_the_store(bank: Bank, path: Path) -> None:
    store = SqliteStore(path)
    post(IdempotencyMiddleware(bank, store=store), "key-s3cret", authorization="Bearer token-s3cret")
    store.close()
    kept = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"charged" in kept, "the answer itself is kept"
    for secret in (b"key-s3cret", b"cookie-s3cret", b"session", b"amount"):
        assert secret not in kept


def test_file_is_readable_by_its_owner_only(path: Path) -> None:
    store = SqliteStore(path)
    store.begin("k", "", "a", 60)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    store.close()
    assert modes.keys() >= {"keys.db"}
    assert set(modes.values()) == {0o600}, modes


def test_events_and_refusals_contain_no_key(bank: Bank) -> None:
    seen: list[Any] = []
    unsubscribe = sp.subscribe(seen.append)
    try:
        app = RefusalMiddleware(IdempotencyMiddleware(bank, store=MemoryStore()))
        post(app, "key-s3cret", authorization="token-s3cret")
        post(app, "key-s3cret", authorization="token-s3cret")
    finally:
        unsubscribe()
    assert [event.decision for event in seen] == ["new", "replay"]
    assert "s3cret" not in repr(seen)


def test_flood_of_keys_is_bounded(bank: Bank) -> None:
    store = MemoryStore(limit=50, max_bytes=1000)
    app = IdempotencyMiddleware(bank, store=store)

    async def main() -> None:
        for number in range(500):
            await call(app, "POST", "/charge", {"Idempotency-Key": f"k{number}"}, BODY)

    asyncio.run(main())
    assert len(store) <= 50
    assert store._bytes <= 1000
    assert len(store._ends) <= 3 * 50 + 64
