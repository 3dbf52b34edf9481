"""The deadline strategy: the ambient deadline of everything inside it."""

from __future__ import annotations

from .._context.deadlines import Scope, check
from .._primitives import options
from .._primitives.options import Options, Seconds
from .._runtime.interrupts import Timers
from .protocol import CallWrapper, Env
from .scoped_call import scoped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .protocol import Fn


class Deadline(CallWrapper, Options):
    """The strategy: total time for everything inside, retries and waits included.

    The clock starts with the call. 0 lets no attempt start.
    """

    def __init__(self, seconds: Seconds) -> None:
        self.seconds: float = options.seconds("Deadline", "seconds", seconds)

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        timers = Timers(self.seconds) if is_async else None
        # The gate has just looked at the scopes around; without it, or without time, it is done here.
        checks = not env.outermost or self.seconds == 0.0
        return scoped(Scope, self.seconds, call, env, like, timers, check if checks else None)
