"""Comparing HTTP clients in `make bench`: in turn, by the median of the rounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import pytest
from verification.benchmarks import clients
from verification.benchmarks.model import Case, Effort, Ready
from verification.benchmarks.request_timing import Request, Talk, Talks
from verification.benchmarks.suites import load
from verification.benchmarks.wire_server import BODY, serving

pytestmark = pytest.mark.long

TINY = Effort(rounds=1, batch_s=0.0, spawns=1, calls=50)


class Hand:
    """A clock that requests move, each client by its own cost."""

    def __init__(self) -> None:
        self.now = 0.0
        self.urls: set[str] = set()

    def talk(self, cost: float, body: bytes = BODY) -> Talk:
        @asynccontextmanager
        async def opened(url: str) -> AsyncIterator[Request]:
            self.urls.add(url)

            async def request() -> bytes:
                self.now += cost
                return body

            yield request

        return Talk(opened)


def ready(name: str, made: Talk) -> Ready:
    return Ready(Case(name, object), made)


@pytest.mark.parametrize("is_async", [False, True])
def test_client_is_compared_with_the_baseline_of_the_same_round(is_async: bool) -> None:
    hand = Hand()
    meter = Talks("bare", is_async, timers=(lambda: hand.now, lambda: hand.now / 2))
    figures = meter.measure([ready("bare", hand.talk(100e-6)), ready("ours", hand.talk(103e-6))], TINY)
    assert figures["bare"]["us"] == pytest.approx(100)
    assert figures["ours"]["us"] == pytest.approx(103)
    assert [each["us CPU"] for each in figures.values()] == pytest.approx([50, 51.5])
    assert figures["ours"]["B at peak"] >= 0
    assert all(url.startswith("http://127.0.0.1:") for url in hand.urls)


def test_slow_round_does_not_change_the_median() -> None:
    meter = Talks("bare")
    times = {"bare": [1e-4, 1e-4, 1e-4], "ours": [1.1e-4, 9e-3, 1.1e-4]}
    assert meter._figures(times) == pytest.approx({"bare": 100.0, "ours": 110.0})
    # A machine that changes its pace changes it for both.
    times = {"bare": [1e-4, 5e-4, 2e-4], "ours": [1.1e-4, 5.5e-4, 2.2e-4]}
    assert meter._figures(times)["ours"] == pytest.approx(1.1 * 200.0)


def test_without_the_baseline_the_median_stands_alone() -> None:
    assert Talks("bare")._figures({"ours": [1e-4, 3e-4, 2e-4]}) == pytest.approx({"ours": 200.0})


def test_client_that_gives_something_else_is_refused() -> None:
    with pytest.raises(AssertionError, match="instead of"):
        Talks("bare").check(ready("ours", Hand().talk(1e-6, b"other")))


@pytest.mark.parametrize("group", load("wire"), ids=lambda group: group.name)
def test_every_client_of_the_suite_talks_to_the_server(group) -> None:
    # The others' libraries come with the extra for benchmarks, which the suite does without.
    for case in group.cases:
        if case.needs is None or find_spec(case.needs) is not None:
            group.meter.check(Ready(case, case.make()))


def test_server_ends_with_its_block() -> None:
    import socket
    from urllib.parse import urlsplit

    with serving() as url:
        port = urlsplit(url).port
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(65536).endswith(BODY)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5).close()


def test_every_client_made_for_the_benchmark_is_used() -> None:
    made = [
        name for name in vars(clients) if name.split("_")[0] in ("httpx", "aiohttp", "requests", "urllib3")
    ]
    used = {case.make.__name__ for group in load("wire") for case in group.cases}
    assert used == set(made)
