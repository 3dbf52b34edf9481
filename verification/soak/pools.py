"""`python -m verification.soak.pools`: overload and recovery of every client with a bounded pool.

Each run cuts off so many requests to a server that does not answer, lets the server recover, and then makes
as many requests at once as the pool has places (on HTTP/2: as the connection has streams). Every one of them
must be answered within a second of the recovery. Right after each run the same requests are made by a client
of which none was cut off: what a busy machine needs for them by itself is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx
import httpx2
import requests
import trio
from tests.support.http.h2_server import H2Server, say
from tests.support.http.server import Server, answer, hang

import stormproof as sp
import stormproof.aiohttp
import stormproof.httpx
import stormproof.httpx2
import stormproof.requests
import stormproof.urllib3

LIMIT_S = 1.0
CUT = sp.Policy(sp.Timeout(0.03))
PLAIN = sp.Policy(sp.Deadline(10 * LIMIT_S), sp.Retry(attempts=1))

#: Makes one request under the policy: True if it was answered with 200.
Get = Callable[[str, sp.Policy], Any]


@dataclass(frozen=True)
class Case:
    """A client with a pool of ``slots`` places (HTTP/2: streams of one connection)."""

    name: str
    slots: int
    http2: bool
    loop: str | None
    open: Callable[[Any, int], Get]


def _httpx_async(module: Any, door: Any, http2: bool) -> Callable[[Any, int], Get]:
    def opened(stack: AsyncExitStack, slots: int) -> Get:
        pool = 1 if http2 else slots
        limits = module.Limits(max_connections=pool, max_keepalive_connections=pool)
        inner = module.AsyncHTTPTransport(limits=limits, http1=not http2, http2=http2, verify=False)
        transport = door.AsyncTransport(CUT, inner)
        client = module.AsyncClient(transport=transport, timeout=5, trust_env=False)
        stack.push_async_callback(client.aclose)

        async def get(url: str, policy: sp.Policy) -> bool:
            response = await client.get(url, extensions={"stormproof": {"policy": policy}})
            return bool(response.status_code == 200)

        return get

    return opened


def _httpx_sync(module: Any, door: Any, http2: bool) -> Callable[[Any, int], Get]:
    def opened(stack: ExitStack, slots: int) -> Get:
        limits = module.Limits(max_connections=1 if http2 else slots)
        inner = module.HTTPTransport(limits=limits, http1=not http2, http2=http2, verify=False)
        client = module.Client(transport=door.Transport(CUT, inner), timeout=5, trust_env=False)
        stack.callback(client.close)

        def get(url: str, policy: sp.Policy) -> bool:
            response = client.get(url, extensions={"stormproof": {"policy": policy}})
            return bool(response.status_code == 200)

        return get

    return opened


def _aiohttp(stack: AsyncExitStack, slots: int) -> Get:
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=slots))
    stack.push_async_callback(session.close)
    layers = {id(policy): stormproof.aiohttp.middleware(policy) for policy in (CUT, PLAIN)}

    async def get(url: str, policy: sp.Policy) -> bool:
        async with session.get(url, middlewares=[layers[id(policy)]]) as response:
            await response.read()
            return response.status == 200

    return get


def _requests(stack: ExitStack, slots: int) -> Get:
    session = requests.Session()
    session.mount(
        "http://", stormproof.requests.Adapter(CUT, pool_connections=1, pool_maxsize=slots, pool_block=True)
    )
    stack.callback(session.close)

    def get(url: str, policy: sp.Policy) -> bool:
        with stormproof.requests.override(policy=policy):
            return bool(session.get(url).status_code == 200)

    return get


def _urllib3(stack: ExitStack, slots: int) -> Get:
    pools = stormproof.urllib3.PoolManager(CUT, maxsize=slots, block=True)
    stack.callback(pools.clear)

    def get(url: str, policy: sp.Policy) -> bool:
        return bool(pools.request("GET", url, stormproof={"policy": policy}).status == 200)

    return get


def cases() -> list[Case]:
    made = []
    for module, door in ((httpx, stormproof.httpx), (httpx2, stormproof.httpx2)):
        name = module.__name__
        for loop in ("asyncio", "trio"):
            for slots in (1, 5, 100):
                opened = _httpx_async(module, door, False)
                made.append(Case(f"{name} {loop} HTTP/1.1", slots, False, loop, opened))
            opened = _httpx_async(module, door, True)
            made.append(Case(f"{name} {loop} HTTP/2", 100, True, loop, opened))
        made += [
            Case(f"{name} threads HTTP/1.1", slots, False, None, _httpx_sync(module, door, False))
            for slots in (1, 5, 100)
        ]
        if module is httpx2:
            # A hundred threads on one HTTP/2 connection break httpx's own client now and then, policy or not.
            made.append(Case(f"{name} threads HTTP/2", 100, True, None, _httpx_sync(module, door, True)))
    for slots in (1, 5, 100):
        made.append(Case("aiohttp", slots, False, "asyncio", _aiohttp))
        made.append(Case("requests", slots, False, None, _requests))
        made.append(Case("urllib3", slots, False, None, _urllib3))
    return made


def _answered(outcomes: list[Any]) -> bool:
    return all(outcome is True for outcome in outcomes)


async def _together(loop: str, fns: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    outcomes: list[Any] = [None] * len(fns)

    async def keep(place: int) -> None:
        try:
            outcomes[place] = await fns[place]()
        except Exception as error:
            outcomes[place] = error

    if loop == "trio":
        async with trio.open_nursery() as nursery:
            for place in range(len(fns)):
                nursery.start_soon(keep, place)
    else:
        await asyncio.gather(*map(keep, range(len(fns))))
    return outcomes


async def _run_async(
    case: Case, cuts: int, hangs: str, serves: str, recovered: Callable[[], None]
) -> list[Any]:
    assert case.loop is not None
    async with AsyncExitStack() as stack:
        get = case.open(stack, case.slots)
        for done in range(0, cuts, 100):
            await _together(case.loop, [lambda: get(hangs, CUT)] * min(100, cuts - done))
        recovered()
        return await _together(case.loop, [lambda: get(serves, PLAIN)] * case.slots)


def _run_threads(case: Case, cuts: int, hangs: str, serves: str, recovered: Callable[[], None]) -> list[Any]:
    def outcome(get: Get, url: str, policy: sp.Policy) -> Any:
        try:
            return get(url, policy)
        except Exception as error:
            return error

    with ExitStack() as stack, ThreadPoolExecutor(max(case.slots, 32)) as threads:
        get = case.open(stack, case.slots)
        list(threads.map(lambda _: outcome(get, hangs, CUT), range(cuts)))
        recovered()
        return list(threads.map(lambda _: outcome(get, serves, PLAIN), range(case.slots)))


def run(case: Case, cuts: int) -> tuple[float, str]:
    """Seconds until every slot had served again, or infinity and the first thing that went wrong."""
    began = 0.0

    def recovered() -> None:
        nonlocal began
        if case.http2:
            server.hanging = False
        began = time.monotonic()

    with H2Server(hanging=case.http2) if case.http2 else Server() as server:  # type: ignore[attr-defined]
        if case.http2:
            server.on("/", say(200, b"ok"))
            hangs = serves = server.url("/")
        else:
            server.on("/hang", hang())
            server.on("/", answer(200, b"ok"))
            hangs, serves = server.url("/hang"), server.url("/")
        given = (case, cuts, hangs, serves, recovered)
        if case.loop is None:
            outcomes = _run_threads(*given)
        elif case.loop == "trio":
            outcomes = trio.run(_run_async, *given)
        else:
            outcomes = asyncio.run(_run_async(*given))
        took = time.monotonic() - began
    if not _answered(outcomes):
        return math.inf, repr(next(each for each in outcomes if each is not True))[:100]
    return took, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.soak.pools", description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--cuts", type=int, nargs="*", default=[10, 1000])
    parser.add_argument("--only", default="", help="a part of the client's name")
    given = parser.parse_args()
    missed = 0
    for case in cases():
        if given.only not in case.name:
            continue
        for cuts in given.cuts:
            outcomes, controls = [], []
            for _ in range(given.runs):
                outcomes.append(run(case, cuts))
                controls.append(run(case, 0)[0])
            whole = sum(took < math.inf for took, _ in outcomes)
            pairs = list(zip((took for took, _ in outcomes), controls, strict=True))
            in_time = sum(took <= LIMIT_S + (own if own < math.inf else 0.0) for took, own in pairs)
            slowest = max(took for took, _ in outcomes)
            wrong = next((why for _, why in outcomes if why), "")
            missed += in_time < given.runs
            label = f"{case.name}, {case.slots} {'streams' if case.http2 else 'connections'}"
            print(
                f"{label:<41} {cuts:>5} cut off: every slot serves again in {whole:>3} of {given.runs} runs, "
                f"within {LIMIT_S:g} s in {in_time:>3}; slowest {slowest:.2f} s, "
                f"without cuts {max(controls):.2f} s  {wrong}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
