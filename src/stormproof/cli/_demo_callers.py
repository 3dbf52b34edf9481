"""The demo's callers: real requests over real sockets, retried naively or with Stormproof.

Both lanes send the same request with the same timeout and the same number of attempts;
``naive`` and ``with_stormproof`` are all that differs between them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import stormproof as sp

from ._demo_metrics import Series

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._demo_scenario import DemoScenario

    Attempt = Callable[[], Awaitable[None]]
    Retried = Callable[[Attempt], Awaitable[None]]

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def naive(scenario: DemoScenario) -> Retried:
    """The loop found in much code: wait 0.1, 0.2, 0.4 s, no jitter, no budget."""

    async def retried(attempt: Attempt) -> None:
        for n in range(scenario.attempts):  # stormproof: ignore[SP009] - it is the bad example
            try:
                return await attempt()
            except OSError:
                if n == scenario.attempts - 1:
                    raise
                await asyncio.sleep(scenario.base_s * 2**n)

    return retried


def with_stormproof(scenario: DemoScenario) -> Retried:
    """The same attempts and the same doubling; full jitter and a budget, Stormproof's defaults."""
    policy = stormproof_policy(scenario)

    async def retried(attempt: Attempt) -> None:
        await policy.acall(attempt)

    return retried


def stormproof_policy(scenario: DemoScenario) -> sp.Policy:
    """The policy of the Stormproof lane; its default budget is shared by all callers of the process."""
    return sp.Policy(
        sp.Retry(
            on=sp.transient,
            attempts=scenario.attempts,
            backoff=sp.Exponential(base=scenario.base_s),
        ),
    )


async def request(port: int, timeout_s: float) -> None:
    """One GET on a connection of its own. Every failure is an ``OSError``; a timeout hangs up."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise ConnectionError(f"answered {head[:80]!r}")
            await reader.read()
        except asyncio.IncompleteReadError as cut:
            raise ConnectionResetError("the connection ended before the response") from cut
        finally:
            writer.close()


class Lane:
    """One server, its callers and their results."""

    def __init__(self, name: str, retried: Retried, scenario: DemoScenario) -> None:
        self.name = name
        self.series = Series(scenario.bucket_s)
        self._retried = retried
        self._timeout_s = scenario.timeout_s

    async def call(self, port: int, now: Callable[[], float]) -> None:
        """One logical call: its attempts, its waits, and its one end."""
        self.series.offered.add(now())

        async def attempt() -> None:
            self.series.attempts += 1
            await request(port, self._timeout_s)

        try:
            await self._retried(attempt)
        except (OSError, sp.StormproofError) as error:
            self.series.failed.add(now())
            self.series.reasons[type(error).__name__] += 1
        else:
            self.series.good.add(now())
