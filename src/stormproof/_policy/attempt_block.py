"""The block form: ``for attempt in ...: with attempt: ...``, and its async twin."""

from __future__ import annotations

import sys

from .._context.attempts import Attempt, running
from .._context.deadlines import ambient, bypass
from .._drivers import aio as _aio
from .._drivers import sync as _sync
from .._primitives.attach_context import attach_context
from .._primitives.errors import Permanent, RetryAfter
from .._strategies.keyed import Keyed
from .._strategies.protocol import Env
from .._strategies.retry.loop import Run, flow
from .._strategies.retry.retry import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType
    from typing import Any, Self

    from .._context.attempts import Flow
    from .._strategies.protocol import PolicySettings


class Block:
    """What to loop over; each loop starts anew, so one object serves any number of threads and tasks."""

    __slots__ = ("policy", "retry")

    def __init__(self, policy: PolicySettings) -> None:
        others = [type(s).__name__ for s in policy.strategies if not isinstance(s, Retry)]
        if others or len(policy.strategies) != 1:
            raise TypeError(
                "retrying: the block form takes a policy with one Retry and nothing else, this one has "
                + (", ".join(others) or f"{len(policy.strategies)} strategies")
                + "; put the code in a function for the rest (a `with deadline(...)` around the loop is fine)"
            )
        self.policy = policy
        self.retry: Retry = policy.strategies[0]
        if isinstance(self.retry.budget, Keyed):
            raise TypeError("retrying: a block has no arguments to find the key of a keyed budget by")

    def __iter__(self) -> Turns:
        return Turns(self, _place())

    def __aiter__(self) -> AsyncTurns:
        return AsyncTurns(self, _place())

    def __repr__(self) -> str:
        return f"retrying({self.retry!r})"


def _place() -> object:
    """Where the loop stands: who marks an error as retried to exhaustion, also in a later call."""
    frame = sys._getframe(2)
    return (frame.f_code, frame.f_lasti)


class _Turns:
    """The state of one loop: the flow, and what its last attempt came to."""

    __slots__ = ("_attempt", "_block", "_flow", "_off", "_place", "_step")

    def __init__(self, block: Block, place: object) -> None:
        self._block = block
        self._place = place
        self._flow: Flow | None = None
        self._attempt: BlockAttempt | None = None
        self._off = False
        self._step: Any = None

    def _start(self) -> None:
        block = self._block
        self._off = ambient() is not None and bypass()
        if not self._off:
            env = Env(block.policy, block)
            name = block.policy.name or "block"
            self._flow = flow(Run(block.retry, block.retry.budget, env, name, self._place, own_frames=1))
            self._step = next(self._flow)

    def _wait(self) -> float | None:
        """The seconds to sleep before the next attempt; ``None`` if there is no sleep, or no attempt."""
        if self._attempt is None:
            self._start()
        elif not self._attempt.over:
            raise RuntimeError(
                "the body of a retrying loop must be `with attempt:`, and ended before the next"
            )
        return self._step if type(self._step) is float else None

    def _next(self, slept: bool) -> BlockAttempt | None:
        """The attempt to make now, or ``None`` at the end."""
        if slept:
            self.advance(None)
        if self._off:
            if self._attempt is not None:
                return None
            self._attempt = BlockAttempt(None, "block", 1, None)
            return self._attempt
        step = self._step
        if step is None or type(step) is float:
            return None
        self._step = None
        self._attempt = BlockAttempt(self, step.operation, step.number, step.last_error, self._place)
        return self._attempt

    def advance(self, reply: Any) -> bool:
        """Tell the flow what happened: True if the error is taken care of (another attempt, or a value)."""
        assert self._flow is not None
        try:
            self._step = self._flow.send(reply)
        except StopIteration as stop:
            self._step = None
            _, error = stop.value
        else:
            return True
        if error is None:
            return True
        if reply is not None and error is reply[1]:
            return False
        try:
            raise error
        except BaseException as raised:
            _drop_mark(raised)
            raise
        finally:
            del error, reply

    @property
    def _before(self) -> Any:
        return None if self._off else self._block.retry.before_attempt


def _drop_mark(error: BaseException) -> None:
    """Raised while the mark that carried it is handled, an error has that as its context, and each
    would hold the other."""
    try:
        if isinstance(error.__context__, (Permanent, RetryAfter)):
            error.__context__ = error.__context__.__context__
    except Exception:
        # It refuses even this.
        pass


class Turns(_Turns):
    """One ``for`` loop."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockAttempt:
        wait = self._wait()
        if wait is not None:
            _sync.sleep(wait, self._block.policy.clock)
        attempt = self._next(wait is not None)
        if attempt is None:
            raise StopIteration
        if self._before is not None:
            try:
                _sync.refuse_awaitable("before_attempt", self._before(attempt))
            except Exception as fault:
                attach_context(fault, attempt.last_error)
                raise
        return attempt


class AsyncTurns(_Turns):
    """One ``async for`` loop."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BlockAttempt:
        wait = self._wait()
        if wait is not None:
            await _aio.sleep(wait, self._block.policy.clock)
        attempt = self._next(wait is not None)
        if attempt is None:
            raise StopAsyncIteration
        if self._before is not None:
            try:
                if hasattr(pending := self._before(attempt), "__await__"):
                    await pending
            except Exception as fault:
                attach_context(fault, attempt.last_error)
                raise
        return attempt


class BlockAttempt(Attempt):
    """One turn of a retrying loop. ``result``, when set, is what ``on_result`` judges."""

    __slots__ = ("_token", "_turns", "over", "result")

    def __init__(
        self,
        turns: _Turns | None,
        operation: str,
        number: int,
        last_error: Exception | None,
        owner: object = None,
    ) -> None:
        super().__init__(operation, number, last_error, owner)
        self._turns = turns
        self._token: Token[Attempt | None] | None = None
        self.over = False
        self.result: Any = None

    def __enter__(self) -> Self:
        if self._token is not None or self.over:
            raise RuntimeError("an attempt is entered once")
        self.outer = running.get()
        self._token = running.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        held = [error]
        # Tracebacks may come to refer to this frame; an error kept here would keep itself alive.
        del error, traceback
        return self._end(held)

    def _end(self, held: list[BaseException | None]) -> bool:
        """Settle the attempt: True if its error (the one ``held``) is taken care of."""
        assert self._token is not None
        running.reset(self._token)
        self.over = True
        turns, self._turns = self._turns, None
        error = held.pop()
        if turns is None or (error is not None and not isinstance(error, Exception)):
            return False
        reply, failed = (self.result, error), error is not None
        del error
        try:
            return turns.advance(reply) and failed
        finally:
            del reply

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        held = [error]
        del error, traceback
        return self._end(held)
