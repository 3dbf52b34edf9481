"""From what the user wrote in ``on=`` and ``on_result=`` to a verdict."""

from __future__ import annotations

from .._primitives.errors import AttemptTimeout, Permanent, RetryAfter, StormproofError
from .classifier import Classifier, transient
from .exhaustion import is_bare
from .foreign_objects import get
from .server_hints import retry_after
from .stops import refusal_in
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeGuard

    On = type[Exception] | tuple[type[Exception], ...] | Callable[[Any], bool | Verdict]


def judge(
    on: On, owner: str = "Retry", *, names_refusals: bool = False
) -> Callable[[BaseException], Verdict]:
    """``on`` as a function from an exception to a verdict.

    Stormproof's own refusals are final unless ``on`` names their type, or a callable answers with
    an explicit `Verdict`. What a server says not to retry is final unless there is such a verdict.
    ``names_refusals`` is for those who count or answer failures instead of repeating calls: refusals
    are then judged like any other exception, and a server's word about retrying is not asked for.
    """
    if isinstance(on, (type, tuple)):
        return _judge_types(on if isinstance(on, tuple) else (on,), owner, names_refusals)
    if not callable(on):
        raise TypeError(f"{owner}: on must be an exception type, a tuple of them or a callable, got {on!r}")
    if isinstance(on, Classifier):
        return on
    if hasattr(on, "strategies"):
        raise TypeError(f"{owner}: on must say which errors, not how to retry them, got the policy {on!r}")
    if not _takes_an_exception(on):
        raise TypeError(
            f"{owner}: on must be a plain function of one argument, the exception, got {on!r}; "
            "a decorator needs its parentheses: @retry(on=...)"
        )
    return _judge_callable(on, owner, names_refusals)


#: Types whose verdict is kept, of one ``on``.
_MAX_TYPES = 1024

#: Bits of a code object's ``co_flags``: \*args; generator, coroutine, async generator.
_STAR, _NOT_PLAIN = 0x04, 0x20 | 0x80 | 0x200


def _takes_an_exception(on: Any) -> bool:
    """Return True if ``on`` takes one exception. Callables other than functions are not checked."""
    code = getattr(on, "__code__", None)
    if code is None or hasattr(on, "__self__"):
        return True
    if code.co_flags & _NOT_PLAIN or code.co_kwonlyargcount > len(on.__kwdefaults__ or ()):
        return False
    needed = code.co_argcount - len(on.__defaults__ or ())
    return needed <= 1 and bool(code.co_argcount or code.co_flags & _STAR)


def _judge_types(
    types: tuple[Any, ...], owner: str, names_refusals: bool
) -> Callable[[BaseException], Verdict]:
    if not types:
        raise ValueError(f"{owner}: on must name at least one exception type, got ()")
    for kind in types:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise TypeError(f"{owner}: on must hold exception types, got {kind!r}")
        if kind is not BaseException and not issubclass(kind, (Exception, BaseExceptionGroup)):
            raise ValueError(
                f"{owner}: on must not hold {kind.__qualname__}: what is not an Exception "
                "(cancellation, exit, interrupt) is never retried"
            )
    return _TypeJudge(types, names_refusals)


class _TypeJudge:
    """Judges by exception types: those of ``on`` are retried."""

    __slots__ = tuple(
        "__weakref__ _groups _named _names_refusals _refusals _settled _types final known".split()
    )

    def __init__(self, types: tuple[Any, ...], names_refusals: bool) -> None:
        self._types = types
        self._refusals = named_refusals(types)
        self._names_refusals = names_refusals
        self._named = types if names_refusals else self._refusals
        self._groups = tuple(kind for kind in types if issubclass(kind, BaseExceptionGroup))
        # Types met before whose exceptions all mean the same; and those that do while nothing is attached.
        self._settled: dict[type, Verdict] = {}
        self.known: dict[type, Verdict] = {}
        #: Our own refusals among them that are not retried, whatever is attached.
        self.final: set[type] = set()
        transient.followers.add(self)

    def __call__(self, error: BaseException) -> Verdict:
        kind, known, bare = type(error), self.known, is_bare(error)
        if bare and (verdict := known.get(kind)) is not None:
            return verdict
        found = self._verdict(error)
        if bare:
            if (kind in self._settled or kind in transient.known) and len(known) < _MAX_TYPES:
                known[kind] = found
        elif self._refusals and not found.retry:
            stands_for = refusal_in(error)
            if stands_for is not None and issubclass(stands_for, self._refusals):
                return _retry(error, True)
        return found

    def _verdict(self, error: BaseException) -> Verdict:
        settled = self._settled.get(type(error))
        if settled is not None:
            return settled
        if isinstance(error, BaseExceptionGroup) and not isinstance(error, (*self._groups, StormproofError)):
            return _all_leaves(error, self._verdict)
        if (is_refusal(error) and not isinstance(error, self._named)) or not isinstance(error, self._types):
            found = Verdict.FATAL
            if is_refusal(error) and not self._refusals:
                self.final.add(type(error))
        elif _has_no_details(error):
            found = Verdict.RETRY
        else:
            return _retry(error, self._names_refusals)
        if len(self._settled) < _MAX_TYPES:
            self._settled[type(error)] = found
        return found


def named_refusals(on: object) -> tuple[type[StormproofError], ...]:
    """Return the refusals that ``on`` names. An error that was stopped for one of them matches, too."""
    kinds = on if isinstance(on, tuple) else (on,)
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StormproofError))


class _NoneKnown:
    """In place of a judge whose answer may depend on more than the type."""

    __slots__ = ("final", "known")

    def __init__(self) -> None:
        self.known: dict[type, Verdict] = {}
        self.final: set[type] = set()


def by_type(judge: object) -> Any:
    """Return what has the verdicts on exceptions with nothing to read but their type, as ``known``, and as
    ``final`` the types of our own refusals that are not retried."""
    return judge if hasattr(judge, "known") else _NoneKnown()


def _judge_callable(
    on: Callable[[Any], bool | Verdict], owner: str, names_refusals: bool
) -> Callable[[BaseException], Verdict]:
    def verdict(error: BaseException) -> Verdict:
        answer = on(error)
        if isinstance(answer, Verdict):
            return answer
        _refuse_awaitable(owner, answer)
        if isinstance(error, BaseExceptionGroup):
            return _all_leaves(error, verdict)
        if answer and (names_refusals or not is_refusal(error)):
            return _retry(error, names_refusals)
        return Verdict.FATAL

    return verdict


def judge_answer(answer: object, result: object) -> Verdict:
    """Return what ``on_result``'s answer says of ``result``: true means "not good enough, try again"."""
    if isinstance(answer, Verdict):
        return answer
    if not answer:
        return Verdict.FATAL
    seen = transient(result)
    if seen.kind == "pushback":
        return seen
    # The rule says that it is not good enough; when to come back the response says itself.
    after = seen.after if seen.after is not None else retry_after(get(result, "headers"))
    return Verdict.RETRY if after is None else Verdict(True, after)


def _refuse_awaitable(owner: str, answer: object) -> None:
    """Any answer counts by its truth, but one that is still to be awaited, which would always be true."""
    if hasattr(answer, "__await__"):
        if callable(close := getattr(answer, "close", None)):
            close()
        raise TypeError(f"{owner}: on must answer at once with a truth value or a Verdict, got {answer!r}")


def _retry(error: BaseException, ignore_pushback: bool) -> Verdict:
    """Return a verdict to retry, with the hint and the kind of the error itself.

    An error by which the server forbids retries is not retried, unless ``ignore_pushback``.
    """
    seen = transient(error)
    if seen.kind == "pushback" and not ignore_pushback:
        return seen
    after = seen.after
    if after is None and isinstance(error, StormproofError):
        after = error.retry_after
    kind = seen.kind if seen.kind in ("timeout", "throttle") else "transient"
    if after is None and kind == "transient":
        return Verdict.RETRY
    return Verdict(True, after, kind)


def _has_no_details(error: BaseException) -> bool:
    """Return True if the type alone rules out a hint and a timeout."""
    return type(error).__module__ == "builtins" and not isinstance(error, (TimeoutError, BaseExceptionGroup))


def is_refusal(error: BaseException | None) -> TypeGuard[StormproofError]:
    """Return True if ``error`` is one of our own refusals; an attempt cut off is a failure."""
    return isinstance(error, StormproofError) and not isinstance(error, AttemptTimeout)


def _all_leaves(group: BaseExceptionGroup[Any], verdict: Callable[[BaseException], Verdict]) -> Verdict:
    """A group is worth retrying if every leaf is; it waits for the longest hint among them."""
    longest: float | None = None
    for leaf in leaves(group):
        asked, after = unwrap_marker(leaf)
        seen = Verdict.RETRY if asked is None else verdict(asked)
        if isinstance(leaf, Permanent) or not seen.retry:
            return Verdict.FATAL
        for hint in (after, seen.after):
            if hint is not None:
                longest = hint if longest is None else max(longest, hint)
    return Verdict.RETRY if longest is None else Verdict(True, longest)


def leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    """The exceptions of a group and of the groups in it."""
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop()
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            yield error


def judge_marked(judge: Callable[[BaseException], Verdict], error: BaseException) -> Verdict:
    """Return ``judge``'s verdict on an error that may be one of the two marks."""
    if isinstance(error, Permanent):
        return Verdict.FATAL
    cause, asked = unwrap_marker(error)
    verdict = Verdict.RETRY if cause is None else judge(cause)
    if asked is None:
        return verdict
    return Verdict(verdict.retry, max(asked, verdict.after or 0.0), verdict.kind, verdict.reason)


def unwrap_marker(error: BaseException) -> tuple[BaseException | None, float | None]:
    """(whose type decides and who surfaces, the wait asked for): looks through the two marks.

    A `RetryAfter` without a cause gives ``None``: it is retryable by itself.
    """
    if isinstance(error, RetryAfter):
        return error.__cause__ if error.cause is None else error.cause, error.seconds
    if isinstance(error, Permanent):
        return error.error, None
    return error, None
