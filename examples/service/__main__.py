"""Both halves of the contract: ``python -m examples.service`` starts a server, calls it, and ends."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from stormproof.idempotency import SqliteStore

from .app import Shop, make_app
from .scenes import SCENES


@contextmanager
def running(app: Starlette) -> Iterator[str]:
    """Serves ``app`` on a free port of the loopback address, in a thread."""
    ready = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: object = None) -> None:
            await super().startup()
            ready.set()

    server = Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        if not ready.wait(30):
            raise TimeoutError("the server did not start")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


async def play(address: str, shop: Shop) -> None:
    for scene in SCENES:
        await scene(address, shop)


def main() -> None:
    shop = Shop()
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "keys.db")
        with running(make_app(shop, store)) as address:
            asyncio.run(play(address, shop))
        store.close()


if __name__ == "__main__":
    main()
