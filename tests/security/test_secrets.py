"""Data of a call (arguments, URL query, userinfo, headers, bodies, errors' texts) is never emitted.

Each is planted under a word of its own, the calls fail in many ways, and everything that Stormproof says to
the outside is searched for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.security.telemetry_sinks import Sinks
from tests.support.grpc_server import EXHAUSTED, UNAVAILABLE, Aio, Sync
from tests.support.grpc_server import Server as GrpcServer
from tests.support.http.each_client import Http, each_client
from tests.support.http.server import answer, garbage, half, hang, reset, unused_port
from tests.support.lab_server import built_page
from tests.support.scripted import every_way, retry

import stormproof as sp
import stormproof.asgi
import stormproof.wsgi
from stormproof import cli, idempotency

pytestmark = pytest.mark.proves("security secrets")


class Planted:
    """One word a place; `nowhere_in` looks for them all."""

    def __init__(self, *places: str) -> None:
        self.words = {place: f"hunter2x{place}x" for place in places}

    def __getitem__(self, place: str) -> str:
        return self.words[place]

    def nowhere_in(self, sinks: Sinks) -> int:
        """Return the number of characters searched."""
        texts = sinks.texts()
        for sink, text in texts.items():
            for place, word in self.words.items():
                assert word not in text, f"the {place} is in the {sink}"
        assert len(sinks.events) > 0, "nothing was emitted, so nothing was tested"
        return sum(map(len, texts.values()))


class Leaky(ConnectionError):
    """As those of many clients: its text holds what it was called with."""


# Plain functions.


@every_way
def test_secrets_of_functions_are_not_emitted(play: Any) -> None:
    planted = Planted("message", "result")
    with Sinks() as sinks:
        for options in (
            {},
            {"within": 0.5},
            {"budget": sp.Budget(burst=1)},
            {"on": KeyError},
            {"attempts": 2},
        ):
            played = play(retry(**{"on": Leaky, **options}), Leaky(planted["message"]), ...)
            sinks.caught(played.error)
        refused = play(
            retry(on=Leaky, on_result=lambda value: True, attempts=2), {"token": planted["result"]}, ...
        )
        assert refused.calls == 2
        planted.nowhere_in(sinks)


#: Policies that refuse, fall back, hedge, wait and break: each has something of its own to say.
def _policies() -> list[sp.Policy]:
    retrying = sp.Retry(on=Leaky, attempts=2, backoff=sp.Constant(0), budget=None)
    per_key: Callable[..., Any] = lambda token, **_: token  # noqa: E731
    return [
        sp.Policy(retrying, name="plain"),
        sp.Policy(retrying),
        sp.Policy(sp.Breaker(consecutive=1, name="gate"), retrying),
        sp.Policy(sp.keyed(sp.Breaker(consecutive=1), key=per_key), retrying),
        sp.Policy(sp.keyed(sp.Bulkhead(1), key=per_key)),
        sp.Policy(sp.keyed(sp.RateLimit(sp.Limiter(0, 1), max_wait=0), key=per_key)),
        sp.Policy(retrying.replace(attempts=3, budget=sp.keyed(sp.Budget(burst=1), key=per_key))),
        sp.Policy(sp.Fallback("cached"), retrying),
        sp.Policy(sp.Hedge(after=0, idempotent=True, on=Leaky, budget=sp.Budget())),
        sp.Policy(sp.Throttle(k=1.1, on=Leaky)),
        sp.Policy(sp.Deadline(0.001), retrying),
        sp.Policy(sp.AdaptiveLimit(on=Leaky), retrying),
    ]  # fmt: skip


def test_arguments_are_not_emitted_under_any_strategy(measured: Callable[[str], None]) -> None:
    planted = Planted("argument", "keyword", "message", "self")

    class Client:
        def __init__(self, word: str) -> None:
            self.word = word

        def __repr__(self) -> str:
            return self.word

        def post(self, token: str, *, password: str) -> None:
            raise Leaky(planted["message"], token, password)

        async def apost(self, token: str, *, password: str) -> None:
            raise Leaky(planted["message"], token, password)

        def __call__(self, token: str, *, password: str) -> None:
            self.post(token, password=password)

    client = Client(planted["self"])
    given: Any = ((planted["argument"],), {"password": planted["keyword"]})
    with Sinks() as sinks:
        for policy in _policies():
            for _ in range(3):
                for fn in (client.post, client):
                    try:
                        policy(fn)(*given[0], **given[1])
                    except (Leaky, sp.StormproofError) as error:
                        sinks.caught(error)
                try:
                    asyncio.run(policy(client.apost)(*given[0], **given[1]))
                except (Leaky, sp.StormproofError) as error:
                    sinks.caught(error)
            assert not any(word in repr(policy.describe()) for word in planted.words.values())
        searched = planted.nowhere_in(sinks)
        assert {"GaveUp", "Retrying", "Refused", "BreakerChanged", "FellBack", "Hedged"} <= {
            type(event).__name__ for event in sinks.events
        }
        measured(f"{len(sinks.events)} events in 9 sinks, {searched:,} characters, none of 4 planted words")


# HTTP clients.


@each_client
async def test_secrets_of_http_clients_are_not_emitted(http: Http, measured: Callable[[str], None]) -> None:
    planted = Planted(
        "query", "user", "password", "authorization", "cookie", "header", "body", "fragment",
        "answer", "reason", "hint", "answered-header", "key",
    )  # fmt: skip
    headers = {"X-Api-Key": planted["header"], "Cookie": f"s={planted['cookie']}"}
    reply_headers = [("X-Trace", planted["answered-header"]), ("Retry-After", planted["hint"])]
    plain = f"/path?token={planted['query']}#{planted['fragment']}"
    steps = {
        "503": answer(503, planted["answer"].encode(), reply_headers),
        "404": answer(404, planted["answer"].encode(), reply_headers),
        "reset": reset(),
        "half": half(planted["answer"].encode()),
        "hang": hang(),
        "garbage": garbage(f"HTTP/1.1 20x {planted['reason']}\r\n\r\n".encode()),
        "too long": answer(429, planted["answer"].encode(), [("Retry-After", "999")]),
    }
    policies = [
        sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None)),
        sp.Policy(sp.RateLimit(sp.Limiter(0, 1), max_wait=0)),
        sp.Policy(sp.Hedge(after=0, budget=sp.Budget())),
    ]
    userinfo = f"{planted['user']}:{planted['password']}@"
    bases = [f"http://{userinfo}127.0.0.1:{http.server.port}", http.server.url("").rstrip("/")]
    with Sinks() as sinks:
        for policy in policies:
            client = http.client(policy)
            for base in bases:
                # What a server does is classified once, by whichever policy: the first one meets it all.
                for name, step in steps.items() if policy is policies[0] else [("503", steps["503"])]:
                    http.server.on("/path", step)
                    own = {} if base == bases[0] else {"Authorization": planted["authorization"]}
                    for method, body in (("GET", None), ("POST", planted["body"].encode())):
                        more = {"Idempotency-Key": planted["key"]} if name == "503" else {}
                        sent = {**headers, **own, **more}
                        try:
                            await client.request(method, base + plain, headers=sent, body=body, timeout=0.05)
                        except Exception as error:
                            sinks.caught(error)
        try:
            await http.client(policies[0]).get(f"http://{userinfo}127.0.0.1:{unused_port()}{plain}")
        except http.kind.family as error:
            sinks.caught(error)
        assert any(planted["query"] in seen.target for seen in http.server.seen)
        searched = planted.nowhere_in(sinks)
        measured(
            f"{http.kind.__name__}: {len(http.server.seen)} requests, {searched:,} characters, 0 of 13 words"
        )


# gRPC.


@pytest.mark.parametrize("kind", [Sync, Aio], ids=lambda kind: kind.name)
def test_secrets_of_grpc_clients_are_not_emitted(kind: Any) -> None:
    planted = Planted("message", "trailer")
    server = GrpcServer()
    client = kind(server.target, sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None)))
    try:
        with Sinks() as sinks:
            for step in (
                UNAVAILABLE,
                (EXHAUSTED, (("grpc-retry-pushback-ms", planted["trailer"]),)),
                UNAVAILABLE,
            ):
                server.script[:] = [step, step]
                try:
                    client.unary(planted["message"].encode())
                except Exception as error:
                    sinks.caught(error)
            assert server.calls >= 3
            planted.nowhere_in(sinks)
    finally:
        client.close()
        server.stop()


# Servers.


def _wsgi_call(app: Any, planted: Planted, number: int) -> None:
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/pay", "QUERY_STRING": f"t={planted['query']}",
        "HTTP_AUTHORIZATION": planted["authorization"],
        "HTTP_IDEMPOTENCY_KEY": f"{planted['key']}{number % 2}",
        "CONTENT_LENGTH": "0", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http", "SERVER_NAME": "h", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
    }  # fmt: skip
    try:
        body = app(environ, lambda *_: lambda data: None)
        with contextlib.closing(body) if hasattr(body, "close") else contextlib.nullcontext():
            list(body)
    except Leaky:
        pass


def test_secrets_of_servers_are_not_emitted() -> None:
    planted = Planted("query", "authorization", "key", "message", "answer")
    head: Any = {
        "type": "http", "method": "POST", "path": "/pay", "raw_path": b"/pay", "http_version": "1.1",
        "query_string": f"t={planted['query']}".encode(), "scheme": "http", "server": ("h", 80),
    }  # fmt: skip

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": planted["answer"].encode()})

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise Leaky(planted["message"])

    async def receive() -> Any:
        return {"type": "http.request", "body": planted["key"].encode(), "more_body": False}

    async def send(message: Any) -> None:
        pass

    async def requests() -> None:
        store = idempotency.MemoryStore()
        for inner in (handler, failing):
            app: Any = sp.asgi.IdempotencyMiddleware(inner, store)
            app = sp.asgi.SheddingMiddleware(app, limit=1)
            app = sp.asgi.DeadlineMiddleware(app)
            for number in range(4):
                scope = {**head, "headers": [
                    (b"authorization", planted["authorization"].encode()),
                    (b"idempotency-key", (planted["key"] + str(number % 2)).encode()),
                    (b"x-request-timeout-ms", b"0" if number == 3 else b"1000"),
                ]}  # fmt: skip
                with contextlib.suppress(Leaky):
                    await app(scope, receive, send)

    def wsgi(environ: Any, start: Any) -> list[bytes]:
        if environ["HTTP_IDEMPOTENCY_KEY"].endswith("1"):
            raise Leaky(planted["message"])
        start("200 OK", [])
        return [planted["answer"].encode()]

    with Sinks() as sinks:
        asyncio.run(requests())
        app = sp.wsgi.DeadlineMiddleware(sp.wsgi.SheddingMiddleware(wsgi, limit=1))
        for number in range(4):
            _wsgi_call(app, planted, number)
        planted.nowhere_in(sinks)


def test_secrets_of_idempotent_calls_are_not_emitted() -> None:
    planted = Planted("key", "payload", "message", "result")
    store = idempotency.MemoryStore()

    @sp.idempotent(key=lambda key, payload: key, store=store, fingerprint=lambda key, payload: payload)
    def pay(key: str, payload: str) -> str:
        if key.endswith("!"):
            raise Leaky(planted["message"])
        return planted["result"]

    with Sinks() as sinks:
        for key, payload in (("", ""), ("", ""), ("", "other"), ("!", "")):
            try:
                pay(planted["key"] + key, planted["payload"] + payload)
            except (Leaky, sp.StormproofError) as error:
                sinks.caught(error)
        assert [event.decision for event in sinks.events] == ["new", "replay", "mismatch", "new"]
        planted.nowhere_in(sinks)
    assert planted["key"] not in repr(store) and planted["result"] not in repr(store)


# The command line and its reports.


@pytest.fixture
def policy_file(tmp_path: Path) -> tuple[Path, Planted]:
    planted = Planted("password")
    file = tmp_path / "stormproof.toml"
    file.write_text(
        f'[store]\nurl = "redis://user:{planted["password"]}@127.0.0.1:1/0?x={planted["password"]}"\n'
        "[policies.mail]\nretry = {attempts = 3}\n",
        encoding="utf-8",
    )
    return file, planted


def test_secrets_of_policy_files_are_not_printed(
    policy_file: tuple[Path, Planted],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built_page()
    file, planted = policy_file
    report = tmp_path / "report.html"
    word = planted["password"]
    simulate = ["--scenario", "herd", "--scale", "0.1", "--engine", "exact", "--report", str(report)]
    monkeypatch.setenv("STORMPROOF_STORE__URL", f"redis://:{word}@127.0.0.1:1")
    said = []
    for command in (
        ["explain", str(file), "--json"],
        ["simulate", str(file), *simulate],
        ["fleet", f"redis://user:{word}@127.0.0.1:1/0?x={word}"],
        ["fleet", "--json"],
        ["run", "--attempts", "2", "--base", "10ms", "--json", "--", "false", f"--password={word}"],
        ["run", "--attempts", "1", "--", "/no/such/command", f"--password={word}"],
    ):
        cli.main(command)
        out, err = capfd.readouterr()
        said.append(out + err)
    said.append(report.read_text(encoding="utf-8"))
    for text in said:
        assert text and "Traceback" not in text
        assert word not in text, text[:2000]
