"""Hints, methods, bodies and connections in a client that retries."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

from ..model import Probe, counted, seconds
from ..scripted_server import Answer, serving
from ..setups.clients import CLIENTS, Ask, Client

WAITING = "still waiting"
#: After this a caller counts as kept waiting.
LIMIT_S = 5.0


def _within_limit(client: Client, ask: Ask) -> Any:
    """The answer, the name of the error, or `WAITING` when neither came in `LIMIT_S`."""
    with serving(lambda n: Answer()) as healthy:  # imports what a first request imports
        client.send(Ask(healthy.url))
    seen: list[Any] = []

    def send() -> None:
        try:
            seen.append(client.send(ask))
        except Exception as error:
            seen.append(type(error).__name__)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return seen[0] if seen else WAITING


def _hint(value: str, **more: Any) -> Any:
    """A server that says Retry-After once, then answers."""
    return lambda n: Answer(503, headers={"Retry-After": value}, **more) if n == 1 else Answer()


def _floor(client: Client) -> float | None:
    with serving(_hint("1")) as server:
        _within_limit(client, Ask(server.url))
        return server.gap


def _judge_floor(gap: float | None) -> tuple[str, bool]:
    if gap is None:
        return "not retried", False
    return ("waits for it", True) if gap >= 1.0 else (f"after {seconds(gap)}", False)


retry_after = Probe(
    "retry-after",
    "http",
    "503 with `Retry-After: 1`, then 200.",
    "the second request comes, and not before 1 s has passed.",
    _judge_floor,
)
retry_after.on(CLIENTS, _floor)


def _date(client: Client) -> float | None:
    due = int(time.time()) + 3
    with serving(_hint(formatdate(due, usegmt=True))) as server:
        _within_limit(client, Ask(server.url))
        if len(server.requests) < 2:
            return None
        return server.requests[1].at - time.monotonic() + time.time() - due


def _judge_date(early: float | None) -> tuple[str, bool]:
    if early is None:
        return "not retried", False
    return ("at the date", True) if early >= -0.01 else ("before the date", False)


retry_after_date = Probe(
    "retry-after-date",
    "http",
    "503 with a `Retry-After` date about 3 s ahead, then 200.",
    "the second request comes, and not before the date.",
    _judge_date,
)
retry_after_date.on(CLIENTS, _date)


def _long(client: Client, value: str) -> tuple[Any, int]:
    with serving(_hint(value)) as server:
        seen = _within_limit(client, Ask(server.url, longest=1))
        return seen, len(server.requests)


def _judge_long(seen: tuple[Any, int]) -> tuple[str, bool]:
    answer, requests = seen
    if answer == WAITING:
        return f"still waiting after {LIMIT_S:.0f} s", False
    if requests > 1:
        return "asked again too early", False
    if isinstance(answer, str):
        return answer, False
    return f"gives the {answer[0]} at once", answer[0] == 503


retry_after_long = Probe(
    "retry-after-long",
    "http",
    "503 with `Retry-After: 3600`; the client is set to wait 1 s at most, where it has such an option.",
    "the caller has the 503 within 5 s, and the server is not asked again before the hour.",
    _judge_long,
)
retry_after_long.on(CLIENTS, lambda client: _long(client, "3600"))

retry_after_huge = Probe(
    "retry-after-huge",
    "http",
    "The same with `Retry-After: 1000000000000`.",
    "the same.",
    _judge_long,
)
retry_after_huge.on(CLIENTS, lambda client: _long(client, "1000000000000"))


def _garbage(client: Client) -> Any:
    with serving(_hint("soon")) as server:
        return _within_limit(client, Ask(server.url))


def _judge_garbage(seen: Any) -> tuple[str, bool]:
    if isinstance(seen, str):
        return seen, False
    return f"{seen[0]} in the end", seen[0] == 200


retry_after_garbage = Probe(
    "retry-after-garbage",
    "http",
    "503 with `Retry-After: soon`, then 200.",
    "the header is ignored: the call is retried and succeeds.",
    _judge_garbage,
)
retry_after_garbage.on(CLIENTS, _garbage)


def _posts(client: Client, answer: Answer, timeout: float) -> int:
    with serving(lambda n: answer) as server:
        _within_limit(client, Ask(server.url, "POST", body=b"pay 10", timeout=timeout))
        return len(server.requests)


def _judge_posts(n: int) -> tuple[str, bool]:
    return counted(n, "request"), n == 1


post_timeout = Probe(
    "post-read-timeout",
    "http",
    "A POST whose answer does not come within the read timeout, with the default methods.",
    "sent once: the server may have done the work.",
    _judge_posts,
)
post_timeout.on(CLIENTS, lambda client: _posts(client, Answer(after=0.6), 0.2))

post_503 = Probe(
    "post-503",
    "http",
    "A POST that is answered 503, with the default methods.",
    "sent once: the server may have done the work.",
    _judge_posts,
)
post_503.on(CLIENTS, lambda client: _posts(client, Answer(503), 5))


def _parts() -> Iterator[bytes]:
    yield b"first,"
    yield b"second"


def _one_shot(client: Client) -> tuple[list[bytes], Any]:
    with serving(lambda n: Answer(503 if n == 1 else 200)) as server:
        seen = _within_limit(client, Ask(server.url, "PUT", body=_parts))
        return [request.body for request in server.requests], seen


def _judge_bodies(seen: tuple[list[bytes], Any]) -> tuple[str, bool]:
    bodies, answer = seen
    if any(body != b"first,second" for body in bodies):
        return "sent again empty", False
    if len(bodies) > 1:
        return "sent again whole", True
    return f"not sent again, {answer if isinstance(answer, str) else answer[0]}", True


one_shot_body = Probe(
    "one-shot-body",
    "http",
    "A PUT whose body is a generator, answered 503, then 200.",
    "every request the server sees has the whole body.",
    _judge_bodies,
)
one_shot_body.on(CLIENTS, _one_shot)


def _closed(client: Client) -> Any:
    with serving(lambda n: Answer(503, b"x" * 2_000_000) if n < 3 else Answer()) as server:
        return _within_limit(client, Ask(server.url))


def _judge_closed(seen: Any) -> tuple[str, bool]:
    if seen == WAITING:
        return f"no connection after {LIMIT_S:.0f} s", False
    if isinstance(seen, str):
        return seen, False
    return f"{seen[0]}, connection given back", seen[0] == 200


responses_closed = Probe(
    "responses-closed",
    "http",
    "503 twice with a body of 2 MB, then 200; the pool has one connection.",
    "answers that are not used are closed, so that the next attempt gets the connection.",
    _judge_closed,
)
responses_closed.on(CLIENTS, _closed)


def _cut(client: Client) -> Any:
    with serving(lambda n: Answer(body=b"0123456789", cut=4 if n == 1 else None)) as server:
        return _within_limit(client, Ask(server.url))


def _judge_cut(seen: Any) -> tuple[str, bool]:
    if isinstance(seen, str):
        return seen, False
    return ("retried", True) if seen[1] == b"0123456789" else ("half a body, no error", False)


body_cut_short = Probe(
    "body-cut-short",
    "http",
    "A GET whose 200 answer ends after 4 of 10 bytes; the next one is whole.",
    "the caller gets the whole body.",
    _judge_cut,
)
body_cut_short.on(CLIENTS, _cut)


def _default_waits(client: Client) -> list[float]:
    with client.recorded() as waits:
        for _ in range(5):
            with serving(lambda n: Answer(503 if n == 1 else 200)) as server:
                client.send(Ask(server.url, default_waits=True))
        return [wait for wait in waits if wait > 0]


def _judge_default_waits(waits: list[float]) -> tuple[str, bool]:
    if not waits:
        return "no wait", False
    if len(set(waits)) == 1:
        return f"{seconds(waits[0])} for every caller", False
    return "random", True


http_default_waits = Probe(
    "http-default-waits",
    "http",
    "The wait before the first retry when none is asked for, in 5 calls.",
    "there is a wait, and it is random.",
    _judge_default_waits,
)
http_default_waits.on(CLIENTS, _default_waits)

PROBES = [
    retry_after,
    retry_after_date,
    retry_after_long,
    retry_after_huge,
    retry_after_garbage,
    post_timeout,
    post_503,
    one_shot_body,
    responses_closed,
    body_cut_short,
    http_default_waits,
]
