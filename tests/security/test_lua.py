"""Lua: constant scripts in files, data only in KEYS and ARGV, an end for every key, seen on a live server."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof
import stormproof as sp
from stormproof import idempotency
from stormproof.redis import RedisStore

pytestmark = pytest.mark.proves("security lua")

SOURCE = Path(stormproof.__file__).parent
SCRIPTS = sorted((files("stormproof._fleet") / "lua").iterdir(), key=lambda path: path.name)
WRITES = r"'(HSET|HSETNX|HINCRBY|SET|SETEX|INCR|INCRBY|ZADD|SADD|LPUSH|RPUSH|RENAME|COPY|PERSIST)'"
ALLOWED = {"TIME", "HMGET", "HGETALL", "HSET", "HDEL", "PEXPIRE", "DEL", "SET"}


def code_of(script: Any) -> str:
    return re.sub(r"--.*", "", script.read_text(encoding="utf-8"))


def test_every_known_script_is_found() -> None:
    assert {path.name for path in SCRIPTS} >= {
        "limiter.lua",
        "budget.lua",
        "breaker.lua",
        "bulkhead.lua",
        "idempotency.lua",
    }
    assert all(path.name.endswith(".lua") for path in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_is_constant_and_expires_its_key(script: Any) -> None:
    code = code_of(script)
    commands = re.findall(r"redis\.p?call\(\s*('[A-Z]+'|[^,)]*)", code)
    # Commands are literals of a short list, and their key is the one that was declared.
    assert commands and {command.strip("'") for command in commands} <= ALLOWED
    for command, key in re.findall(r"redis\.call\('([A-Z]+)'(?:,\s*([^,)]+))?", code):
        assert key == ("" if command == "TIME" else "KEYS[1]"), (command, key)
    assert not re.search(r"KEYS\[(?!1\])|#KEYS|unpack\(KEYS", code)
    # No code from data, no randomness, no time but the server's.
    assert not re.search(r"\b(loadstring|load|dofile|require|setfenv|math\.random|os\.|io\.|debug\.)", code)
    if re.search(WRITES, code):
        assert "'PEXPIRE', KEYS[1]" in code or "'PX'" in code


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_write_is_followed_by_an_end(script: Any) -> None:
    """Between a write and its PEXPIRE no way out: else a key could be left for ever."""
    code = code_of(script)
    for write in re.finditer(r"redis\.call\('HSET'", code):
        after = code[write.start() :]
        end = re.search(r"redis\.call\('PEXPIRE'|\bkeep\(", after)
        assert end, "a write without an end"
        assert "return" not in after[: end.start()], after[: end.start()]


def test_redis_runs_only_scripts_from_files() -> None:
    """No script is put together in Python: EVAL gets the text of a file."""
    calls = 0
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in (
                    "eval",
                    "evalsha",
                    "register_script",
                    "script_load",
                    "eval_ro",
                    "fcall",
                ):
                    calls += 1
                    text = ast.unparse(node.args[0])
                    assert text in ("known.text", "known.sha", "script(request.script).sha"), (
                        f"{path}: {text}"
                    )
                    assert ast.unparse(node.args[1]) == "1", "one key each"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "redis.call(" not in node.value, path
    assert calls >= 3


NASTY = "'); redis.call('FLUSHALL') --"


@pytest.mark.redis
def test_arguments_of_scripts_are_never_run_as_code(measured: Callable[[str], None]) -> None:
    """Arguments that would be code if they were put into a script: a canary key outlives them all."""
    with Server() as server, RedisStore(server.url, timeout=1) as store:
        server.ask("SET", "canary", "sings", "PX", 600_000)
        refused = 0
        for name in [path.name.removesuffix(".lua") for path in SCRIPTS]:
            for count in (0, 1, 8, 16):
                try:
                    store.call(name, store.key(name, NASTY), *[NASTY] * count)
                except redis.ResponseError:
                    refused += 1
        keys = idempotency.RedisStore(store)
        keys.begin(NASTY, NASTY, "claimant" + NASTY, 60)
        kept = [sp.Limiter(1, 1, store=store, name=NASTY), sp.Breaker(store=store, name=NASTY)]
        assert store.settle(5) and kept
        assert server.ask("GET", "canary") == "sings"
        assert server.keys_without_ttl() == []
        measured(f"{4 * len(SCRIPTS)} calls with code for data, {refused} refused, nothing lost")


@pytest.mark.redis
def test_every_command_on_the_wire_is_a_known_script_with_one_key(measured: Callable[[str], None]) -> None:
    """MONITOR: every command of a busy life is EVALSHA of a known script with one key, or the text of one."""
    shas = {}
    from stormproof._fleet.connection import script

    for path in SCRIPTS:
        known = script(path.name.removesuffix(".lua"))
        shas[known.sha] = known.text
    with Server() as server:
        with server.client() as watcher, watcher.monitor() as monitor:
            with RedisStore(server.url, timeout=1) as store:
                limiter, budget = sp.Limiter(100, 5, store=store, name="l"), sp.Budget(store=store, name="b")
                breaker = sp.Breaker(store=store, name="c", consecutive=1)
                places = sp.Policy(sp.Bulkhead(1, store=store, name="p"))
                keys = idempotency.RedisStore(store)
                keys.begin("k", "", "me", 60)
                assert store.settle(5)
                places.call(int)
                for _ in range(50):
                    limiter.allow(), budget.success(), budget.withdraw()
                breaker.admit().failure()
                eventually(lambda: store.stats()["exchanges"] > 5)
            server.ask("ECHO", "over")
            seen: list[tuple[str, Any]] = []
            while True:
                received = monitor.next_command()
                words = received["command"].split(" ")
                if words[:2] == ["ECHO", "over"]:
                    break
                if received["client_type"] != "lua":
                    seen.append((words[0].upper(), words))
    scripts = [words for command, words in seen if command == "EVALSHA"]
    assert scripts and all(words[1] in shas and words[2] == "1" for words in scripts)
    assert {command for command, _ in seen} <= {
        "EVALSHA",
        "EVAL",
        "HELLO",
        "CLIENT",
        "ECHO",
        "SELECT",
        "INFO",
    }
    measured(f"{len(seen)} commands on the wire, {len(scripts)} of them EVALSHA with one key")
