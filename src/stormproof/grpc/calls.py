"""Call objects for sync callers: a future of a call in flight, a stream, a fallback's value."""

from __future__ import annotations

import concurrent.futures
import threading

import grpc

from .._context.deadlines import Scope
from .._primitives.errors import Cancelled
from .refusals import as_rpc_error
from .rpc import Answer, Rpc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class _CallObject(grpc.Call, grpc.Future):  # type: ignore[type-arg]
    """A call that stands for a native one, or for the error that there is instead.

    ``_ended()`` waits for what it stands for: an `Answer`, a fallback's value, or an error.
    """

    def _ended(self) -> Any:
        raise NotImplementedError

    def _ask_native(self, name: str, otherwise: object) -> Any:
        """Return ``name()`` of the native call or of the error; ``otherwise`` without either."""
        outcome = self._ended()
        method = getattr(outcome.items if isinstance(outcome, Answer) else outcome, name, None)
        return method() if callable(method) else otherwise

    def code(self) -> Any:
        failed = isinstance(self._ended(), BaseException)
        return self._ask_native("code", grpc.StatusCode.UNKNOWN if failed else grpc.StatusCode.OK)

    def details(self) -> Any:
        return self._ask_native("details", "")

    def initial_metadata(self) -> Any:
        return self._ask_native("initial_metadata", ())

    def trailing_metadata(self) -> Any:
        return self._ask_native("trailing_metadata", ())

    def debug_error_string(self) -> Any:
        return self._ask_native("debug_error_string", "")

    def is_active(self) -> bool:
        return not self.done()

    def running(self) -> bool:
        return not self.done()

    def time_remaining(self) -> Any:
        return None

    def add_callback(self, callback: Callable[[], None]) -> bool:
        if self.done():
            return False
        self.add_done_callback(lambda _: callback())
        return True

    def traceback(self, timeout: float | None = None) -> Any:
        error: BaseException | None = self.exception(timeout)  # type: ignore[call-arg]
        return None if error is None else error.__traceback__


class Pending(_CallObject):
    """The future of a call that goes on by itself. Dropping it cancels the call, as dropping grpc's does."""

    def __init__(self, task: concurrent.futures.Future[Any], scope: Scope) -> None:
        self._task = task
        self._scope = scope

    def __del__(self) -> None:
        self._task.cancel()

    def _wait(self, timeout: float | None) -> Any:
        """The `Answer` or value; raises as grpc's futures do."""
        try:
            return self._task.result(timeout)
        except concurrent.futures.CancelledError:
            raise grpc.FutureCancelledError from None
        except TimeoutError:
            if self._task.done():
                raise
            raise grpc.FutureTimeoutError from None

    def _ended(self) -> Any:
        try:
            outcome = self._wait(None)
            # A fallback's value says nothing of a call.
            return outcome if isinstance(outcome, Answer) else None
        except grpc.FutureCancelledError:
            return _cancelled()
        except Exception as error:
            return error

    def result(self, timeout: float | None = None) -> Any:
        outcome = self._wait(timeout)
        return outcome.item if isinstance(outcome, Answer) else outcome

    def exception(self, timeout: float | None = None) -> Any:
        try:
            self._wait(timeout)
        except (grpc.FutureCancelledError, grpc.FutureTimeoutError):
            raise
        except Exception as error:
            return error
        return None

    def cancel(self) -> bool:
        return not self._task.done() and self._task.cancel()

    def cancelled(self) -> bool:
        return self._task.cancelled()

    def done(self) -> bool:
        return self._task.done()

    def time_remaining(self) -> Any:
        return self._scope.remaining()

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        self._task.add_done_callback(lambda _: fn(self))


def fallback_call(value: object) -> Pending:
    """A call that has ended with a value which no server gave: a fallback's."""
    task: concurrent.futures.Future[Any] = concurrent.futures.Future()
    task.set_result(value)
    return Pending(task, Scope(None))


def _cancelled() -> Any:
    return as_rpc_error(Cancelled("cancelled by its caller"))


class ResponseStream(_CallObject):
    """A stream of responses: begun when it is first used, in the thread that uses it.

    If that reads a message, the call is retried until the first one is there; if it asks for the initial
    metadata, until that is there, which commits the call.
    """

    def __init__(
        self, rpc: Rpc, scope: Scope, read: Callable[[], Any], begin: Callable[[], Any] | None = None
    ) -> None:
        self._rpc = rpc
        self._scope = scope
        self._open_with = read
        self._begin_with = begin or read
        self._lock = threading.Lock()
        self._begun = False
        self._is_open = threading.Event()
        self._outcome: object = None
        self._first: object = None
        self._has_first = False
        self._rest: Iterator[Any] = iter(())
        self._callbacks: list[Callable[[Any], None]] = []

    def _ended(self, open_with: Callable[[], Any] | None = None) -> Any:
        if self._is_first():
            self._open(open_with or self._open_with)
        else:
            self._is_open.wait()
        return self._outcome

    def initial_metadata(self) -> Any:
        self._ended(self._begin_with)
        return super().initial_metadata()

    def _is_first(self) -> bool:
        """Return True in the first call: it was neither opened nor cancelled before."""
        with self._lock:
            first, self._begun = not self._begun, True
        return first

    def _open(self, open_with: Callable[[], Any]) -> None:
        try:
            outcome = open_with()
            self._rest = outcome.items if isinstance(outcome, Answer) else iter(outcome)
        except Exception as error:
            outcome = error
        except BaseException:
            # An interrupt: the stream is cancelled, and later calls get that error.
            self._settle(_cancelled())
            raise
        if isinstance(outcome, Answer):
            self._first, self._has_first = outcome.item, not outcome.ended
        self._settle(outcome)

    def _settle(self, outcome: object) -> None:
        """Record that it is open, or will never be."""
        with self._lock:
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
        self._is_open.set()
        for callback in callbacks:
            self._notify(callback)

    def _notify(self, callback: Callable[[Any], None]) -> None:
        native = self._native()
        if native is None:
            callback(self)
        else:
            native.add_done_callback(lambda _: callback(self))

    def _native(self) -> Any:
        return self._outcome.items if isinstance(self._outcome, Answer) else None

    def __iter__(self) -> ResponseStream:
        return self

    def __next__(self) -> Any:
        outcome = self._ended()
        if isinstance(outcome, BaseException):
            raise outcome
        if self._has_first:
            self._has_first = False
            item, self._first = self._first, None
            return item
        return next(self._rest)

    def next(self) -> Any:
        return self.__next__()

    def result(self, timeout: float | None = None) -> Any:
        outcome = self._ended()
        if isinstance(outcome, BaseException):
            raise outcome
        return self._rest.result(timeout) if isinstance(outcome, Answer) else None  # type: ignore[attr-defined]

    def exception(self, timeout: float | None = None) -> Any:
        outcome = self._ended()
        if isinstance(outcome, BaseException):
            return outcome
        return outcome.items.exception(timeout) if isinstance(outcome, Answer) else None

    def cancel(self) -> bool:
        if self.done():
            return False
        self._scope.cancel()
        if self._is_first():
            self._settle(_cancelled())
            return True
        native = self._native()
        if native is not None:
            return bool(native.cancel())
        self._rpc.settle()
        return True

    def cancelled(self) -> bool:
        native = self._native()
        return self._scope.cancelled if native is None else bool(native.cancelled())

    def done(self) -> bool:
        if not self._is_open.is_set():
            return False
        native = self._native()
        return True if native is None else bool(native.done())

    def time_remaining(self) -> Any:
        native = self._native()
        remaining: float | None = self._scope.remaining() if native is None else native.time_remaining()
        return remaining

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        with self._lock:
            waiting = self._outcome is None
            if waiting:
                self._callbacks.append(fn)
        if not waiting:
            self._notify(fn)

    def __del__(self) -> None:
        # grpc's own streams cancel themselves when they are dropped, by the same rule.
        native = self._native()
        if native is not None and not native.done():
            native.cancel()
