"""One execution per Idempotency-Key; later requests get the same answer."""

from __future__ import annotations

from .._events import bus
from .._http.headers import header_name, header_set
from .._primitives.options import Seconds, choice, count, flag, hook, seconds
from .._runtime import randomness
from .._runtime.offload import shielded
from .._server import refusals, replay
from .._server.application import ASGI, application
from .._server.problem import Problem
from ..idempotency import keys
from ..idempotency.errors import StoreUnavailable
from ..idempotency.keyed_run import KeyedRun
from ..idempotency.lease_renewal import RenewedLease
from ..idempotency.records import Claim
from ..idempotency.store import Store
from .messages import App, Connection, Message, Receive, Send, answer, is_last, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from ..idempotency.keyed_run import Settlement

#: Answers to claims that do not run; a replay has its own.
_PROBLEMS = {
    "in_progress": refusals.IN_PROGRESS,
    "mismatch": refusals.MISMATCH,
    "unknown": refusals.UNKNOWN,
    "replay": refusals.NOT_KEPT,
}


def by_authorization(connection: Connection) -> str:
    """The default scope: keys belong to the credentials in ``Authorization``, of which a hash is kept."""
    return keys.fingerprint(*values(connection, "authorization"))


class IdempotencyMiddleware:
    """Runs a request with an Idempotency-Key once, and gives its answer to every repetition.

    For ``methods`` only; others pass. Without the header a request passes, or is a 400 if ``required``
    (True, or a callable of the ASGI scope). Repeated while the first one runs: 409 with
    ``x-should-retry: true``. Repeated with another method, path, query or body: 422. ``scope(scope)`` says
    whose key it is, by default the one the ``Authorization`` header names: no client is answered with
    another's answer.

    ``settle(status)`` says what an answer does to its key: "keep" it, "release" the key because nothing
    was done, or "unknown"; `_server.replay.settlement` is the default. A handler that raises counts as 500.
    ``on_unknown`` is for a key whose first request has an unknown outcome: "error" answers 409, "run" runs
    it again. The lease is renewed while a request runs. A body of more than ``max_request`` bytes is a 413;
    of an answer of more than the store's ``max_answer`` bytes only the fact is kept, and repetitions are
    answered with a 409. Headers in ``drop_headers`` and ``Set-Cookie`` are never kept.
    """

    def __init__(
        self,
        app: App,
        store: Store,
        methods: Iterable[str] = ("POST", "PATCH"),
        required: bool | Callable[[Connection], bool] = False,
        header: str = "Idempotency-Key",
        scope: Callable[[Connection], str] | None = None,
        lease: Seconds = 60.0,
        ttl: Seconds | None = None,
        on_unknown: Literal["error", "run"] = "error",
        settle: Callable[[int], Settlement] | None = None,
        max_request: int = 1 << 20,
        drop_headers: Iterable[str] = (),
    ) -> None:
        owner = "IdempotencyMiddleware"
        self.app: App = application(owner, ASGI, app)
        if not isinstance(store, Store):
            raise TypeError(f"{owner}: store must be a Store such as MemoryStore(), got {store!r}")
        self.store = store
        is_collection = isinstance(methods, (list, tuple, set, frozenset)) and all(
            isinstance(m, str) for m in methods
        )
        if not is_collection:
            raise TypeError(f"{owner}: methods must be a collection of methods, got {methods!r}")
        self.methods = frozenset(method.upper() for method in methods)
        self.required = required if callable(required) else flag(owner, "required", required)
        self.header = header_name(owner, "header", header).lower()
        self.scope: Callable[[Connection], str] = hook(owner, "scope", scope) or by_authorization
        self.lease_s = seconds(owner, "lease", lease, above=0)
        self.ttl_s = store.ttl if ttl is None else seconds(owner, "ttl", ttl, above=0)
        self.take_over = choice(owner, "on_unknown", on_unknown, ("error", "run")) == "run"
        self.settle: Callable[[int], Settlement] = hook(owner, "settle", settle) or replay.settlement
        self.max_request = count(owner, "max_request", max_request, least=0)
        dropped = header_set(owner, "drop_headers", drop_headers)
        self.dropped = replay.NOT_KEPT | {name.encode() for name in dropped}

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self.methods:
            return await self.app(scope, receive, send)
        key = replay.read_key(values(scope, self.header))
        if key is None:
            if not (self.required(scope) if callable(self.required) else self.required):
                return await self.app(scope, receive, send)
            key = replay.MISSING
        if isinstance(key, Problem):
            return await answer(send, key, randomness.draw)
        body = await self._body(receive)
        if isinstance(body, Problem):
            return await answer(send, body, randomness.draw)
        if body is not None:
            await self._guarded(scope, receive, send, key, body)

    async def _body(self, receive: Receive) -> bytes | Problem | None:
        """The whole body, `TOO_LARGE`, or ``None`` if the caller left before it was sent."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_request:
                return replay.TOO_LARGE
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _guarded(self, scope: Connection, receive: Receive, send: Send, key: str, body: bytes) -> None:
        run = self._run(scope, key, body)
        try:
            claim = await self.store.run_async(run.begin)
        except StoreUnavailable:
            return await answer(send, refusals.NO_STORE, randomness.draw)
        decision = "taken_over" if claim.taken_over else claim.state
        bus.publish("IdempotentCall", operation="request", decision=decision)
        if claim.state != "new":
            return await self._send_stored(send, claim)
        lease = RenewedLease(self.store, run.lease)
        recorder = AnswerRecorder(self, run, send, lease.end)
        try:
            with lease:
                await self.app(visible(scope), replayed(receive, body), recorder)
                await recorder.end(None)
        except BaseException as error:
            await recorder.end(error)
            raise

    def _run(self, scope: Connection, key: str, body: bytes) -> KeyedRun:
        whose = keys.text(
            "IdempotencyMiddleware", "scope", self.scope(scope), most=keys.MAX_SCOPE, empty=True
        )
        path = scope.get("raw_path") or scope["path"].encode()
        payload = keys.fingerprint(scope["method"].encode(), path, scope.get("query_string", b""), body)
        return KeyedRun(whose, key, payload, self.lease_s, self.ttl_s, self.take_over)

    async def _send_stored(self, send: Send, claim: Claim) -> None:
        stored = replay.replay(claim.answer) if claim.answer is not None else None
        if stored is None:
            return await answer(send, _PROBLEMS[claim.state], randomness.draw)
        status, headers, body = stored
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class AnswerRecorder:
    """A ``send`` that passes the answer on and keeps a copy; the key is settled before the last part.

    So a caller that has seen a whole answer can count on getting it again. A caller that leaves is not a
    reason to stop: the handler goes on, and its answer waits for the repetition.
    """

    def __init__(
        self, middleware: IdempotencyMiddleware, run: KeyedRun, send: Send, settled: Callable[[], object]
    ) -> None:
        self._middleware = middleware
        self._run = run
        self._send = send
        #: Called when the key is settled. Background tasks of the handler may still run then.
        self._on_settled = settled
        self._settled = False
        self._gone = False
        self._status = 0
        self._headers: replay.Headers = []
        self._parts: list[bytes] | None = []
        self._size = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = replay.keepable(message.get("headers", ()), self._middleware.dropped)
        elif message["type"] == "http.response.body":
            self._keep(bytes(message.get("body", b"")))
            if is_last(message):
                await self._settle(self._middleware.settle(self._status))
        if self._gone:
            return
        try:
            await self._send(message)
        except OSError:
            self._gone = True

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._parts is not None:
            self._parts.append(part)
            if self._size > self._middleware.store.max_answer:
                self._parts = None

    async def end(self, error: BaseException | None) -> None:
        """The application is done. Its ``error`` decides, unless its answer was complete before."""
        if self._settled:
            return
        how: Settlement = "unknown"
        if isinstance(error, Exception) and not self._status:
            # The progress of the handler is unknown, whatever the error. A 503 or 429 would have said more.
            how = self._middleware.settle(500)
            # Without an answer there is nothing to keep.
            how = "unknown" if how == "keep" else how
        await self._settle(how)

    async def _settle(self, how: Settlement) -> None:
        stored_answer = None
        if how == "keep" and self._parts is not None:
            stored_answer = replay.pack(self._status, self._headers, b"".join(self._parts))
            if len(stored_answer) > self._middleware.store.max_answer:
                stored_answer = None
        self._on_settled()
        # The store completes this even if the task is cancelled meanwhile.
        self._settled = True
        try:
            with shielded():
                is_owner = await self._middleware.store.run_async(self._run.settled(how, stored_answer))
        except StoreUnavailable:
            # The answer is as good as without a key; the outcome is unknown when the lease ends.
            is_owner, decision = False, "unrecorded"
        else:
            decision = "lost"
        if not is_owner:
            bus.publish("IdempotentCall", operation="request", decision=decision)


#: Ways past ``http.response.body``, by which an answer would go out unseen.
_UNSEEN = ("http.response.pathsend", "http.response.trailers", "http.response.zerocopysend")


def visible(scope: Connection) -> Connection:
    """Return ``scope`` without the server's extensions for answers that cannot be kept."""
    offered = scope.get("extensions")
    if not offered:
        return scope
    return {**scope, "extensions": {name: value for name, value in offered.items() if name not in _UNSEEN}}


def replayed(receive: Receive, body: bytes) -> Receive:
    """Return a ``receive`` that gives ``body`` first, and then the messages after it."""
    first = True

    async def again() -> Any:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
