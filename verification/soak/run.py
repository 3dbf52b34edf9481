"""Starts the three processes, kills the Redis again and again, and brings home what the client found."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import httpx
from tests.support.redis_servers import Server

from .client import Wish

ROOT = Path(__file__).parents[2]
#: So long after the end of the storm everything must be over.
_PATIENCE_S = 180.0


@dataclass(frozen=True)
class Setting:
    """How long, how many, and how often the Redis is killed; it is away for ``away_s`` (least, most)."""

    seconds: float
    tasks: int = 2000
    threads: int = 64
    seed: int = 1
    kill_every_s: float = 30.0
    away_s: tuple[float, float] = (1.0, 6.0)
    outage_every_s: float = 45.0
    outage_s: float = 5.0
    retries: int = 100
    idle_s: float = 10.0
    sample_s: float = 2.0
    verbose: bool = False


@dataclass
class Outcome:
    """What the client found, what the server counted, and how often the Redis was killed."""

    setting: Setting
    client: dict[str, Any]
    server: dict[str, Any]
    kills: int
    wall_s: float


def run(setting: Setting) -> Outcome:
    """The whole of it. Whatever was started has ended when it returns or raises."""
    began = time.monotonic()
    # Appended to a file, so that what it held comes back with it, but for its last second.
    with Server("--appendonly", "yes") as redis:
        server = _process(
            "verification.soak.server", *map(str, (setting.seed, setting.outage_every_s, setting.outage_s))
        )
        client = _process("verification.soak.client")
        try:
            url, h2_url = (f"http://127.0.0.1:{port}" for port in _line(server).split())
            wish = Wish(
                url,
                h2_url,
                redis.url,
                setting.seconds,
                setting.tasks,
                setting.threads,
                setting.seed,
                setting.retries,
                setting.idle_s,
                setting.sample_s,
                setting.verbose,
            )
            _tell(client, json.dumps(asdict(wish)))
            kills = _torment(redis, client, setting)
            _tell(client, "the store is up")
            found = json.loads(_last_line(client))
            with httpx.Client(trust_env=False) as asking:
                told = asking.get(f"{url}/_told").json()
        finally:
            for process in (client, server):
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()
    return Outcome(setting, found, told, kills, time.monotonic() - began)


def _torment(redis: Server, client: subprocess.Popen[str], setting: Setting) -> int:
    """Kill the Redis every so often until the client says that its callers have ended: how often."""
    dice = random.Random(setting.seed)
    over = threading.Event()
    said: list[str] = []

    def listen() -> None:
        said.append(_line(client))
        over.set()

    listener = threading.Thread(target=listen)
    listener.start()
    kills, began = 0, time.monotonic()
    while not over.wait(setting.kill_every_s * (kills + 1) - (time.monotonic() - began)):
        redis.kill()
        kills += 1
        over.wait(dice.uniform(*setting.away_s))
        redis.start()
        if dice.random() < 0.5:
            redis.ask("FLUSHALL")
        if time.monotonic() - began > setting.seconds + _PATIENCE_S:
            client.kill()
    listener.join()
    if said != ["storm over"]:
        raise RuntimeError("the client died")
    return kills


def _process(module: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *args]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _tell(process: subprocess.Popen[str], line: str) -> None:
    _pipe(process.stdin).write(line + "\n")
    _pipe(process.stdin).flush()


def _line(process: subprocess.Popen[str]) -> str:
    return _pipe(process.stdout).readline().strip()


def _last_line(client: subprocess.Popen[str]) -> str:
    """What the client found, when everything is over; a client that is not over in time is killed."""
    bored = threading.Timer(_PATIENCE_S, client.kill)
    bored.start()
    line = _line(client)
    bored.cancel()
    if not line:
        raise RuntimeError("the client died, or did not come to an end")
    return line


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
