"""The decorator: a function that runs once per key, and returns the stored result to later calls."""

from __future__ import annotations

import functools

from .._events import bus, labels
from .._primitives.options import Seconds, choice, hook, seconds
from .._runtime.function_kind import function_kind
from .._runtime.offload import shielded
from . import keys
from .errors import AnswerNotKept, IdempotencyConflict, IdempotencyMismatch, OutcomeUnknown, StoreUnavailable
from .lease_renewal import keep
from .records import Begin, Claim, Finish, Release, Renew
from .store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


class KeyedPlan:
    """State shared by the calls of one decorated function. Frozen once made."""

    __slots__ = (
        "decode",
        "encode",
        "fingerprint",
        "key",
        "lease_s",
        "name",
        "on_error",
        "scope",
        "store",
        "take_over",
        "ttl_s",
    )

    def __init__(self, name: str, store: Store, settings: dict[str, Any]) -> None:
        self.name = name
        self.store = store
        self.key = settings["key"]
        self.fingerprint = settings["fingerprint"]
        self.scope = name if settings["scope"] is None else settings["scope"]
        self.lease_s: float = settings["lease_s"]
        self.ttl_s: float = store.ttl if settings["ttl_s"] is None else settings["ttl_s"]
        self.take_over: bool = settings["on_unknown"] == "run"
        self.on_error: str = settings["on_error"]
        self.encode, self.decode = settings["codec"]

    def open(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyedRun:
        """A run for one call, by the key that its arguments give."""
        key = keys.text("idempotent", "the key of a call", self.key(*args, **kwargs))
        scope: Any = self.scope
        if callable(scope):
            scope = scope(*args, **kwargs)
        keys.text("idempotent", "scope", scope, most=keys.MAX_SCOPE, empty=True)
        payload = "" if self.fingerprint is None else self.fingerprint(*args, **kwargs)
        if not isinstance(payload, (str, bytes)):
            raise TypeError(f"idempotent: fingerprint must give str or bytes, got {type(payload).__name__}")
        given = payload.encode() if isinstance(payload, str) else payload
        return KeyedRun(self, keys.digest(scope, key), keys.fingerprint(given), keys.client(scope))


class KeyedRun:
    """One call: the operations it needs, and the meaning of their answers. No store is touched here."""

    __slots__ = ("client", "digest", "owner", "payload", "plan")

    def __init__(self, plan: KeyedPlan, digest: bytes, payload: str, client: bytes) -> None:
        self.client = client
        self.plan = plan
        self.digest = digest
        self.payload = payload
        self.owner = keys.new_owner()

    def begin(self) -> Begin:
        plan = self.plan
        return Begin(
            self.digest, self.payload, self.owner, plan.lease_s, plan.ttl_s, plan.take_over, self.client
        )

    def lease(self) -> Renew:
        return Renew(self.digest, self.owner, self.plan.lease_s, self.plan.ttl_s)

    def emit(self, decision: str) -> None:
        bus.publish("IdempotentCall", operation=self.plan.name, decision=decision)

    def may_run(self, claim: Claim) -> bool:
        if claim.state == "new":
            self.emit("taken_over" if claim.taken_over else "new")
            return True
        self.emit(claim.state)
        return False

    def stored(self, claim: Claim) -> Any:
        """The result of the run before, or the error that says why there is none."""
        name = self.plan.name
        if claim.state == "in_progress":
            raise IdempotencyConflict(f"{name}: another call with this key is in progress", claim.lease_left)
        if claim.state == "mismatch":
            raise IdempotencyMismatch(f"{name}: this key was used before with another payload")
        if claim.state == "unknown":
            raise OutcomeUnknown(f"{name}: a call with this key began, and its outcome is unknown")
        if claim.answer is None:
            raise AnswerNotKept(f"{name}: the call with this key is done, but its result was not kept")
        return self.plan.decode(claim.answer)

    def finished(self, result: object) -> tuple[Finish, Exception | None]:
        """Return the record to keep, and the error if the result cannot be kept."""
        problem: Exception | None = None
        answer: bytes | None = None
        try:
            answer = self.plan.encode(result)
            if not isinstance(answer, bytes):
                raise TypeError(f"the codec must give bytes, got {type(answer).__name__}")
        except Exception as error:
            answer, problem = None, error
        if answer is not None and len(answer) > self.plan.store.max_answer:
            answer = None
        return Finish(self.digest, self.owner, answer, self.plan.ttl_s), problem

    def failed(self, error: BaseException) -> Release | Renew:
        """Release the key if the call may be tried again after ``error``; else leave the outcome unknown.

        A call that was cancelled or interrupted may have done part of its work.
        """
        if isinstance(error, Exception) and self.plan.on_error == "release":
            return Release(self.digest, self.owner)
        return Renew(self.digest, self.owner, 0.0, self.plan.ttl_s)

    def unkept(self, problem: Exception) -> TypeError:
        error = TypeError(
            f"idempotent: {self.plan.name} is done, but its result cannot be stored: {problem}; "
            "return plain data or give codec=(encode, decode)"
        )
        error.__cause__ = problem
        return error


def _sync(fn: Callable[..., Any], plan: KeyedPlan) -> Callable[..., Any]:
    store = plan.store

    def settle(run: KeyedRun, operation: Any) -> None:
        try:
            if not store.run(operation):
                run.emit("lost")
        except StoreUnavailable:
            # The work is as it is; without a record the outcome is unknown when the lease ends.
            run.emit("unrecorded")

    def guarded(*args: object, **kwargs: object) -> Any:
        run = plan.open(args, kwargs)
        claim = store.run(run.begin())
        if not run.may_run(claim):
            return run.stored(claim)
        try:
            with keep(store, run.lease()):
                result = fn(*args, **kwargs)
        except BaseException as error:
            settle(run, run.failed(error))
            raise
        finish, problem = run.finished(result)
        settle(run, finish)
        if problem is not None:
            raise run.unkept(problem)
        return result

    return guarded


def _aio(fn: Callable[..., Any], plan: KeyedPlan) -> Callable[..., Any]:
    store = plan.store

    async def settle(run: KeyedRun, operation: Any) -> None:
        try:
            with shielded():
                if not await store.run_async(operation):
                    run.emit("lost")
        except StoreUnavailable:
            run.emit("unrecorded")

    async def guarded(*args: object, **kwargs: object) -> Any:
        run = plan.open(args, kwargs)
        claim = await store.run_async(run.begin())
        if not run.may_run(claim):
            return run.stored(claim)
        try:
            with keep(store, run.lease()):
                result = await fn(*args, **kwargs)
        except BaseException as error:
            await settle(run, run.failed(error))
            raise
        finish, problem = run.finished(result)
        await settle(run, finish)
        if problem is not None:
            raise run.unkept(problem)
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
    settings = {
        "key": key,
        "fingerprint": hook(owner, "fingerprint", fingerprint),
        "scope": scope,
        "lease_s": seconds(owner, "lease", lease, above=0),
        "ttl_s": None if ttl is None else seconds(owner, "ttl", ttl, above=0),
        "on_unknown": choice(owner, "on_unknown", on_unknown, ("error", "run")),
        "on_error": choice(owner, "on_error", on_error, ("release", "unknown")),
        "codec": (_to_json, _from_json) if codec is None else _pair(owner, codec),
    }

    def decorate(fn: F) -> F:
        kind = function_kind(fn) if callable(fn) else ""
        if kind not in ("sync", "async"):
            raise TypeError(f"{owner}: only functions and coroutine functions can be decorated, got {fn!r}")
        name = labels.clean(f"{fn.__module__}.{getattr(fn, '__qualname__', type(fn).__qualname__)}")
        plan = KeyedPlan(name, store, settings)
        wrapper = (_aio if kind == "async" else _sync)(fn, plan)
        return functools.update_wrapper(wrapper, fn)  # type: ignore[return-value]

    return decorate


def _pair(owner: str, codec: object) -> Any:
    if not isinstance(codec, tuple) or len(codec) != 2 or not all(map(callable, codec)):
        raise TypeError(f"{owner}: codec must be a pair of callables (encode, decode), got {codec!r}")
    return codec
