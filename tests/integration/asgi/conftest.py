"""A real server on loopback, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """``serve(app)`` starts uvicorn on a free port and gives its address; stopped after the test."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(app: Any) -> str:
        started = threading.Event()

        class Server(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets=sockets)
                started.set()

        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none"
        )
        server = Server(config)
        thread = threading.Thread(target=server.run, name="uvicorn")
        thread.start()
        running.append((server, thread))
        assert started.wait(30)
        port = server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
