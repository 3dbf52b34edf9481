"""Is it worth trying again? From an exception or a response to a `Verdict`.

`transient` is the shipped classifier. It imports no library to recognise its errors: `known_faults` has
what is known, `lookup` finds it, `fault_readers` read the details, and here the request's method and the
marks of inner layers are weighed.
"""

from __future__ import annotations

import weakref

from .._primitives.errors import RetryAfter, StormproofError
from .exhaustion import is_bare, response_mark
from .fault_readers import fault_of
from .foreign_objects import is_a, leaves, request_of
from .lookup import says_all
from .server_hints import header
from .settings import ClassifierSettings
from .verdict import Verdict, refuse_awaitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self, TypeAlias

    from .known_faults import KnownFault

    Rule: TypeAlias = "Verdict | Callable[[Any], bool | Verdict | None]"

_MAX_RULES = 1024
_MAX_WRAPS = 4
_MAX_PLANS = 1024
_set = object.__setattr__


#: End of the reason of a verdict on a request that only its method forbids to send again.
UNREPEATABLE = "without an idempotency key may have been processed"


class Classifier:
    """Calls an exception or a response worth retrying, or not: ``classifier(outcome) -> Verdict``.

    Works as ``on=`` and as ``on_result=``. What it does not know is not retried. ``statuses`` are
    the HTTP statuses worth retrying, ``never`` those that not even ``x-should-retry: true`` makes
    so, ``methods`` the HTTP methods that are safe to repeat; another method is repeated only with
    one of ``key_headers``, or when the failure proves that nothing was processed. ``grpc_codes``
    are names, or ``"wide"``.
    """

    def __init__(self, settings: ClassifierSettings | None = None) -> None:
        if settings is not None and not isinstance(settings, ClassifierSettings):
            raise TypeError(f"Classifier: settings must be ClassifierSettings or None, got {settings!r}")
        self.settings = ClassifierSettings() if settings is None else settings
        self.rules: dict[type | str, Rule] = {}
        self._plans: dict[type, tuple[Rule, ...]] = {}
        #: Verdicts for exceptions that only their type distinguishes.
        self.known: dict[type, Verdict] = {}
        #: Stormproof's refusals that are not retried, whatever is attached to them.
        self.final: set[type] = set()
        #: Objects with verdicts that follow from these, in a ``known`` of their own.
        self.followers: weakref.WeakSet[Any] = weakref.WeakSet()

    def __call__(self, outcome: object) -> Verdict:
        known = self.known
        verdict = known.get(type(outcome))
        if verdict is not None and is_bare(outcome):  # type: ignore[arg-type]
            return verdict
        verdict = self._judge(outcome, 0)
        if not self.rules and is_a(outcome, BaseException):
            if is_bare(outcome) and says_all(type(outcome)):
                if len(known) >= _MAX_PLANS:
                    known.clear()
                known[type(outcome)] = verdict
            elif verdict.kind == "fatal" and is_a(outcome, StormproofError):
                self.final.add(type(outcome))
        return verdict

    def _judge(self, outcome: object, depth: int) -> Verdict:
        """``depth`` counts the groups and `RetryAfter` marks around ``outcome``; they may form a cycle."""
        kind = type(outcome)
        if issubclass(kind, BaseException) and not issubclass(kind, Exception):
            # Cancellation, exit and interrupt: no rule makes these retryable.
            return Verdict.FATAL
        if self.rules:
            verdict = self._apply_rules(kind, outcome)
            if verdict is not None:
                return verdict
        if depth > _MAX_WRAPS:
            return Verdict.FATAL
        if issubclass(kind, BaseExceptionGroup):
            return self._group(outcome, depth)
        if issubclass(kind, RetryAfter):
            return self._hinted(outcome, depth)
        fault = fault_of(outcome, self.settings)
        return Verdict.FATAL if fault is None else self._settle(outcome, fault)

    def register(self, kind: type | str, rule: bool | Rule) -> Self:
        """Let ``rule`` decide for ``kind`` and its subclasses, before the built-in tables.

        ``kind`` is a class, or ``"module.QualName"`` of one that need not be imported (its full
        module or the top-level one). ``rule`` is a bool, a `Verdict`, or a callable given the
        outcome that answers with one, or with ``None`` to leave it to the next rule; any other answer
        counts by its truth. The most
        specific class comes first; a virtual subclass (``ABC.register``) does not count.
        """
        key = _rule_key(kind)
        if not isinstance(rule, (bool, Verdict)) and not callable(rule):
            raise TypeError(f"Classifier: rule must be a bool, a Verdict or a callable, got {rule!r}")
        if key not in self.rules and len(self.rules) >= _MAX_RULES:
            raise ValueError(f"Classifier: at most {_MAX_RULES} rules can be registered")
        self.rules[key] = _as_verdict(rule) if isinstance(rule, bool) else rule
        self._forget()
        return self

    def unregister(self, kind: type | str) -> Self:
        """Take back the rule registered for ``kind``, if any."""
        self.rules.pop(_rule_key(kind), None)
        self._forget()
        return self

    def _forget(self) -> None:
        # Replaced, not cleared: a call that is reading the old ones now stores what it finds there.
        self._plans, self.known, self.final = {}, {}, set()
        for follower in list(self.followers):
            follower.known = {}

    def with_(
        self,
        *,
        statuses: Iterable[int] | None = None,
        never: Iterable[int] | None = None,
        methods: Iterable[str] | None = None,
        key_headers: Iterable[str] | None = None,
        grpc_codes: Iterable[Any] | str | None = None,
        errnos: Iterable[int] | None = None,
        sqlstates: Iterable[str] | None = None,
        mysql_errors: Iterable[int] | None = None,
    ) -> Classifier:
        """A copy with other tables and the same rules; ``None`` keeps a table, ``()`` empties it.

        ``transient.with_(statuses={409, *transient.settings.statuses})`` adds one status.
        """
        given = {
            "statuses": statuses,
            "never": never,
            "methods": methods,
            "key_headers": key_headers,
            "grpc_codes": grpc_codes,
            "errnos": errnos,
            "sqlstates": sqlstates,
            "mysql_errors": mysql_errors,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return _rebuild(self.settings.replace(**changes), dict(self.rules))

    def _apply_rules(self, kind: type, outcome: object) -> Verdict | None:
        """Return the verdict of the first registered rule with an answer, or None."""
        plans = self._plans
        plan = plans.get(kind)
        if plan is None:
            registered = [self.rules.get(key) for base in kind.__mro__ for key in _names(base)]
            plan = tuple(rule for rule in registered if rule is not None)
            if len(plans) >= _MAX_PLANS:
                plans.clear()
            plans[kind] = plan
        for rule in plan:
            answer = rule if isinstance(rule, Verdict) else rule(outcome)
            if answer is not None:
                return _as_verdict(answer)
        return None

    def _group(self, group: object, depth: int) -> Verdict:
        """Worth retrying if every leaf is; waits for the longest hint; a timeout only if every leaf is."""
        verdicts = [self._judge(leaf, depth + 1) for leaf in leaves(group)]
        refusals = [verdict for verdict in verdicts if not verdict.retry]
        if refusals or not verdicts:
            # A pushback among them must reach the throttle budget that counts it.
            pushbacks = [verdict for verdict in refusals if verdict.kind == "pushback"]
            return (pushbacks or refusals or [Verdict.FATAL])[0]
        after = max((verdict.after for verdict in verdicts if verdict.after is not None), default=None)
        timeout = all(verdict.kind == "timeout" for verdict in verdicts)
        return Verdict(True, after, "timeout" if timeout else "transient", verdicts[0].reason)

    def _hinted(self, error: Any, depth: int) -> Verdict:
        """`RetryAfter`: its cause decides; without one it is retryable by itself."""
        cause = error.__cause__ if error.cause is None else error.cause
        verdict = Verdict.RETRY if cause is None else self._judge(cause, depth + 1)
        return Verdict(verdict.retry, max(error.seconds, verdict.after or 0.0), verdict.kind, verdict.reason)

    def _settle(self, outcome: object, fault: KnownFault) -> Verdict:
        """Return the verdict on ``fault``, given an inner layer's mark and the request's method."""
        if fault.retry:
            layer = response_mark(outcome)
            if layer is not None:
                return Verdict(False, fault.after, "fatal", f"exhausted by {layer.layer}")
            if not fault.safe:
                unsafe = self._unsafe_method(outcome)
                if unsafe is not None:
                    why = f"{fault.reason}; {unsafe} {UNREPEATABLE}"
                    return Verdict(False, fault.after, "fatal", why)
        if fault.verdict is None:
            fault.verdict = Verdict(fault.retry, fault.after, fault.kind, fault.reason)
        return fault.verdict

    def _unsafe_method(self, outcome: object) -> str | None:
        """Return the request's method if it is known and repeating it might do its work twice."""
        method, headers = request_of(outcome)
        if method is None or method in self.settings.methods or header(headers, self.settings.key_headers):
            return None
        return method[:20]

    def describe(self) -> dict[str, Any]:
        """Return the tables as plain data, ready for JSON; neighbouring statuses as ``"512-599"``."""
        tables = {name: sorted(value) for name, value in self.settings.fields().items()}
        tables["statuses"] = _ranges(tables["statuses"])
        return {"kind": "transient", **tables, "rules": sorted(map(_spelt, self.rules))}

    def __repr__(self) -> str:
        if self is transient:
            return "transient"
        default = ClassifierSettings().fields()
        changed = {name: value for name, value in self.settings.fields().items() if value != default[name]}
        inner = ", ".join(f"{name}={tuple(sorted(value))}" for name, value in changed.items())
        text = f"transient.with_({inner})"
        return text if not self.rules else f"<{text} and {len(self.rules)} registered>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Classifier):
            return NotImplemented
        return self is other or (self.settings == other.settings and self.rules == other.rules)

    def __hash__(self) -> int:
        return hash(self.settings)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "transient" if self is transient else (_rebuild, (self.settings, self.rules))


def _ranges(numbers: list[int]) -> list[int | str]:
    """Return ``numbers``, sorted, with each run of three or more as one text."""
    ends = [n for n in numbers if n + 1 not in numbers]
    starts = [n for n in numbers if n - 1 not in numbers]
    ranges: list[int | str] = []
    for first, last in zip(starts, ends, strict=True):
        ranges += [f"{first}-{last}"] if last - first > 1 else range(first, last + 1)
    return ranges


def _rebuild(settings: ClassifierSettings, rules: dict[type | str, Any]) -> Classifier:
    copy = Classifier(settings)
    copy.rules.update(rules)
    return copy


def _rule_key(kind: object) -> type | str:
    if isinstance(kind, str):
        if "." not in kind or not all(part.isidentifier() for part in kind.split(".")):
            raise ValueError(f"Classifier: kind must be a class or 'module.QualName', got {kind!r}")
        return kind
    if not isinstance(kind, type):
        raise TypeError(f"Classifier: kind must be a class or 'module.QualName', got {kind!r}")
    if issubclass(kind, BaseException) and not issubclass(kind, Exception):
        raise ValueError(
            f"Classifier: kind must not be {kind.__qualname__}: what is not an Exception "
            "(cancellation, exit, interrupt) is never retried"
        )
    return kind


def _names(kind: type) -> tuple[type | str, ...]:
    """The keys under which a rule for exactly this class may stand."""
    module, name = str(kind.__module__), kind.__qualname__
    top = module.partition(".")[0]
    return (kind, f"{module}.{name}") if top == module else (kind, f"{module}.{name}", f"{top}.{name}")


def _spelt(key: type | str) -> str:
    return key if isinstance(key, str) else f"{key.__module__}.{key.__qualname__}"


def _as_verdict(answer: object) -> Verdict:
    if isinstance(answer, Verdict):
        return answer
    refuse_awaitable("Classifier: a rule must answer at once with a truth value, a Verdict or None", answer)
    return Verdict.RETRY if answer else Verdict.FATAL


#: The shipped classifier: it retries what experience has shown to be worth it, and nothing else.
transient = Classifier()
