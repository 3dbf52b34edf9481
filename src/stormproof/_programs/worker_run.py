"""One run of a worker: its open jobs, their outcomes, and the end of the run.

Nothing here calls a handler, waits or reads a queue; `worker_lanes` does, in threads or in tasks.
"""

from __future__ import annotations

from contextlib import contextmanager

from .._context.deadlines import Scope, ambient
from .._drivers.waiter import Waiter
from .._events import bus, labels
from .._primitives.errors import Cancelled, DeadlineExceeded
from .._runtime import clock as _clock
from .._runtime.locks import guard
from .signals import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any, Protocol

    from .._strategies.protocol import Env

    class Worker(Protocol):
        """The worker as its run sees it: options to read, and counts to add to."""

        concurrency: int
        deadline: float | None
        drain: float
        requeue: Callable[[Any], Any] | None
        dead_letter: Callable[[Any, BaseException], Any] | None

        @property
        def operation(self) -> str: ...
        def count(self, **changes: int) -> None: ...

    #: Yields the awaitables that callbacks return; an error of awaiting them is thrown back in.
    Settling = Generator[Any, None, None]

#: Time that cancelled jobs have to end, unless the run was asked to stop twice ...
GRACE_S = 1.0
#: ... and then, before they are left behind.
SHORT_GRACE_S = 0.2


class WorkerStopped(Cancelled):
    """The worker ended before this job did. The job may have been done in part, or even in full."""

    reason = "shutdown"


class OpenJob:
    """A job that was taken, and is settled exactly once."""

    __slots__ = ("job", "scope")

    def __init__(self, job: object, scope: Scope) -> None:
        self.job = job
        self.scope = scope


class WorkerRun:
    """State of one run of a worker."""

    def __init__(self, worker: Worker, env: Env, done: Callable[[], object] | None) -> None:
        self.worker = worker
        self.env = env
        self.operation = worker.operation
        #: Notifies the queue that a job it gave is settled.
        self.done = done
        self.lanes = worker.concurrency
        #: Function with which a job's thread awaits the result of a plain handler.
        self.await_in_thread: Callable[[Any], Any] = lambda awaitable: awaitable
        #: Number of requests to stop the run: the first lets running jobs end, the second does not.
        self.stops = 0
        #: From the end of the drain on. A lane that comes back with a job even later gives it away.
        self.cancelling = False
        #: Error of the source of jobs.
        self.error: BaseException | None = None
        self._open: set[OpenJob] = set()
        self._takers: set[Scope] = set()
        self._bell: Waiter | None = None
        self._outer = ambient()
        self._lock = guard(self)

    # Called from signal handlers too, so this takes no lock.

    def stop(self, now: bool = False) -> None:
        """Take no more jobs; ``now`` (or a second time): do not wait for those that run either."""
        self.stops = 2 if now or self.stops else 1
        for scope in tuple(self._takers):
            scope.cancel()
        self.ring()

    def ring(self) -> None:
        """Wake the watcher."""
        if (bell := self._bell) is not None:
            bell.grant()

    def bell(self) -> Waiter:
        """Return the event to wait on until `ring`."""
        self._bell = bell = Waiter()
        return bell

    # Taking jobs.

    @contextmanager
    def taking(self) -> Iterator[bool]:
        """Wait for a job inside, until `stop` ends that quietly; gives False if none is wanted any more."""
        scope = Scope(None, "taking a job")
        self._takers.add(scope)
        try:
            if self.stops or self.error is not None:
                yield False
                return
            with scope:
                yield True
        except Cancelled:
            if not scope.cancelled:
                raise
        finally:
            self._takers.discard(scope)

    def open(self, job: object) -> OpenJob:
        """Record that a job was taken."""
        open_job = OpenJob(job, Scope(self.worker.deadline, self.operation, self.env.clock))
        self.worker.count(taken=1)
        with self._lock:
            self._open.add(open_job)
        if self.cancelling:
            open_job.scope.cancel()
        return open_job

    def lane_ended(self, error: BaseException | None = None) -> None:
        """Record that a lane takes no more jobs; ``error``: because the source of jobs failed."""
        with self._lock:
            self.lanes -= 1
        if error is not None:
            self.fail(error)
        self.ring()

    def fail(self, error: BaseException) -> None:
        """End the run with ``error``, when the jobs in flight have ended."""
        if self.error is None:
            self.error = error
        if not self.stops:
            self.stop()

    # The end of a job.

    def settle(self, open_job: OpenJob, error: BaseException | None) -> Settling:
        """Settle a job: done, handed back to the queue, or given to the dead letters."""
        with self._lock:
            if open_job not in self._open:
                return
            self._open.discard(open_job)
        outcome = self._outcome(error)
        if outcome == "unfinished" and self.worker.requeue is not None:
            if (yield from self._notify("requeue", open_job.job)):
                outcome = "requeued"
        if outcome in ("failed", "unfinished"):
            visible = self.stopped_error(error) if outcome == "unfinished" else error
            if not (yield from self._dead_letter(open_job.job, outcome, visible)):
                self.worker.count(undelivered=1)
        self.worker.count(**{outcome: 1})
        bus.publish("JobEnded", operation=self.operation, outcome=outcome, error=labels.error_name(error))
        if self.done is not None:
            self.done()
        self.ring()

    def _outcome(self, error: BaseException | None) -> str:
        if error is None:
            return "succeeded"
        if isinstance(error, WorkerStopped) or (self.cancelling and isinstance(error, Cancelled)):
            return "unfinished"
        if isinstance(error, (Cancelled, DeadlineExceeded)) and self._is_outer_over():
            # The scope around the whole run has ended, and this job has noticed before its owner did.
            self.fail(error)
            return "unfinished"
        return "failed"

    def _is_outer_over(self) -> bool:
        return self._outer is not None and self._outer.ended() is not None

    def stopped_error(self, cause: BaseException | None = None) -> WorkerStopped:
        """Return the error that an unfinished job is given up with."""
        if isinstance(cause, WorkerStopped):
            return cause
        error = WorkerStopped(f"{self.operation}: stopped before the job was done")
        error.__cause__ = cause
        return error

    def _dead_letter(
        self, job: object, outcome: str, error: BaseException | None
    ) -> Generator[Any, None, bool]:
        if self.worker.dead_letter is not None:
            return (yield from self._notify("dead_letter", job, error))
        complain(f"{self.operation}: a job {_WORDS[outcome]}, and the worker has no dead_letter", error)
        return False

    def _notify(self, name: str, *args: object) -> Generator[Any, None, bool]:
        """Call the worker's callback ``name``; return True if it succeeded."""
        try:
            yield getattr(self.worker, name)(*args)
        except (Exception, SystemExit) as error:
            complain(f"{self.operation}: {name} failed, and a job is lost with it", error)
            return False
        return True

    # The end of the run.

    def watch(self) -> Generator[float | None, bool, None]:
        """The run as its watcher drives it: yields how long to wait for a `ring` (``None``: for
        ever), is sent whether it came."""
        while self.lanes and not self.stops:
            yield None
        yield from self._until_idle(self.worker.drain, 2)
        yield from self.wind_up()

    def wind_up(self) -> Generator[float | None, bool, None]:
        """Cancel the jobs that still run, and give them a moment to end."""
        if self.lanes:
            self.cancel()
            yield from self._until_idle(GRACE_S, 2)
            yield from self._until_idle(SHORT_GRACE_S, 3)

    def _until_idle(self, seconds: float, enough: int) -> Generator[float | None, bool, None]:
        """Wait until every lane has ended, ``seconds`` have passed, or ``enough`` stops were requested."""
        now = _clock.AMBIENT.now
        end = now() + seconds
        while self.lanes and self.stops < enough and (left := end - now()) > 0:
            if not (yield left):
                return

    def cancel(self) -> None:
        """Cancel every job that runs."""
        self.cancelling = True
        for open_job in self.open_jobs():
            open_job.scope.cancel()

    def open_jobs(self) -> list[OpenJob]:
        """The jobs that were taken and are not settled."""
        with self._lock:
            return list(self._open)


_WORDS = {"failed": "failed for good", "unfinished": "was left unfinished"}
