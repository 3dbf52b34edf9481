"""One logical call: what each of its attempts sends, how much time it gets, and what its failure means."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import count

import grpc

from .._classify.exhaustion import Mark, mark
from .._classify.known_faults import ATTEMPT_DEADLINE
from .._classify.stops import stopped
from .._context.deadlines import Scope, ambient
from .._http.timeouts import call_remaining
from .._primitives.errors import AttemptTimeout, Permanent, StormproofError
from .._primitives.options import Options
from .._primitives.options import count as whole
from .._strategies.retry.call import note
from .._strategies.retry.generators import HeldBack, Opened
from .._strategies.timeout import AttemptScope
from .refusals import as_rpc_error
from .replay import RequestReplay
from .routes import plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Self

    #: Begins an attempt: ``start(details, request)`` gives the native call.
    Start = Callable[..., Any]

    class CallDetails(Protocol):
        """Details of a call, of a sync channel or an aio one."""

        method: str
        timeout: float | None
        credentials: grpc.CallCredentials | None
        wait_for_ready: bool | None

        @property
        def metadata(self) -> Any: ...

    class Cancellable(Protocol):
        """A call that may still be in flight."""

        def cancel(self) -> Any: ...
        def done(self) -> bool: ...


#: The metadata of every attempt but the first: how many came before it. A channel strips A6's name from
#: what its user sends, unless its own retries are off ("grpc.enable_retries": 0); the other one arrives.
ATTEMPTS = ("grpc-previous-rpc-attempts", "x-previous-rpc-attempts")

#: A deadline is kept to the millisecond on the wire, and the server may see its end first.
_GRAIN_S = 0.01


class Wire(Options):
    """The options of the client interceptors."""

    def __init__(
        self,
        idempotent: Collection[str] | Callable[[str], bool] = (),
        replay_messages: int | None = 1000,
        replay_bytes: int | None = 4 * 2**20,
        attempt_metadata: tuple[str, ...] = ATTEMPTS,
    ) -> None:
        owner = "interceptors"
        declared = None if callable(idempotent) else _names(idempotent)
        if declared is None and not callable(idempotent):
            raise TypeError(
                f"{owner}: idempotent must be method names or a function of one, got {idempotent!r}"
            )
        metadata_names = _names(attempt_metadata)
        if metadata_names is None or not all(name and name == name.lower() for name in metadata_names):
            raise TypeError(
                f"{owner}: attempt_metadata must be a tuple of lower-case metadata names, "
                f"got {attempt_metadata!r}"
            )
        plain = frozenset(map(plain_name, declared or ()))
        self.idempotent: Collection[str] | Callable[[str], bool] = (
            idempotent if declared is None else declared
        )
        self.replay_messages = (
            None if replay_messages is None else whole(owner, "replay_messages", replay_messages, least=0)
        )
        self.replay_bytes = (
            None if replay_bytes is None else whole(owner, "replay_bytes", replay_bytes, least=0)
        )
        self.attempt_metadata: tuple[str, ...] = metadata_names
        self._may: Callable[[str], bool] = (
            idempotent if callable(idempotent) else lambda method: plain_name(method) in plain
        )

    def may_repeat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return True if the method of this call was declared safe to make twice at once."""
        return bool(self._may(args[0].method))


def _names(given: object) -> tuple[str, ...] | None:
    """``given`` if it is a collection of strings, else ``None``."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        return None
    names = tuple(given)
    return names if all(isinstance(name, str) for name in names) else None


class CallScope(Scope):
    """The caller's ``timeout=``, which counts from when the call was made, not from when it was begun."""

    __slots__ = ()

    def __init__(self, timeout: float | None) -> None:
        super().__init__(timeout, "timeout")
        self.begin(self.clock.now())

    def __enter__(self) -> Self:
        began = self.began
        super().__enter__()
        self.began = began
        return self


class Answer(Opened):
    """Result of an attempt: ``items`` is the call, ``item`` the response or the stream's first message."""

    __slots__ = ()

    def close(self) -> None:
        """Cancel the call: another attempt came first."""
        self.items.cancel()


class Begun(Answer, HeldBack):
    """Result of an attempt whose headers are here: they commit the call, and ``on_result`` has no message."""

    __slots__ = ()

    def __init__(self, items: object) -> None:
        HeldBack.__init__(self, items)
        self.end()


class Rpc:
    """One logical call, as ``key=`` functions see it: ``method``, ``request``, ``metadata``, ``timeout``."""

    def __init__(
        self,
        details: CallDetails,
        request: object,
        streaming: bool,
        wire: Wire,
        make: Callable[[str | None, float | None, Any, Wire], object],
        start: Start,
    ) -> None:
        method = details.method
        self.method: str = method.decode() if isinstance(method, bytes) else method
        self.request = request
        self.metadata = details.metadata
        self.timeout: float | None = details.timeout
        self.wire = wire
        #: True if the response is a stream, which goes on when its first message has ended the attempt.
        self.streams = False
        #: Number of attempts begun, and the error of the last one if it has ended with one.
        self.sent = 0
        self.last_error: grpc.RpcError | None = None
        self.start = start
        self._details = details
        self._make = make
        self._replay = RequestReplay(request, streaming, wire.replay_messages, wire.replay_bytes)
        self._counter = count(1)
        self._live: list[Cancellable] = []
        self._over = False

    @property
    def once(self) -> bool:
        """True if the request can be sent only once."""
        return self._replay.refusal() is not None

    def attempt(self) -> Any:
        """Begin the next attempt; return the call from ``start``."""
        number = next(self._counter)
        self.sent = number
        self.last_error = None
        before = None if number == 1 else str(number - 1)
        details = self._make(before, self._time_left(), self._details, self.wire)
        return self.start(details, self._replay.request())

    def _time_left(self) -> float | None:
        """The lesser of ``timeout=`` and what the scopes around leave; if policies are off, the former.

        A stream of responses has the time of the whole call: the attempt ends with its first message.
        """
        scope = ambient()
        around = None
        if scope is not None and not scope.off:
            around = call_remaining(scope) if self.streams else scope.remaining()
        return min((s for s in (self.timeout, around) if s is not None), default=None)

    # Calls in flight, so that they can be cancelled.

    def keep(self, call: Any) -> Any:
        """Remember ``call`` until it has ended or lost; one that comes when all is over ends at once."""
        self._live.append(call)
        if self._over:
            call.cancel()
        return call

    def settle(self, winner: object = None) -> None:
        """The call has its outcome: whatever else is still out is cancelled on the wire."""
        self._over = True
        while self._live:
            call = self._live.pop()
            if call is not winner and not call.done():
                call.cancel()

    # What a failure means.

    def failed(self, error: BaseException) -> BaseException:
        """Return ``error`` of an attempt as the policy is to see it."""
        if not isinstance(error, grpc.RpcError):
            return error
        self.last_error = error
        code = getattr(error, "code", None)
        if callable(code) and code() is grpc.StatusCode.DEADLINE_EXCEEDED and _of_attempt():
            setattr(error, ATTEMPT_DEADLINE, True)
        refusal = self._replay.refusal()
        if refusal is None:
            return error
        note(error, f"not retried: {refusal}")
        return Permanent(error)

    def surface(self, error: Exception, owner: object) -> Exception:
        """Return ``error`` of the whole call as its caller is to see it.

        After an attempt that failed, that attempt's error, the same object; where Stormproof refused before
        anything was sent (or cut the attempt short), an error of both worlds.
        """
        if isinstance(error, Permanent) and isinstance(error.error, Exception):
            # Without a Retry inside, the marker is still around the error.
            error = error.error
        if not isinstance(error, StormproofError) or isinstance(error, grpc.RpcError):
            return error
        last = self.last_error
        if last is None or isinstance(error, AttemptTimeout):
            return as_rpc_error(error)
        if not getattr(last, "__notes__", None):
            note(last, f"{self.sent} attempt{'' if self.sent == 1 else 's'}; stopped: {error}")
        mark(last, Mark(self.method, owner, self.sent, str(error), stopped(error)))
        if error.retry_after is not None:
            last.retry_after = error.retry_after  # type: ignore[attr-defined]
        return last


def attempt_scope() -> AttemptScope | None:
    """The scope of the `Timeout` around this attempt, the tightest if there are several; None without one."""
    scope = ambient()
    scopes = [] if scope is None or scope.off else [s for s in scope.chain() if isinstance(s, AttemptScope)]
    return min(scopes, key=lambda each: each.own_remaining() or 0.0, default=None)


def _of_attempt() -> bool:
    """Return True if the elapsed time is that of one attempt, with time left for another."""
    scope = ambient()
    if scope is None:
        return False
    tightest = scope.tightest()
    left = tightest.own_remaining()
    return isinstance(tightest, AttemptScope) and left is not None and left <= _GRAIN_S
