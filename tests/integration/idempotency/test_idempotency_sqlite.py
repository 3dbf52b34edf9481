"""The SQLite store among processes: races, kills, forks, and a file that others hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from stormproof.idempotency import OutcomeUnknown, SqliteStore, StoreUnavailable, idempotent
from stormproof.idempotency.keys import fingerprint
from stormproof.testing import FakeClock

ROOT = Path(__file__).parents[3]
#: The fingerprint of no payload, as the decorator makes it.
EMPTY = fingerprint(b"")


@contextlib.contextmanager
def python(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``code``; it is gone when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(path)
    yield made
    made.close()


HOLDER = """
    import sys, time
    from stormproof.idempotency import SqliteStore, idempotent
    store = SqliteStore(sys.argv[1])

    @idempotent(key=lambda k: k, store=store, lease=float(sys.argv[2]), scope="orders")
    def charge(key):
        print("running", flush=True)
        time.sleep(600)

    charge("order-1")
"""


def test_killed_holder_frees_its_key_when_its_lease_ends(path: Path, store: SqliteStore) -> None:
    lease = 1.5
    with python(HOLDER, path, lease) as holder:
        assert line(holder) == "running"
        assert store.begin("order-1", EMPTY, "b", 60, scope="orders").state == "in_progress"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    killed = time.monotonic()
    while (claim := store.begin("order-1", EMPTY, "b", 60, scope="orders")).state == "in_progress":
        assert time.monotonic() - killed < lease + 30, "the lease of a dead process has no end"
        time.sleep(0.02)
    assert claim.state == "unknown"
    assert store.begin("order-1", EMPTY, "b", 60, scope="orders", take_over=True).state == "new"


def test_live_holder_keeps_its_key_past_its_first_lease(path: Path, store: SqliteStore) -> None:
    with python(HOLDER, path, 2.0) as holder:
        assert line(holder) == "running"
        seen = store.begin("order-1", EMPTY, "b", 60, scope="orders")
        first_end = time.monotonic() + (seen.lease_left or 0)
        while time.monotonic() < first_end + 0.3:
            assert store.begin("order-1", EMPTY, "b", 60, scope="orders").state == "in_progress"
            time.sleep(0.02)


def test_crash_before_the_work_is_recorded_is_an_unknown_outcome(path: Path, store: SqliteStore) -> None:
    crash = """
        import os, sys
        from stormproof.idempotency import SqliteStore, idempotent
        from stormproof.idempotency.records import Finish

        class Crashing(SqliteStore):
            def run(self, operation):
                if isinstance(operation, Finish):
                    os._exit(9)
                return super().run(operation)

        @idempotent(key=lambda k: k, store=Crashing(sys.argv[1]), lease=0.3, scope="orders")
        def charge(key):
            print("charged", flush=True)

        charge("order-1")
    """
    charges: list[str] = []

    @idempotent(key=lambda k: k, store=store, scope="orders")
    def charge(key: str) -> None:
        charges.append(key)

    with python(crash, path) as crashed:
        assert line(crashed) == "charged"
        assert crashed.wait() == 9
    while True:
        claim = store.begin("order-1", EMPTY, "b", 60, scope="orders")
        if claim.state != "in_progress":
            break
        time.sleep(0.02)
    with pytest.raises(OutcomeUnknown, match="its outcome is unknown"):
        charge("order-1")
    assert charges == [], "it was charged once already"


def test_one_of_many_processes_runs_each_key(path: Path) -> None:
    """They also make the file, all at the same time."""
    racer = """
        import sys
        from stormproof.idempotency import SqliteStore
        store = SqliteStore(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        owner = sys.argv[2]
        for key in range(20):
            print(store.begin(str(key), "", owner, 60).state)
    """
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(python(racer, path, f"p{number}")) for number in range(6)]
        for process in racers:
            assert line(process) == "ready"
        for process in racers:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        states_by_process = [process.communicate()[0].split() for process in racers]
        assert [process.returncode for process in racers] == [0] * 6
    assert [len(states) for states in states_by_process] == [20] * 6
    for key in range(20):
        assert Counter(states[key] for states in states_by_process) == {"new": 1, "in_progress": 5}


def test_forked_child_opens_its_own_connection(path: Path, store: SqliteStore) -> None:
    store.begin("order-1", "", "parent", 60)
    parents = list(store._idle)
    assert parents
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        report = "nothing"
        try:
            report = " ".join(store.begin(key, "", "c", 60).state for key in ("order-1", "child"))
            report += f" {any(mine is theirs for mine in store._idle for theirs in parents)}"
        finally:
            os.write(writing, report.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "in_progress new False"
    assert os.waitpid(child, 0)[1] == 0
    assert store.begin("child", "", "parent", 60).state == "in_progress"
    assert store.finish("order-1", "parent", b"done") is True


def test_records_outlive_the_store(path: Path) -> None:
    first = SqliteStore(path)
    first.begin("order-1", "", "a", 60)
    first.finish("order-1", "a", b"done")
    first.close()
    again = SqliteStore(path)
    assert again.begin("order-1", "", "b", 60).answer == b"done"
    again.close()
    # Closed, and still usable: it opens what it needs.
    assert again.begin("order-1", "", "b", 60).answer == b"done"
    again.close()


def test_neither_key_nor_scope_is_in_the_file(path: Path, store: SqliteStore) -> None:
    store.begin("customer-4711", "", "a", 60, scope="tenant-secret")
    store.finish("customer-4711", "a", b"done", scope="tenant-secret")
    store.close()
    everything = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"done" in everything
    assert b"4711" not in everything and b"tenant-secret" not in everything


def test_file_that_stays_locked_raises_store_unavailable(path: Path) -> None:
    store = SqliteStore(path, timeout=0.05)
    store.begin("order-1", "", "a", 60)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="OperationalError") as caught:
            store.begin("order-2", "", "a", 60)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        other.execute("ROLLBACK")
    assert store.begin("order-2", "", "a", 60).state == "new"
    store.close()


def test_file_locked_before_the_first_use_is_unavailable(path: Path) -> None:
    store = SqliteStore(path, timeout=0.05)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="OperationalError"):
            store.begin("order-1", "", "a", 60)
        other.execute("ROLLBACK")
    assert store.begin("order-1", "", "a", 60).state == "new"
    store.close()


def test_purging_a_file_that_stays_locked(path: Path) -> None:
    store = SqliteStore(path, timeout=0.05)
    store.begin("order-1", "", "a", 60)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="OperationalError"):
            store.purge()
    store.close()


class Failing:
    """A clock that can be made to fail."""

    drives_timers = True
    fails = False

    def now(self) -> float:
        if self.fails:
            raise OSError("no time")
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def test_error_in_a_transaction_leaves_the_file_unlocked(path: Path) -> None:
    clock = Failing()
    store = SqliteStore(path, clock=clock)
    store.begin("order-1", "", "a", 60)
    clock.fails = True
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        with pytest.raises(OSError, match="no time"):
            store.begin("order-2", "", "a", 60)
        other.execute("DROP TABLE stormproof_idempotency")
        clock.fails = False
        with pytest.raises(StoreUnavailable, match="OperationalError"):
            store.begin("order-2", "", "a", 60)
        other.execute("BEGIN IMMEDIATE")
    store.close()


@pytest.mark.parametrize("made", [True, False])
def test_writer_waits_for_its_turn(path: Path, store: SqliteStore, made: bool) -> None:
    """Also the first one, which has yet to make the tables, in a file that another one uses already."""
    if made:
        store.begin("order-1", "", "a", 60)
    with (
        ThreadPoolExecutor(1) as pool,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN IMMEDIATE")
        asking = pool.submit(store.begin, "order-2", "", "a", 60)
        with pytest.raises(TimeoutError):
            asking.result(timeout=0.1)
        other.execute("COMMIT")
        assert asking.result().state == "new"


def test_file_of_a_later_schema_is_left_alone(path: Path, store: SqliteStore) -> None:
    store.begin("order-1", "", "a", 60)
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE stormproof_schema SET version = 2")
        other.commit()
    with pytest.raises(StoreUnavailable, match="schema version 2, this Stormproof reads version 1"):
        store.begin("order-1", "", "b", 60)


def test_file_that_another_part_has_begun_gets_its_tables(path: Path, store: SqliteStore) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE stormproof_schema (part TEXT PRIMARY KEY, version INTEGER NOT NULL)")
        other.execute("INSERT INTO stormproof_schema VALUES ('another', 7)")
        other.commit()
        assert store.begin("order-1", "", "a", 60).state == "new"
        versions = dict(other.execute("SELECT part, version FROM stormproof_schema"))
    assert versions == {"another": 7, "idempotency": 1}


def test_file_that_is_not_a_database_is_unavailable(path: Path, store: SqliteStore) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at " * 100)
    with pytest.raises(StoreUnavailable, match="DatabaseError"):
        store.begin("order-1", "", "a", 60)


def test_expired_keys_are_deleted(path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(path, ttl=10, durable=False, clock=clock)
    for number in range(50):
        store.begin(f"k{number}", "", "a", 5)
        store.finish(f"k{number}", "a", b"done")

    def rows() -> int:
        with contextlib.closing(sqlite3.connect(path)) as other:
            return int(other.execute("SELECT count(*) FROM stormproof_idempotency").fetchone()[0])

    assert rows() == 50
    clock.advance(11)
    store.begin("new", "", "a", 5)
    assert 1 < rows() < 50, "a new key takes some away in passing"
    assert store.purge() > 0
    assert rows() == 1
    assert store.purge() == 0
    store.close()


def test_waiting_for_the_file_does_not_block_the_loop(path: Path, store: SqliteStore) -> None:
    store.begin("order-1", "", "a", 60)

    async def main() -> tuple[str, int]:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            asking = asyncio.create_task(store.begin_async("order-2", "", "a", 60))
            turns = 0
            while turns < 50:
                await asyncio.sleep(0.001)
                turns += 1
            assert not asking.done()
            other.execute("ROLLBACK")
            return (await asking).state, turns

    assert asyncio.run(main()) == ("new", 50)


def test_cancelled_begin_leaves_nothing_claimed(path: Path, store: SqliteStore) -> None:
    store.begin("order-1", "", "a", 60)

    async def main() -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            asking = asyncio.create_task(store.begin_async("order-2", "", "a", 60))
            await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.sleep(0)
            asking.cancel()
            other.execute("ROLLBACK")
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(main())
    assert store.begin("order-2", "", "b", 60).state == "new"


def test_cancelled_finish_takes_effect(path: Path, store: SqliteStore) -> None:
    store.begin("order-1", "", "a", 60)

    async def main() -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            finishing = asyncio.create_task(store.finish_async("order-1", "a", b"done"))
            await asyncio.sleep(0.05)
            finishing.cancel()
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
            with pytest.raises(asyncio.CancelledError):
                await finishing

    asyncio.run(main())
    assert store.begin("order-1", "", "b", 60).answer == b"done"


def test_begin_that_never_got_a_thread_is_cancelled_and_claims_nothing(store: SqliteStore) -> None:
    """The program shuts its executor down, and with it what still waits there."""
    held = threading.Event()

    async def main() -> None:
        pool = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(pool)
        pool.submit(held.wait, 10)
        asking = asyncio.create_task(store.begin_async("order-1", "", "a", 60))
        await asyncio.sleep(0)
        pool.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(asyncio.CancelledError):
            await asking
        held.set()

    asyncio.run(main())
    assert store.begin("order-1", "", "b", 60).state == "new"


def test_unknown_event_loop_is_refused(store: SqliteStore) -> None:
    asking = store.begin_async("order-1", "", "a", 60)
    with pytest.raises(RuntimeError, match="a store runs under asyncio or trio"):
        asking.send(None)
    assert store.begin("order-1", "", "b", 60).state == "new"


def test_cancelled_begin_in_trio_reports_its_claim(path: Path, store: SqliteStore) -> None:
    store.begin("order-1", "", "a", 60)
    states: list[str] = []

    async def main() -> bool:
        scope = trio.CancelScope()

        async def ask() -> None:
            with scope:
                states.append((await store.begin_async("order-2", "", "a", 60)).state)
                await trio.lowlevel.checkpoint()

        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.sleep(0.05)
                scope.cancel()
                await trio.sleep(0.01)
                other.execute("ROLLBACK")
        return scope.cancelled_caught

    assert trio.run(main) is True
    assert states == ["new"]


def test_cancelled_call_is_settled_at_once(store: SqliteStore) -> None:
    """Although settling means waiting for the file, in a task that is being cancelled."""
    running = asyncio.Event()

    @idempotent(key=lambda k: k, store=store, lease=600)
    async def charge(key: str) -> None:
        running.set()
        await asyncio.sleep(600)

    async def main() -> None:
        task = asyncio.create_task(charge("order-1"))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(OutcomeUnknown):
            await charge("order-1")

    asyncio.run(main())


def test_cancelled_call_in_trio_is_settled_at_once(store: SqliteStore) -> None:
    scope = trio.CancelScope()

    @idempotent(key=lambda k: k, store=store, lease=600)
    async def charge(key: str) -> None:
        scope.cancel()
        await trio.sleep(600)

    async def main() -> None:
        with scope:
            await charge("order-1")
        assert scope.cancelled_caught
        with pytest.raises(OutcomeUnknown):
            await charge("order-1")

    trio.run(main)


def test_repr_names_the_file(path: Path, store: SqliteStore) -> None:
    assert repr(store) == f"SqliteStore({str(path)!r})"


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_store_without_a_file_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path must name a file"):
        SqliteStore(path)
