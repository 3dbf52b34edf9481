"""``stormproof fleet``, as a process, against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Server

import stormproof as sp

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def filled(server: Server) -> Iterator[Server]:
    """The server with one of each resource, used just now: the key of an idle one ends by itself."""
    server.ask("FLUSHALL")
    with sp.redis.RedisStore(server.url, timeout=PATIENT_S) as store:
        breaker = sp.Breaker(name="smtp", store=store, min_calls=2, open_for=600)
        budget = sp.Budget(burst=100, store=store, name="mail")
        key = sp.idempotency.RedisStore(store)
        key.begin("order-4711", "", "claimant-1", 60)
        key.finish("order-4711", "claimant-1", b"a secret answer")
        for _ in range(2):
            breaker.admit().failure()
        eventually(lambda: len(store.inspect()) == 3 and breaker._live.circuit.bound)
        yield server
        del budget


def fleet(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormproof.cli", "fleet", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=60
    )


def test_json_lists_every_resource_with_state_reporters_and_ttl(filled: Server) -> None:
    done = fleet(filled.url, "--json")
    assert done.returncode == 0, done.stderr
    found = {entry["kind"]: entry for entry in json.loads(done.stdout)["resources"]}
    assert found["breaker"]["name"] == "smtp"
    assert found["breaker"]["state"]["state"] == "open"
    assert found["budget"]["name"] == "mail"
    assert found["idempotency"]["state"] == {"state": "done"}
    assert all(entry["ttl"] > 0 for entry in found.values())


def test_table_shows_one_line_per_resource(filled: Server) -> None:
    done = fleet(filled.url, "--kind", "breaker")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["NAME", "KIND", "STATE", "GONE", "IN"]
    assert lines[2].startswith("smtp  breaker  open, 1 instance, 1 reporters")
    assert len(lines) == 3


def test_no_key_answer_or_password_is_shown(filled: Server) -> None:
    shown = fleet(filled.url.replace("redis://", "redis://:hunter2@"), "--json")
    whole = fleet(filled.url, "--json")
    for text in (whole.stdout, shown.stdout, shown.stderr):
        assert "secret" not in text and "order-4711" not in text and "claimant-1" not in text
        assert "hunter2" not in text


def test_foreign_values_are_escaped_and_spoil_no_other_row(server: Server) -> None:
    names = ["\x1b[31mred\x1b[0m\nfake", "wrong-level", "wrong-slices", "wrong-count", "good"]
    red, level, slices, count, good = (f"odd:{{{name}}}" for name in names)
    server.ask("HSET", f"{red}:budget", "level", "5000000", "now", "1")
    server.ask("HSET", f"{level}:budget", "level", "abc")
    server.ask("HSET", f"{slices}:breaker", "s:1", "a,b", "f:\x1b[31m", "1")
    server.ask("HSET", f"{count}:limiter", "level", "1", "now", "many")
    server.ask("HSET", f"{good}:limiter", "level", "1000000", "now", "1")
    with server.client() as client:
        client.hset("odd:{bytes}:breaker", mapping={b"f:\xff": b"1", b"state": b"\x1b[31m"})
    for words in ([], ["--json"]):
        done = fleet(server.url, "--prefix", "odd", *words)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert all(name in done.stdout for name in names[1:])
    lines = fleet(server.url, "--prefix", "odd").stdout.splitlines()
    assert len(lines) == 2 + 6
    shown = {line.split()[0]: line for line in lines[2:]}
    assert "\\x1b[31mred\\x1b[0m\\nfake" in shown
    assert "unreadable" in shown["wrong-level"] and "unreadable" in shown["wrong-slices"]
    assert "1 tokens, 1 instance" in shown["good"]


def test_store_is_read_from_a_policy_file(filled: Server, tmp_path: Path) -> None:
    file = tmp_path / "stormproof.toml"
    file.write_text(f'[store]\nurl = "{filled.url}"\n[policies.mail]\nretry = {{ attempts = 2 }}\n', "utf-8")
    done = fleet(str(file))
    assert done.returncode == 0, done.stderr
    assert "smtp" in done.stdout


def test_url_is_read_from_the_environment(filled: Server) -> None:
    assert "smtp" in fleet(STORMPROOF_STORE__URL=filled.url).stdout


def test_empty_store_is_reported(server: Server) -> None:
    assert "Nothing is kept there." in fleet(server.url, "--prefix", "unused").stdout


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ((), 2, "stormproof: fleet: give a store's URL or a policy file, or set STORMPROOF_STORE__URL"),
        (
            ("redis://127.0.0.1:1",),
            2,
            "stormproof: fleet: store 'sp' cannot be read (redis.exceptions.ConnectionError) at redis://127.0.0.1:1",
        ),
        (("redis://127.0.0.1:1", "--kind", "x"), 2, "stormproof: --kind: unknown value"),
        (("redis://127.0.0.1:1", "--limit", "0"), 2, "stormproof: --limit: must be a whole number from 1"),
        (("redis://127.0.0.1:1", "--limit", "²"), 2, "stormproof: --limit: must be a whole number from 1"),
        (
            ("redis://127.0.0.1:1", "--limit", "9" * 5000),
            2,
            "stormproof: --limit: must be a whole number from",
        ),
        (("nowhere.toml",), 2, "stormproof: fleet: "),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], code: int, line: str) -> None:
    done = fleet(*words, STORMPROOF_STORE__URL="")
    assert done.returncode == code
    assert done.stderr.startswith(line), done.stderr
    assert done.stderr.count("\n") == 1
