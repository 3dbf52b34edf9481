"""The ambient deadline: the time left to the code inside, and its cancellation.

A scope lives in a context variable. Nested scopes bound each other: what counts is what remains
in the tightest one. Each scope keeps its own clock, and only remaining times are compared.
"""

from __future__ import annotations

import functools
import os
from contextvars import ContextVar, Token

from .._primitives.errors import Cancelled, DeadlineExceeded, StormproofError
from .._primitives.options import Seconds, seconds
from .._runtime import clock as _clock
from .._runtime import interrupts as _interrupt
from .._runtime.call_template import SHARED_NAMES
from .._runtime.function_kind import function_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self, TypeVar

    from .._runtime.clock import Clock
    from .._runtime.interrupts import Arm

    F = TypeVar("F")

_scope: ContextVar[Scope | None] = ContextVar("stormproof_scope", default=None)

#: In place of its token: the scope was left by an error, and stays what it was for what still runs inside.
LEFT: Any = object()

#: The innermost scope, or None. The success path asks only this.
ambient = _scope.get

#: Who has switched every policy of the process off.
_switches: list[object] = []


def switch_off(owner: object) -> None:
    """Switch every policy of the process off, until `switch_on` of the same ``owner``."""
    _switches.append(owner)
    # The success path asks no more than before: while policies are off, it gets another answer.
    SHARED_NAMES["_sp_ambient"] = lambda: owner


def switch_on(owner: object) -> None:
    """Take back what ``owner`` has switched off."""
    _switches[:] = [other for other in _switches if other is not owner]
    if not _switches:
        SHARED_NAMES["_sp_ambient"] = ambient


SHARED_NAMES["_sp_ambient"] = ambient
if os.environ.get("STORMPROOF_OFF", "").lower() not in ("", "0", "false", "no"):
    switch_off("STORMPROOF_OFF")


class Scope:
    """A stretch of code with a time limit, a cancel button, or policies switched off.

    Use it with ``with`` or ``async with``. In async code the end of the time (and ``cancel()``)
    cancels the running task's await and surfaces as `DeadlineExceeded` (or `Cancelled`) at the
    end of the block. Sync code is not interrupted: loops and waits inside stop in time.
    """

    # One is made for every call. What each call stores has a slot, which takes a third of the time; what most
    # scopes never change has its value here, once.
    __slots__ = ("__dict__", "__weakref__", "_arm", "began", "clock", "parent", "token")
    limit: float | None = None
    name = "deadline"
    #: What kind of limit it is, for events.
    kind = "deadline"
    clock: Clock
    disabled = False
    cancelled = False
    last_error: BaseException | None = None
    #: When it was entered, by its clock; the scope around it; and what leaves it again.
    began: float
    parent: Scope | None
    token: Token[Scope | None] | None
    #: What interrupts async code inside.
    _arm: Arm | None
    _given_clock: Clock | None = None

    def __init__(
        self,
        limit_s: float | None,
        name: str = "deadline",
        clock: Clock | None = None,
        disabled: bool = False,
    ) -> None:
        self.limit = limit_s
        self.name = name
        self.clock = _clock.current() if clock is None else clock
        self._given_clock = clock
        self.disabled = disabled
        self.began = 0.0
        self.parent = self.token = self._arm = None

    def __enter__(self) -> Self:
        if self.entered:
            raise RuntimeError(f"scope {self.name!r} is already entered; make a new one for each block")
        self.parent = _scope.get()
        if self.limit is not None:
            self.began = self.clock.now()
        # Its time counts from here on.
        self.token = LEFT
        if not self.disabled:
            self._arm = _interrupt.arm(self)
            if self.cancelled and self._arm is not None:
                # Cancelled before there was anything to interrupt.
                self._arm.interrupt()
        self.token = _scope.set(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        assert self.token is not None
        self.token = None if kind is None or kind is GeneratorExit else LEFT
        if _scope.get() is self:
            parent = self.parent
            while parent is not None and not parent.entered:
                parent = parent.parent
            _scope.set(parent)
        # Else it was left out of order, or in another context than it was entered in (an async generator may
        # be closed anywhere): the scope that is in force there stays.
        arm, self._arm = self._arm, None
        if arm is not None and arm.disarm(kind, error, traceback):
            last, self.last_error = self.last_error, None
            raise self.refusal() from (error if last is None else last)
        self.last_error = None

    def __call__(self, fn: F) -> F:
        """Decorate ``fn``: each call runs in a scope of its own, as this one was made."""
        kind = function_kind(fn)
        if kind not in ("sync", "async"):
            advice = "; use `with deadline(...):` inside it" if "generator" in kind else ""
            rule = "a function or coroutine function"
            raise TypeError(f"deadline: what is decorated must be {rule}, got {fn!r} ({kind}){advice}")
        called: Any = fn

        @functools.wraps(called)
        def bounded(*args: object, **kwargs: object) -> Any:
            with Scope(self.limit, self.name, self._given_clock, self.disabled):
                check()
                return called(*args, **kwargs)

        @functools.wraps(called)
        async def bounded_async(*args: object, **kwargs: object) -> Any:
            async with Scope(self.limit, self.name, self._given_clock, self.disabled):
                check()
                return await called(*args, **kwargs)

        return bounded_async if kind == "async" else bounded  # type: ignore[return-value]

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def cancel(self) -> None:
        """Cancel what runs inside, from any thread. Sleeping retries wake up at once."""
        self.cancelled = True
        if (arm := self._arm) is not None:
            arm.interrupt()
        _interrupt.wake()

    @property
    def is_cancelled(self) -> bool:
        """True if this scope or one around it was cancelled."""
        return any(scope.cancelled for scope in self.chain())

    def lift(self) -> None:
        """Take the time limit away, unless it has already ended: what goes on inside may take its time."""
        if self._arm is None or self._arm.hold_fire():
            self.limit = None

    def begin(self, now: float) -> None:
        """Let its time count from ``now`` on, before it is entered, or without that in a simulation."""
        self.began, self.token = now, LEFT

    @property
    def entered(self) -> bool:
        """True if the code inside is still running."""
        return self.token is not None and self.token is not LEFT

    def own_remaining(self) -> float | None:
        """Seconds left in this scope alone, never negative; ``None`` without a limit, or left in success."""
        limit = self.limit
        if limit is None or self.token is None:
            return None
        elapsed = self.clock.now() - self.began
        if elapsed <= 0.0:
            # A clock set back does not extend the time.
            return limit
        return limit - elapsed if elapsed < limit else 0.0

    def remaining(self) -> float | None:
        """Seconds left in this scope and those around it, never negative; ``None`` without a limit."""
        tightest: float | None = None
        scope: Scope | None = self
        while scope is not None:
            left = scope.own_remaining()
            if left is not None and (tightest is None or left < tightest):
                tightest = left
            scope = scope.parent
        return tightest

    def real_remaining(self) -> float | None:
        """`remaining`, as far as it can be waited for: a clock that a test moves takes no time to pass."""
        left = [s.own_remaining() for s in self.chain() if s.clock is _clock.SYSTEM]
        return min((seconds for seconds in left if seconds is not None), default=None)

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def ended(self) -> Scope | None:
        """The scope of this chain that was cancelled or whose time is over, or ``None``."""
        scope: Scope | None = self
        while scope is not None:
            if scope.token is not None and (scope.cancelled or scope.own_remaining() == 0.0):
                return scope
            scope = scope.parent
        return None

    def tightest(self) -> Scope:
        """The scope of this chain with the least time left (itself when none has a limit)."""

        def left(scope: Scope) -> float:
            own = scope.own_remaining()
            return float("inf") if own is None else own

        return min(self.chain(), key=left)

    @property
    def off(self) -> bool:
        """True if policies are switched off in this scope."""
        scope: Scope | None = self
        while scope is not None:
            if scope.disabled and scope.entered:
                return True
            scope = scope.parent
        return bool(_switches)

    def late(self, message: str) -> StormproofError:
        """Return the error for work that would end past this scope's time."""
        return DeadlineExceeded(message, self.name)

    def refusal(self) -> StormproofError:
        """Return the error raised in this scope once it has ended."""
        if self.cancelled:
            return Cancelled(f"scope {self.name!r} was cancelled")
        return DeadlineExceeded(f"deadline {self.name!r} of {self.limit:g} s exceeded", self.name)

    def __repr__(self) -> str:
        left = self.remaining()
        unbounded = "no limit" if self.limit is None else f"{self.limit:g} s, not entered"
        state = "cancelled" if self.cancelled else unbounded if left is None else f"{left:.3f} s left"
        return f"<scope {self.name!r}: {state}>"


def timed_kind(kind: type[Scope], limit_s: float, name: str | None) -> type[Scope]:
    """Return a ``kind`` of scope for the calls of one function: limit and name are those of the class.

    A wrapper makes, enters and leaves it in its own text (see `scoped_call`), which is a matter of speed.
    """
    values = {"limit": limit_s, "name": name, "__init__": object.__init__}
    return type(kind.__name__, (kind,), values)


#: Enter a scope, which gives a token; leave it again by that token, where nothing has failed inside.
set_ambient, reset_ambient = _scope.set, _scope.reset


def deadline(limit: Seconds | None, name: str = "deadline", *, clock: Clock | None = None) -> Scope:
    """``with deadline(5):``, or ``@deadline(5)``, bounds every loop, wait and client call inside to 5 s.

    0 lets no attempt start. ``None`` sets no limit, only something to ``cancel()``.
    """
    return Scope(None if limit is None else seconds("deadline", "limit", limit), name, clock)


def disabled() -> Scope:
    """``with disabled():`` switches every policy off inside: one plain call, no retry, no refusal."""
    return Scope(None, "disabled", disabled=True)


def remaining() -> float | None:
    """Seconds left in the tightest enclosing deadline, never negative; ``None`` without one."""
    scope = _scope.get()
    return None if scope is None else scope.remaining()


def check() -> None:
    """Raise `DeadlineExceeded` or `Cancelled` if the enclosing scope has ended."""
    scope = _scope.get()
    if scope is not None and (ended := scope.ended()) is not None:
        raise ended.refusal()


def is_off() -> bool:
    """Return True if policies are switched off here, or in the whole process."""
    scope = _scope.get()
    return bool(_switches) or (scope is not None and scope.off)


def bypass() -> bool:
    """Return True for a call that begins where policies are off; raise if the enclosing scope has ended."""
    if _switches:
        return True
    scope = _scope.get()
    ended: Scope | None = None
    while scope is not None:
        if scope.token is None or (scope.token is LEFT and scope.disabled):
            # Left, and work that was started inside goes on without it.
            scope = scope.parent
            continue
        if scope.disabled:
            return True
        if ended is None and (
            scope.cancelled or (scope.limit is not None and scope.clock.now() - scope.began >= scope.limit)
        ):
            ended = scope
        scope = scope.parent
    if ended is not None:
        raise ended.refusal()
    return False


def remaining_for_attempt(scope: Scope) -> float | None:
    """Seconds left in ``scope`` for what begins now; ``None`` without a limit, or where policies are off.

    Raises if it has ended, as `bypass` does.
    """
    tightest: float | None = None
    each: Scope | None = scope
    while each is not None:
        if each.disabled or each.cancelled:
            return None if bypass() else scope.remaining()
        left = each.own_remaining()
        if left is not None and (tightest is None or left < tightest):
            tightest = left
        each = each.parent
    return None if (tightest == 0.0 or _switches) and bypass() else tightest
