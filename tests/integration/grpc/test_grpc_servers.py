"""The server's half: the caller's time, the answer of a handler that gives up, and shedding."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import httpx
import pytest

import stormproof as sp
from stormproof import grpc as spg
from stormproof._classify.exhaustion import Mark, mark

LONG_S = 20.0
PUSHBACK = "grpc-retry-pushback-ms"
DEADLINE = grpc.StatusCode.DEADLINE_EXCEEDED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED

#: What a handler does: a plain function of the request, run inside the call.
Work = Callable[[bytes], bytes]


class Handlers:
    """Handlers of every shape around one function, which a test may change."""

    def __init__(self) -> None:
        self.work: Work = lambda request: request
        self.left: list[float | None] = []

    def _do(self, request: bytes) -> bytes:
        self.left.append(sp.remaining())
        return self.work(request)

    def sync(self) -> dict[str, Any]:
        def down(request: bytes, context: Any) -> Iterator[bytes]:
            yield b"first"
            yield self._do(request)

        def both(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            yield from map(self._do, requests)

        return {
            "Unary": grpc.unary_unary_rpc_method_handler(lambda request, context: self._do(request)),
            "Down": grpc.unary_stream_rpc_method_handler(down),
            "Up": grpc.stream_unary_rpc_method_handler(
                lambda requests, context: self._do(b"".join(requests))
            ),
            "Both": grpc.stream_stream_rpc_method_handler(both),
        }

    def aio(self) -> dict[str, Any]:
        async def unary(request: bytes, context: Any) -> bytes:
            return await self._awaited(request)

        async def down(request: bytes, context: Any) -> Any:
            yield b"first"
            yield await self._awaited(request)

        async def up(requests: Any, context: Any) -> bytes:
            return await self._awaited(b"".join([request async for request in requests]))

        async def both(requests: Any, context: Any) -> None:
            # The other style of grpc.aio: it writes instead of yielding.
            async for request in requests:
                await context.write(await self._awaited(request))

        return {
            "Unary": grpc.unary_unary_rpc_method_handler(unary),
            "Down": grpc.unary_stream_rpc_method_handler(down),
            "Up": grpc.stream_unary_rpc_method_handler(up),
            "Both": grpc.stream_stream_rpc_method_handler(both),
            "Threaded": self.sync()["Unary"],
        }

    async def _awaited(self, request: bytes) -> bytes:
        answer: Any = self._do(request)
        return await answer if hasattr(answer, "__await__") else answer


def registered(methods: dict[str, Any]) -> Any:
    return (grpc.method_handlers_generic_handler("test.Server", methods),)


@contextlib.contextmanager
def sync_server(handlers: Handlers, workers: int = 8, **options: Any) -> Iterator[str]:
    pool = futures.ThreadPoolExecutor(workers)
    server = grpc.server(pool, interceptors=spg.server_interceptors(**options))
    server.add_generic_rpc_handlers(registered(handlers.sync()))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait(LONG_S)
    pool.shutdown()


@contextlib.contextmanager
def aio_server(handlers: Handlers, **options: Any) -> Iterator[str]:
    """In a thread with a loop of its own, so that the tests can be the same."""
    ready: futures.Future[str] = futures.Future()
    over = threading.Event()

    async def serve() -> None:
        server = grpc.aio.server(interceptors=spg.aio_server_interceptors(**options))
        server.add_generic_rpc_handlers(registered(handlers.aio()))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        ready.set_result(f"127.0.0.1:{port}")
        await asyncio.to_thread(over.wait)
        await server.stop(None)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    yield ready.result(LONG_S)
    over.set()
    thread.join(LONG_S)


class Client:
    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target)
        self.calls = {
            "Unary": self._channel.unary_unary("/test.Server/Unary"),
            "Threaded": self._channel.unary_unary("/test.Server/Threaded"),
            "Down": self._channel.unary_stream("/test.Server/Down"),
            "Up": self._channel.stream_unary("/test.Server/Up"),
            "Both": self._channel.stream_stream("/test.Server/Both"),
        }

    def call(self, method: str = "Unary", request: bytes = b"a", **options: Any) -> bytes:
        """The last message of the answer."""
        sent: Any = iter([request]) if method in ("Up", "Both") else request
        answer = self.calls[method](sent, **options)
        return list(answer)[-1] if method in ("Down", "Both") else answer

    def status(self, method: str = "Unary", **options: Any) -> tuple[Any, str | None]:
        """(code, pushback) of a call that must fail."""
        with pytest.raises(grpc.RpcError) as caught:
            self.call(method, **options)
        error: Any = caught.value
        return error.code(), dict(error.trailing_metadata() or ()).get(PUSHBACK)

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture(params=[sync_server, aio_server], ids=["sync", "aio"])
def serve(request: pytest.FixtureRequest, handlers: Handlers) -> Iterator[Callable[..., Client]]:
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Client:
            client = Client(stack.enter_context(request.param(handlers, **options)))
            stack.callback(client.close)
            return client

        yield start


METHODS = ["Unary", "Down", "Up", "Both"]


def raises(error: BaseException) -> Work:
    def work(request: bytes) -> bytes:
        raise error

    return work


# Time.


@pytest.mark.parametrize("method", METHODS)
def test_callers_time_is_the_handlers(serve: Any, handlers: Handlers, method: str) -> None:
    client = serve()
    assert client.call(method, timeout=30) == b"a"
    assert client.call(method) == b"a"
    assert handlers.left[0] is not None
    assert 20 < handlers.left[0] < 32
    assert handlers.left[1] is None


def test_threaded_handler_of_an_aio_server_sees_the_deadline(handlers: Handlers) -> None:
    with aio_server(handlers) as target:
        client = Client(target)
        assert client.call("Threaded", timeout=30) == b"a"
        handlers.work = raises(sp.CircuitOpen("open"))
        assert client.status("Threaded") == (UNAVAILABLE, "-1")
        client.close()
    assert handlers.left[0] is not None


def test_stream_left_in_the_middle_leaves_no_deadline_behind(handlers: Handlers) -> None:
    with sync_server(handlers, workers=1) as target:
        client = Client(target)
        stream = client.calls["Down"](b"a", timeout=30)
        assert next(stream) == b"first"
        stream.cancel()
        assert client.call() == b"a"
        assert handlers.left[-1] is None
        client.close()


def test_late_work_is_not_begun(handlers: Handlers) -> None:
    inside, free = threading.Event(), threading.Event()

    def work(request: bytes) -> bytes:
        inside.set()
        assert free.wait(LONG_S)
        return request

    handlers.work = work
    with sync_server(handlers, workers=1) as target:
        client = Client(target)
        first = client.calls["Unary"].future(b"a")
        assert inside.wait(LONG_S)
        with pytest.raises(grpc.RpcError) as caught:
            client.call(timeout=0.05)
        assert caught.value.code() is DEADLINE  # type: ignore[attr-defined]
        free.set()
        assert first.result(LONG_S) == b"a"
        client.close()
    assert len(handlers.left) == 1


def test_work_with_too_little_time_is_refused(serve: Any, handlers: Handlers) -> None:
    client = serve(least=60)
    assert client.status(timeout=30) == (DEADLINE, "-1")
    assert handlers.left == []
    assert client.call() == b"a"


def test_async_handler_is_cut_off_at_the_deadline(handlers: Handlers) -> None:
    cut = threading.Event()

    async def slow() -> bytes:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            cut.set()
            raise
        return b"late"

    handlers.work = lambda request: slow()  # type: ignore[assignment,return-value]
    with aio_server(handlers) as target:
        client = Client(target)
        assert client.status(timeout=0.1)[0] is DEADLINE
        assert cut.wait(LONG_S)
        client.close()


# Giving up.


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (sp.CircuitOpen("open", 3.0), UNAVAILABLE),
        (sp.BudgetExhausted("spent"), UNAVAILABLE),
        (sp.DeadlineExceeded("over"), DEADLINE),
        (sp.AttemptTimeout("slow"), DEADLINE),
        (sp.BulkheadFull("full"), EXHAUSTED),
        (sp.RateLimited("often"), EXHAUSTED),
        (sp.Throttled("shed"), EXHAUSTED),
        (sp.Cancelled("off"), grpc.StatusCode.CANCELLED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_handler_that_gives_up_sends_do_not_retry(
    serve: Any, handlers: Handlers, method: str, error: Any, code: Any
) -> None:
    handlers.work = raises(error)
    assert serve().status(method) == (code, "-1")


def test_exhausted_error_sends_do_not_retry(serve: Any, handlers: Handlers) -> None:
    client = serve()
    for error, code in ((ConnectionError("x"), UNAVAILABLE), (TimeoutError("x"), DEADLINE)):
        mark(error, Mark("inner", None, 4))
        handlers.work = raises(error)
        assert client.status() == (code, "-1")


def test_other_errors_of_a_handler_are_left_to_grpc(serve: Any, handlers: Handlers) -> None:
    handlers.work = raises(ConnectionError("x"))
    assert serve().status() == (grpc.StatusCode.UNKNOWN, None)


@pytest.mark.parametrize(("status", "code"), [(503, UNAVAILABLE), (404, grpc.StatusCode.UNKNOWN)])
def test_http_answer_that_forbids_retries_is_passed_on(
    serve: Any, handlers: Handlers, status: int, code: Any
) -> None:
    """As the HTTP servers do: of what would be retried otherwise; a 404 is the handler's own affair."""
    request = httpx.Request("GET", "http://upstream.test/")
    response = httpx.Response(status, headers={"x-should-retry": "false"}, request=request)
    handlers.work = raises(httpx.HTTPStatusError("no", request=request, response=response))
    assert serve().status()[0] is code


def test_secrets_of_other_errors_are_not_sent(serve: Any, handlers: Handlers) -> None:
    error = ConnectionError("password=hunter2")
    mark(error, Mark("inner", None, 4))
    handlers.work = raises(error)
    with pytest.raises(grpc.RpcError) as caught:
        serve().call()
    assert caught.value.details() == "given up on: ConnectionError"  # type: ignore[attr-defined]


def test_three_layers_do_not_multiply() -> None:
    """Each layer retries 4 times; the last is down, and sees 4 calls per call, not 64."""
    last, middle, front = Handlers(), Handlers(), Handlers()
    last.work = raises(ValueError("down"))
    policy = sp.Policy(
        sp.Retry(
            sp.transient.with_(grpc_codes=("UNAVAILABLE", "UNKNOWN")), backoff=sp.Constant(0.001), budget=None
        )
    )

    def calling(target: str) -> tuple[Any, Work]:
        channel = grpc.insecure_channel(target)
        stub = grpc.intercept_channel(channel, *spg.interceptors(policy)).unary_unary("/test.Server/Unary")
        return channel, lambda request: stub(request, timeout=LONG_S)

    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(sync_server(each)) for each in (last, middle, front)]
        for each, target in zip((middle, front), targets, strict=False):
            channel, each.work = calling(target)
            stack.callback(channel.close)
        channel, call = calling(targets[2])
        stack.callback(channel.close)
        with pytest.raises(grpc.RpcError) as caught:
            call(b"a")
    assert caught.value.code() is UNAVAILABLE  # type: ignore[attr-defined]
    assert (len(front.left), len(middle.left), len(last.left)) == (1, 1, 4)


# Shedding.


def held(handlers: Handlers) -> tuple[threading.Semaphore, threading.Event]:
    """Calls wait inside: (one release per call that is in, the event that lets them go)."""
    inside, free = threading.Semaphore(0), threading.Event()

    def work(request: bytes) -> Any:
        if request != b"hold":
            return request
        inside.release()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            assert free.wait(LONG_S)
            return request
        return asyncio.to_thread(lambda: free.wait(LONG_S) and request)

    handlers.work = work
    return inside, free


@pytest.mark.parametrize(
    "limit",
    [lambda: 2, lambda: sp.Bulkhead(2), lambda: sp.AdaptiveLimit("aimd", initial=2, min=2, max=2)],
    ids=["number", "Bulkhead", "AdaptiveLimit"],
)
def test_shedding_refuses_calls_beyond_its_limit(serve: Any, handlers: Handlers, limit: Any) -> None:
    inside, free = held(handlers)
    client = serve(shed=limit(), retry_share=0.5, pushback=4)
    calls = [client.calls["Unary"].future(b"hold")]
    assert inside.acquire(timeout=LONG_S)
    # One of two places is taken: a retry is turned away, a first attempt is not.
    code, pushback = client.status(metadata=(("x-previous-rpc-attempts", "1"),))
    assert code is UNAVAILABLE
    assert 4000 <= int(pushback or 0) <= 8000
    assert client.call(metadata=(("x-previous-rpc-attempts", "0"),)) == b"a"
    calls.append(client.calls["Unary"].future(b"hold"))
    assert inside.acquire(timeout=LONG_S)
    waits = {client.status("Down") for _ in range(5)}
    assert {code for code, _ in waits} == {UNAVAILABLE}
    assert len(waits) > 1
    free.set()
    assert [call.result(LONG_S) for call in calls] == [b"hold", b"hold"]
    _eventually(lambda: client.call(metadata=(("x-previous-rpc-attempts", "1"),)) == b"a")


def test_shed_calls_are_emitted_with_their_reason(serve: Any, handlers: Handlers) -> None:
    reasons: list[str] = []
    inside, free = held(handlers)
    client = serve(shed=2, retry_share=0.5)
    stop = sp.subscribe(
        lambda event: reasons.append(event.reason) if type(event).__name__ == "Shed" else None
    )
    try:
        calls = [client.calls["Unary"].future(b"hold")]
        assert inside.acquire(timeout=LONG_S)
        client.status(metadata=(("x-previous-rpc-attempts", "1"),))
        calls.append(client.calls["Unary"].future(b"hold"))
        assert inside.acquire(timeout=LONG_S)
        client.status()
        free.set()
        assert [call.result(LONG_S) for call in calls] == [b"hold", b"hold"]
    finally:
        stop()
    assert reasons == ["retry", "full"]


def test_places_come_back_after_failures(serve: Any, handlers: Handlers) -> None:
    client = serve(shed=1)
    handlers.work = raises(ValueError("x"))
    for method in METHODS * 2:
        _eventually(lambda method=method: client.status(method)[0] is grpc.StatusCode.UNKNOWN)  # type: ignore[misc]


def _eventually(holds: Callable[[], bool]) -> None:
    """A place is free a moment after its caller has the answer."""
    end = time.monotonic() + LONG_S
    while True:
        with contextlib.suppress(grpc.RpcError):
            if holds():
                return
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"least": -1}, "least must be >= 0"),
        ({"shed": 0}, "shed must be >= 1"),
        ({"shed": True}, "shed must be a whole number"),
        ({"retry_share": 1.1}, "retry_share must be <= 1"),
        ({"pushback": float("nan")}, "pushback must be a number"),
    ],
)
def test_bad_server_option_is_refused(options: Any, says: str) -> None:
    for make in (spg.server_interceptors, spg.aio_server_interceptors):
        with pytest.raises((TypeError, ValueError), match=says):
            make(**options)
