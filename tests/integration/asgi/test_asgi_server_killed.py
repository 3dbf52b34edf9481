"""A server process is killed in the middle of a request: the next one knows that it does not know."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[3]

SERVER = """
    import asyncio, sys
    import uvicorn
    from stormproof.asgi import IdempotencyMiddleware
    from stormproof.idempotency import SqliteStore

    async def app(scope, receive, send):
        if scope["path"] == "/hang":
            with open(sys.argv[2], "a") as journal:
                journal.write("charged\\n")
            if sys.argv[3] == "hang":
                await asyncio.sleep(600)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets=sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    guarded = IdempotencyMiddleware(app, store=SqliteStore(sys.argv[1]), lease=1.0)
    Server(uvicorn.Config(guarded, host="127.0.0.1", port=0, log_level="critical", lifespan="off")).run()
"""


@contextlib.contextmanager
def server(*args: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def test_request_whose_server_was_killed_is_not_run_again(tmp_path: Path) -> None:
    keys, journal = tmp_path / "keys.db", tmp_path / "journal"
    key = {"Idempotency-Key": "order-1"}
    with server(keys, journal, "hang") as (process, address):
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(httpx.post, f"{address}/hang", headers=key, timeout=60)
            while not journal.exists() or journal.read_text() != "charged\n":
                assert not asked.done()
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert isinstance(asked.exception(), httpx.TransportError)
    with server(keys, journal, "quick") as (_, address):
        with httpx.Client(base_url=address, headers=key) as client:
            killed = time.monotonic()
            while (answer := client.post("/hang")).headers.get("x-should-retry") == "true":
                assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
                assert time.monotonic() - killed < 30, "the lease of a dead server has no end"
                time.sleep(0.05)
            assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_unknown")
            assert answer.headers["x-should-retry"] == "false"
            assert client.post("/other", headers={"Idempotency-Key": "order-2"}).text == "done"
    assert journal.read_text() == "charged\n"
