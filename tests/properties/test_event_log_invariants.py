"""Invariant 19: in virtual time one seed gives one event log, byte for byte, under every driver."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted import ASYNCIO, SYNC, TRIO, Bang, Boom, takes

import stormproof as sp

pytestmark = pytest.mark.proves("invariant 19")

ROOT = Path(__file__).parents[2]


def log_of(seed: int) -> bytes:
    """A busy minute of 60 callers on one policy of everything, in virtual time: one line an event."""
    lines: list[str] = []
    rng, chance = random.Random(seed), random.Random(seed + 1)

    async def main(clock: Any) -> None:
        def write(event: Any) -> None:
            lines.append(json.dumps({"at": clock.now(), **event.as_dict()}, sort_keys=True))

        stop = sp.subscribe(write)
        policy = sp.Policy(
            sp.Deadline(20),
            sp.Fallback("cached", on=(sp.CircuitOpen, sp.BulkheadFull, TimeoutError)),
            sp.Retry(on=(Boom, TimeoutError), attempts=4, budget=sp.Budget(burst=30)),
            sp.Breaker(min_calls=10, failure_ratio=0.35, open_for=2, name="gate"),
            sp.Bulkhead(12, queue=10, max_wait=1),
            sp.Timeout(1.5),
            sp.Hedge(after=0.4, idempotent=True, on=Boom),
            name="busy",
            rng=rng,
        )

        @policy
        async def work(caller: int) -> str:
            await asyncio.sleep(chance.expovariate(3))
            if chance.random() < 0.4:
                raise Boom
            return "ok"

        async def caller(number: int) -> None:
            await asyncio.sleep(chance.random() * 5)
            for _ in range(5):
                with contextlib.suppress(Boom, sp.StormproofError, TimeoutError):
                    await work(number)
                await asyncio.sleep(chance.random())

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(60):
                    group.create_task(caller(number))
        finally:
            stop()

    sp.testing.run(main)
    return "\n".join(lines).encode()


def test_event_log_of_a_seed_is_the_same_byte_for_byte(measured: Callable[[str], None]) -> None:
    one = log_of(7)
    assert one == log_of(7)
    assert one != log_of(8)
    kinds = {json.loads(line)["event"] for line in one.splitlines()}
    assert {"Retrying", "Succeeded", "GaveUp", "Refused", "BreakerChanged", "Hedged", "FellBack"} <= kinds
    measured(f"{one.count(b'event'):,} events of {len(kinds)} kinds, {len(one):,} bytes, the same twice over")


@pytest.mark.parametrize("hashes", ["0", "12345"])
def test_event_log_is_the_same_in_a_process_with_other_hashes(hashes: str) -> None:
    code = (
        "from tests.properties.test_event_log_invariants import log_of; import hashlib; "
        "print(hashlib.sha256(log_of(7)).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == hashlib.sha256(log_of(7)).hexdigest()


def test_sync_asyncio_and_trio_emit_the_same_events(measured: Callable[[str], None]) -> None:
    """Policies of several strategies, 300 random scripts. (That of the virtual driver: tests/properties.)"""
    rng = random.Random(3)
    total = 0
    for _ in range(300):
        script = [
            takes(rng.choice([0, 1, 2, 5]), rng.choice([Boom, Boom, Bang, "ok"]))
            for _ in range(rng.randint(1, 6))
        ]
        script[-1] = takes(0, rng.choice([Bang, "ok"]))
        seed, attempts = rng.randrange(10**6), rng.randint(1, 5)
        gate = {"consecutive": rng.randint(1, 4), "open_for": 2.0}
        lists = []
        for way in (SYNC, ASYNCIO, TRIO):
            # One breaker and one budget for the whole script; a call that is refused is the end of it.
            policy = sp.Policy(
                sp.Fallback("cached", on=sp.CircuitOpen),
                sp.Retry(on=Boom, attempts=attempts, within=15, budget=sp.Budget(burst=3)),
                sp.Breaker(name="gate", **gate),  # type: ignore[arg-type]
                name="same",
                rng=random.Random(seed),
            )
            played = way(policy, *script, ...)
            lists.append([_plain(event) for event in played.events])
        assert lists[0] == lists[1] == lists[2]
        total += len(lists[0])
    measured(f"300 scripts, {total:,} events each by threads, asyncio and trio: the same lists")


def _plain(event: Any) -> dict[str, Any]:
    """Times start anywhere, so that their last digits differ."""
    return {
        key: round(value, 6) if isinstance(value, float) else value for key, value in event.as_dict().items()
    }
