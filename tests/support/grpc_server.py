"""A real gRPC server on loopback that follows a script, and clients of each kind with one face.

The methods take and give bytes. Each call of any of them takes the next step of the script:

* nothing left, or ``"ok"``: the answer;
* a status code, alone or as ``(code, trailers)``: that failure;
* ``"hang"``: no answer until the caller is gone;
* ``"break"``: a stream gives one message and then UNAVAILABLE.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from stormproof import grpc as spg

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
SERVICE = "test.Wire"

#: Longer than any of these tests is ever meant to wait.
LONG_S = 20.0
#: Much shorter than the hang of a call that was not cancelled.
QUIET_S = 5.0


class Server:
    """The scripted server. ``seen`` has (metadata, seconds left, messages) of every call it was sent."""

    def __init__(self, interceptors: Any = (), workers: int = 16, port: int = 0) -> None:
        self.script: list[Any] = []
        self.seen: list[tuple[dict[str, Any], float, list[bytes]]] = []
        self._quiet = threading.Condition()
        self._inside = 0
        self._pool = futures.ThreadPoolExecutor(workers)
        self._server = grpc.server(self._pool, interceptors=tuple(interceptors))
        methods = {
            "Unary": grpc.unary_unary_rpc_method_handler(self._unary),
            "Down": grpc.unary_stream_rpc_method_handler(self._down),
            "Up": grpc.stream_unary_rpc_method_handler(self._up),
            "Both": grpc.stream_stream_rpc_method_handler(self._both),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        self.target = f"127.0.0.1:{self._server.add_insecure_port(f'127.0.0.1:{port}')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait(LONG_S)
        self._pool.shutdown()

    @property
    def calls(self) -> int:
        return len(self.seen)

    def attempts_sent(self) -> list[str | None]:
        return [metadata.get("x-previous-rpc-attempts") for metadata, _, _ in self.seen]

    def wait_until_quiet(self) -> None:
        """Until no call is inside any more; a call that is left running fails here."""
        with self._quiet:
            assert self._quiet.wait_for(lambda: self._inside == 0, QUIET_S), "a call was left running"

    def wait_until_called(self, times: int) -> None:
        with self._quiet:
            assert self._quiet.wait_for(lambda: len(self.seen) >= times, LONG_S), self.seen

    def _step(self, context: Any, messages: list[bytes]) -> Any:
        gone = threading.Event()
        with self._quiet:
            self._inside += 1
            self.seen.append((dict(context.invocation_metadata()), context.time_remaining(), messages))
            step = self.script.pop(0) if self.script else "ok"
            self._quiet.notify_all()

        def over() -> None:
            gone.set()
            with self._quiet:
                self._inside -= 1
                self._quiet.notify_all()

        if not context.add_callback(over):
            over()
        if step == "hang":
            assert gone.wait(LONG_S)
        elif step not in ("ok", "break"):
            code, trailers = step if isinstance(step, tuple) else (step, ())
            context.set_trailing_metadata(trailers)
            context.abort(code, "scripted")
        return step

    def _unary(self, request: bytes, context: Any) -> bytes:
        self._step(context, [request])
        context.send_initial_metadata((("x-initial", "i"),))
        context.set_trailing_metadata((("x-trailing", "t"),))
        return b"re:" + request

    def _down(self, request: bytes, context: Any) -> Iterator[bytes]:
        step = self._step(context, [request])
        if request == b"empty":
            return
        yield request + b"1"
        if step == "break":
            context.abort(UNAVAILABLE, "scripted, in the middle")
        yield request + b"2"

    def _up(self, requests: Iterator[bytes], context: Any) -> bytes:
        messages = list(requests)
        self._step(context, messages)
        return b"+".join(messages)

    def _both(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        messages = list(requests)
        step = self._step(context, messages)
        for message in messages:
            yield b"re:" + message
            if step == "break":
                context.abort(UNAVAILABLE, "scripted, in the middle")


class Sync:
    """A channel of `grpc`; every method waits for the end and gives all that came."""

    name = "sync"
    policies: Callable[..., list[Any]] = staticmethod(spg.interceptors)

    def __init__(self, target: str, policy: Any, channel_options: Any = (), **options: Any) -> None:
        self._channel = grpc.insecure_channel(target, options=channel_options)
        channel = grpc.intercept_channel(self._channel, *self.policies(policy, **options))
        self.stub_unary = channel.unary_unary(f"/{SERVICE}/Unary")
        self.stub_down = channel.unary_stream(f"/{SERVICE}/Down")
        self.stub_up = channel.stream_unary(f"/{SERVICE}/Up")
        self.stub_both = channel.stream_stream(f"/{SERVICE}/Both")

    def unary(self, request: bytes = b"a", **call: Any) -> Any:
        return self.stub_unary(request, **call)

    def down(self, request: bytes = b"a", into: list[bytes] | None = None, **call: Any) -> list[bytes]:
        got = [] if into is None else into
        got.extend(self.stub_down(request, **call))
        return got

    def up(self, requests: Any, **call: Any) -> Any:
        return self.stub_up(requests, **call)

    def both(self, requests: Any, **call: Any) -> list[bytes]:
        return list(self.stub_both(requests, **call))

    def hand_over(self, messages: list[bytes]) -> Any:
        """A request stream that can be read once."""
        return iter(messages)

    def close(self) -> None:
        self._channel.close()


class Future(Sync):
    """The same through ``.future()``, where there is one."""

    name = "future"

    def unary(self, request: bytes = b"a", **call: Any) -> Any:
        return self.stub_unary.future(request, **call).result(LONG_S)

    def up(self, requests: Any, **call: Any) -> Any:
        return self.stub_up.future(requests, **call).result(LONG_S)


class Aio:
    """A channel of `grpc.aio`, driven to the end of each call."""

    name = "aio"

    def __init__(self, target: str, policy: Any, channel_options: Any = (), **options: Any) -> None:
        self._runner = asyncio.Runner()

        async def make() -> Any:
            given = spg.aio_interceptors(policy, **options)
            return grpc.aio.insecure_channel(target, options=channel_options, interceptors=given)

        self._channel = self._runner.run(make())
        self.stub_unary = self._channel.unary_unary(f"/{SERVICE}/Unary")
        self.stub_down = self._channel.unary_stream(f"/{SERVICE}/Down")
        self.stub_up = self._channel.stream_unary(f"/{SERVICE}/Up")
        self.stub_both = self._channel.stream_stream(f"/{SERVICE}/Both")

    def run(self, work: Callable[[], Any]) -> Any:
        """Await ``work()`` in this client's loop; no task of the call may be left."""

        async def main() -> Any:
            try:
                return await work()
            finally:
                await settle()

        # The deadline around the caller counts; a runner would use the context that it was made in.
        return self._runner.run(main(), context=contextvars.copy_context())

    def unary(self, request: bytes = b"a", **call: Any) -> Any:
        async def work() -> Any:
            return await self.stub_unary(request, **call)

        return self.run(work)

    def down(self, request: bytes = b"a", into: list[bytes] | None = None, **call: Any) -> list[bytes]:
        got = [] if into is None else into

        async def work() -> None:
            async for message in self.stub_down(request, **call):
                got.append(message)

        self.run(work)
        return got

    def up(self, requests: Any, **call: Any) -> Any:
        async def work() -> Any:
            return await self.stub_up(requests, **call)

        return self.run(work)

    def both(self, requests: Any, **call: Any) -> list[bytes]:
        async def work() -> list[bytes]:
            return [message async for message in self.stub_both(requests, **call)]

        result: list[bytes] = self.run(work)
        return result

    def hand_over(self, messages: list[bytes]) -> Any:
        async def once() -> Any:
            for message in messages:
                yield message

        return once()

    def close(self) -> None:
        self._runner.run(self._channel.close())
        self._runner.close()


async def settle() -> None:
    """Wait for what the call has left to do; what is still there after that was left behind."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    others = {task for task in others if "poll" not in repr(task.get_coro()).lower()}
    if others:
        _, left = await asyncio.wait(others, timeout=QUIET_S)
        assert not left, left
