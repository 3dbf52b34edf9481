"""The ``finally`` of a sync stream handler whose caller had gone ran outside the deadline."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

import grpc

import stormproof as sp
from stormproof.grpc import server_interceptors


def test_handler_whose_caller_has_gone_cleans_up_within_the_callers_time() -> None:
    left: list[float | None] = []
    cleaned, gone = threading.Event(), threading.Event()

    def endless(request: bytes, context: Any) -> Any:
        context.add_callback(gone.set)
        try:
            yield b"first"
            assert gone.wait(20)
            while True:
                yield b"more"
        finally:
            left.append(sp.remaining())
            cleaned.set()

    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, interceptors=server_interceptors())
        methods = {"Down": grpc.unary_stream_rpc_method_handler(endless)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Wire", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stream = channel.unary_stream("/test.Wire/Down")(b"", timeout=30)
            assert next(stream) == b"first"
            stream.cancel()
            assert cleaned.wait(20)
        server.stop(None).wait(20)
    assert left[0] is not None and 0 < left[0] < 31
