"""The decorator: a function that runs once per key, and returns the stored result to later calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .._events import bus, labels
from .._primitives.options import Seconds, choice, hook, seconds
from .._runtime.function_kind import function_kind
from .._runtime.offload import shielded
from . import keys
from .errors import AnswerNotKept, IdempotencyConflict, IdempotencyMismatch, OutcomeUnknown, StoreUnavailable
from .keyed_run import KeyedRun
from .lease_renewal import RenewedLease
from .store import Store

if TYPE_CHECKING:
    from typing import TypeVar

    from .keyed_run import Settlement
    from .records import Claim

    F = TypeVar("F", bound=Callable[..., Any])

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


class KeyedPlan(NamedTuple):
    """The options of one decorated function, and what its calls do by them."""

    store: Store
    key: Callable[..., str]
    fingerprint: Callable[..., str | bytes] | None
    scope: str | Callable[..., str] | None
    lease_s: float
    ttl_s: float
    take_over: bool
    on_error: str
    codec: Codec
    name: str

    def open(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyedRun:
        """A run for one call, by the key that its arguments give."""
        key = keys.text("idempotent", "the key of a call", self.key(*args, **kwargs))
        scope = self.name if self.scope is None else self.scope
        if callable(scope):
            scope = scope(*args, **kwargs)
        keys.text("idempotent", "scope", scope, most=keys.MAX_SCOPE, empty=True)
        payload = "" if self.fingerprint is None else self.fingerprint(*args, **kwargs)
        if not isinstance(payload, (str, bytes)):
            raise TypeError(f"idempotent: fingerprint must give str or bytes, got {type(payload).__name__}")
        given = payload.encode() if isinstance(payload, str) else payload
        return KeyedRun(scope, key, keys.fingerprint(given), self.lease_s, self.ttl_s, self.take_over)

    def emit(self, decision: str) -> None:
        bus.publish("IdempotentCall", operation=self.name, decision=decision)

    def may_run(self, claim: Claim) -> bool:
        self.emit("taken_over" if claim.taken_over else claim.state)
        return claim.state == "new"

    def stored(self, claim: Claim) -> Any:
        """The result of the run before, or the error that says why there is none."""
        if claim.state == "in_progress":
            raise IdempotencyConflict(
                f"{self.name}: another call with this key is in progress", claim.lease_left
            )
        if claim.state == "mismatch":
            raise IdempotencyMismatch(f"{self.name}: this key was used before with another payload")
        if claim.state == "unknown":
            raise OutcomeUnknown(f"{self.name}: a call with this key began, and its outcome is unknown")
        if claim.answer is None:
            raise AnswerNotKept(f"{self.name}: the call with this key is done, but its result was not kept")
        return self.codec[1](claim.answer)

    def encoded(self, result: object) -> tuple[bytes | None, Exception | None]:
        """Return the answer to keep, and the error if the result cannot be kept."""
        try:
            answer: object = self.codec[0](result)
            if not isinstance(answer, bytes):
                raise TypeError(f"the codec must give bytes, got {type(answer).__name__}")
        except Exception as problem:
            error = TypeError(
                f"idempotent: {self.name} is done, but its result cannot be stored: {problem}; "
                "return plain data or give codec=(encode, decode)"
            )
            error.__cause__ = problem
            return None, error
        return (answer if len(answer) <= self.store.max_answer else None), None

    def settlement(self, error: BaseException) -> Settlement:
        """Release the key if the call may be tried again after ``error``; else leave the outcome unknown.

        A call that was cancelled or interrupted may have done part of its work.
        """
        return "release" if isinstance(error, Exception) and self.on_error == "release" else "unknown"


def _sync(fn: Callable[..., Any], plan: KeyedPlan) -> Callable[..., Any]:
    def settle(run: KeyedRun, how: Settlement, answer: bytes | None = None) -> None:
        try:
            if not plan.store.run(run.settled(how, answer)):
                plan.emit("lost")
        except StoreUnavailable:
            # The work is as it is; without a record the outcome is unknown when the lease ends.
            plan.emit("unrecorded")

    def guarded(*args: object, **kwargs: object) -> Any:
        run = plan.open(args, kwargs)
        claim = plan.store.run(run.begin)
        if not plan.may_run(claim):
            return plan.stored(claim)
        try:
            with RenewedLease(plan.store, run.lease):
                result = fn(*args, **kwargs)
        except BaseException as error:
            settle(run, plan.settlement(error))
            raise
        answer, problem = plan.encoded(result)
        settle(run, "keep", answer)
        if problem is not None:
            raise problem
        return result

    return guarded


def _aio(fn: Callable[..., Any], plan: KeyedPlan) -> Callable[..., Any]:
    async def settle(run: KeyedRun, how: Settlement, answer: bytes | None = None) -> None:
        try:
            with shielded():
                if not await plan.store.run_async(run.settled(how, answer)):
                    plan.emit("lost")
        except StoreUnavailable:
            plan.emit("unrecorded")

    async def guarded(*args: object, **kwargs: object) -> Any:
        run = plan.open(args, kwargs)
        claim = await plan.store.run_async(run.begin)
        if not plan.may_run(claim):
            return plan.stored(claim)
        try:
            with RenewedLease(plan.store, run.lease):
                result = await fn(*args, **kwargs)
        except BaseException as error:
            await settle(run, plan.settlement(error))
            raise
        answer, problem = plan.encoded(result)
        await settle(run, "keep", answer)
        if problem is not None:
            raise problem
        return result

    return guarded


def _to_json(result: object) -> bytes:
    import json

    return json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _from_json(answer: bytes) -> Any:
    import json

    return json.loads(answer)


def idempotent(
    *,
    key: Callable[..., str],
    store: Store,
    lease: Seconds = 60.0,
    ttl: Seconds | None = None,
    on_unknown: Literal["error", "run"] = "error",
    on_error: Literal["release", "unknown"] = "release",
    fingerprint: Callable[..., str | bytes] | None = None,
    scope: str | Callable[..., str] | None = None,
    codec: Codec | None = None,
) -> Callable[[F], F]:
    """A decorator: the function runs once per key, and later calls get the stored result.

    ``key(*args, **kwargs)`` finds the key of a call, a string of 1 to 255 printable characters.
    While one call runs, another with its key gets `IdempotencyConflict`, which `transient` calls
    worth retrying. ``fingerprint(*args, **kwargs)`` identifies the payload: the same key with another one
    is an `IdempotencyMismatch`; ``None`` compares nothing. ``scope`` keeps keys of different functions
    or tenants apart; ``None`` is the function's own name.

    The lease is renewed while the function runs. A holder that died leaves an unknown outcome when
    its lease ends: ``on_unknown="error"`` raises `OutcomeUnknown`, "run" runs it again. An error of the
    function is raised and not stored: ``on_error="release"`` lets the next call run, "unknown" makes it
    an unknown outcome, as cancellation always is. ``ttl`` is how long a result is kept, ``None``
    the store's own. Results are stored as JSON, or by ``codec=(encode to bytes, decode)``.
    """
    owner = "idempotent"
    if not callable(key):
        raise TypeError(f"{owner}: key must be a callable that finds the key of a call, got {key!r}")
    if not isinstance(store, Store):
        raise TypeError(f"{owner}: store must be a Store such as MemoryStore(), got {store!r}")
    if scope is not None and not callable(scope):
        keys.text(owner, "scope", scope, most=keys.MAX_SCOPE, empty=True)
    plan_for = functools.partial(
        KeyedPlan,
        store,
        key,
        hook(owner, "fingerprint", fingerprint),
        scope,
        seconds(owner, "lease", lease, above=0),
        store.ttl if ttl is None else seconds(owner, "ttl", ttl, above=0),
        choice(owner, "on_unknown", on_unknown, ("error", "run")) == "run",
        choice(owner, "on_error", on_error, ("release", "unknown")),
        (_to_json, _from_json) if codec is None else _pair(owner, codec),
    )

    def decorate(fn: F) -> F:
        kind = function_kind(fn) if callable(fn) else ""
        if kind not in ("sync", "async"):
            raise TypeError(f"{owner}: only functions and coroutine functions can be decorated, got {fn!r}")
        name = labels.clean(f"{fn.__module__}.{getattr(fn, '__qualname__', type(fn).__qualname__)}")
        wrapper = (_aio if kind == "async" else _sync)(fn, plan_for(name))
        return functools.update_wrapper(wrapper, fn)  # type: ignore[return-value]

    return decorate


def _pair(owner: str, codec: object) -> Any:
    if not isinstance(codec, tuple) or len(codec) != 2 or not all(map(callable, codec)):
        raise TypeError(f"{owner}: codec must be a pair of callables (encode, decode), got {codec!r}")
    return codec
