"""One request on its way through a policy: what may be sent again, and what the caller gets."""

from __future__ import annotations

from .._classify import exhaustion
from .._classify.fault_readers import fault_of
from .._classify.on_clause import unwrap_marker
from .._context.deadlines import ambient, bypass
from .._primitives.errors import (
    AttemptTimeout,
    BudgetExhausted,
    Cancelled,
    DeadlineExceeded,
    Permanent,
    StormproofError,
)
from .._runtime.randomness import token
from .._strategies.retry.loop import note
from .draft import Draft
from .options import ABSENT, key_value
from .timeouts import call_remaining, timed_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .body import Replay
    from .classification import Rules
    from .options import Told
    from .port import Port


class NotRetried:
    """On a failed response that was not retried: how many ``attempts`` there were, and the ``reason``.

    A `Mark` says instead that retrying was given up; both have these two attributes.
    """

    __slots__ = ("attempts", "reason")

    def __init__(self, attempts: int, reason: str) -> None:
        self.attempts = attempts
        self.reason = reason

    def __repr__(self) -> str:
        return f"NotRetried(attempts={self.attempts}, reason={self.reason!r})"


class Exchange:
    """The state of one request. Attempts that run at the same time (hedges) share it.

    Most requests succeed at once, so that most of it is set only when something goes wrong: until
    then the class has the values. `of` makes the class for one client and policy.
    """

    port: Port
    rules: Rules
    #: The first attempt can be made the short way: nothing about the request has to be looked at.
    simple = True

    #: The attempt's number, from 1.
    number = 1
    #: Whether the attempt at hand has sent anything yet.
    started = False
    #: How the last attempt ended: its error; ``None`` while one is out, or when it was cut off.
    last: Exception | None = None
    #: How the attempt before this one ended for the retry loop, which also sees those that were cut off.
    before: Exception | None = None
    #: The response of an attempt that was made the short way and succeeded.
    answered: Any = None
    #: The responses of all others, open or not. Whoever takes one out of here hands it on or discards it.
    came: Sequence[Any] = ()
    #: The failed responses, each with the error that stands for it in the policy.
    failed: Sequence[tuple[Exception, Any]] = ()
    #: The caller has his answer.
    over = False
    reauthed = False
    _told: Told | None = None
    _draft: Draft | None = None
    #: The headers after re-authentication, for all attempts from then on.
    _base: list[tuple[str, str]] | None = None
    _replay: Replay | None = None
    _repeatable: bool | None = None

    def __init__(self, request: Any) -> None:
        self.request = request

    @classmethod
    def of(cls, port: Port, rules: Rules) -> type[Exchange]:
        """The exchanges of one client under one policy."""
        return type("Exchange", (cls,), {"port": port, "rules": rules})

    def get_ready(self, told: Told | None) -> None:
        """What cannot wait for a failure: where the body begins, and the idempotency key."""
        self.simple = False
        self._told = told
        self._replay = self.port.replay(self.request, self.rules.options.replay)
        self._repeatable = self._may_repeat()

    @property
    def method(self) -> str:
        return self.port.method(self.request)

    @property
    def native(self) -> Any:
        """The request as the library's users know it."""
        return self.port.native(self.request)

    @property
    def replay(self) -> Replay:
        """How the body can be sent again."""
        if self._replay is None:
            self._replay = self.port.replay(self.request, self.rules.options.replay)
        return self._replay

    @property
    def repeatable(self) -> bool:
        """Whether doing it twice does no harm: by its method, or by its idempotency key."""
        if self._repeatable is None:
            self._repeatable = self._may_repeat()
        return self._repeatable

    def _may_repeat(self) -> bool:
        safe = self.method in self.rules.methods
        if safe and (self._told is None or self._told.key is ABSENT):
            return True
        # A key that the request itself names goes with it, whatever its method.
        return self._keyed() or safe

    def _keyed(self) -> bool:
        """Whether the request has an idempotency key, given one where the options say so."""
        port, options, request, told = self.port, self.rules.options, self.request, self._told
        wanted = options.idempotency_key if told is None or told.key is ABSENT else told.key
        if self._has_key():
            return True
        key = wanted(self.native) if callable(wanted) else token() if wanted == "auto" else wanted
        if key is None:
            return False
        port.keep_header(request, options.key_header, key_value("idempotency_key", key))
        return True

    def _has_key(self) -> bool:
        names = (self.rules.options.key_header, *self.rules.settings.key_headers)
        return any(self.port.header(self.request, name) for name in names)

    # What the retry loop asks (see `attempts.Exchange`).

    @property
    def draft(self) -> Draft:
        """The request of the attempt at hand, which a hook may change."""
        if self._draft is None:
            port, request = self.port, self.request
            headers = port.headers(request) if self._base is None else self._base
            credentials = self.rules.options.credentials
            self.simple = False
            self._draft = Draft(self.number, self.method, port.url(request), headers, credentials)
        return self._draft

    def turn(self, number: int, error: Exception | None = None) -> None:
        """Attempt ``number`` is about to be made: it starts from the request as the client made it.

        The one before it ended in ``error``.
        """
        self.number = number
        self.before = error
        self.simple = self.simple and number == 1
        self.started = False
        self._draft = None

    def veto(self, error: BaseException | None) -> str | None:
        """Why the request must not be sent again after ``error`` (None: after an answer that was refused)."""
        if self._told is not None and not self._told.retry:
            return "the request says retry=False"
        if not self.repeatable and self.started and not self._unprocessed(error):
            return f"{self.method[:20]} without an idempotency key may have been processed"
        return self.replay.refusal()

    def _unprocessed(self, error: BaseException | None) -> bool:
        """Whether ``error`` proves that the server did nothing."""
        asked = None if error is None else unwrap_marker(error)[0]
        fault = None if asked is None else fault_of(asked, self.rules.settings)
        return fault is not None and fault.safe

    @property
    def hedgeable(self) -> bool:
        """Whether two attempts may be out at once."""
        return (self._told is None or self._told.retry) and self.repeatable and self.replay.shared

    # One attempt.

    def prepare(self) -> Any:
        """The request to send now: the client's own object, unless something has to be different in it."""
        options = self.rules.options
        extra: dict[str, str] = {}
        limit: float | None = None
        scope = ambient()
        if scope is not None and not bypass():
            limit = scope.remaining()
            if limit is not None and options.timeout_header is not None:
                # A server that stops in the middle does not know the outcome, and a retry with the same key
                # is there to find the answer: the key's request has the time of the whole call.
                left = call_remaining(scope) if self._has_key() else limit
                if left is not None:
                    extra[options.timeout_header] = str(max(1, int(left * 1000)))
        if self.number > 1 and options.attempt_header is not None:
            extra[options.attempt_header] = str(self.number)
        draft = self.draft if self._base is not None else self._draft
        if draft is None and limit is None and not extra:
            return self.request
        return self.port.prepare(self.request, draft, extra, limit)

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for this attempt: it is a hedge that lost, or was left behind in a thread."""
        scope = ambient()
        return self.over or (scope is not None and any(each.cancelled for each in scope.chain()))

    def broke(self, error: BaseException) -> None:
        """The attempt ended in ``error``; what is no `Exception` says that it was cut off."""
        self.started = True
        self.last = error if isinstance(error, Exception) else None

    def keep(self, response: Any) -> None:
        """A response has come: until it is taken, the end of the exchange sees to it."""
        # In one step each: attempts in other threads may do the same.
        self.__dict__.setdefault("came", []).append(response)

    def take(self, response: Any) -> bool:
        """Whether ``response`` is the asker's to discard: nobody else has taken it."""
        try:
            self.__dict__["came"].remove(response)
        except ValueError:
            return False
        return True

    def reauthenticated(self, draft: Draft) -> None:
        """Credentials were renewed on ``draft``: at the client's own origin they hold from now on, at another
        one for this attempt."""
        if not draft.moved:
            self._base = list(draft.headers.pairs)

    def refuse(self, response: Any) -> Exception:
        """The error that stands for a failed response inside the policy."""
        error = self.port.status_error(self.request, response)
        self.__dict__.setdefault("failed", []).append((error, response))
        self.last = error
        return error

    # The end.

    def answer(self, error: Exception) -> Any:
        """What the caller gets when the policy ended in ``error``: a response, or an exception to raise.

        It is the client's own wherever there was an answer at all.
        """
        response = self._failed_response(error)
        if response is not None:
            self._mark(response, error)
            return response
        if isinstance(error, Permanent):
            return error.error
        if not isinstance(error, StormproofError):
            self._explain(error)
            return error
        if isinstance(error, Cancelled):
            return error
        if self.last is None:
            cut_off = isinstance(error, AttemptTimeout) or (self.started and isinstance(error, TimeoutError))
            if cut_off:
                return self._timed_out(error)
            ended = self._ended_in(error)
            return error if ended is None else self._given_up(error, ended)
        if error is self.last:
            return self._final(error)
        return self._given_up(error, self.last)

    def response_of(self, error: BaseException) -> Any:
        """``None``: what fails by the table of statuses is judged as an error, not as a result."""
        return None

    def _failed_response(self, error: BaseException) -> Any:
        """The response that ``error`` stands for; ``None`` if there was none."""
        return next((response for known, response in self.failed if known is error), None)

    def _mark(self, response: Any, error: Exception) -> None:
        found = exhaustion.exhausted_by(error)
        if found is None and self.rules.retries and (why := self.veto(error)) is not None:
            exhaustion.mark(response, NotRetried(self.number, f"not sent again: {why}"))
        elif found is not None:
            exhaustion.mark(response, found)

    def _explain(self, error: Exception) -> None:
        """Say on ``error`` why it was not retried, where it is worth it and only the request was in the way.

        The retry loop has said so already, unless a library tells the request on its errors: then the
        policy's classifier saw it before the loop could ask.
        """
        fault = fault_of(error, self.rules.settings) if self.rules.classifies else None
        if fault is None or not fault.retry or exhaustion.exhausted_by(error) is not None:
            return
        why = self.veto(error)
        if why is not None and not any(why in told for told in getattr(error, "__notes__", ())):
            note(error, f"{self._tried()}; stopped: not sent again: {why}")

    def _tried(self) -> str:
        return f"{self.number} attempt{'' if self.number == 1 else 's'}"

    def _ended_in(self, refusal: StormproofError) -> Exception | None:
        """What the last attempt came to if it was cut off before ``refusal``; ``None`` if there was none."""
        ended = refusal.__cause__ if isinstance(refusal, BudgetExhausted) else self.before
        if isinstance(ended, AttemptTimeout):
            return self._as_own(ended)
        return None if isinstance(ended, StormproofError) or not isinstance(ended, Exception) else ended

    def _timed_out(self, refusal: Exception) -> Exception:
        return self._final(self._as_own(refusal))

    def _as_own(self, refusal: Exception) -> Exception:
        return timed_out(self.port.timeout_error(self.request, str(refusal)), refusal)

    def _final(self, error: Exception) -> Exception:
        """``error``, marked if it says that all the time is over: layers further out have none either."""
        if isinstance(error, DeadlineExceeded):
            refusal = error.__cause__ if isinstance(error.__cause__, StormproofError) else error
            exhaustion.mark(error, exhaustion.Mark(self.rules.name, self.rules, self.number, str(refusal)))
        return error

    def _given_up(self, refusal: StormproofError, last: Exception) -> Any:
        """The last answer, marked: an outer layer must stop where this one was refused."""
        reason = f"{type(refusal).__name__}: {refusal}"
        response = self._failed_response(last)
        given = last if response is None else response
        exhaustion.mark(given, exhaustion.Mark(self.rules.name, self.rules, self.number, reason))
        if response is None and refusal.__cause__ is not last:
            note(last, f"{self._tried()}; stopped: {reason}")
        return given

    def leftovers(self, answer: Any = None) -> list[Any]:
        """Takes the responses that nobody is going to read, each once."""
        left = [] if self.answered is None or self.answered is answer else [self.answered]
        self.answered = self.before = None
        self.failed = [pair for pair in self.failed if pair[1] is answer]
        came: list[Any] = self.__dict__.get("came", [])
        try:
            while True:
                response = came.pop()
                if response is not answer:
                    left.append(response)
        except IndexError:
            # Empty; to ask before would be to ask too early, as attempts in other threads take theirs out.
            return left
