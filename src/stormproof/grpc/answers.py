"""The answers of a server whose handler gives up, and its admission. Pure: decides, sends nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from .._classify.classifier import transient
from .._classify.exhaustion import exhausted_by
from .._classify.server_hints import is_digits
from .._events.labels import clean, error_name
from .._primitives.errors import StormproofError
from .._primitives.options import Options, Seconds, number, seconds
from .._primitives.options import count as whole
from .._runtime import randomness
from .._server.admission import TurnedAway, enter, enter_async
from .._server.refusals import is_final_answer
from .refusals import DO_NOT_RETRY, PUSHBACK, status_of
from .rpc import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._strategies.adaptive.limit import AdaptiveLimit
    from .._strategies.bulkhead.bulkhead import Bulkhead

#: A call without a deadline has centuries left, in some servers' words.
_NO_DEADLINE_S = 1e8

#: The statuses of a failed call further in that say the same to the caller as they said here.
_PASSED_ON = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


class ServerAnswer(NamedTuple):
    """A status, its text, and the trailers that steer the caller's retries."""

    code: grpc.StatusCode
    details: str
    trailers: tuple[tuple[str, str], ...]

    def trailers_with(
        self, own: Iterable[tuple[str, str | bytes]] | None
    ) -> tuple[tuple[str, str | bytes], ...]:
        """The trailers, beside those that the handler has set."""
        steering = dict(self.trailers)
        return (*(pair for pair in own or () if pair[0] not in steering), *self.trailers)


def given_up(error: Exception) -> ServerAnswer | None:
    """The answer for a handler that raised ``error``; ``None`` if that is the handler's own affair.

    Stormproof's own refusals, and errors that a layer further in has retried to exhaustion or must not
    retry, end with "do not retry": the caller would only multiply what was tried here.
    """
    if isinstance(error, StormproofError):
        return ServerAnswer(status_of(error), clean(str(error)), DO_NOT_RETRY)
    if exhausted_by(error) is None and not _is_final(error):
        return None
    return ServerAnswer(_status_beneath(error), f"given up on: {error_name(error)}", DO_NOT_RETRY)


def _is_final(error: Exception) -> bool:
    return transient(error).kind == "pushback" if isinstance(error, grpc.RpcError) else is_final_answer(error)


def _status_beneath(error: Exception) -> Any:
    code = getattr(error, "code", None)
    status = code() if isinstance(error, grpc.RpcError) and callable(code) else None
    if status in _PASSED_ON:
        return status
    timed_out = isinstance(error, TimeoutError)
    return grpc.StatusCode.DEADLINE_EXCEEDED if timed_out else grpc.StatusCode.UNAVAILABLE


def time_left(remaining: float | None) -> float | None:
    """Seconds until the caller's deadline, from what the server's context says; ``None`` without one."""
    return None if remaining is None or remaining > _NO_DEADLINE_S else max(0.0, remaining)


def is_retry(metadata: Iterable[Any] | None) -> bool:
    """Return True if the caller has tried this before."""
    counts = (str(value) for name, value in metadata or () if name in ATTEMPTS)
    return any(is_digits(value) and value.strip("0") for value in counts)


class Door(Options):
    """The options of the server interceptors.

    ``least``: work that has no more than this many seconds left is refused (0: only what is already late).
    ``shed``: how many calls at once, as a number, a `Bulkhead` or an `AdaptiveLimit`; ``None`` admits
    all. ``retry_share``: retries are let in while less than this share of the places is taken, so that
    first attempts still find one. ``pushback``: what is shed comes back after this many seconds, and up
    to twice as many, drawn evenly.
    """

    def __init__(
        self,
        least: Seconds = 0.0,
        shed: int | Bulkhead | AdaptiveLimit | None = None,
        retry_share: float = 0.8,
        pushback: Seconds = 1.0,
    ) -> None:
        from .._strategies.adaptive.limit import AdaptiveLimit
        from .._strategies.bulkhead.bulkhead import Bulkhead

        owner = "server_interceptors"
        if shed is not None and not isinstance(shed, (Bulkhead, AdaptiveLimit)):
            shed = Bulkhead(whole(owner, "shed", shed, most=1_000_000), name="server")
        self.least = seconds(owner, "least", least)
        self.shed = shed
        self.retry_share = number(owner, "retry_share", retry_share, least=0, most=1)
        self.pushback = seconds(owner, "pushback", pushback)
        self._draw = randomness.source(None)

    def is_late(self, left: float | None) -> bool:
        """Return True if it is too late to begin: the caller will not wait for the end."""
        return left is not None and left <= self.least

    def enter(self, is_retry: bool) -> AbstractContextManager[Any]:
        """A place for one call, or `TurnedAway`."""
        if self.shed is None:
            return nullcontext()
        return enter(self.shed, self.retry_share, is_retry)

    async def enter_async(self, is_retry: bool) -> AbstractContextManager[Any]:
        """`enter`, awaited in the queue."""
        return (
            nullcontext() if self.shed is None else await enter_async(self.shed, self.retry_share, is_retry)
        )

    def answer_to(self, error: Exception) -> ServerAnswer | None:
        """The answer for a call that ended in ``error``; ``None`` if that is the handler's own affair.

        What was shed is to come back, but not all at once.
        """
        if not isinstance(error, TurnedAway):
            return given_up(error)
        wait_ms = round(self.pushback * (1.0 + self._draw()) * 1000)
        trailers = ((PUSHBACK, str(wait_ms)),)
        return ServerAnswer(grpc.StatusCode.UNAVAILABLE, "the server is at its limit", trailers)


LATE = ServerAnswer(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time was left to begin", DO_NOT_RETRY)
