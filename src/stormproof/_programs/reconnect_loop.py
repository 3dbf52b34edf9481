"""The time of the next connect: the rule behind `reconnecting`.

A streak is what lies between two connections that stayed alive: the connects that failed, and the
connections that were lost too soon. It is one retried call (`retry.call`), in which an attempt is
a connect together with the life of the connection it made.
"""

from __future__ import annotations

from .._classify.verdict import Verdict
from .._context.attempts import Attempt
from .._context.deadlines import bypass
from .._events import bus, labels
from .._primitives.options import seconds
from .._strategies.retry.call import RetriedCall
from .._strategies.retry.rules.decision import Stop
from .._strategies.retry.rules.waits import spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from .._context.attempts import Outcome
    from .._strategies.protocol import Env
    from .._strategies.retry.retry import Retry

    #: Yields an `Attempt` to be made (its outcome is sent back) or seconds to be slept; returns the outcome.
    Flow = Generator[Attempt | float, Any, Outcome]


class ConnectionLost(ConnectionError):
    """The connection ended, and the code that used it did not say with what error."""


class _Streak(RetriedCall):
    """One streak: the rule of the retry loop, with a wider spread after a connection was lost."""

    __slots__ = ("connected", "dropped", "rejoins", "stayed", "waits")
    plans = True

    def __init__(self, retry: Retry, env: Env, rejoins: bool) -> None:
        super().__init__(retry, retry.budget, env, env.operation(), env.owner(()))
        self.known = {}
        #: True after a connection that was stable: then there is a wait before the first connect, too.
        self.rejoins = rejoins
        #: When the connection at hand was made, and whether it has lived long enough.
        self.connected = 0.0
        self.stayed = False
        #: True if the current failure is a lost connection, which many clients may have lost at once.
        self.dropped = False
        #: True if the current wait is one between two connects.
        self.waits = False

    def judge_error(self, error: BaseException) -> Verdict:
        # A connection that was lost without an error is always followed by another.
        return Verdict.RETRY if isinstance(error, ConnectionLost) else super().judge_error(error)

    def next(self, verdict: Any, now: float, draw: Callable[[], float], scope: Any) -> float | Stop:
        # The first connect of a streak is not a retry: a process that holds a thousand connections may
        # connect a thousand times after a restart of the server, if only it takes its time.
        budget, self.budget = self.budget, self.budget if self.number else None
        try:
            return super().next(verdict, now, draw, scope)
        finally:
            self.budget = budget

    def _planned_wait(self, verdict: Any, draw: Callable[[], float]) -> float:
        backoff = self.retry.backoff
        place = self.number - 1 + self.rejoins
        if self.dropped:
            longest = seconds("backoff", "delay", backoff.delay(place, self.previous_wait, 1.0))
            own = max(float(getattr(backoff, "min", 0.0)), longest * draw())
        else:
            own = seconds("backoff", "delay", backoff.delay(place, self.previous_wait, draw()))
        self.previous_wait = own
        return own if verdict.after is None else spread(own, verdict.after, draw)

    def _elapsed(self) -> float:
        # It succeeded when it connected, not now that the connection is over.
        if self.stayed and self.first_failure_at is not None:
            return self.connected - self.first_failure_at
        return super()._elapsed()


def _follow(streak: _Streak, lost: Exception | None, alive: float) -> Flow:
    """The steps of one streak; ``lost`` is how a connection that had stayed alive ended before it."""
    if lost is not None:
        streak.dropped = True
        wait = streak.after(None, lost, announce=False)
        _emit_lost(streak, lost, alive, wait if streak.stop is None else None)
        if wait is not None:
            yield wait
            if streak.stop is None:
                streak.wake()
        if streak.stop is not None:
            return streak.give_up(None, lost)
        # `within` counts from the first connect that fails, not from the loss.
        streak.first_failure_at = None
        # Its traceback must not live as long as the next connection.
        del lost
        streak.visible_error = streak.reached = None
    error: Exception | None = None
    while True:
        _, error = yield streak.begin(error)
        wait = streak.after(None, error)
        if wait is not None:
            streak.waits = streak.stop is None
            try:
                yield wait
            except BaseException:
                streak.interrupt()
                raise
            streak.wake()
        elif streak.stop is None:
            return None, None
        if streak.stop is not None:
            return streak.give_up(None, error)


def _plain(operation: str) -> Flow:
    """A plain connect, at once, for when policies are off."""
    outcome: Outcome = yield Attempt(operation, 1, None)
    return outcome


def _emit_lost(streak: _Streak, error: Exception, alive: float, wait: float | None) -> None:
    bus.publish(
        "Disconnected", operation=streak.operation, alive=alive, error=labels.error_name(error), wait=wait
    )


class ReconnectLoop:
    """One loop over connections: its next step, and the outcome of the last one."""

    def __init__(self, retry: Retry, env: Env, stable: float) -> None:
        self._retry = retry
        self._env = env
        self._stable = stable
        #: Error with which the connection was lost, as reported by the code that uses it.
        self.reported: Exception | None = None
        self._reply: object = None
        self._lost: tuple[Exception | None, float] = (None, 0.0)
        self._start()

    def _start(self) -> None:
        (lost, alive), self._lost = self._lost, (None, 0.0)
        #: True if policies are switched off here.
        self.off = bypass()
        self._streak = _Streak(self._retry, self._env, lost is not None)
        self._flow = _plain(self._streak.operation) if self.off else _follow(self._streak, lost, alive)

    def retried(self, wait: float) -> tuple[Any, ...] | None:
        """The call of `on_retry` that is due before ``wait``, as the drivers' `call_hook` takes it."""
        streak, on_retry = self._streak, self._retry.on_retry
        if on_retry is None or not streak.waits:
            return None
        error = streak.visible_error
        return "on_retry", on_retry, error, streak.attempt((), {}), error, wait

    def step(self) -> Attempt | float:
        """A connect to be made, or seconds to be slept. Raises when there is nothing more to try."""
        while True:
            reply, self._reply = self._reply, None
            try:
                return self._flow.send(reply)
            except StopIteration as stop:
                error = stop.value[1]
            if error is not None:
                try:
                    raise error
                finally:
                    del error, reply
            self._start()

    def failed(self, error: Exception) -> None:
        """The connect failed."""
        self._streak.dropped = False
        self._reply = (None, error)

    def connected(self) -> None:
        """The connect succeeded; the connection is handed out."""
        self._streak.connected = self._streak.now()
        bus.publish("Connected", operation=self._streak.operation, attempts=self._streak.number or 1)

    def ended(self) -> None:
        """Record that the connection ended: it was lost, or the next one is wanted for another reason."""
        streak = self._streak
        alive = streak.now() - streak.connected
        error, self.reported = self.reported, None
        if error is None:
            error = ConnectionLost(f"{streak.operation}: the connection ended after {alive:.3g} s")
        if self.off or alive >= self._stable:
            streak.stayed = True
            self._lost = (error, alive)
            self._reply = (None, None)
            if self.off:
                _emit_lost(streak, error, alive, None)
        else:
            streak.dropped = True
            self._reply = (None, error)
            _emit_lost(streak, error, alive, None)

    def is_tolerable(self, error: Exception) -> bool:
        """Return True if a new connection may cure ``error``."""
        verdict = self._streak.judge(None, error)
        return verdict is not None and verdict.retry
