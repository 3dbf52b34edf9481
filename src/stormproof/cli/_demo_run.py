"""One run of the demo: two server processes, two lanes of callers, the same arrivals."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from . import _demo_server
from ._demo_callers import Lane, naive, with_stormproof

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from ._demo_metrics import Series
    from ._demo_scenario import DemoScenario

START_S = 10.0
STOP_S = 3.0


class CannotRun(Exception):
    """The demo cannot be played here, and why."""


class Server:
    """A server process: where it listens, and its reports, which go to ``series``."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.port = port
        self._process = process
        self._ending = False

    def start_clock(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    def end(self) -> None:
        """Ask the process for its last report, and to end."""
        assert self._process.stdin is not None
        self._ending = True
        self._process.stdin.close()

    async def report_to(self, series: Series) -> None:
        """Feed the reports in until the process ends, which must not happen before it is asked to."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            series.add_report(json.loads(line))
        if not self._ending:
            raise CannotRun("the demo's server ended before the demo did")


@asynccontextmanager
async def server(scenario: DemoScenario) -> AsyncIterator[Server]:
    """A running server process; leaving the block ends it, whatever happened inside."""
    options = {
        "--capacity": scenario.capacity_rps,
        "--hang-at": scenario.outage_at_s,
        "--hang-for": scenario.outage_s,
        "--bucket": scenario.bucket_s,
        "--files": scenario.open_files,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(Path(_demo_server.__file__)),
        *(f"{name}={value}" for name, value in options.items()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the server
    )
    try:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                line = await process.stdout.readline()
        except TimeoutError:
            raise CannotRun(f"the demo's server did not start within {START_S:g} s") from None
        if not line:
            raise CannotRun("the demo's server did not start")
        yield Server(process, json.loads(line)["port"])
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_S):
            # Reading to the end, because a process blocked on a full pipe would not see its stdin close.
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()


def _first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that ended a run; the others in the group follow from it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class DemoRun:
    """Both lanes and the common clock. ``lag_s`` is how late the worst call was begun by a busy machine."""

    def __init__(self, scenario: DemoScenario) -> None:
        self.scenario = scenario
        self.lanes = (
            Lane("naive", naive(scenario), scenario),
            Lane("stormproof", with_stormproof(scenario), scenario),
        )
        self.lag_s = 0.0
        self._zero: float | None = None

    def now(self) -> float:
        """Seconds since the first moment of traffic; 0 before it."""
        return 0.0 if self._zero is None else asyncio.get_running_loop().time() - self._zero

    @property
    def reliable(self) -> bool:
        """Return True if the machine kept up: the callers themselves were never a bucket late."""
        return self.lag_s <= self.scenario.bucket_s

    async def play(self, watch: Callable[[DemoRun], None], every_s: float) -> None:
        """Play the scenario to the last call's end; ``watch`` is called every ``every_s`` seconds."""
        allowed = _demo_server.allow_open_files(self.scenario.open_files)
        if allowed < self.scenario.open_files:
            needed = self.scenario.open_files
            raise CannotRun(f"needs {needed} open files, {allowed} are allowed: see ulimit -n")
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(server(self.scenario)) for _ in self.lanes]
            try:
                await self._play(servers, watch, every_s)
            except BaseExceptionGroup as group:
                raise _first_failure(group) from group

    async def _play(
        self, servers: Sequence[Server], watch: Callable[[DemoRun], None], every_s: float
    ) -> None:
        self._zero = asyncio.get_running_loop().time()
        for one in servers:
            one.start_clock()
        async with asyncio.TaskGroup() as aside:
            for one, lane in zip(servers, self.lanes, strict=True):
                aside.create_task(one.report_to(lane.series))
            watching = aside.create_task(self._watch(watch, every_s))
            await self._traffic([one.port for one in servers])
            watching.cancel()
            for one in servers:
                one.end()

    async def _watch(self, watch: Callable[[DemoRun], None], every_s: float) -> None:
        ticks = 0
        while True:
            ticks += 1
            await asyncio.sleep(ticks * every_s - self.now())
            watch(self)

    async def _traffic(self, ports: Sequence[int]) -> None:
        async with asyncio.TaskGroup() as calls:
            for at_s in self.scenario.arrivals():
                if at_s > self.now():
                    await asyncio.sleep(at_s - self.now())
                self.lag_s = max(self.lag_s, self.now() - at_s)
                for lane, port in zip(self.lanes, ports, strict=True):
                    calls.create_task(lane.call(port, self.now))
