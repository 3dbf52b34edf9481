"""The server dies in the middle of a call, and another takes its place."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from tests.support.polling import eventually

import stormproof as sp

#: Answers "ok" on request; hangs otherwise, after a first message where the answer is a stream.
PROGRAM = textwrap.dedent(
    """
    import sys, threading, time
    from concurrent import futures
    import grpc

    answers = sys.argv[2] == "answers"

    def enter():
        print("called", flush=True)
        if not answers:
            time.sleep(60)

    def unary(request, context):
        enter()
        return b"re:" + request

    def down(request, context):
        if request == b"begin":
            yield b"first"
        enter()
        yield b"re:" + request

    server = grpc.server(futures.ThreadPoolExecutor(4))
    methods = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Down": grpc.unary_stream_rpc_method_handler(down),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Wire", methods),))
    print(server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}"), flush=True)
    server.start()
    server.wait_for_termination()
    """
)


class Process:
    """A server in a process of its own."""

    def __init__(self, answers: bool, port: int = 0) -> None:
        word = "answers" if answers else "hangs"
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(port), word], stdout=subprocess.PIPE, text=True
        )
        try:
            self.port = int(self._line())
        except ValueError:
            self.kill()
            raise

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill_in_the_call(self, got: list[bytes] | None = None) -> threading.Thread:
        """Kill it when it has been called, and ``got``, if given, has something; the thread that does."""

        def wait_and_kill() -> None:
            if self._line() == "called\n":
                eventually(lambda: got is None or got)
                self.kill()

        killer = threading.Thread(target=wait_and_kill)
        killer.start()
        return killer

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


#: A channel that has lost its connection looks for another one at once.
RECONNECT = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 20)]


@pytest.fixture
def successor() -> Iterator[Callable[[Process], Callable[[Any], None]]]:
    """``before_attempt`` that, ahead of the second attempt, has a new server where the old one was."""
    made: list[Process] = []

    def following(old: Process) -> Callable[[Any], None]:
        def before(attempt: Any) -> None:
            if attempt.number == 2:
                made.append(Process(True, old.port))

        return before

    yield following
    for process in made:
        process.kill()


@pytest.fixture
def old() -> Iterator[Process]:
    process = Process(False)
    yield process
    process.kill()


@pytest.mark.parametrize("method", ["unary", "down"])
def test_call_is_retried_on_the_next_server(connect: Any, old: Process, successor: Any, method: str) -> None:
    policy = sp.Policy(
        sp.Retry(attempts=3, backoff=sp.Constant(0.01), budget=None, before_attempt=successor(old))
    )
    client = connect(policy, target=f"127.0.0.1:{old.port}", channel_options=RECONNECT)
    killer = old.kill_in_the_call()
    try:
        got = getattr(client, method)(b"a", wait_for_ready=True, timeout=30)
    finally:
        killer.join()
    assert got in (b"re:a", [b"re:a"])


def test_stream_that_had_begun_ends(connect: Any, old: Process) -> None:
    policy = sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0.01), budget=None))
    client = connect(policy, target=f"127.0.0.1:{old.port}", channel_options=RECONNECT)
    got: list[bytes] = []
    killer = old.kill_in_the_call(got)
    try:
        with pytest.raises(grpc.RpcError) as caught:
            client.down(b"begin", into=got, timeout=30)
    finally:
        killer.join()
    assert got == [b"first"]
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]


def test_unreachable_server_is_retried_then_raises_unavailable(connect: Any) -> None:
    gone = Process(True)
    gone.kill()
    client = connect(
        sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0.001), budget=None)),
        target=f"127.0.0.1:{gone.port}",
    )
    with pytest.raises(grpc.RpcError) as caught:
        client.unary(timeout=30)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert "3 attempts" in "".join(caught.value.__notes__)
