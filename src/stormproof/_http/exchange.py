"""One request on its way through a policy: its attempts, and the responses that are still open.

What may be sent again is in `repeat_rules`, what the caller gets in the end in `final_answer`.
"""

from __future__ import annotations

from .._context.deadlines import ambient, remaining_for_attempt
from .draft import Draft
from .repeat_rules import RepeatRules
from .timeouts import as_seen, call_remaining

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .classification import Rules
    from .options import RequestOverrides
    from .port import Port


class Exchange:
    """The state of one request. Attempts that run at the same time (hedges) share it.

    Most requests succeed at once, so that most of it is set only when something goes wrong: until
    then the class has the values. `of` makes the class for one client and policy.
    """

    port: Port[Any, Any]
    rules: Rules
    #: The first attempt can be made the short way: nothing about the request has to be looked at.
    simple = True

    #: The attempt's number, from 1.
    number = 1
    #: Number of requests that were sent while attempts are traced: hedges and new credentials count, too.
    sent = 0
    #: True once the current attempt has sent anything.
    started = False
    #: Error of the last attempt; ``None`` while one is in flight, or when it was cut off.
    last: Exception | None = None
    #: Error of the attempt before this one as the retry loop sees it, which includes those that were cut off.
    before: Exception | None = None
    #: The response of an attempt that was made the short way and succeeded.
    answered: object = None
    #: The responses of all others, open or not. The code that takes one out hands it on or discards it.
    open_responses: Sequence[Any] = ()
    #: The failed responses, each with the error that stands for it in the policy.
    failed_responses: Sequence[tuple[Exception, Any]] = ()
    #: The caller has received a response or an error.
    finished = False
    reauthed = False
    _draft: Draft | None = None
    #: The headers after re-authentication, for all attempts from then on.
    _base: list[tuple[str, str]] | None = None
    _repeat: RepeatRules | None = None

    def __init__(self, request: object) -> None:
        self.request = request

    @classmethod
    def of(cls, port: Port[Any, Any], rules: Rules) -> type[Exchange]:
        """The exchanges of one client under one policy."""
        return type("Exchange", (cls,), {"port": port, "rules": rules})

    def get_ready(self, overrides: RequestOverrides | None) -> None:
        """Do what cannot wait for a failure: note where the body begins, and set the idempotency key."""
        self.simple = False
        self._repeat = RepeatRules(self.port, self.rules, self.request, overrides)

    @property
    def repeat(self) -> RepeatRules:
        """The rules that decide if the request may be sent again."""
        if self._repeat is None:
            self._repeat = RepeatRules(self.port, self.rules, self.request, None)
        return self._repeat

    @property
    def method(self) -> str:
        return self.port.method(self.request)

    @property
    def native(self) -> Any:
        """The request as the library's users know it."""
        return self.port.native(self.request)

    # What the retry loop asks (see `attempts.Exchange`).

    @property
    def draft(self) -> Draft:
        """The request of the current attempt, which a hook may change."""
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
        return self.repeat.veto(error, self.started)

    # One attempt.

    def prepare(self) -> Any:
        """The request to send now: the client's own object, unless something has to be different in it."""
        options = self.rules.options
        extra: dict[str, str] = {}
        limit: float | None = None
        scope = ambient()
        if scope is not None:
            limit = remaining_for_attempt(scope)
            if limit is not None and options.timeout_header is not None:
                # A server that stops in the middle does not know the outcome, and a retry with the same key
                # is there to find the answer: the key's request has the time of the whole call.
                has_key = self.port.has_field(self.request, self.rules.key_names)
                left = call_remaining(scope) if has_key else limit
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
        """True if the caller does not wait for this attempt: a hedge that lost, or left in a thread."""
        scope = ambient()
        return self.finished or (scope is not None and scope.is_cancelled)

    def broke(self, error: Exception) -> Exception:
        """Record that the attempt ended in ``error``; return it, as ours too if our time was over."""
        self.last = as_seen(error, self.rules.settings)
        return self.last

    def keep(self, response: object) -> None:
        """A response has come: until it is taken, the end of the exchange sees to it."""
        # In one step each: attempts in other threads may do the same.
        self.__dict__.setdefault("open_responses", []).append(response)

    def take(self, response: object) -> bool:
        """Take ``response`` out to discard it; return False if it was taken out before."""
        try:
            self.__dict__["open_responses"].remove(response)
        except ValueError:
            return False
        return True

    def reauthenticated(self, draft: Draft) -> None:
        """Credentials were renewed on ``draft``: at the client's own origin they hold from now on, at another
        one for this attempt."""
        if not draft.moved:
            self._base = list(draft.headers.pairs)

    def refuse(self, response: object) -> Exception:
        """The error that stands for a failed response inside the policy."""
        error = self.port.status_error(self.request, response)
        self.__dict__.setdefault("failed_responses", []).append((error, response))
        self.last = error
        return error

    # The end.

    def failed_response(self, error: BaseException) -> Any:
        """The response that ``error`` stands for; ``None`` if there was none."""
        return next((response for known, response in self.failed_responses if known is error), None)

    def leftovers(self, answer: object = None) -> list[Any]:
        """Take out the responses that will not be read, each once."""
        left = [] if self.answered is None or self.answered is answer else [self.answered]
        self.answered = self.before = None
        self.failed_responses = [pair for pair in self.failed_responses if pair[1] is answer]
        open_responses: list[Any] = self.__dict__.get("open_responses", [])
        try:
            while True:
                response = open_responses.pop()
                if response is not answer:
                    left.append(response)
        except IndexError:
            # Empty; to ask before would be to ask too early, as attempts in other threads take theirs out.
            return left
