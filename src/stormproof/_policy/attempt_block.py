"""The block form: ``for attempt in ...: with attempt: ...``, and its async twin."""

from __future__ import annotations

from .._context.attempts import Attempt, running
from .._context.deadlines import bypass
from .._drivers import aio as _aio
from .._drivers import sync as _sync
from .._primitives.errors import Permanent, RetryAfter
from .._runtime.frames import frame_at
from .._strategies.keyed import Keyed
from .._strategies.limiter.waiting import sleep_in_line, sleep_in_line_async
from .._strategies.protocol import Env
from .._strategies.retry.call import RetriedCall
from .._strategies.retry.retry import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from typing import Any, Self

    from .._context.attempts import Running
    from .._strategies.limiter.rules.deferred import DeferredPayment
    from .._strategies.protocol import PolicySettings


class Block:
    """Iterable of attempts; each loop starts anew, so one object serves any number of threads and tasks."""

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
    """Return the position of the loop in the code: the owner of its marks, the same in every call."""
    frame = frame_at(2)
    return (frame.f_code, frame.f_lasti)


class _Turns:
    """The state of one loop: its call, and the step that is due."""

    __slots__ = ("_attempt", "_block", "_off", "_outcome", "_place", "_run", "_wait")

    def __init__(self, block: Block, place: object) -> None:
        self._block = block
        self._place = place
        self._attempt: BlockAttempt | None = None
        self._off = False
        #: ``None`` where policies are off, and after the end of the block.
        self._run: RetriedCall | None = None
        #: The outcome of the last attempt, until the wait for the next one ends.
        self._outcome: tuple[Any, Exception | None] = (None, None)
        #: Seconds to sleep before the next step.
        self._wait: float | None = None

    def _pause(self) -> float | None:
        """Return the seconds to sleep before the next attempt; ``None``: no sleep, or no attempt."""
        if self._attempt is None:
            self._start()
        elif not self._attempt.over:
            raise RuntimeError(
                "the body of a retrying loop must be `with attempt:`, and ended before the next"
            )
        return self._wait

    def _start(self) -> None:
        block = self._block
        self._off = bypass()
        if not self._off:
            env, name = Env(block.policy, block), block.policy.name or "block"
            self._run = RetriedCall(block.retry, block.retry.budget, env, name, self._place)

    @property
    def _payment(self) -> DeferredPayment | None:
        """The payment that the sleep waits for, where its token comes later."""
        return None if self._run is None or self._run.stop is not None else self._run.payment

    def _interrupted(self) -> None:
        """The sleep was interrupted."""
        self._wait = None
        if self._run is not None:
            self._run.interrupt()

    def _next(self) -> BlockAttempt | None:
        """Return the attempt to make now, or ``None`` at the end."""
        (value, error), self._outcome = self._outcome, (None, None)
        if self._off and self._attempt is None:
            self._attempt = BlockAttempt(None, "block", 1, None)
            return self._attempt
        try:
            if self._run is not None and self._wait is not None:
                self._wait = None
                self._run.wake()
                if self._run.stop is not None:
                    self._end(value, error, handled=False)
            if self._run is None:
                return None
            attempt = self._run.begin(error)
            self._attempt = BlockAttempt(
                self, attempt.operation, attempt.number, attempt.last_error, self._place
            )
            return self._attempt
        finally:
            del error

    def settle(self, value: object, error: Exception | None, answer: object) -> bool:
        """Record an attempt's outcome; return True if its error is handled: by another attempt, or a value.

        ``answer`` is the result of ``on_result`` for ``value``.
        """
        assert self._run is not None
        self._run.answer = answer
        try:
            self._wait = self._run.after(value, error)
            if self._wait is not None:
                self._outcome = (value, error)
            elif self._run.stop is not None:
                return self._end(value, error, handled=True)
            else:
                self._run = None
            return True
        finally:
            del error

    def _end(self, value: object, error: Exception | None, handled: bool) -> bool:
        """End the loop: True for a value; False if ``error``, being ``handled``, is what the caller gets."""
        run, self._run = self._run, None
        assert run is not None
        _, failure = run.give_up(value, error)
        if failure is None:
            return True
        if handled and failure is error:
            return False
        try:
            raise failure
        except BaseException as raised:
            _drop_mark(raised)
            raise
        finally:
            del run, error, failure

    def __del__(self) -> None:
        # The loop was left while a wait was due: what it had reserved is released.
        if self._wait is not None:
            self._interrupted()

    @property
    def _before(self) -> Any:
        return None if self._off else self._block.retry.before_attempt

    @property
    def _hooked(self) -> tuple[Any, ...] | None:
        """The call of `on_retry` that is due before the sleep, as the drivers' `call_hook` takes it."""
        on_retry, run = self._block.retry.on_retry, self._run
        if on_retry is None or run is None or run.stop is not None:
            return None
        return "on_retry", on_retry, self._outcome[1], run.attempt((), {}), run.visible_error, self._wait

    @property
    def on_result(self) -> Any:
        """The rule for results, unless policies are off."""
        return None if self._run is None else self._block.retry.on_result


def _drop_mark(error: BaseException) -> None:
    """Remove the marker from the context of ``error``, raised while the marker was handled.

    Each would keep the other alive.
    """
    try:
        if isinstance(error.__context__, (Permanent, RetryAfter)):
            error.__context__ = error.__context__.__context__
    except Exception:
        # The error refuses the change.
        pass


class Turns(_Turns):
    """One ``for`` loop."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockAttempt:
        wait = self._pause()
        if wait is not None:
            try:
                if self._hooked is not None:
                    _sync.call_hook(*self._hooked)
                if (payment := self._payment) is None:
                    _sync.sleep(wait, self._block.policy.clock)
                else:
                    sleep_in_line(payment, self._block.policy.clock)
            except BaseException:
                self._interrupted()
                raise
        attempt = self._next()
        if attempt is None:
            raise StopIteration
        if self._before is not None:
            _sync.call_hook("before_attempt", self._before, attempt.last_error, attempt)
        return attempt


class AsyncTurns(_Turns):
    """One ``async for`` loop."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BlockAttempt:
        wait = self._pause()
        if wait is not None:
            try:
                if self._hooked is not None:
                    await _aio.call_hook(*self._hooked)
                if (payment := self._payment) is None:
                    await _aio.sleep(wait, self._block.policy.clock)
                else:
                    await sleep_in_line_async(payment, self._block.policy.clock)
            except BaseException:
                self._interrupted()
                raise
        attempt = self._next()
        if attempt is None:
            raise StopAsyncIteration
        if self._before is not None:
            await _aio.call_hook("before_attempt", self._before, attempt.last_error, attempt)
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
        self._token: Token[Running | None] | None = None
        self.over = False
        self.result: Any = None

    def __enter__(self) -> Self:
        if self._token is not None or self.over:
            raise RuntimeError("an attempt is entered once")
        self.outer = running.get()
        self._token = running.set(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        held = [error]
        # Tracebacks may come to refer to this frame; an error kept here would keep itself alive.
        del error, traceback
        rule = self._leave(kind is None)
        return self._settle(held, None if rule is None else _sync.call_hook(*rule, None, self.result))

    def _leave(self, has_result: bool) -> tuple[str, Any] | None:
        """End the attempt; return the rule that is to judge its result."""
        assert self._token is not None
        running.reset(self._token)
        self.over = True
        on_result = None if self._turns is None or not has_result else self._turns.on_result
        return None if on_result is None else ("on_result", on_result)

    def _settle(self, held: list[BaseException | None], answer: object) -> bool:
        """Settle the attempt: True if its error (the one in ``held``) is handled."""
        turns, self._turns = self._turns, None
        error = held.pop()
        if turns is None or (error is not None and not isinstance(error, Exception)):
            return False
        try:
            return turns.settle(self.result, error, answer) and error is not None
        finally:
            del error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        held = [error]
        del error, traceback
        rule = self._leave(kind is None)
        return self._settle(held, None if rule is None else await _aio.call_hook(*rule, None, self.result))
