"""The store itself: ways to reach it, what it says and never says, its keys and scripts, its health."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import time
from importlib.resources import files
from typing import Any

import pytest
import redis
import trio
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Cluster, Sentinel, Server, free_port

import stormproof as sp
from stormproof import events
from stormproof._fleet.connection import Request
from stormproof._fleet.key_format import key_of, parts_of
from stormproof.redis import RedisStore, StoreUnavailable

pytestmark = pytest.mark.redis

SECRET = "hunter2"
NOWHERE = "redis://127.0.0.1:1/0"


# Options.


@pytest.mark.parametrize(
    ("field", "given"),
    [
        (
            "url",
            [5, None, True, object(), b"redis://x", "", "http://x", "redis+sentinel://h:1", "redis+x://h"],
        ),
        ("url", ["unix+cluster://x", "redis://h:99999999", "env:STORMPROOF_NO_SUCH_VARIABLE"]),
        ("prefix", ["", 5, None, "a b", "{a}", "a" * 65, "a*", "é"]),
        ("timeout", [0, -1, True, "1", None, float("nan"), float("inf")]),
        ("on_failure", ["", "never", None, True]),
        ("instances", [0, -1, 1.5, True, None]),
    ],
)
def test_bad_options_are_named(field: str, given: list[Any]) -> None:
    for value in given:
        with pytest.raises((TypeError, ValueError), match=rf"^RedisStore: {field}\b"):
            RedisStore(**{"url": NOWHERE, field: value})


def test_limiter_can_be_made_while_the_server_is_down() -> None:
    with RedisStore(NOWHERE) as store:
        assert store.state == "unknown"
        sp.Limiter(10, 1, store=store, name="x")
        sp.Budget(store=store, name="x")


def test_environment_can_hold_the_url(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_STORE", shared_server.url)
    with RedisStore("env:THE_STORE", prefix="env") as store:
        assert store.call("probe", store.key("probe", "x")) == b"OK"
        assert repr(store).startswith("RedisStore('env:THE_STORE', ")
        assert pickle.loads(pickle.dumps(store)).address.target == "env:THE_STORE"


# Secrets.


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@127.0.0.1:1/0",
        f"redis://:{SECRET}@127.0.0.1:1",
        f"redis://127.0.0.1:1/0?password={SECRET}",
        f"redis+sentinel://:{SECRET}@127.0.0.1:1/m/0",
        f"rediss+cluster://:{SECRET}@127.0.0.1:1",
    ],
)
def test_password_is_never_shown(url: str) -> None:
    emitted_events: list[Any] = []
    stop = sp.subscribe(emitted_events.append)
    try:
        with RedisStore(url) as store:
            with pytest.raises(StoreUnavailable) as caught:
                store.call("probe", "x")
            limiter = sp.Limiter(1, 1, store=store, name="x")
            said = f"{store!r} {store} {store.describe()} {caught.value} {emitted_events} {limiter!r}"
            with pytest.raises(TypeError, match="password"):
                pickle.dumps(store)
    finally:
        stop()
    assert any(isinstance(event, events.StoreDown) for event in emitted_events)
    assert SECRET not in said
    assert "127.0.0.1:1" in repr(store)


def test_unreadable_url_is_not_repeated() -> None:
    with pytest.raises(ValueError) as caught:
        RedisStore(f"http://:{SECRET}@h")
    assert SECRET not in str(caught.value)


def test_copies_are_the_same_store() -> None:
    with RedisStore(NOWHERE) as store:
        limiter = sp.Limiter(10, 1, store=store, name="x")
        assert copy.copy(store) is copy.deepcopy(store) is store
        assert copy.deepcopy(limiter).store is store
        again = pickle.loads(pickle.dumps(limiter))
        assert again.name == "x" and again.store.address.target == NOWHERE
        again.store.close()


# Keys and scripts.


def test_plain_names_stay_readable() -> None:
    assert key_of("sp", "limiter", "fraud-score/v2") == "sp:{fraud-score/v2}:limiter"


def test_different_names_never_share_a_key() -> None:
    names = [
        "a",
        "a}:limiter",
        "{a}",
        "a b",
        "a:b",
        "~a",
        "",
        "é",
        "a\n",
        "a" * 100,
        "a" * 101,
        "\ud800",
        "*",
    ]
    keys = [key_of("sp", "limiter", name) for name in names]
    assert len(set(keys)) == len(names)
    for key in keys:
        assert re.fullmatch(r"sp:\{[\w./~-]{1,100}\}:limiter", key), key
        assert parts_of("sp", key) is not None
        assert parts_of("other", key) is None
    # One hash tag for all kinds of one name: a cluster keeps them together.
    assert key_of("sp", "a", "x y").partition("}")[0] == key_of("sp", "b", "x y").partition("}")[0]


def scripts() -> list[Any]:
    return sorted((files("stormproof._fleet") / "lua").iterdir(), key=lambda path: path.name)


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_scripts_use_one_expiring_key_and_the_servers_time(script: Any) -> None:
    """One key, an end for it, time from the server alone. (That keys do end is seen on real servers.)"""
    text = script.read_text()
    assert not re.search(r"KEYS\[[^1]", text)
    if re.search(r"'(HSET|SET|ZADD|INCRBY?|HINCRBY)'", text):
        assert "PEXPIRE" in text or "'PX'" in text
    assert "os.time" not in text and "math.random" not in text


def test_script_that_was_flushed_is_sent_again(server: Server) -> None:
    with RedisStore(server.url, timeout=PATIENT_S) as store:
        key = store.key("probe", "x")
        store.call("probe", key)
        store.call("probe", key)
        assert store.stats()["reloads"] == 1
        server.ask("SCRIPT", "FLUSH")
        assert store.call("probe", key) == b"OK"
        assert store.stats()["reloads"] == 2
        assert store.stats()["outages"] == 0


def test_batch_of_flushed_scripts_is_sent_again(server: Server) -> None:
    with RedisStore(server.url, timeout=PATIENT_S) as store:
        requests = [Request("probe", store.key("probe", name), ()) for name in "abc"]
        requests.insert(1, Request("limiter", store.key("probe", "a"), (1, 1, 0, 0, 0, 0)))
        for _ in range(2):
            first, wrong, *others = store._link.run_all(requests)
            assert [first, *others] == [b"OK"] * 3
            # One that fails on its own does not take the others along.
            assert isinstance(wrong, redis.ResponseError) and "WRONGTYPE" in str(wrong)
            server.ask("SCRIPT", "FLUSH")


# Health.


def test_call_to_a_store_that_hangs_ends_with_the_timeout_and_the_next_at_once(server: Server) -> None:
    with RedisStore(server.url, timeout=0.1) as store:
        store.call("probe", store.key("probe", "x"))
        server.pause()
        start = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.call("probe", store.key("probe", "x"))
        assert 0.09 <= time.monotonic() - start < 2
        assert store.state == "down"
        fallbacks = store.stats()["fallbacks"]
        start = time.monotonic()
        for _ in range(1000):
            with pytest.raises(StoreUnavailable):
                store.call("probe", store.key("probe", "x"))
        assert time.monotonic() - start < 1
        assert store.stats()["fallbacks"] == fallbacks + 1000
        server.resume()
        eventually(lambda: store.state == "up")
        assert store.call("probe", store.key("probe", "x")) == b"OK"


def test_each_change_of_health_is_emitted_once(server: Server) -> None:
    changes: list[Any] = []
    stop = sp.subscribe(changes.append)
    try:
        with RedisStore(server.url, prefix="health", timeout=PATIENT_S, on_failure="open") as store:
            store.call("probe", store.key("probe", "x"))
            server.kill()
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    store.call("probe", store.key("probe", "x"))
            server.start()
            eventually(lambda: store.state == "up")
    finally:
        stop()
    down, up = changes
    assert down == events.StoreDown("health", "redis.exceptions.ConnectionError", "open")
    assert type(up) is events.StoreUp and up.operation == "health" and up.down_for > 0


def test_each_change_is_one_line_in_the_log(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stormproof")
    with RedisStore(server.url, prefix="health", timeout=PATIENT_S) as store:
        store.call("probe", store.key("probe", "x"))
        server.kill()
        with pytest.raises(StoreUnavailable):
            store.call("probe", store.key("probe", "x"))
        server.start()
        eventually(lambda: store.state == "up")
        eventually(lambda: len(caplog.records) >= 2)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "store health cannot be used" in caplog.messages[0]


def test_error_of_one_key_leaves_the_store_up(shared_server: Server) -> None:
    with RedisStore(shared_server.url, prefix="onekey", timeout=PATIENT_S) as store:
        shared_server.ask("SET", store.key("limiter", "x"), "text", "PX", 5000)
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            store.call("limiter", store.key("limiter", "x"), 1, 1, 0, 0, 0, 0)
        assert store.state == "up"


# Ways to reach it.


@pytest.mark.parametrize("way", ["url", "valkey", "client"])
def test_store_takes_a_client_of_one_server(shared_server: Server, way: str) -> None:
    client = shared_server.client(decode_responses=True)
    url = shared_server.url
    target: Any = {"url": url, "valkey": url.replace("redis", "valkey"), "client": client}[way]
    with RedisStore(target, prefix=f"way-{way}", timeout=PATIENT_S) as store:
        assert store.call("probe", store.key("probe", "x")) == b"OK"
    client.close()


def test_store_takes_only_the_address_of_a_client(shared_server: Server) -> None:
    slow = redis.Redis(port=shared_server.port, socket_timeout=60, db=3)
    with RedisStore(slow, prefix="lent", timeout=0.25) as store:
        store.call("probe", store.key("probe", "x"))
        made = store._link.client()
        settings = made.connection_pool.connection_kwargs
        assert made is not slow
        assert (settings["socket_timeout"], settings["socket_connect_timeout"]) == (0.25, 0.25)
        assert settings["retry"].get_retries() == 0
        assert settings["db"] == 3
    assert slow.connection_pool.connection_kwargs["socket_timeout"] == 60
    slow.close()


def test_store_takes_a_client_of_a_sentinel(server: Server) -> None:
    with Sentinel(server) as sentinel:
        with RedisStore(sentinel.url, timeout=PATIENT_S) as store:
            assert store.call("probe", store.key("probe", "x")) == b"OK"
            assert server.ask("PTTL", store.key("probe", "x")) > 0
        client = redis.sentinel.Sentinel([("127.0.0.1", sentinel.port)]).master_for("mymaster")
        with RedisStore(client, prefix="b", timeout=PATIENT_S) as store:
            assert store.call("probe", store.key("probe", "x")) == b"OK"
        client.close()


def test_store_works_on_a_cluster(cluster: Cluster) -> None:
    with RedisStore(cluster.url, timeout=PATIENT_S) as store:
        # Enough of them that every node has some.
        limiters = [sp.Limiter(100, 10, store=store, name=f"limiter-{index}") for index in range(12)]
        eventually(lambda: len(store.inspect()) >= 12)
        assert all(limiter.allow() for limiter in limiters)
        found = store.inspect()
        assert {entry["name"] for entry in found if entry["kind"] == "limiter"} == {
            limiter.name for limiter in limiters
        }
        assert len({server.port for server in cluster.servers if int(server.ask("DBSIZE"))}) == 3
    assert all(server.keys_without_ttl() == [] for server in cluster.servers)


def test_store_takes_a_plain_url_or_a_client_of_a_cluster(cluster: Cluster) -> None:
    plain = f"redis://127.0.0.1:{cluster.servers[1].port}"
    with RedisStore(plain, cluster=True, prefix="p", timeout=PATIENT_S) as store:
        assert [store.call("probe", store.key("probe", name)) for name in "abcdef"] == [b"OK"] * 6
    client = redis.cluster.RedisCluster.from_url(plain)
    with RedisStore(client, prefix="c", timeout=PATIENT_S) as store:
        assert [store.call("probe", store.key("probe", name)) for name in "abcdef"] == [b"OK"] * 6
    client.close()


def test_cluster_that_is_down_raises_store_unavailable() -> None:
    with RedisStore(f"redis+cluster://127.0.0.1:{free_port()}") as store:
        with pytest.raises(StoreUnavailable):
            store.call("probe", store.key("probe", "x"))
        assert store.state == "down"


# Async code.


def test_store_is_callable_from_asyncio_loops_and_trio(shared_server: Server) -> None:
    with RedisStore(shared_server.url, prefix="async", timeout=PATIENT_S) as store:

        async def several() -> list[Any]:
            return [await store.acall("probe", store.key("probe", "x")) for _ in range(3)]

        for _ in range(2):
            assert asyncio.run(several()) == [b"OK"] * 3
        assert trio.run(several) == [b"OK"] * 3


def test_call_that_is_cancelled_leaves_no_half_read_answer(server: Server) -> None:
    with RedisStore(server.url, timeout=1) as store:
        store.call("probe", store.key("probe", "x"))

        async def cancelled() -> None:
            server.pause()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await store.acall("probe", store.key("probe", "x"))
            server.resume()
            # Whatever connection these get, the answers are their own.
            answers = [
                await store.acall("limiter", store.key("limiter", "x"), 10**6, 10**6, 0, 0, 0, 0)
                for _ in range(20)
            ]
            assert all(isinstance(answer, list) and len(answer) == 5 for answer in answers)

        asyncio.run(cancelled())


def test_async_calls_during_an_outage_need_no_thread() -> None:
    with RedisStore(NOWHERE) as store:
        with pytest.raises(StoreUnavailable):
            store.call("probe", "x")

        async def refused() -> None:
            with pytest.raises(StoreUnavailable):
                await store.acall("probe", "x")

        asyncio.run(refused())
        assert store._callers is None


# Looking at it.


def test_inspection_lists_existing_keys(shared_server: Server) -> None:
    with (
        RedisStore(shared_server.url, prefix="look", timeout=PATIENT_S) as store,
        RedisStore(shared_server.url, "look2", timeout=PATIENT_S) as other,
    ):
        limiter = sp.Limiter(100, 10, store=store, name="calls")
        kept = (
            sp.Budget(burst=5, store=store, name="retries"),
            sp.Limiter(1, 1, store=other, name="elsewhere"),
        )
        shared_server.ask("SET", "look:odd", "x", "PX", 5000)
        found = eventually(lambda: len(store.inspect()) == 2 and store.inspect())
        assert [(entry["name"], entry["kind"]) for entry in found] == [
            ("calls", "limiter"),
            ("retries", "budget"),
        ]
        assert found[0]["state"] == {"level": 10.0, "instances": 1}
        assert found[1]["state"]["level"] == 5.0
        assert all(entry["ttl"] >= 1 for entry in found)
        assert len(store.inspect(limit=1)) == 1
        assert limiter.describe()["store"] == "look"
        del kept


def test_inspection_shows_foreign_keys_beside_its_own(shared_server: Server) -> None:
    """Written by a later version or another program: the others are shown all the same."""
    for command in (
        ("HSET", "odd:{a}:limiter", "level", "brimful"),
        ("HSET", "odd:{b}:novelty", "one", 1, "two", 2),
        ("SET", "odd:{c}:budget", "no hash"),
        ("SET", "odd:{no name", "x"),
        ("HSET", "odd:{d}:limiter", "level", 2_000_000, "now", 3),
    ):
        shared_server.ask(*command)
    with RedisStore(shared_server.url, prefix="odd", timeout=PATIENT_S) as store:
        found = {entry["name"]: entry["state"] for entry in store.inspect()}
    assert found == {
        "a": {"state": "unreadable"},
        "b": {"fields": 2},
        "c": {"type": "string"},
        "d": {"level": 2.0, "instances": 3},
    }


def test_inspection_of_a_store_that_is_down_raises() -> None:
    with RedisStore(NOWHERE) as store, pytest.raises(StoreUnavailable):
        store.inspect()


def test_close_of_an_unused_store_may_be_repeated() -> None:
    store = RedisStore(NOWHERE)
    store.close()
    store.close()
