"""Runs asked for by the page: one at a time, each policy of it in a process of its own.

A run belongs to this module and not to the request that began it: when the reader closes the page, the
request is gone, and the run is stopped here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Any

from ..results.verdict_text import headline
from . import policy as page_policy
from . import scenario as page_scenario
from . import scenario_files

MOST_POLICIES = 2
LONGEST_RUN_S = 120.0
#: How long a run may take to notice that it was cancelled, before its process is ended.
GRACE_S = 2.0
KEPT_RESULTS = 8
_LONGEST_LINE = 64 * 1024 * 1024
#: A reader who falls behind misses curves, never the outcome.
_QUEUED = 16


class Busy(RuntimeError):
    """Another run is in progress."""


class RunProcess:
    """One process for runs. It is started early, and again after it had to be ended.

    There is one at a time: a new one is started when the last has gone.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._job = 0

    def warm(self) -> None:
        """Start the process unless it runs; what a job needs first is ready sooner then."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        await self._reap()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stormproof.lab.page.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            # A terminal's Ctrl-C is for the server; this ends when its input does.
            start_new_session=True,
        )
        await self._next()

    async def _next(self) -> dict[str, Any]:
        process = self._process
        line = await process.stdout.readline() if process is not None and process.stdout is not None else b""
        if not line:
            raise RuntimeError("the process of the run has ended; the lab's own output says why")
        message: dict[str, Any] = json.loads(line)
        return message

    def _write(self, message: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def play(self, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """The messages of one job. The last is ``done``, ``cancelled`` or ``error``.

        Closing the generator before that ends the process: no reader is left.
        """
        ended = False
        try:
            self.warm()
            assert self._starting is not None
            await self._starting
            self._job += 1
            self._write({**request, "job": self._job})
            while True:
                message = await self._next()
                if message.pop("job") != self._job:
                    continue
                ended = message["type"] != "progress"
                yield message
                if ended:
                    return
        finally:
            if not ended:
                self.end()

    def cancel(self) -> None:
        """Ask the running job to stop."""
        self._write({"cancel": self._job})

    def end(self) -> None:
        """End the process. The next job starts another."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        self._starting = None

    async def close(self) -> None:
        """End the process and wait until it has gone."""
        if (starting := self._starting) is not None:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        self.end()
        await self._reap()

    async def _reap(self) -> None:
        """Wait until the ended process has gone, if there is one."""
        if self._process is not None:
            # Its exit may be known before the end of its output, and only both close the transport.
            await self._process.communicate()
        self._process = None


class Run:
    """A run in progress: its jobs, and the messages for its reader."""

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self.id = secrets.token_urlsafe(12)
        self.jobs = jobs
        self.queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.cancelled = asyncio.Event()

    def send(self, message: dict[str, Any]) -> None:
        if message["type"] != "progress" or self.queue.qsize() < _QUEUED:
            self.queue.put_nowait(message)


class Runs:
    """The workers, the run in progress if any, and the last results."""

    def __init__(self) -> None:
        self._workers = [RunProcess() for _ in range(MOST_POLICIES)]
        self._current: Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._results: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._story: asyncio.Task[dict[str, Any] | None] | None = None

    def run_story(self) -> None:
        """Run the story that the page opens with."""
        if self._story is None:
            self._story = asyncio.create_task(self._first_story())

    async def story(self) -> dict[str, Any] | None:
        """Return the story's request and outcome, once it has been run; None if it could not be."""
        self.run_story()
        assert self._story is not None
        return await asyncio.shield(self._story)

    async def _first_story(self) -> dict[str, Any] | None:
        request = page_scenario.story()
        run = self.begin(request)
        assert self._task is not None
        await self._task
        data = self._results.get(run.id)
        return None if data is None else {"id": run.id, "request": request, "data": data}

    def warm(self) -> None:
        """Have the processes ready before the first run."""
        for worker in self._workers:
            worker.warm()

    def begin(self, request: object) -> Run:
        """Start a run. The request's errors come from here; `Busy` while another is in progress."""
        scenario, jobs = _jobs(request)
        if self._current is not None:
            raise Busy("another run is under way: cancel it first")
        run = self._current = Run(jobs)
        run.send(
            {
                "type": "started",
                "id": run.id,
                **page_scenario.faults(scenario),
                "duration": scenario.duration,
                "names": [job["name"] for job in jobs],
            }
        )
        self._task = asyncio.create_task(self._play(run))
        return run

    async def messages(self, run: Run) -> AsyncGenerator[bytes, None]:
        """Yield the messages of ``run``, one JSON object per line. Leaving early cancels the run."""
        try:
            while (message := await run.queue.get()) is not None:
                yield json.dumps(message, separators=(",", ":")).encode() + b"\n"
        finally:
            self.cancel(run.id)

    def cancel(self, run_id: str) -> bool:
        """Stop the run called ``run_id``; return True if it was in progress."""
        if self._current is None or self._current.id != run_id:
            return False
        self._current.cancelled.set()
        return True

    def result(self, run_id: str) -> dict[str, Any] | None:
        """The data of a finished run, if it is among the last ones."""
        return self._results.get(run_id)

    async def close(self) -> None:
        """End the run in progress and all processes."""
        if self._current is not None:
            self._current.cancelled.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(worker.close() for worker in self._workers))

    async def _play(self, run: Run) -> None:
        watcher = asyncio.create_task(self._watch(run))
        try:
            async with asyncio.timeout(LONGEST_RUN_S):
                parts = await self._every(run)
            self._finish(run, parts)
        except TimeoutError:
            run.send({"type": "error", "message": _TOO_LONG, "field": "duration"})
        except Exception as error:
            stopped = run.cancelled.is_set()
            run.send(
                {"type": "cancelled"} if stopped else {"type": "error", "message": str(error), "field": None}
            )
        finally:
            watcher.cancel()
            self._current = None
            run.queue.put_nowait(None)
            self.warm()

    async def _every(self, run: Run) -> list[dict[str, Any]]:
        """Play all policies of the run; their data. However it ends, no process is left at work on it."""
        ones = [asyncio.create_task(self._one(run, place)) for place in range(len(run.jobs))]
        try:
            return await asyncio.gather(*ones)
        finally:
            if not run.cancelled.is_set():
                for one in ones:
                    one.cancel()
            # A cancelled run is asked to stop, and its processes stay for the next one.
            await asyncio.gather(*ones, return_exceptions=True)

    async def _one(self, run: Run, place: int) -> dict[str, Any]:
        """Play one policy of the run; its data."""
        async with contextlib.aclosing(self._workers[place].play(run.jobs[place])) as messages:
            async for message in messages:
                if message["type"] == "progress":
                    run.send({**message, "run": place})
                elif message["type"] == "done":
                    data: dict[str, Any] = message["data"]
                    return data
                else:
                    raise RuntimeError(message.get("message", "the run was cancelled"))
        raise RuntimeError("the run ended without an outcome")

    async def _watch(self, run: Run) -> None:
        """Wait until the run is cancelled; then ask its processes to stop, and end those that do not."""
        await run.cancelled.wait()
        workers = self._workers[: len(run.jobs)]
        for worker in workers:
            worker.cancel()
        await asyncio.sleep(GRACE_S)
        for worker in workers:
            worker.end()

    def _finish(self, run: Run, parts: list[dict[str, Any]]) -> None:
        data = merged(parts, [job["name"] for job in run.jobs])
        self._results[run.id] = data
        while len(self._results) > KEPT_RESULTS:
            self._results.popitem(last=False)
        run.send({"type": "done", "id": run.id, "data": data})


_TOO_LONG = f"the run took longer than {LONGEST_RUN_S:g} s: choose fewer arrivals or a shorter duration"


def _jobs(request: object) -> tuple[Any, list[dict[str, Any]]]:
    """The scenario and one job per policy of a request; an error that says what is wrong with it."""
    if not isinstance(request, dict):
        raise page_scenario.BadValue("request", "a table", request)
    policies = request.get("policies")
    if not isinstance(policies, list) or not 1 <= len(policies) <= MOST_POLICIES:
        raise page_scenario.BadValue("policies", f"a list of 1 to {MOST_POLICIES}", policies)
    scenario = page_scenario.make(request.get("scenario"), request.get("values"), request.get("file"))
    common = {
        "scenario": request["scenario"],
        "values": request["values"],
        "file": request.get("file"),
        "seed": page_scenario.seed(request.get("seed")),
    }
    jobs = []
    for policy in policies:
        toml, name = text_of(policy)
        jobs.append({**common, "toml": toml, "name": page_policy.read(toml, name).name})
    return scenario, jobs


def to_policy_file(request: Any) -> str:
    """Return what a run was asked as a policy file: the scenario and its policies."""
    scenario, jobs = _jobs(request)
    sheets = [page_policy.read(job["toml"], job["name"]) for job in jobs]
    return scenario_files.to_policy_file(request["scenario"], scenario, sheets)


def text_of(policy: object) -> tuple[str, str | None]:
    """The text of a policy in a request, and which policy of it is meant."""
    if not isinstance(policy, dict) or not isinstance(policy.get("toml"), str):
        raise page_scenario.BadValue("toml", "text", policy)
    name = policy.get("name")
    if name is not None and not isinstance(name, str):
        raise page_scenario.BadValue("name", "text", name)
    return policy["toml"], name


def merged(parts: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """The data of several runs of one scenario as one result."""
    runs = [{**part["runs"][0], "name": name} for part, name in zip(parts, names, strict=True)]
    engines = list(dict.fromkeys(part["engine"] for part in parts))
    return {**parts[0], "engine": ", ".join(engines), "headline": headline(runs), "runs": runs}
