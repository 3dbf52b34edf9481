"""Verdicts from the user's ``on=`` and ``on_result=``."""

from __future__ import annotations

from .._primitives.errors import AttemptTimeout, Permanent, RetryAfter, StormproofError
from .._runtime.function_kind import function_kind
from .classifier import Classifier, transient
from .exhaustion import is_bare
from .foreign_objects import get, leaves
from .server_hints import retry_after
from .stops import refusal_in
from .verdict import Verdict, refuse_awaitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeGuard

On: TypeAlias = "type[Exception] | tuple[type[Exception], ...] | Callable[[Any], bool | Verdict]"


def judge(
    on: On, owner: str = "Retry", *, names_refusals: bool = False, field: str = "on"
) -> Callable[[BaseException], Verdict]:
    """``on`` as a function from an exception to a verdict; errors name the option ``field`` of ``owner``.

    Stormproof's own refusals are final unless ``on`` names their type, or a callable answers with
    an explicit `Verdict`. What a server says not to retry is final unless there is such a verdict.
    ``names_refusals`` is for those who count or answer failures instead of repeating calls: refusals
    are then judged like any other exception, and a server's word about retrying is not asked for.
    """
    subject = f"{owner}: {field}"
    if isinstance(on, (type, tuple)):
        return _judge_types(on if isinstance(on, tuple) else (on,), subject, names_refusals)
    if not callable(on):
        rule = "an exception type, a tuple of them or a callable"
        raise TypeError(f"{subject} must be {rule}, got {on!r}{_advice(on)}")
    if isinstance(on, Classifier):
        return on
    if hasattr(on, "strategies"):
        raise TypeError(f"{subject} must say which errors, not how to retry them, got the policy {on!r}")
    if "async" in function_kind(on):
        raise TypeError(f"{subject} must not be async, got {on!r}: it answers at once")
    if not _takes_an_exception(on):
        raise TypeError(
            f"{subject} must be a plain function of one argument, the exception, got {on!r}; "
            "a decorator needs its parentheses: @retry(on=...)"
        )
    return _judge_callable(on, owner, names_refusals)


def _advice(on: object) -> str:
    """Return what to write in place of ``on``, as an error says it; empty if that cannot be guessed."""
    if isinstance(on, (list, set, frozenset)):
        return "; write a tuple"
    if isinstance(on, BaseException):
        return f"; give its type, {type(on).__name__}"
    if type(on) is int:
        return "; did you mean attempts=?"
    if on is None or on == "transient":
        return "; did you mean on=transient?"
    return "; give the type itself, not its name" if isinstance(on, str) else ""


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
    types: tuple[Any, ...], subject: str, names_refusals: bool
) -> Callable[[BaseException], Verdict]:
    if not types:
        raise ValueError(f"{subject} must name at least one exception type, got ()")
    for kind in types:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise TypeError(f"{subject} must hold exception types, got {kind!r}")
        if kind is not BaseException and not issubclass(kind, (Exception, BaseExceptionGroup)):
            raise ValueError(
                f"{subject} must not hold {kind.__qualname__}: what is not an Exception "
                "(cancellation, exit, interrupt) is never retried"
            )
    return _TypeJudge(types, names_refusals)


class _TypeJudge:
    """Judges by exception types: those of ``on`` are retried."""

    def __init__(self, types: tuple[Any, ...], names_refusals: bool) -> None:
        self._types = types
        self._refusals = named_refusals(types)
        self._names_refusals = names_refusals
        self._named = types if names_refusals else self._refusals
        self._groups = tuple(kind for kind in types if issubclass(kind, BaseExceptionGroup))
        # Types met before whose exceptions all mean the same; and those that do while nothing is attached.
        self._settled: dict[type, Verdict] = {}
        self.known: dict[type, Verdict] = {}
        #: Stormproof's refusals among them that are not retried, whatever is attached to them.
        self.final: set[type] = set()
        transient.followers.add(self)

    def __call__(self, error: BaseException) -> Verdict:
        kind, known, bare = type(error), self.known, is_bare(error)
        if bare and (verdict := known.get(kind)) is not None:
            return verdict
        judged = self._verdict(error)
        if bare:
            if (kind in self._settled or kind in transient.known) and len(known) < _MAX_TYPES:
                known[kind] = judged
        elif self._refusals and not judged.retry:
            stands_for = refusal_in(error)
            if stands_for is not None and issubclass(stands_for, self._refusals):
                return _retry(error, True)
        return judged

    def _verdict(self, error: BaseException) -> Verdict:
        settled = self._settled.get(type(error))
        if settled is not None:
            return settled
        if isinstance(error, BaseExceptionGroup) and not isinstance(error, (*self._groups, StormproofError)):
            return _all_leaves(error, self._verdict)
        if (is_refusal(error) and not isinstance(error, self._named)) or not isinstance(error, self._types):
            verdict = Verdict.FATAL
            if is_refusal(error) and not self._refusals:
                self.final.add(type(error))
        else:
            return _retry(error, self._names_refusals)
        if len(self._settled) < _MAX_TYPES:
            self._settled[type(error)] = verdict
        return verdict


def named_refusals(on: object) -> tuple[type[StormproofError], ...]:
    """Return the refusals that ``on`` names. An error that was stopped for one of them matches, too."""
    kinds = on if isinstance(on, tuple) else (on,)
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StormproofError))


class _NoneKnown:
    """In place of a judge whose answer may depend on more than the type."""

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
        refuse_awaitable(f"{owner}: on must answer at once with a truth value or a Verdict", answer)
        if isinstance(error, BaseExceptionGroup):
            return _all_leaves(error, verdict)
        if answer and (names_refusals or not is_refusal(error)):
            return _retry(error, names_refusals)
        return Verdict.FATAL

    return verdict


def judge_answer(answer: object, result: object) -> Verdict:
    """Return the verdict on ``result`` from ``on_result``'s answer: true means "not good enough"."""
    if isinstance(answer, Verdict):
        return answer
    if not answer:
        return Verdict.FATAL
    verdict = transient(result)
    if verdict.kind == "pushback":
        return verdict
    # The rule says that it is not good enough; when to come back the response says itself.
    after = verdict.after if verdict.after is not None else retry_after(get(result, "headers"))
    return Verdict.RETRY if after is None else Verdict(True, after)


def _retry(error: BaseException, ignore_pushback: bool) -> Verdict:
    """Return a verdict to retry, with the hint, the kind and the reason of the error itself.

    An error by which the server forbids retries is not retried, unless ``ignore_pushback``.
    """
    verdict = transient(error)
    if verdict.kind == "pushback" and not ignore_pushback:
        return verdict
    after = verdict.after
    if after is None and isinstance(error, StormproofError):
        after = error.retry_after
    if verdict.retry and after == verdict.after:
        return verdict
    kind = verdict.kind if verdict.kind in ("timeout", "throttle") else "transient"
    if after is None and kind == "transient":
        return Verdict.RETRY
    return Verdict(True, after, kind, verdict.reason if verdict.retry else "")


def is_refusal(error: BaseException | None) -> TypeGuard[StormproofError]:
    """Return True if ``error`` is a refusal of Stormproof's; an attempt that was cut off is a failure."""
    return isinstance(error, StormproofError) and not isinstance(error, AttemptTimeout)


def _all_leaves(group: BaseExceptionGroup[Any], verdict: Callable[[BaseException], Verdict]) -> Verdict:
    """A group is worth retrying if every leaf is; it waits for the longest hint among them.

    It is a timeout if every leaf is one.
    """
    longest: float | None = None
    kinds: set[str] = set()
    reason = ""
    errors = leaves(group)
    if not errors:
        # There are too many to look at.
        return Verdict.FATAL
    for leaf in errors:
        cause, after = unwrap_marker(leaf)
        own = Verdict.RETRY if cause is None else verdict(cause)
        if isinstance(leaf, Permanent) or not own.retry:
            return Verdict.FATAL
        for hint in (after, own.after):
            if hint is not None:
                longest = hint if longest is None else max(longest, hint)
        kinds.add(own.kind)
        reason = reason or own.reason
    return Verdict(True, longest, "timeout" if kinds == {"timeout"} else "transient", reason)


def judge_marked(judge: Callable[[BaseException], Verdict], error: BaseException) -> Verdict:
    """Return ``judge``'s verdict on an error that may be one of the two marks."""
    if isinstance(error, Permanent):
        return Verdict.FATAL
    cause, after = unwrap_marker(error)
    verdict = Verdict.RETRY if cause is None else judge(cause)
    if after is None:
        return verdict
    return Verdict(verdict.retry, max(after, verdict.after or 0.0), verdict.kind, verdict.reason)


def unwrap_marker(error: BaseException) -> tuple[BaseException | None, float | None]:
    """(whose type decides and who surfaces, the wait asked for): looks through the two marks.

    A `RetryAfter` without a cause gives ``None``: it is retryable by itself.
    """
    if isinstance(error, RetryAfter):
        return error.__cause__ if error.cause is None else error.cause, error.seconds
    if isinstance(error, Permanent):
        return error.error, None
    return error, None
