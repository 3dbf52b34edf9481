"""A worker: runs jobs from a queue or an iterable concurrently, retries them, and loses none at shutdown."""

from __future__ import annotations

import functools

from .._policy.policy import Policy
from .._primitives.options import Options, Seconds, count, hook, seconds
from .._runtime import interrupts
from .._runtime.function_kind import function_kind
from .._runtime.locks import guard
from .._strategies.protocol import Env
from . import signals as _handlers
from . import worker_lanes as _jobs
from .job_sources import Source
from .worker_run import WorkerRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Stats(Options):
    """Counts of a worker's jobs by outcome, over all its runs.

    ``taken`` is all of them. ``failed`` went to the dead letters for what they raised, ``unfinished``
    because the worker ended first, ``requeued`` back to where they came from for the same reason.
    ``undelivered`` counts those of the failed and unfinished whose ``dead_letter`` failed or was missing.
    """

    def __init__(
        self,
        taken: int = 0,
        succeeded: int = 0,
        failed: int = 0,
        unfinished: int = 0,
        requeued: int = 0,
        undelivered: int = 0,
    ) -> None:
        self.taken = taken
        self.succeeded = succeeded
        self.failed = failed
        self.unfinished = unfinished
        self.requeued = requeued
        self.undelivered = undelivered

    @property
    def running(self) -> int:
        """Number of jobs in flight."""
        return self.taken - self.succeeded - self.failed - self.unfinished - self.requeued


class Worker(Options):
    """Calls ``handler(job)`` for every job: at most ``concurrency`` at once, each under ``policy``.

    ``handler`` may be async or not; a plain one runs in threads, and what it returns is awaited if it
    can be (``lambda job: handle(job)``). ``deadline`` is the time for one job,
    retries and waits included (ambient inside it), ``None``: no limit. A job that fails for good goes
    to ``dead_letter(job, error)``, and the worker goes on. ``policy=None`` tries each job once.

    On a signal of ``signals`` (or ``stop()``) it takes no more jobs and gives those in flight ``drain``
    seconds; 0 gives none. Then they are cancelled, and a job that is still not done goes to
    ``requeue(job)`` if there is one, else to ``dead_letter(job, error)`` with a `WorkerStopped`, whose
    ``reason`` is "shutdown". A second signal does not wait. Callbacks may be async.
    """

    def __init__(
        self,
        handler: Callable[[Any], Any],
        *,
        policy: Policy | None = None,
        concurrency: int = 8,
        deadline: Seconds | None = None,
        dead_letter: Callable[[Any, BaseException], Any] | None = None,
        drain: Seconds = 30.0,
        requeue: Callable[[Any], Any] | None = None,
        signals: tuple[str, ...] = ("SIGTERM",),
        name: str | None = None,
    ) -> None:
        if not callable(handler) or function_kind(handler) not in ("sync", "async"):
            raise TypeError(f"Worker: handler must be a function or coroutine function, got {handler!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"Worker: policy must be a Policy or None, got {policy!r}")
        if name is not None and (not isinstance(name, str) or not name):
            raise ValueError(f"Worker: name must be a non-empty string or None, got {name!r}")
        self.handler = handler
        self.policy = policy
        self.concurrency = count("Worker", "concurrency", concurrency)
        self.deadline = None if deadline is None else seconds("Worker", "deadline", deadline, above=0)
        self.dead_letter = hook("Worker", "dead_letter", dead_letter)
        self.drain = seconds("Worker", "drain", drain)
        self.requeue = hook("Worker", "requeue", requeue)
        self.signals: tuple[str, ...] = _signals(signals)
        self.name = name
        self._call = self._wrap(handler) if policy is None else policy(self._wrap(handler))
        self._run: WorkerRun | None = None
        self._stats: dict[str, int] = Stats().fields()
        self._lock = guard(self)

    def _wrap(self, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return ``handler``; the result of a plain one is awaited, inside the policy."""
        if function_kind(handler) == "async":
            return handler

        @functools.wraps(handler, updated=())
        def handled(job: object) -> Any:
            result = handler(job)
            if not hasattr(result, "__await__") or (run := self._run) is None:
                return result
            return run.await_in_thread(result)

        return handled

    # Running.

    def run(self, jobs: object) -> Stats:
        """Handle ``jobs`` (a queue, or an iterable) until they end or the worker is asked to stop.

        In threads; in an event loop of its own if the handler, a callback or the source is async.
        What the source of jobs raises is raised here, after the jobs in flight have been settled.
        """
        if interrupts.library() is not None:
            raise RuntimeError("Worker: run() would block the event loop that runs here; use run_async()")
        source = Source(jobs)
        if source.is_async or "async" in map(_kind, (self.handler, self.dead_letter, self.requeue)):
            import asyncio

            return asyncio.run(self.run_async(jobs))
        run = self._begin(source)
        try:
            with _handlers.catching(self.signals, run.stop):
                _jobs.run_threads(run, source, self._call)
        finally:
            self._run = None
        return self._end(run)

    async def run_async(self, jobs: object) -> Stats:
        """The same in tasks, under asyncio or trio; ``jobs`` may be an async queue or iterable too.

        A plain handler runs in threads. A plain iterable is read in the event loop and must not block.
        Cancelling this is a stop that waits for nothing: the jobs in flight are cancelled and settled.
        """
        source = Source(jobs)
        run = self._begin(source)
        try:
            with _handlers.catching(self.signals, run.stop):
                await _jobs.run_tasks(run, source, self._call, _kind(self.handler) == "sync")
        finally:
            self._run = None
        return self._end(run)

    def _begin(self, source: Source) -> WorkerRun:
        with self._lock:
            if self._run is not None:
                raise RuntimeError("Worker: it is running already; make another one")
            run = WorkerRun(self, Env(self.policy or Policy(), self.handler), source.done)
            self._run = run
        return run

    def _end(self, run: WorkerRun) -> Stats:
        if run.error is not None:
            raise run.error
        return self.stats

    def stop(self, *, now: bool = False) -> None:
        """Take no more jobs and end when those in flight have; from any thread, task or signal handler.

        A second call, or ``now=True``, does not wait for them. Without a run in progress it does nothing.
        """
        if (run := self._run) is not None:
            run.stop(now)

    # Looking at it.

    @property
    def stopping(self) -> bool:
        """True once the run in progress was asked to stop; a source that blocks may check it."""
        return (run := self._run) is not None and run.stops > 0

    @property
    def stats(self) -> Stats:
        """The counts of this moment."""
        with self._lock:
            return Stats(**self._stats)

    @property
    def operation(self) -> str:
        """Name in events and errors: its own, the policy's, or the handler's."""
        return self.name or Env(self.policy or Policy(), self.handler).operation()

    def count(self, **more: int) -> None:
        """Add to the counts."""
        with self._lock:
            for name, number in more.items():
                self._stats[name] += number

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the counts of this moment."""
        return {**super().describe(), "stats": self.stats.describe()}

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _kind(fn: object) -> str:
    return "sync" if fn is None else function_kind(fn)


def _signals(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, (tuple, list)):
        raise TypeError(f"Worker: signals must be a tuple of names such as ('SIGTERM',), got {names!r}")
    for name in names:
        if not isinstance(name, str) or _handlers.number_of(name) is None:
            raise ValueError(f"Worker: signals must name signals such as 'SIGTERM', got {name!r}")
    return tuple(names)
