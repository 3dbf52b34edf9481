"""`python -m verification.soak.pools`: overload and recovery of every client with a bounded pool.

Each run cuts off many requests to a path that is not answered, and then makes as many requests at once to
one that is as the pool has places (on HTTP/2: as the connection has streams). Every one of them must be
answered. In the same moment a second client of the same kind, of which none was cut off, makes the same
requests: the first may take a second longer than that, however busy the machine is. The server is a process
of its own, so that closing what was cut off does not count as the client's time.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, replace
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
CUT_S = 0.03
CUT = sp.Policy(sp.Timeout(CUT_S))
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
    #: The same client without a policy, cut off by timeouts of its own, where even that does not recover
    #: every time. The client with a policy must then recover as often as that, or as the one beside it, of
    #: which none was cut off.
    plain: Callable[[Any, int], Get] | None = None


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


def _plain_http2(module: Any) -> Callable[[Any, int], Get]:
    def opened(stack: ExitStack, slots: int) -> Get:
        limits = module.Limits(max_connections=1)
        inner = module.HTTPTransport(limits=limits, http1=False, http2=True, verify=False)
        client = module.Client(transport=inner, timeout=5, trust_env=False)
        stack.callback(client.close)

        def get(url: str, policy: sp.Policy) -> bool:
            seconds = CUT_S if policy is CUT else 10 * LIMIT_S
            return bool(client.get(url, timeout=seconds).status_code == 200)

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
        # Timeouts in a hundred threads on one HTTP/2 connection break these clients by themselves.
        opened, plain = _httpx_sync(module, door, True), _plain_http2(module)
        made.append(Case(f"{name} threads HTTP/2", 100, True, None, opened, plain))
    for slots in (1, 5, 100):
        made.append(Case("aiohttp", slots, False, "asyncio", _aiohttp))
        made.append(Case("requests", slots, False, None, _requests))
        made.append(Case("urllib3", slots, False, None, _urllib3))
    return made


@dataclass
class Recovery:
    """How one run ended: seconds until all slots had served, of the client and of the one beside it.

    ``math.inf`` if one did not; then ``error`` is the first thing that went wrong with the client.
    """

    seconds: float
    control_s: float
    error: str = ""

    @property
    def is_whole(self) -> bool:
        return self.seconds < math.inf

    @property
    def is_in_time(self) -> bool:
        beside = self.control_s if self.control_s < math.inf else 0.0
        return self.seconds - beside <= LIMIT_S


def _recovery(began: float, ends: list[Any]) -> Recovery:
    """``ends``: when each request was answered, or its error; the two clients' in turn."""
    errors = [repr(each)[:100] for each in ends[::2] if not isinstance(each, float)]
    seconds, control_s = (
        max(each if isinstance(each, float) else math.inf for each in one) - began
        for one in (ends[::2], ends[1::2])
    )
    return Recovery(seconds, control_s, next(iter(errors), ""))


async def _together(loop: str, fns: list[Callable[[], Awaitable[bool]]]) -> list[Any]:
    """When each of ``fns`` had its answer, or the error that it ended with."""
    ends: list[Any] = [None] * len(fns)

    async def note(place: int) -> None:
        try:
            ends[place] = time.monotonic() if await fns[place]() else None
        except Exception as error:
            ends[place] = error

    if loop == "trio":
        async with trio.open_nursery() as nursery:
            for place in range(len(fns)):
                nursery.start_soon(note, place)
    else:
        await asyncio.gather(*map(note, range(len(fns))))
    return ends


async def _run_async(case: Case, cuts: int, url: str) -> Recovery:
    assert case.loop is not None
    async with AsyncExitStack() as stack:
        get, other = (case.open(stack, case.slots) for _ in range(2))
        for done in range(0, cuts, 100):
            await _together(case.loop, [lambda: get(url + "/hang", CUT)] * min(100, cuts - done))
        pair = [lambda: get(url + "/", PLAIN), lambda: other(url + "/", PLAIN)]
        began = time.monotonic()
        return _recovery(began, await _together(case.loop, pair * case.slots))


def _run_threads(case: Case, cuts: int, url: str) -> Recovery:
    def note(get: Get, path: str, policy: sp.Policy) -> Any:
        try:
            return time.monotonic() if get(url + path, policy) else None
        except Exception as error:
            return error

    with ExitStack() as stack, ThreadPoolExecutor(max(2 * case.slots, 32)) as threads:
        get, other = (case.open(stack, case.slots) for _ in range(2))
        list(threads.map(lambda _: note(get, "/hang", CUT), range(cuts)))
        began = time.monotonic()
        return _recovery(
            began, list(threads.map(lambda each: note(each, "/", PLAIN), [get, other] * case.slots))
        )


def run(case: Case, cuts: int, url: str) -> Recovery:
    """One run against the server at ``url``."""
    if case.loop is None:
        return _run_threads(case, cuts, url)
    if case.loop == "trio":
        return trio.run(_run_async, case, cuts, url)
    return asyncio.run(_run_async(case, cuts, url))


def _serve(pipe: Any) -> None:
    with Server() as server, H2Server() as h2_server:
        server.on("/hang", hang())
        server.on("/", answer(200, b"ok"))
        h2_server.on("/hang", lambda request: None)
        h2_server.on("/", say(200, b"ok"))
        pipe.send((server.url(""), h2_server.url("")))
        pipe.recv()


@contextmanager
def serving() -> Iterator[tuple[str, str]]:
    """The URLs of a server of HTTP/1.1 and one of HTTP/2, both in another process."""
    spawn = multiprocessing.get_context("spawn")
    near, far = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(far,))
    process.start()
    try:
        yield near.recv()
    finally:
        near.send(None)
        process.join()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.soak.pools", description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--cuts", type=int, nargs="*", default=[10, 1000])
    parser.add_argument("--only", default="", help="a part of the client's name")
    given = parser.parse_args()
    missed = 0
    head = f"| client | cut off | all slots serve again | within {LIMIT_S:g} s | slowest "
    print(f"{head}| beside it, none cut off | slowest |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for case in cases():
        if given.only not in case.name:
            continue
        with serving() as urls:
            for cuts in given.cuts:
                url = urls[case.http2]
                runs = [run(case, cuts, url) for _ in range(given.runs)]
                in_time, least = _show(case, cuts, runs), given.runs
                if case.plain is not None:
                    own = replace(case, name=f"{case.name}, no policy", open=case.plain)
                    beside = sum(each.control_s < math.inf for each in runs)
                    least = min(beside, _show(own, cuts, [run(own, cuts, url) for _ in range(given.runs)]))
                    # As many misses by chance are no finding.
                    least -= round(2 * math.sqrt(given.runs - least + 1))
                missed += in_time < least
    return 1 if missed else 0


def _show(case: Case, cuts: int, runs: list[Recovery]) -> int:
    """Print the row of ``runs``; return how many of them were in time."""
    in_time = sum(each.is_in_time for each in runs)

    def column(times: list[float]) -> str:
        served = [each for each in times if each < math.inf]
        return f"{len(served)} of {len(runs)} | {{}}{max(served, default=math.inf):.2f} s"

    name = f"{case.name}, {case.slots} {'streams' if case.http2 else 'connections'}"
    own = column([each.seconds for each in runs]).format(f"{in_time} of {len(runs)} | ")
    beside = column([each.control_s for each in runs]).format("")
    print(f"| {name} | {cuts:,} | {own} | {beside} |", flush=True)
    for error in {each.error for each in runs} - {""}:
        print(error, file=sys.stderr)
    return in_time


if __name__ == "__main__":
    sys.exit(main())
