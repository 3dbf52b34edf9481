"""Every queue, key map and replay buffer has a bound: flooded far beyond it, it holds no more."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.support.scripted import Boom

import stormproof as sp
import stormproof.asgi
import stormproof.httpx
from stormproof import idempotency
from stormproof._classify import classifier, lookup
from stormproof._drivers import threads
from stormproof._policy import policy
from stormproof._runtime import call_template
from stormproof._strategies import keyed
from stormproof._telemetry.status import Status

pytestmark = pytest.mark.proves("security bounded")


def _fails(*_: Any) -> None:
    raise Boom


# Maps by a user's key.


@pytest.mark.parametrize(
    "template",
    [
        sp.Budget(),
        sp.Breaker(),
        sp.Bulkhead(3),
        sp.RateLimit(sp.Limiter(1, 1)),
        sp.Throttle(),
        sp.AdaptiveLimit(),
    ],
    ids=lambda template: type(template).__name__,
)
def test_keyed_strategies_are_bounded(template: Any) -> None:
    kept = sp.keyed(template, key=lambda tenant: tenant, limit=20)
    budget = {"budget": kept} if isinstance(template, sp.Budget) else {"budget": None}
    retrying = sp.Retry(on=Boom, attempts=2, backoff=sp.Constant(0), **budget)
    call = sp.Policy(*([] if "keyed" in repr(budget) else [kept]), retrying)(_fails)
    for tenant in range(200):
        with pytest.raises((Boom, sp.StormproofError)):
            call(f"tenant-{tenant}")
    assert len(kept) == 20


def test_map_of_recent_keys_is_bounded(measured: Callable[[str], None]) -> None:
    kept = keyed.Recent(100)
    for number in range(20_000):
        kept.put(number, number)
        kept.put_first(-number, number)
        kept.get(number // 2)
    assert len(kept.keys()) == 100
    measured("40,000 keys put into a map of 100: 100 held")


def test_cached_kinds_of_errors_are_bounded() -> None:
    judge = sp.Classifier().register(Boom, True)
    for number in range(1200):
        error = type(f"Kind{number}", (Boom,), {})()
        judge(error)
        sp.transient(error)
    assert len(judge._plans) <= classifier._MAX_PLANS == 1024
    assert len(lookup._rows) <= lookup._MAX_TYPES == 1024


def test_rules_of_a_classifier_are_bounded() -> None:
    judge = sp.Classifier()
    with pytest.raises(ValueError, match="at most 1024 rules"):
        for number in range(2000):
            judge.register(f"module.Kind{number}", True)


def test_compiled_signatures_are_bounded() -> None:
    template = call_template.Template(
        "wrapped", "{async_}def wrapped({params}):\n    return {await_}_sp_call({args})\n"
    )
    for number in range(1100):
        scope: dict[str, Any] = {}
        exec(f"def like(parameter_{number}): ...", scope)
        template.build(scope["like"], False, {"call": int})
    assert len(template._made) <= 1024


def test_block_budgets_are_bounded() -> None:
    for number in range(1100):
        for attempt in sp.retrying(on=Boom, name=f"bounded-{number}"):
            with attempt:
                pass
    assert len(policy._block_budgets.keys()) <= 1024


def test_policies_given_by_requests_are_bounded() -> None:
    transport = stormproof.httpx.Transport(
        sp.Policy(sp.Retry()), httpx.MockTransport(lambda request: httpx.Response(200))
    )
    with httpx.Client(transport=transport, trust_env=False) as client:
        for _ in range(200):
            own = {"policy": sp.Policy(sp.Retry(budget=None))}
            client.get("http://server.invalid/", extensions={"stormproof": own})
    assert len(transport._client._others.keys()) <= 128


# Queues.


def test_queue_of_a_bulkhead_is_bounded() -> None:
    bulkhead = sp.Bulkhead(2, queue=5, max_wait=60)
    policy = sp.Policy(bulkhead)

    async def scenario() -> tuple[int, int]:
        gate = asyncio.Event()
        tasks = [asyncio.ensure_future(policy.acall(gate.wait)) for _ in range(200)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (bulkhead.in_use, bulkhead.queued) == (2, 5)
        gate.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        return sum(isinstance(end, sp.BulkheadFull) for end in ended), sum(end is True for end in ended)

    assert asyncio.run(scenario()) == (193, 7)


def test_line_of_a_limiter_keeps_nothing_of_waiters_that_left() -> None:
    """The waiters are the callers themselves; one that leaves, leaves nothing behind."""
    limiter = sp.Limiter(10, 5, clock=sp.testing.FakeClock())
    for _ in range(5000):
        waits = [limiter.reserve(1) for _ in range(3)]
        for grant in waits:
            grant.leave()
    assert not limiter._bucket.waiting
    assert limiter._bucket.queued == 0


def test_worker_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "LIMIT", 6)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    gate = threading.Event()
    before = set(threading.enumerate())
    policy = sp.Policy(sp.Hedge(after=0, max=2, idempotent=True, budget=sp.Budget(burst=100)))
    callers = [threading.Thread(target=lambda: _quietly(policy.call, gate.wait)) for _ in range(30)]
    try:
        for caller in callers:
            caller.start()
        assert threads._pool._size <= 6
        workers = [one for one in set(threading.enumerate()) - before if one.name == "stormproof-worker"]
        assert len(workers) <= 6
    finally:
        gate.set()
        for caller in callers:
            caller.join(10)
    assert threads._pool._size <= 6


def _quietly(call: Any, *args: Any) -> None:
    try:
        call(*args)
    except sp.StormproofError:
        pass


def test_recent_events_of_the_status_are_bounded() -> None:
    status = Status(20)
    retrying = sp.Policy(sp.Retry(on=Boom, attempts=2, backoff=sp.Constant(0), budget=None), name="trouble")
    try:
        for _ in range(500):
            with pytest.raises(Boom):
                retrying.call(_fails)
        assert len(status.read()["recent"]) == 20
    finally:
        status.close()


# What is kept to be sent or answered again.


def test_answers_in_memory_are_bounded(measured: Callable[[str], None]) -> None:
    store = idempotency.MemoryStore(limit=100, max_bytes=10_000)
    for number in range(2000):
        store.begin(f"key-{number}", "", "me", 60)
        store.finish(f"key-{number}", "me", b"x" * 900)
    assert len(store) == 100 and store._bytes <= 10_000
    assert len(store._ends) <= 3 * 100 + 64
    measured(f"2,000 answers of 900 bytes: {len(store)} keys and {store._bytes:,} bytes held")


def test_running_keys_in_memory_are_bounded() -> None:
    store = idempotency.MemoryStore(limit=100)
    with pytest.raises(idempotency.StoreFull):
        for number in range(200):
            store.begin(f"key-{number}", "", "me", 60)
    assert len(store) == 100


@pytest.mark.parametrize(
    ("sent", "answered", "status", "replayed"),
    [(50, 50, 200, True), (500, 50, 413, False), (50, 500, 200, False)],
)
def test_requests_and_answers_that_a_server_stores_are_bounded(
    sent: int, answered: int, status: int, replayed: bool
) -> None:
    runs, reads = [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        runs.append(1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(answered):
            await send({"type": "http.response.body", "body": b"y", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    store = idempotency.MemoryStore(max_answer=400)
    served = sp.asgi.IdempotencyMiddleware(app, store, max_request=100)

    async def ask() -> tuple[int, bytes]:
        chunks = iter([b"x"] * sent)
        messages: list[Any] = []

        async def receive() -> Any:
            reads.append(1)
            chunk = next(chunks, None)
            return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

        async def send(message: Any) -> None:
            messages.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
        await served(scope, receive, send)
        return messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:])

    first, again = asyncio.run(ask()), asyncio.run(ask())
    assert first[0] == status
    # No more is read than is needed to see that it is too much.
    assert len(reads) <= 2 * 102
    assert (again == first) == (replayed or status == 413)
    assert len(runs) == (0 if status == 413 else 1), (
        "a large answer is not kept, and the call is not made again"
    )
    assert store._bytes <= 400


def test_endless_request_body_is_not_held_for_a_retry() -> None:
    """Streams are sent once, and what is sent again is held by the caller already."""
    sent = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(sum(len(chunk) for chunk in request.stream))  # type: ignore[union-attr]
        return httpx.Response(503)

    transport = stormproof.httpx.Transport(
        sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=None)), httpx.MockTransport(serve)
    )
    with httpx.Client(transport=transport, trust_env=False) as client:
        assert (
            client.put("http://server.invalid/", content=(b"x" * 1000 for _ in range(50))).status_code == 503
        )
    assert sent == [50_000]


def test_breaker_and_a_hedge_keep_counts_and_no_records() -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(window=60, clock=clock, slow_call=1, slow_ratio=1)
    hedge = sp.Hedge(after="p95", idempotent=True)
    row = sp.Policy(breaker, clock=clock)
    sizes = []
    for size in (1000, 5000):
        for _ in range(size):
            clock.advance(0.1)
            row.call(int)
            hedge.measure(0.01)
        gc.collect()
        sizes.append((len(breaker._live.running), len(hedge._sketch._counts), _held(breaker)))
    assert sizes[0][:2] == sizes[1][:2] == (0, 300)
    # Both times the window is full.
    assert sizes[1][2] <= sizes[0][2] + 5


def _held(root: Any) -> int:
    """Count the objects that hang on ``root``, types and modules left out."""
    seen: dict[int, Any] = {}
    left = [root._live.circuit]
    while left:
        found = left.pop()
        if id(found) in seen or isinstance(found, type) or callable(found) or len(seen) > 100_000:
            continue
        seen[id(found)] = found
        left += [
            each for each in gc.get_referents(found) if not isinstance(each, (str, int, float, type(gc)))
        ]
    return len(seen)
