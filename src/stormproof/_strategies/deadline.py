"""The deadline strategy: the ambient deadline of everything inside it."""

from __future__ import annotations

from .._context.deadlines import Scope, check
from .._primitives import options
from .._primitives.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._primitives.options import Seconds
    from .protocol import Env


class Deadline(Options):
    """The strategy: total time for everything inside, retries and waits included.

    The clock starts with the call. 0 lets no attempt start.
    """

    __slots__ = ("seconds",)
    _fields = ("seconds",)

    seconds: float

    def __init__(self, seconds: Seconds) -> None:
        self._set(seconds=options.seconds("Deadline", "seconds", seconds))

    def sync(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]:
        def bounded(*args: Any, **kwargs: Any) -> Any:
            with Scope(self.seconds, env.operation(args), env.clock):
                check()
                return call(*args, **kwargs)

        return bounded

    def aio(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]:
        async def bounded(*args: Any, **kwargs: Any) -> Any:
            with Scope(self.seconds, env.operation(args), env.clock):
                check()
                return await call(*args, **kwargs)

        return bounded
