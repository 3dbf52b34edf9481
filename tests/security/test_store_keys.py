"""Keys of the store: users' parts are hashed or length-prefixed, none passes for another, one tag each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof import idempotency
from stormproof._events.key_names import key_text
from stormproof._fleet.key_format import key_of, prefix_of, tag_of
from stormproof.idempotency.store import Store
from stormproof.redis import RedisStore

pytestmark = pytest.mark.proves("security keys")

#: What breaks out of a tag, imitates a hash, a kind or another name, or differs only in what is hard to see.
NAMES = [
    "a", "a}", "{a}", "a}:limiter", "a}:{b", "}:{", "a:b", "a b", "a\n", "a\r", "\x00", "a\x00b", "~", "~a",
    tag_of("a b"), "*", "?", "[a]", "\\", "\u00e9", "e\u0301", "\ud800", "a" * 100, "a" * 101,
    "a" * 102, "a" * 250, "a" * 251, "a/b", "a/key-" + "0" * 32, "A", "",
]  # fmt: skip


def test_awkward_names_have_different_keys(measured: Callable[[str], None]) -> None:
    keys = [key_of("sp", kind, name) for kind in ("limiter", "budget") for name in NAMES]
    assert len(set(keys)) == 2 * len(NAMES)
    for key in keys:
        assert re.fullmatch(r"sp:\{[\w./~-]{1,100}\}:\w+", key, re.ASCII), key
    measured(
        f"{len(keys)} keys of {len(NAMES)} awkward names, all different, longest {max(map(len, keys))} bytes"
    )


@given(st.lists(st.text(max_size=300), min_size=2, max_size=6, unique=True))
def test_different_names_have_different_keys(names: list[str]) -> None:
    keys = {key_of("sp", "limiter", name) for name in names}
    assert len(keys) == len(names)
    assert all(key.isascii() and len(key) < 200 and key.count("{") == key.count("}") == 1 for key in keys)


def test_keys_of_one_name_share_a_slot_that_the_name_cannot_choose() -> None:
    for name in NAMES:
        slots = {
            key_slot(key_of("sp", kind, name).encode()) for kind in ("limiter", "budget", "breaker", "probe")
        }
        assert len(slots) == 1, name
    # The tag is the whole name, not a part of it that the name itself brackets.
    assert key_slot(key_of("sp", "x", "{a}b").encode()) != key_slot(key_of("sp", "x", "{a}c").encode())


@pytest.mark.parametrize("prefix", ["", "a{", "}", "a b", "a\n", "*", "p" * 65, "\u00e9", 5, None])
def test_prefix_with_a_tag_or_pattern_is_refused(prefix: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="prefix"):
        prefix_of(prefix)


parts = st.recursive(
    st.text(max_size=8) | st.binary(max_size=4) | st.integers(-99, 99) | st.none(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@given(parts, parts)
def test_parts_of_a_keyed_key_cannot_run_into_each_other(one: Any, two: Any) -> None:
    """Length-prefixed: ("ab", "c") is not ("a", "bc"), and 7 is not "7"."""
    if (one, _kinds(one)) != (two, _kinds(two)):
        assert key_text(one) != key_text(two)
    else:
        assert key_text(one) == key_text(two)


def _kinds(key: Any) -> Any:
    return tuple(map(_kinds, key)) if isinstance(key, tuple) else type(key)


def test_copies_of_a_keyed_never_share(measured: Callable[[str], None]) -> None:
    """Also under a name of the longest kind, and with keys that begin alike for a thousand characters."""
    keys: list[Any] = ["x" * 1000 + end for end in "abc"] + [
        ("a", "bc"),
        ("ab", "c"),
        "7",
        7,
        b"7",
        None,
        "None",
        "~",
    ]
    with RedisStore("redis://127.0.0.1:1") as store:
        found = set()
        for name in ("n", "n" * 250):
            for make in (sp.Limiter(1, 1, store=store, name=name), sp.Breaker(store=store, name=name)):
                copies = sp.keyed(make, key=lambda key: key)
                found |= {store.key(type(make).__name__, copies[key].name) for key in keys}
        assert len(found) == 4 * len(keys)
    measured(f"{len(found)} keyed resources, {len(found)} keys")


def test_idempotency_keys_are_digests() -> None:
    class Spy(idempotency.MemoryStore):
        def run(self, operation: Any) -> Any:
            digests.append(operation.digest)
            return super().run(operation)

    digests: list[bytes] = []
    store: Store = Spy()
    words = ["", "a", "ab", "b", "{a}", "x" * 255]
    for scope, key in itertools.product(words, [word for word in words if word]):

        @sp.idempotent(key=lambda key=key: key, store=store, scope=scope or "none")
        def call(key: str = key) -> int:
            return 1

        call()
    starts = digests[::2]
    assert len(set(starts)) == len(starts) and all(len(digest) >= 16 for digest in starts)


@pytest.mark.redis
def test_every_key_on_a_live_server_has_one_tag_and_a_ttl(measured: Callable[[str], None]) -> None:
    """Everything that is kept, under awkward names: every key has our shape, one tag, and an end."""
    with Server() as server, RedisStore(server.url, timeout=1, prefix="live") as store:
        kept: list[Any] = []
        for name in (name for name in NAMES if name and name.isprintable()):
            kept += [
                sp.Limiter(1, 5, store=store, name=name),
                sp.Budget(store=store, name=name),
                sp.Breaker(store=store, name=name),
                sp.Bulkhead(2, store=store, name=name),
            ]
        keys = idempotency.RedisStore(store)
        keys.begin("order}:{x", "", "me", 60)
        assert store.settle(10)
        eventually(lambda: len(server.ask("KEYS", "*")) >= len(kept) + 1)
        found = server.ask("KEYS", "*")
        assert all(re.fullmatch(r"live:\{[\w./~-]{1,100}\}:[a-z]+", key, re.ASCII) for key in found)
        assert not any("order" in key for key in found)
        assert server.keys_without_ttl() == []
        measured(f"{len(found)} keys on a live server, each with one tag and a TTL")
