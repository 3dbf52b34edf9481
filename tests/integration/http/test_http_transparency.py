"""Mounting a policy changes nothing but what it is there to change: the same script, plain and held.

Each case runs against a fresh server with a fresh client and a fresh policy: once without a policy, then
with one that does nothing, one that only limits the time, and (where nothing in the case is worth retrying)
one that retries. What the caller gets, what the library's own hooks see and what the server sees must be the
same, header for header and connection for connection. docs/http.md has the table of what is compared.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import pickle
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trio
import urllib3
from h2.errors import ErrorCodes
from tests.support.http import clients
from tests.support.http.clients import AsyncHttpx2, Client, Form, OneShot, Requests, Urllib3
from tests.support.http.h2_server import H2Server, refuse, say
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

ROOT = Path(__file__).parents[3]


class TrioHttpx2(AsyncHttpx2):
    loop = "trio"


CLIENTS: dict[str, type[Client]] = {
    **clients.CLIENTS,
    "httpx2-asyncio": AsyncHttpx2,
    "httpx2-trio": TrioHttpx2,
}

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
    """One request of a case; ``held``: its streamed body is left unread until the others have ended."""

    method: str = "GET"
    path: str = "/"
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    redirects: bool = True
    timeout: float = 5.0
    held: bool = False


@dataclass(frozen=True)
class File:
    """A request body that is a file, for clients that take one."""

    data: bytes


@dataclass(frozen=True)
class Case:
    """A server's behaviour and a client's request. ``fails``: those in which a policy is meant to retry it.

    ``way`` is how they meet: "plain", through the server as a "proxy", with the library's "hooks", over
    "http2", by a pool of "one slot", with the library's own "basic" or "digest" authentication, or "pickled":
    responses and errors, and a session of requests' before its first request.
    """

    routes: dict[str, tuple[Any, ...]]
    asks: tuple[Ask, ...]
    fails: tuple[str, ...] = ()
    way: str = "plain"


def _one(*steps: Any, fails: tuple[str, ...] = (), way: str = "plain", **ask: Any) -> Case:
    return Case({"/": steps}, (Ask(**ask),), fails, way)


def _raw(data: bytes) -> Step:
    async def step(exchange: Any) -> None:
        await exchange.send(data)
        exchange.keep = False

    return step


def _redirect(status: int, to: str, body: bytes = b"") -> Step:
    return answer(status, body, [("Location", to)])


def _elsewhere(exchange: Any) -> Any:
    """A redirect to the same server by another name: another origin."""
    port = (exchange.seen.header("Host") or "").rpartition(":")[2]
    return _redirect(302, f"http://localhost:{port}/to")(exchange)


def _short_redirect(exchange: Any) -> Any:
    async def step() -> None:
        await exchange.send(head(302, [("Content-Length", "100"), ("Location", "/to")]) + b"half")
        await asyncio.sleep(0.02)
        exchange.reset()

    return step()


ALL = tuple(CLIENTS)
HTTPX = tuple(name for name in CLIENTS if name.startswith("httpx"))
OK = answer(200, b"ok", [("X-Of", "server")])
#: What a proxy is asked for, and what it sees of a request over TLS.
FAR, SECRET, TUNNEL = "http://far.test/", "https://far.test/", "far.test:443"
PACKED = gzip.compress(b"packed")
GZIP = ("Content-Encoding", "gzip")
FORM = Form(one=("a.txt", b"first"), two=("b.txt", b"x" * 50_000))
CHALLENGE = answer(401, b"who?", [("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')])
COOKIE = ("Set-Cookie", "a=1; Path=/")

SUBJECTS: dict[str, dict[str, Case]] = {
    "methods and bodies": {
        **{
            f"{method} without a body": _one(OK, method=method)
            for method in ("GET", "DELETE", "OPTIONS", "PUT")
        },
        "HEAD": _one(OK, method="HEAD"),
        "GET with a query": Case({"/a": (OK,)}, (Ask(path="/a?x=1&y=%20z"),)),
        "POST with bytes": _one(OK, method="POST", body=b"data"),
        "PATCH with bytes": _one(OK, method="PATCH", body=b"data"),
        "PUT with a large body": _one(OK, method="PUT", body=b"x" * 300_000),
        "POST with a stream": _one(OK, method="POST", body=("one", "two")),
        "PUT with a stream": _one(OK, method="PUT", body=("one", "two")),
        "own headers": _one(
            OK, headers=(("X-Own", "1"), ("Accept", "text/x"), ("Authorization", "Basic eDp5"))
        ),
        "expects to continue": _one(OK, method="POST", body=b"data", headers=(("Expect", "100-continue"),)),
    },
    "answers": {
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
    },
    "streams": {
        "stream of a short answer": _one(OK, stream=True),
        "stream of a long answer": _one(answer(200, b"x" * 200_000), stream=True),
        "stream, chunked": _one(chunked(b"one", b"two"), stream=True),
        "stream, packed": _one(answer(200, PACKED, [GZIP]), stream=True),
        "stream of a 404": _one(answer(404, b"none"), stream=True),
    },
    "redirects": {
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
    },
    "uploads": {
        "form with files": _one(OK, method="POST", body=FORM),
        "form with files, redirected": Case(
            {"/": (_redirect(307, "/to"),), "/to": (OK,)}, (Ask("POST", body=FORM),)
        ),
        "PUT with a file": _one(OK, method="PUT", body=File(b"x" * 100_000)),
        "POST with a file, redirected": Case(
            {"/": (_redirect(307, "/to"),), "/to": (OK,)}, (Ask("POST", body=File(b"data")),)
        ),
        "form with files, reset": _one(reset(), fails=ALL, method="POST", body=FORM),
    },
    "cookies": {
        "cookie of an answer": Case({"/": (answer(200, b"", [COOKIE]),)}, (Ask(), Ask())),
        "cookie of a 404": Case({"/": (answer(404, b"", [COOKIE]),)}, (Ask(), Ask())),
        "cookie of a 503": Case({"/": (answer(503, b"", [COOKIE]), OK)}, (Ask(), Ask()), fails=ALL),
        "cookie at another origin": Case(
            {"/": (answer(200, b"", [COOKIE]),), "/from": (_elsewhere,), "/to": (OK,)},
            (Ask(), Ask(path="/from")),
        ),
    },
    "authentication": {
        "basic": Case({"/": (OK,)}, (Ask(), Ask("POST", body=b"data")), way="basic"),
        "basic at another origin": Case({"/": (_elsewhere,), "/to": (OK,)}, (Ask(),), way="basic"),
        "own header at another origin": Case(
            {"/": (_elsewhere,), "/to": (OK,)}, (Ask(headers=(("Authorization", "Bearer t"),)),)
        ),
        "digest": Case({"/": (CHALLENGE, OK)}, (Ask(), Ask()), way="digest"),
        "digest of a POST": Case({"/": (CHALLENGE, OK)}, (Ask("POST", body=b"data"),), way="digest"),
        "digest that is refused": Case({"/": (CHALLENGE,)}, (Ask(),), way="digest"),
        "digest, then a 503": Case({"/": (CHALLENGE, answer(503, b"busy"))}, (Ask(),), ALL, "digest"),
    },
    "pools": {
        "one slot for many": Case({"/": (OK,)}, (Ask(),) * 4, way="one slot"),
        "one slot after a stream": Case({"/": (OK,)}, (Ask(stream=True), Ask()), way="one slot"),
        "one slot after a failure": Case({"/": (reset(), OK)}, (Ask(), Ask()), ALL, "one slot"),
        "one slot after a timeout": Case(
            {"/": (hang(), OK)}, (Ask(timeout=0.5), Ask()), fails=ALL, way="one slot"
        ),
        # Of a short answer a policy would read the body, and the slot would be free.
        "no slot is free": Case(
            {"/": (answer(200, b"x" * 200_000),)},
            (Ask(stream=True, held=True), Ask(timeout=0.3)),
            fails=ALL,
            way="no slot",
        ),
    },
    "connections": {
        "one connection for many": Case({"/": (OK,)}, (Ask(),) * 4),
        "one connection after a stream": Case({"/": (OK,)}, (Ask(stream=True), Ask())),
        "connection closed by the server": Case(
            {"/": (_raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),)},
            (Ask(),) * 2,
        ),
        "one connection after a 404": Case(
            {"/": (answer(404, b"none"),), "/b": (OK,)}, (Ask(), Ask(path="/b"))
        ),
    },
    "failures": {
        **{
            f"status {status}": _one(answer(status, b"busy"), fails=ALL)
            for status in (408, 429, 500, 503, 504)
        },
        "stream of a 503": _one(answer(503, b"busy"), fails=ALL, stream=True),
        "long 503": _one(answer(503, b"x" * 200_000), fails=ALL),
        "one connection after a 503": Case({"/": (answer(503, b"busy"), OK)}, (Ask(), Ask()), fails=ALL),
        "503 that does not decode": _one(answer(503, b"no gzip", [GZIP]), fails=ALL),
        "reset": _one(reset(), fails=ALL),
        "reset after POST": _one(reset(), fails=ALL, method="POST", body=b"data"),
        "half a body": _one(half(b"half"), fails=ALL),
        "half a 404": _one(half(b"half", 404), fails=ALL),
        "chunked, cut short": _one(chunked(b"one", ends=False), fails=ALL),
        "stream, cut short": _one(half(b"half"), fails=ALL, stream=True),
        "garbage": _one(garbage(), fails=ALL),
        "length not a number": _one(_raw(b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n"), fails=ALL),
        "no answer": _one(hang(), fails=ALL, timeout=0.5),
        "no end of the body": _one(hang_in_body(b"half", 100), fails=ALL, timeout=0.5),
        "no end of the head": _one(drip(1.0), fails=ALL, timeout=0.5),
        "redirect with half a body": Case({"/": (_short_redirect,), "/to": (OK,)}, (Ask(),), fails=ALL),
        "packed wrongly": _one(answer(200, b"no gzip", [GZIP]), fails=ALL),
    },
    "redirects with broken bodies": {
        # httpx and urllib3 read it before they follow, and fail; the others follow whatever is wrong with it.
        "half a body": Case({"/": (_short_redirect,), "/to": (OK,)}, (Ask(),), fails=(*HTTPX, "urllib3")),
        "half a body, not followed": Case({"/": (_short_redirect,)}, (Ask(redirects=False),), fails=ALL),
        "a body that does not decode": Case(
            {"/": (answer(302, b"no gzip", [GZIP, ("Location", "/to")]),), "/to": (OK,)},
            (Ask(),),
            fails=HTTPX,
        ),
        "a body that does not decode, after POST": Case(
            {"/": (answer(307, b"no gzip", [GZIP, ("Location", "/to")]),), "/to": (OK,)},
            (Ask("POST", body=b"data"),),
            fails=HTTPX,
        ),
    },
    "proxies": {
        "answer through a proxy": Case({FAR: (OK,)}, (Ask(path=FAR),) * 2, way="proxy"),
        "POST through a proxy": Case({FAR: (OK,)}, (Ask("POST", FAR, b"data"),), way="proxy"),
        "redirect through a proxy": Case(
            {FAR: (_redirect(302, FAR + "b"),), FAR + "b": (OK,)}, (Ask(path=FAR),), way="proxy"
        ),
        "proxy wants credentials": Case({FAR: (answer(407, b"who?"),)}, (Ask(path=FAR),), way="proxy"),
        "proxy has no answer": Case({FAR: (answer(502, b"none"),)}, (Ask(path=FAR),), ALL, "proxy"),
        "proxy resets": Case({FAR: (reset(),)}, (Ask(path=FAR),), ALL, "proxy"),
        "tunnel refused": Case({TUNNEL: (answer(403, b"no"),)}, (Ask(path=SECRET),), ALL, "proxy"),
        "tunnel has no other end": Case({TUNNEL: (answer(502, b"none"),)}, (Ask(path=SECRET),), ALL, "proxy"),
    },
    "hooks": {
        "hooks of an answer": _one(OK, way="hooks"),
        "hooks of a POST": _one(OK, way="hooks", method="POST", body=b"data"),
        "hooks of a redirect": Case({"/": (_redirect(302, "/to"),), "/to": (OK,)}, (Ask(),), way="hooks"),
        "hooks of many": Case({"/": (OK,)}, (Ask(),) * 3, way="hooks"),
        "hooks of a long answer": _one(answer(200, b"x" * 200_000), way="hooks"),
        "hooks of a 404": _one(answer(404, b"none"), way="hooks"),
        "hooks of a 503": _one(answer(503, b"busy"), fails=ALL, way="hooks"),
        "hooks of a reset": _one(reset(), fails=ALL, way="hooks", method="POST", body=b"data"),
    },
    "pickling": {
        "pickle of an answer": _one(OK, way="pickled"),
        "pickle of a long answer": _one(answer(200, b"x" * 200_000), way="pickled"),
        "pickle after a redirect": Case(
            {"/": (_redirect(302, "/to"),), "/to": (OK,)}, (Ask(),), way="pickled"
        ),
        "pickle of a 404": _one(answer(404, b"none"), way="pickled"),
        "pickle of a 503": _one(answer(503, b"busy"), fails=ALL, way="pickled"),
        "pickle of an error": _one(reset(), fails=ALL, way="pickled"),
        "pickle of a timeout": _one(hang(), fails=ALL, way="pickled", timeout=0.5),
    },
    "HTTP/2": {
        "GET": _one(say(200, b"ok"), way="http2"),
        "POST": _one(say(200, b"ok"), way="http2", method="POST", body=b"data"),
        "stream of a body": _one(say(200, b"ok"), way="http2", method="POST", body=("one", "two")),
        "long": _one(say(200, b"x" * 200_000), way="http2"),
        "stream": _one(say(200, b"x" * 200_000), way="http2", stream=True),
        "many": Case({"/": (say(200, b"ok"),)}, (Ask(),) * 4, way="http2"),
        "redirect": Case(
            {"/": (say(302, location="/to"),), "/to": (say(200, b"ok"),)}, (Ask(),), way="http2"
        ),
        "404": _one(say(404, b"none"), way="http2"),
        "503": _one(say(503, b"busy"), fails=ALL, way="http2"),
        "stream refused": _one(refuse(), fails=ALL, way="http2"),
        "stream reset": _one(refuse(ErrorCodes.INTERNAL_ERROR), fails=ALL, way="http2"),
    },
}
#: Clients without a way: urllib3 has no hooks and no credentials, what speaks HTTP/2 is httpx, and so is what
#: waits for a slot no longer than for anything else.
NOT_HTTPX = {"requests", "urllib3", "aiohttp"}
WITHOUT = {
    **{way: {"urllib3"} for way in ("hooks", "basic", "digest")},
    **dict.fromkeys(("http2", "no slot"), NOT_HTTPX),
}


#: What fails is what a policy that retries is there to change.
RUNS = [
    (client, subject, name, policy)
    for client in CLIENTS
    for subject, cases in SUBJECTS.items()
    for name, case in cases.items()
    for policy in POLICIES
    if client not in WITHOUT.get(case.way, ())
    and not (client in case.fails and policy in ("retries", "does it all"))
]


class BareUrllib3(Urllib3):
    """urllib3 as the policy leaves it: its own retries are off, and redirects are followed."""

    def open(self, policy: sp.Policy | None, connections: int, options: dict[str, Any]) -> None:
        super().open(policy, connections, options)
        if policy is None:
            rules = urllib3.Retry(total=None, connect=False, read=False, status=0, other=0, redirect=3)
            self.client.connection_pool_kw["retries"] = rules


def _kind(client: str, case: Case, server: Server | H2Server) -> type[Client]:
    kind = BareUrllib3 if client == "urllib3" else CLIENTS[client]
    way = {
        "proxy": {"proxy": server.url("")},
        "hooks": {"hooks": []},
        "http2": {"http2": True},
        "basic": {"auth": "basic"},
        "digest": {"auth": "digest"},
    }.get(case.way, {})
    return type(kind.__name__, (kind,), way)


def _reloaded(thing: Any) -> Any:
    """A pickle's copy of a response or an error, as far as it can be compared; None if there is none."""
    try:
        copy = pickle.loads(pickle.dumps(thing))
    except Exception:
        return None
    status = getattr(copy, "status_code", None)
    return type(copy), status, getattr(copy, "content", None), str(getattr(copy, "headers", ""))


async def _script(client: Client, case: Case) -> list[Any]:
    outcomes: list[Any] = []
    open_ones: list[Any] = []
    is_pickled = case.way == "pickled"
    if is_pickled and isinstance(client, Requests):
        client.client = pickle.loads(pickle.dumps(client.client))
    for ask in case.asks:
        given: dict[str, Any] = {
            "stream": ask.stream,
            "redirects": ask.redirects,
            "timeout": ask.timeout,
            "headers": dict(ask.headers),
        }
        if ask.body is not None:
            given["body"] = ask.body
            if isinstance(ask.body, tuple):
                given["body"] = OneShot(*(part.encode() for part in ask.body))
            elif isinstance(ask.body, File):
                given["body"] = io.BytesIO(ask.body.data) if client.takes_files else ask.body.data
        try:
            got = await client.request(ask.method, ask.path, **given)
            if ask.held:
                open_ones.append(got)
                continue
            body = await got.rest() if ask.stream else got.body
            outcomes.append((got.status, body, sorted((k.lower(), v) for k, v in got.headers.items())))
            if is_pickled:
                outcomes.append(_reloaded(got.native))
        except Exception as error:
            outcomes.append(type(error))
            if is_pickled:
                outcomes.append(_reloaded(error))
    return outcomes + [(got.status, await got.rest()) for got in open_ones]


def _run(kind: type[Client], main: Callable[[], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    if kind.loop == "trio":
        return trio.run(main)
    if kind.loop == "asyncio":
        return asyncio.run(main())
    coroutine = main()
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("suspended")


#: What differs by run in an Authorization, and the boundary of a form's parts, as its Content-Type has it.
_DRAWN = re.compile(r'(cnonce|response)="?\w+"?')
_BOUNDARY = re.compile(r"boundary=(\w+)")


def _log(server: Server | H2Server) -> list[Any]:
    """The requests as the server saw them, without what a policy adds and what differs by run."""

    def fields(pairs: Any) -> list[tuple[str, str]]:
        own = f":{server.port}"
        pairs = [(k.lower(), _BOUNDARY.sub("boundary", v.replace(own, ":port"))) for k, v in pairs]
        return sorted((k, _DRAWN.sub(r"\1", v)) for k, v in pairs if k not in OURS)

    def content(seen: Any) -> bytes:
        drawn = _BOUNDARY.search(seen.header("Content-Type") or "")
        return bytes(seen.body.replace(drawn[1].encode(), b"boundary") if drawn else seen.body)

    if isinstance(server, H2Server):
        return [
            (seen.link.number, seen.method, seen.path, fields(seen.headers.items()), seen.body)
            for seen in server.seen
        ]
    return [
        (seen.connection, seen.method, seen.target, fields(seen.headers), content(seen))
        for seen in server.seen
    ]


def _play(client: str, case: Case, policy: sp.Policy | None) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what the caller got, what the hooks saw, and what the server saw."""
    with H2Server() if case.way == "http2" else Server() as server:
        for path, steps in case.routes.items():
            server.on(path, *steps)
        kind = _kind(client, case, server)

        async def main() -> list[Any]:
            slots = 1 if "slot" in case.way else 5
            made = kind(server, policy, slots, {})  # type: ignore[arg-type]
            try:
                return await _script(made, case)
            finally:
                await made.close()

        outcomes = _run(kind, main)
        hooked = [str(each).replace(str(server.port), "port") for each in kind.hooks or ()]
        return outcomes, hooked, _log(server)


@cache
def _play_without_policy(client: str, subject: str, name: str) -> tuple[list[Any], list[Any], list[Any]]:
    return _play(client, SUBJECTS[subject][name], None)


def _same(plain: Any, held: Any) -> bool:
    if isinstance(plain, type):
        # An error of ours is the client's own as well.
        return isinstance(held, type) and issubclass(held, plain)
    return bool(plain == held)


# The bare httpx leaves the generators of a body that does not decode to the collector, of which trio warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(("client", "subject", "name", "policy"), RUNS)
def test_client_with_a_policy_behaves_as_without(client: str, subject: str, name: str, policy: str) -> None:
    plain, plain_hooks, plain_log = _play_without_policy(client, subject, name)
    held, held_hooks, held_log = _play(client, SUBJECTS[subject][name], POLICIES[policy]())
    assert len(plain) == len(held)
    for before, after in zip(plain, held, strict=True):
        assert _same(before, after), (before, after)
    assert held_hooks == plain_hooks
    assert held_log == plain_log


@pytest.mark.parametrize("client", CLIENTS)
def test_connection_refused_is_the_clients_own_error(client: str) -> None:
    case = Case({}, (Ask(path=f"http://127.0.0.1:{unused_port()}/"),))
    (plain,), _, _ = _play(client, case, None)
    for policy in POLICIES.values():
        (held,), _, _ = _play(client, case, policy())
        assert _same(plain, held)


def test_docs_have_the_table_of_what_is_compared() -> None:
    counts = Counter((subject, client) for client, subject, _, _ in RUNS)
    lines = [f"| compared | {' | '.join(CLIENTS)} |", f"|---|{'---:|' * len(CLIENTS)}"]
    for subject in SUBJECTS:
        cells = (str(counts[subject, client] or "-") for client in CLIENTS)
        lines.append(f"| {subject} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    assert table in (ROOT / "docs" / "http.md").read_text(), f"the table is\n{table}"
