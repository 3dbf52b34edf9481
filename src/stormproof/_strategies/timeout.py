"""The timeout of one attempt."""

from __future__ import annotations

from .._context.deadlines import Scope
from .._drivers import threads
from .._primitives.errors import AttemptTimeout, StormproofError
from .._primitives.options import Options, Seconds, flag
from .._primitives.options import seconds as _seconds
from .._runtime.interrupts import Sleeper, Timers
from .protocol import CallWrapper, Env
from .scoped_call import scoped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocol import Fn


class AttemptScope(Scope):
    """The time of one attempt: its end is transient, where a deadline's is final."""

    kind = "timeout"

    def late(self, message: str) -> StormproofError:
        return AttemptTimeout(message)

    def refusal(self) -> StormproofError:
        if self.cancelled:
            return super().refusal()
        return AttemptTimeout(f"an attempt of {self.name!r} took longer than {self.limit:g} s")


class Timeout(CallWrapper, Options):
    """One attempt may take ``seconds``; after that `AttemptTimeout`, and perhaps another attempt.

    An async attempt is cancelled. A sync one cannot be interrupted: the ambient deadline inside
    shrinks, so that waits and clients stop in time, and a success that comes late is still
    returned. ``thread=True`` runs the attempt in a worker thread instead and leaves it behind when
    the time is up: the caller is free, the work goes on until it notices its cancelled scope.
    """

    def __init__(self, seconds: Seconds, *, thread: bool = False) -> None:
        self.seconds = _seconds("Timeout", "seconds", seconds, above=0)
        self.thread = flag("Timeout", "thread", thread)

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        def left_behind(*args: object, **kwargs: object) -> Any:
            with AttemptScope(self.seconds, env.operation(args), env.clock) as scope:
                bell = Sleeper()
                job = threads.start(bell, call, args, kwargs)
                try:
                    while not job.done:
                        threads.wait(bell, None, lambda: job.done)
                        if not job.done and (ended := scope.ended()) is not None:
                            raise ended.refusal()
                except BaseException:
                    scope.cancel()
                    raise
                return job.result()

        if self.thread and not is_async:
            return left_behind
        return scoped(
            AttemptScope, self.seconds, call, env, like, Timers(self.seconds) if is_async else None, None
        )
