"""A Redis in this process that fails as the seed has it, and peers that use it as well.

It stands where redis-py's client does, so everything of Stormproof's own between a limiter and the socket
runs.
Its scripts are written again in Python, from their descriptions; the tests in tests/integration/fleet run the
real ones.
"""

from __future__ import annotations

from random import Random
from typing import Any

import redis
from redis import exceptions

from stormproof._fleet.connection import script
from stormproof.redis import RedisStore

from .world import World

MILLION = 1_000_000
SCRIPTS = ("limiter", "budget", "bulkhead", "probe")


class FakeServer:
    """The server: its data, its scripts, and how it is today."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mood = world.rng.choice(["well", "well", "slow", "down"])
        self.data: dict[str, dict[str, Any]] = {}
        self.known: set[str] = set()
        self._names = {script(name).sha: name for name in SCRIPTS}

    def change(self) -> str:
        """Another mood, or a loss of everything."""
        rng = self.world.rng
        if rng.random() < 0.2:
            self.data.clear()
            self.known.clear()
            return "has lost everything"
        self.mood = rng.choice(["well", "well", "slow", "hanging", "down", "read-only", "spoiled"])
        return f"is {self.mood}"

    def arrive(self, timeout_s: float) -> None:
        """One request on its way."""
        if self.mood == "slow":
            self.world.sleep(timeout_s / 2)
        elif self.mood == "hanging":
            self.world.sleep(timeout_s)
            raise redis.TimeoutError("no answer")
        elif self.mood == "down":
            raise redis.ConnectionError("connection refused")

    def run(self, sha: str, key: str, args: tuple[Any, ...]) -> Any:
        """The answer of a script, or its error."""
        if sha not in self.known:
            raise exceptions.NoScriptError("no such script")
        if self.mood == "read-only":
            raise redis.ReadOnlyError("a replica")
        name = self._names[sha]
        if self.mood == "spoiled" and name != "probe":
            raise redis.ResponseError("WRONGTYPE not a hash")
        if name == "probe":
            return 1
        numbers = tuple(
            arg if name == "bulkhead" and place == 0 else int(arg) for place, arg in enumerate(args)
        )
        held = self.data.setdefault(key, {})
        return getattr(self, f"_{name}")(held, int(self.world.now_s * MILLION), *numbers)

    def _taken_by_others(self, most: int) -> int:
        """Return what a process elsewhere takes at this moment: mostly nothing."""
        return self.world.rng.randint(0, most) if self.world.rng.random() < 0.2 else 0

    def _limiter(
        self,
        held: dict[str, Any],
        now: int,
        rate: int,
        burst: int,
        owed: int,
        wanted: int,
        ahead: int,
        epoch: int,
    ) -> list[int]:
        level = min(burst, held.get("level", burst) + (now - held.get("last", now)) * rate // MILLION)
        before = level - self._taken_by_others(2) * MILLION
        level = before - owed
        granted = wanted
        if wanted > 0:
            granted = max(0, min(wanted, level + rate * ahead // MILLION) // MILLION * MILLION)
        level = min(burst, level - granted)
        held.update(level=level, last=now)
        return [granted, before, level, 2, now // (2 * MILLION)]

    def _budget(
        self,
        held: dict[str, Any],
        now: int,
        earned: int,
        burst: int,
        window: int,
        owed: int,
        wanted: int,
        epoch: int,
    ) -> list[int]:
        recent = [(at, amount) for at, amount in held.get("earned", []) if at > now - window]
        recent.append((now, earned))
        most = burst + sum(amount for _, amount in recent)
        level = min(most, held.get("level", burst) + earned) - owed - self._taken_by_others(1) * MILLION
        granted = max(0, min(wanted, level) // MILLION * MILLION) if wanted > 0 else wanted
        level = min(most, level - granted)
        held.update(level=level, earned=recent)
        return [granted, level, 2, now // (2 * MILLION)]

    def _bulkhead(
        self, held: dict[str, Any], now: int, me: str, limit: int, wanted: int, used: int, lease: int
    ) -> list[int]:
        others = self._taken_by_others(limit)
        for who, (places, until) in held.items():
            others += places if who != me and until >= now else 0
        granted = max(0, min(wanted, limit - others))
        held[me] = (max(granted, used), now + lease)
        return [granted, 2, int(others > 0)]


class FakeClient:
    """A stand-in for redis-py's client, as `stormproof._fleet.connection` uses it."""

    def __init__(self, server: FakeServer, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s

    def evalsha(self, sha: str, keys: int, key: str, *args: Any) -> Any:
        self._server.arrive(self._timeout_s)
        return self._server.run(sha, key, args)

    def eval(self, text: str, keys: int, key: str, *args: Any) -> Any:
        self._server.arrive(self._timeout_s)
        sha = next(script(name).sha for name in SCRIPTS if script(name).text == text)
        self._server.known.add(sha)
        return self._server.run(sha, key, args)

    def pipeline(self, transaction: bool) -> FakePipeline:
        assert not transaction
        return FakePipeline(self._server, self._timeout_s)

    def close(self) -> None: ...


class FakePipeline:
    """Several scripts in one round trip."""

    def __init__(self, server: FakeServer, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._asked: list[tuple[str, str, tuple[Any, ...]]] = []

    def evalsha(self, sha: str, keys: int, key: str, *args: Any) -> None:
        self._asked.append((sha, key, args))

    def execute(self, raise_on_error: bool) -> list[Any]:
        assert not raise_on_error
        self._server.arrive(self._timeout_s)
        answers: list[Any] = []
        for sha, key, args in self._asked:
            try:
                answers.append(self._server.run(sha, key, args))
            except redis.RedisError as error:
                answers.append(error)
        return answers


def store_on(server: FakeServer, rng: Random) -> RedisStore:
    """A store that talks to ``server``."""
    store = RedisStore(
        "redis://127.0.0.1:1/0",
        timeout=0.03,
        on_failure=rng.choice(["local", "open", "closed"]),
        instances=rng.randint(1, 3),
    )
    store._link._client = FakeClient(server, store.timeout)
    return store
