"""Mounting a policy changes nothing but what it is there to change: the same script, plain and held.

Each case runs against a fresh server with a fresh client and a fresh policy: once without a policy, then
with one that does nothing, one that only limits the time, and (where nothing in the case is worth retrying)
one that retries. What the caller gets and what the server sees must be the same, header for header and
connection for connection.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import trio
import urllib3
from tests.support.http.clients import CLIENTS, Client, OneShot, Urllib3
from tests.support.http.server import (
    Server,
    Step,
    answer,
    chunked,
    drip,
    garbage,
    half,
    hang,
    hang_in_body,
    head,
    late,
    reset,
    unused_port,
)

import stormproof as sp

POLICIES: dict[str, Callable[[], sp.Policy]] = {
    "does nothing": sp.Policy,
    "limits the time": lambda: sp.Policy(sp.Deadline(30), sp.Timeout(20)),
    "retries": lambda: sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0), budget=None)),
    "does it all": lambda: sp.Policy(
        sp.Deadline(30), sp.Retry(), sp.Breaker(), sp.Bulkhead(5), sp.Timeout(20)
    ),
}

#: What a policy adds to a request, as documented.
OURS = {"x-request-timeout-ms", "x-request-attempt"}


@dataclass(frozen=True)
class Ask:
    """One request of a case; ``read`` False leaves a streamed body unread."""

    method: str = "GET"
    path: str = "/"
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    redirects: bool = True
    timeout: float = 5.0


@dataclass(frozen=True)
class Case:
    """A server's behaviour and a client's request. ``fails``: a policy is meant to retry it."""

    routes: dict[str, tuple[Step, ...]]
    asks: tuple[Ask, ...]
    fails: bool = False


def _one(*steps: Step, fails: bool = False, **ask: Any) -> Case:
    return Case({"/": steps}, (Ask(**ask),), fails)


def _raw(data: bytes) -> Step:
    async def step(exchange: Any) -> None:
        await exchange.send(data)
        exchange.keep = False

    return step


def _redirect(status: int, to: str, body: bytes = b"") -> Step:
    return answer(status, body, [("Location", to)])


def _short_redirect(exchange: Any) -> Any:
    async def step() -> None:
        await exchange.send(head(302, [("Content-Length", "100"), ("Location", "/to")]) + b"half")
        await asyncio.sleep(0.02)
        exchange.reset()

    return step()


OK = answer(200, b"ok", [("X-Of", "server")])
PACKED = gzip.compress(b"packed")
GZIP = ("Content-Encoding", "gzip")

CASES: dict[str, Case] = {
    # Methods and bodies.
    **{f"{method} without a body": _one(OK, method=method) for method in ("GET", "DELETE", "OPTIONS", "PUT")},
    "HEAD": _one(OK, method="HEAD"),
    "GET with a query": Case({"/a": (OK,)}, (Ask(path="/a?x=1&y=%20z"),)),
    "POST with bytes": _one(OK, method="POST", body=b"data"),
    "PATCH with bytes": _one(OK, method="PATCH", body=b"data"),
    "PUT with a large body": _one(OK, method="PUT", body=b"x" * 300_000),
    "POST with a stream": _one(OK, method="POST", body=("one", "two")),
    "PUT with a stream": _one(OK, method="PUT", body=("one", "two")),
    "own headers": _one(OK, headers=(("X-Own", "1"), ("Accept", "text/x"), ("Authorization", "Basic eDp5"))),
    "expects to continue": _one(OK, method="POST", body=b"data", headers=(("Expect", "100-continue"),)),
    # Answers.
    **{
        f"status {status}": _one(answer(status, b"body"))
        for status in (201, 202, 400, 401, 404, 409, 410, 418)
    },
    "status 204": _one(_raw(b"HTTP/1.1 204 No Content\r\n\r\n")),
    "status 304": _one(_raw(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n")),
    "no length": _one(_raw(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")),
    "HTTP/1.0": _one(_raw(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")),
    "two cookies": _one(answer(200, b"", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])),
    "chunked": _one(chunked(b"one", b"two")),
    "chunked, empty": _one(chunked()),
    "packed": _one(answer(200, PACKED, [GZIP])),
    "packed, chunked": _one(chunked(PACKED[:5], PACKED[5:], headers=[GZIP])),
    "long": _one(answer(200, b"x" * 200_000)),
    "late answer": _one(late(0.05, OK)),
    "early hints": _one(
        _raw(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    ),
    # Streams.
    "stream of a short answer": _one(OK, stream=True),
    "stream of a long answer": _one(answer(200, b"x" * 200_000), stream=True),
    "stream, chunked": _one(chunked(b"one", b"two"), stream=True),
    "stream, packed": _one(answer(200, PACKED, [GZIP]), stream=True),
    "stream of a 404": _one(answer(404, b"none"), stream=True),
    # Redirects.
    **{
        f"redirect {status} after {method}": Case(
            {"/": (_redirect(status, "/to"),), "/to": (OK,)},
            (Ask(method, body=b"data" if method == "POST" else None),),
        )
        for status in (301, 302, 303, 307, 308)
        for method in ("GET", "POST")
    },
    "redirect with a body": Case({"/": (_redirect(302, "/to", b"moved"),), "/to": (OK,)}, (Ask(),)),
    "redirect not followed": _one(_redirect(302, "/to", b"moved"), redirects=False),
    "redirect in a circle": Case({"/": (_redirect(302, "/"),)}, (Ask(),)),
    "redirect to a stream": Case(
        {"/": (_redirect(302, "/to"),), "/to": (chunked(b"x"),)}, (Ask(stream=True),)
    ),
    "redirect with a cookie": Case(
        {"/": (answer(302, b"", [("Location", "/to"), ("Set-Cookie", "a=1; Path=/")]),), "/to": (OK,)},
        (Ask(), Ask(path="/to")),
    ),
    # Connections.
    "one connection for many": Case({"/": (OK,)}, (Ask(),) * 4),
    "one connection after a stream": Case({"/": (OK,)}, (Ask(stream=True), Ask())),
    "connection closed by the server": Case(
        {"/": (_raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),)}, (Ask(),) * 2
    ),
    "one connection after a 404": Case({"/": (answer(404, b"none"),), "/b": (OK,)}, (Ask(), Ask(path="/b"))),
    # What a policy may retry: only the others must leave it as it is.
    **{f"status {status}": _one(answer(status, b"busy"), fails=True) for status in (408, 429, 500, 503, 504)},
    "stream of a 503": _one(answer(503, b"busy"), fails=True, stream=True),
    "long 503": _one(answer(503, b"x" * 200_000), fails=True),
    "one connection after a 503": Case({"/": (answer(503, b"busy"), OK)}, (Ask(), Ask()), fails=True),
    "503 that does not decode": _one(answer(503, b"no gzip", [GZIP]), fails=True),
    "reset": _one(reset(), fails=True),
    "reset after POST": _one(reset(), fails=True, method="POST", body=b"data"),
    "half a body": _one(half(b"half"), fails=True),
    "half a 404": _one(half(b"half", 404), fails=True),
    "chunked, cut short": _one(chunked(b"one", ends=False), fails=True),
    "stream, cut short": _one(half(b"half"), fails=True, stream=True),
    "garbage": _one(garbage(), fails=True),
    "length that is no number": _one(_raw(b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n"), fails=True),
    "no answer": _one(hang(), fails=True, timeout=0.5),
    "no end of the body": _one(hang_in_body(b"half", 100), fails=True, timeout=0.5),
    "no end of the head": _one(drip(1.0), fails=True, timeout=0.5),
    "redirect with half a body": Case({"/": (_short_redirect,), "/to": (OK,)}, (Ask(),), fails=True),
    "packed wrongly": _one(answer(200, b"no gzip", [GZIP]), fails=True),
}


#: What fails is what a policy that retries is there to change.
PAIRS = [
    (name, policy)
    for name, case in CASES.items()
    for policy in POLICIES
    if not (case.fails and policy in ("retries", "does it all"))
]


class BareUrllib3(Urllib3):
    """urllib3 as the policy leaves it: its own retries are off, and redirects are followed."""

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        super().open(policy, connections, options)
        if policy is None:
            rules = urllib3.Retry(total=None, connect=False, read=False, status=0, other=0, redirect=3)
            self.client = urllib3.PoolManager(maxsize=connections, block=True, retries=rules)


def _kind(client: str) -> type[Client]:
    return BareUrllib3 if client == "urllib3" else CLIENTS[client]


async def _script(client: Client, case: Case) -> list[Any]:
    outcomes: list[Any] = []
    for ask in case.asks:
        given: dict[str, Any] = {
            "stream": ask.stream,
            "redirects": ask.redirects,
            "timeout": ask.timeout,
            "headers": dict(ask.headers),
        }
        if ask.body is not None:
            streams = isinstance(ask.body, tuple)
            given["body"] = OneShot(*(part.encode() for part in ask.body)) if streams else ask.body
        try:
            got = await client.request(ask.method, ask.path, **given)
            body = await got.rest() if ask.stream else got.body
            outcomes.append((got.status, body, sorted((k.lower(), v) for k, v in got.headers.items())))
        except Exception as error:
            outcomes.append(type(error))
    return outcomes


def _play(client: str, case: Case, policy: sp.Policy | None) -> tuple[list[Any], list[Any]]:
    """Return what the caller got, and what the server saw."""
    kind = _kind(client)
    with Server() as server:
        for path, steps in case.routes.items():
            server.on(path, *steps)

        async def main() -> list[Any]:
            made = kind(server, policy, 5, {})
            try:
                return await _script(made, case)
            finally:
                await made.close()

        if kind.loop == "trio":
            outcomes = trio.run(main)
        elif kind.loop == "asyncio":
            outcomes = asyncio.run(main())
        else:
            coroutine = main()
            try:
                coroutine.send(None)
                raise AssertionError("suspended")
            except StopIteration as end:
                outcomes = end.value
        log = []
        for seen in server.seen:
            own = f"127.0.0.1:{server.port}"
            headers = [
                (k.lower(), v.replace(own, "server")) for k, v in seen.headers if k.lower() not in OURS
            ]
            log.append((seen.connection, seen.method, seen.target, sorted(headers), seen.body))
        return outcomes, log


@cache
def _play_without_policy(client: str, case: str) -> tuple[list[Any], list[Any]]:
    return _play(client, CASES[case], None)


def _same(plain: Any, held: Any) -> bool:
    if isinstance(plain, type):
        # An error of ours is the client's own as well.
        return isinstance(held, type) and issubclass(held, plain)
    return bool(plain == held)


# The bare httpx leaves the generators of a body that does not decode to the collector, of which trio warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(("case", "policy"), PAIRS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_with_a_policy_behaves_as_without(client: str, case: str, policy: str) -> None:
    plain, plain_log = _play_without_policy(client, case)
    held, held_log = _play(client, CASES[case], POLICIES[policy]())
    assert len(plain) == len(held)
    for before, after in zip(plain, held, strict=True):
        assert _same(before, after), (before, after)
    assert held_log == plain_log


@pytest.mark.parametrize("client", CLIENTS)
def test_connection_refused_is_the_clients_own_error(client: str) -> None:
    case = Case({}, (Ask(path=f"http://127.0.0.1:{unused_port()}/"),))
    (plain,), _ = _play(client, case, None)
    for policy in POLICIES.values():
        (held,), _ = _play(client, case, policy())
        assert _same(plain, held)
