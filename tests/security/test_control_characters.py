"""Text from elsewhere (a server, a store, a caller's names) is escaped and at most 200 characters long."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.security.telemetry_sinks import Sinks
from tests.support.http.each_client import Http, each_client
from tests.support.http.server import Exchange, answer, garbage
from tests.support.redis_servers import Server as Redis
from tests.support.scripted import Boom

import stormproof as sp
from stormproof._events import labels
from stormproof.redis import RedisStore

pytestmark = pytest.mark.proves("security control-characters")

#: A forged log line, escapes of a terminal, a bell, a null, a C1 control, line separators, a turn around.
NASTY = "a\r\nWARNING root: forged\x1b[31m\x07\x00\x9b31m\u2028\u2029\u202e\ud800\x7f"
LONGEST = 200


def unescaped(text: str) -> list[str]:
    """The characters that may not stand in a line."""
    return [repr(character) for character in text if not character.isprintable()]


@given(st.text(st.characters(), max_size=600) | st.just(NASTY * 20) | st.just("x" * 201))
def test_clean_escapes_and_bounds_any_text(text: str) -> None:
    made = labels.clean(text)
    assert made.isprintable() and len(made) <= LONGEST
    if text.isprintable() and len(text) <= LONGEST:
        assert made == text


def _odd_error(name: str) -> type[Boom]:
    return type(name, (Boom,), {"__module__": name, "__qualname__": name})


def test_names_are_escaped_in_every_sink(measured: Callable[[str], None]) -> None:
    long = NASTY + "x" * 5000
    # No class has a null or half a pair in its name.
    odd = _odd_error(long.replace("\ud800", "").replace("\x00", ""))

    def fails() -> None:
        raise odd(long)

    fails.__qualname__ = fails.__name__ = long
    retrying = sp.Retry(on=Boom, attempts=2, backoff=sp.Constant(0), budget=None)
    with Sinks() as sinks:
        for policy in (
            sp.Policy(retrying),
            sp.Policy(retrying, name=long),
            sp.Policy(sp.Breaker(consecutive=1, name=long), name=long),
            sp.Policy(sp.RateLimit(sp.Limiter(0, 0), max_wait=0), name=long),
            sp.Policy(sp.Fallback("x"), retrying, name=long),
        ):
            for _ in range(2):
                try:
                    policy(fails)()
                except (Boom, sp.StormproofError) as error:
                    sinks.caught(error)
        for event in sinks.events:
            for field, value in event.as_dict().items():
                if isinstance(value, str):
                    assert not unescaped(value), field
                    assert len(value) <= LONGEST, field
        texts = sinks.texts()
        for line in texts["log"].split("\n"):
            assert not unescaped(line)
        for sink, text in texts.items():
            assert not unescaped(text.replace("\n", "")), sink
            assert "\nWARNING root" not in text, sink
            assert "x" * LONGEST not in text, sink
        measured(
            f"{len(sinks.events)} events, 9 sinks, longest field {LONGEST} characters at most, 0 controls"
        )


async def _odd_reason(exchange: Exchange) -> None:
    await exchange.send(
        b"HTTP/1.1 503 \x1b[31mforged\x07"
        + b"y" * 3000
        + b"\r\nContent-Length: 0\r\nRetry-After: \x1b[2J\x07\r\n\r\n"
    )


@each_client
async def test_text_of_a_server_is_escaped_in_every_sink(http: Http) -> None:
    http.server.on("/reason", _odd_reason)
    http.server.on("/garbage", garbage(b"\x1b[31m\x00\x07 forged\r\n" + b"z" * 3000 + b"\r\n\r\n"))
    http.server.on("/body", answer(503, ("\x1b[31m" + "w" * 3000).encode()))
    policy = sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None))
    with Sinks() as sinks:
        for path in ("/reason", "/garbage", "/body"):
            try:
                await http.client(policy).get(path)
            except http.kind.family as error:
                sinks.caught(error)
        for sink, text in sinks.texts().items():
            assert not unescaped(text.replace("\n", "")), sink
            assert not any(letter * LONGEST in text for letter in "yzw"), sink
        assert sinks.events


@pytest.mark.redis
def test_text_of_a_store_is_escaped_in_events_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    """A key of the wrong type and a resource with a name like that: the log has one line for each."""
    caplog.set_level(logging.DEBUG, "stormproof")
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    name = NASTY.replace("\ud800", "") + "x" * 500
    try:
        with Redis() as server, RedisStore(server.url, timeout=1) as store:
            server.ask("SET", store.key("limiter", name), "foreign", "PX", 60_000)
            sp.Limiter(1, 1, store=store, name=name).allow()
            store.settle(1)
            shown = repr(store.inspect())
    finally:
        stop()
    lines = [record.getMessage() for record in caplog.records]
    assert any(type(event).__name__ == "StoreDown" for event in events)
    assert lines and not any(unescaped(line) for line in lines) and all(len(line) < 400 for line in lines)
    assert not unescaped(shown)
    assert all(not unescaped(event.operation) and len(event.operation) <= LONGEST for event in events)
