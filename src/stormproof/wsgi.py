"""Middleware for any WSGI server: deadline, shedding and refusals, by the same rules as `asgi`.

The application runs, and its answer is iterated, in a context of the request's own, so that the
ambient deadline holds for both and for nothing else in the server's thread.
"""

from __future__ import annotations

import sys
from contextvars import Context, copy_context

from ._context import deadlines
from ._events import bus, labels
from ._primitives.errors import DeadlineExceeded
from ._runtime import randomness
from ._server import admission
from ._server.application import WSGI, application
from ._server.deadline import LATE, Timed
from ._server.problem import SPREAD, Problem
from ._server.refusals import refusal
from ._server.request_facts import attempt_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Environ = dict[str, Any]
    StartResponse = Callable[..., object]
    App = Callable[[Environ, StartResponse], Iterable[bytes]]

__all__ = ["DeadlineMiddleware", "RefusalMiddleware", "SheddingMiddleware"]


def _finder(environ: Environ) -> Callable[[str], list[str]]:
    def find(name: str) -> list[str]:
        value = environ.get("HTTP_" + name.upper().replace("-", "_"))
        return [value] if isinstance(value, str) else []

    return find


def _answer(
    start_response: StartResponse, problem: Problem, draw: Callable[[], float], spread: float = SPREAD
) -> list[bytes]:
    from http import HTTPStatus

    status = f"{problem.status} {HTTPStatus(problem.status).phrase}"
    exc_info = sys.exc_info()
    # With an error at hand, the server replaces an answer that has been started but not sent.
    start_response(status, problem.headers(draw, spread), *([exc_info] if exc_info[0] is not None else []))
    return [problem.body()]


class _Body:
    """An answer's parts, for as long as the server asks for them; then ``ended`` is called.

    ``failed(error)`` gives what is sent in place of an answer of which nothing was sent yet, or ``None``.
    """

    __slots__ = ("_context", "_ended", "_failed", "_iterator", "_parts", "_sent")

    def __init__(
        self,
        parts: Iterable[bytes],
        ended: Callable[[], object],
        failed: Callable[[Exception], list[bytes] | None],
        context: Context | None = None,
    ) -> None:
        self._parts = parts
        self._iterator: Iterator[bytes] | None = None
        self._ended = ended
        self._failed = failed
        self._context = copy_context() if context is None else context
        self._sent = False

    def __iter__(self) -> _Body:
        return self

    def __next__(self) -> bytes:
        try:
            part = self._context.run(self._next)
        except StopIteration:
            raise
        except Exception as error:
            instead = None if self._sent else self._failed(error)
            if instead is None:
                raise
            self._iterator = iter(instead)
            part = next(self._iterator)
        self._sent = self._sent or bool(part)
        return part

    def _next(self) -> bytes:
        if self._iterator is None:
            self._iterator = iter(self._parts)
        return next(self._iterator)

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        try:
            if close is not None:
                self._context.run(close)
        finally:
            self._context.run(self._ended)


def _is_lazy(parts: Iterable[bytes]) -> bool:
    """Return True if iterating may still run the application. Servers count the parts of a list."""
    return not isinstance(parts, (list, tuple))


def _nothing() -> None:
    """Clean up after an answer that held nothing."""


class DeadlineMiddleware(Timed):
    """Runs each request under the time that its caller has left; late ones get 504 and are not run.

    The options are those of `asgi.DeadlineMiddleware`. Sync code is not interrupted: loops, waits and
    client calls inside stop in time.
    """

    kind = WSGI
    app: App

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        left_s = self.left(_finder(environ))
        if left_s is None:
            return self.app(environ, start_response)
        if left_s <= 0:
            return _answer(start_response, LATE, randomness.draw)
        limit = deadlines.deadline(left_s, "request")

        def late(error: Exception) -> list[bytes] | None:
            ours = isinstance(error, DeadlineExceeded) and (
                error.scope == limit.name or not limit.own_remaining()
            )
            return _answer(start_response, LATE, randomness.draw) if ours else None

        # The context is this request's own and ends with it, so the scope need not be left.
        context = copy_context()
        context.run(limit.__enter__)
        try:
            parts = context.run(self.app, environ, start_response)
        except Exception as error:
            instead = late(error)
            if instead is None:
                raise
            return instead
        return _Body(parts, _nothing, late, context) if _is_lazy(parts) else parts


class SheddingMiddleware(admission.Shedding):
    """At most ``limit`` requests at once; others wait in the ``queue`` or get 503 with ``Retry-After``.

    The options are those of `asgi.SheddingMiddleware`; ``exempt`` is given the WSGI environ. A request
    counts until the server closes its answer.
    """

    kind = WSGI
    app: App

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self.exempt is not None and self.exempt(environ):
            return self.app(environ, start_response)
        is_retry = attempt_number(_finder(environ), self.attempt_headers) > 1
        try:
            place = admission.enter(self.places, self.retry_share, is_retry)
        except admission.TurnedAway:
            return _answer(start_response, self.full, self.draw, self.spread)
        status = 0

        def started(line: str, *rest: object) -> object:
            nonlocal status
            status = int(line[:3])
            return start_response(line, *rest)

        try:
            parts = self.app(environ, started)
        except BaseException as error:
            place.failed(error)
            raise
        return _Body(parts, lambda: place.answered(status), place.failed)


class RefusalMiddleware:
    """Answers for an application that gave up, as `asgi.RefusalMiddleware` does."""

    def __init__(self, app: App) -> None:
        self.app: App = application("RefusalMiddleware", WSGI, app)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        def answer_error(error: Exception) -> list[bytes] | None:
            problem = refusal(error)
            if problem is None:
                return None
            bus.publish("Declined", operation="request", code=problem.code, error=labels.error_name(error))
            return _answer(start_response, problem, randomness.draw)

        try:
            parts = self.app(environ, start_response)
        except Exception as error:
            instead = answer_error(error)
            if instead is None:
                raise
            return instead
        return _Body(parts, _nothing, answer_error) if _is_lazy(parts) else parts
