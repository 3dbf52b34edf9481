"""Records in a SQLite file: for the processes of one machine, and across restarts."""

from __future__ import annotations

import contextlib
import os
import sqlite3

from .._primitives.options import Seconds, flag, seconds, validate_clock
from .._runtime import clock as _clock
from .._runtime.locks import guard
from .errors import StoreUnavailable
from .records import Begin, Operation, Record, step
from .store import DAY_S, MAX_ANSWER, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .._runtime.clock import Clock

VERSION = 1
_IDLE = 8
#: Expired records are deleted in passing, a few with every new key: more than come in.
_PURGED = 20
#: A connection opened before a fork must not even be closed in the child: SQLite forbids it.
_inherited: list[sqlite3.Connection] = []

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stormproof_schema (part TEXT PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stormproof_idempotency (
    digest BLOB PRIMARY KEY,
    done INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    owner TEXT NOT NULL,
    until REAL NOT NULL,
    expires REAL NOT NULL,
    answer BLOB
);
CREATE INDEX IF NOT EXISTS stormproof_idempotency_expires ON stormproof_idempotency (expires);
INSERT OR IGNORE INTO stormproof_schema VALUES ('idempotency', 1);
"""
_FIND = "SELECT done, fingerprint, owner, until, expires, answer FROM stormproof_idempotency WHERE digest = ?"
_KEEP = "INSERT OR REPLACE INTO stormproof_idempotency VALUES (?, ?, ?, ?, ?, ?, ?)"
_DROP = "DELETE FROM stormproof_idempotency WHERE digest = ?"
_PURGE = (
    "DELETE FROM stormproof_idempotency WHERE digest IN "
    "(SELECT digest FROM stormproof_idempotency WHERE expires <= ? LIMIT ?)"
)


class SqliteStore(Store):
    """Records in the file ``path``, shared by any number of processes and threads of one machine.

    The file is made at first use, in WAL mode; not for a network file system. A writer waits up to
    ``timeout`` seconds for others, then raises `StoreUnavailable`. ``durable=True`` survives a power
    cut; False survives the death of any process, and is quicker. Leases use the wall clock, the
    only one that processes and restarts share: a clock set forward ends leases early.
    """

    _lock: object

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: Seconds = 5.0,
        durable: bool = True,
        ttl: Seconds = DAY_S,
        max_answer: int = MAX_ANSWER,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ttl=ttl, max_answer=max_answer)
        self.path = os.fspath(path)
        if not isinstance(self.path, str) or not self.path or self.path == ":memory:":
            raise ValueError(f"SqliteStore: path must name a file, got {path!r}; use MemoryStore for memory")
        self.timeout = seconds("SqliteStore", "timeout", timeout)
        self.durable = flag("SqliteStore", "durable", durable)
        self.clock = validate_clock("SqliteStore", clock)
        self._idle: list[sqlite3.Connection] = []
        self._lock = guard(self)

    # Connections: each is one caller's at a time, and a few are kept for the next.

    def _open(self) -> sqlite3.Connection:
        # Answers are user data: the file is its owner's alone, and SQLite's own follow it. Only a
        # new file is opened here: closing an old one would drop the locks that this process has on it.
        with contextlib.suppress(OSError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=16,
        )
        try:
            self._use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'NORMAL'}")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Several processes may make the file at once, and here SQLite does not wait for its turn."""
        end = _clock.SYSTEM.now() + self.timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or _clock.SYSTEM.now() >= end:
                    raise
            _clock.SYSTEM.sleep(0.01)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'stormproof_schema'").fetchone()
        if known is None:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        row = connection.execute(
            "SELECT version FROM stormproof_schema WHERE part = 'idempotency'"
        ).fetchone()
        if row is None:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        elif row[0] != VERSION:
            raise StoreUnavailable(
                f"SqliteStore: {self.path} has schema version {row[0]}, "
                f"this Stormproof reads version {VERSION}"
            )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open()
        process = os.getpid()
        try:
            yield connection
        except BaseException:
            self._put_away(connection, process, idle=False)
            raise
        self._put_away(connection, process, idle=len(self._idle) < _IDLE)

    def _put_away(self, used: sqlite3.Connection, process: int, idle: bool) -> None:
        if process != os.getpid():
            _inherited.append(used)
        elif idle:
            self._idle.append(used)
        else:
            used.close()

    def run(self, operation: Operation) -> Any:
        try:
            with self._connection() as connection:
                return self._transact(connection, operation)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"SqliteStore: {type(error).__name__} from {self.path}") from error

    def _transact(self, connection: sqlite3.Connection, operation: Operation) -> Any:
        # Immediate: a transaction that reads first and wants to write later can only be refused.
        connection.execute("BEGIN IMMEDIATE")
        try:
            now = _clock.wall() if self.clock is None else self.clock.now()
            row = connection.execute(_FIND, (operation.digest,)).fetchone()
            before = None if row is None else Record(bool(row[0]), *row[1:])
            outcome, after = step(operation, before, now)
            if after is None and before is not None:
                connection.execute(_DROP, (operation.digest,))
            elif after is not None and after is not before:
                entry = (after.done, after.fingerprint, after.owner, after.until, after.expires, after.answer)
                connection.execute(_KEEP, (operation.digest, *entry))
            if isinstance(operation, Begin) and before is None:
                connection.execute(_PURGE, (now, _PURGED))
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return outcome

    def purge(self) -> int:
        """Delete every expired record now; return their number. New keys delete some, too."""
        now = _clock.wall() if self.clock is None else self.clock.now()
        try:
            with self._connection() as connection:
                return connection.execute(_PURGE, (now, -1)).rowcount
        except sqlite3.Error as error:
            raise StoreUnavailable(f"SqliteStore: {type(error).__name__} from {self.path}") from error

    def close(self) -> None:
        """Close the idle connections; the next operation opens a new one."""
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().close()

    def after_fork(self) -> None:
        """In a forked child: open connections of its own."""
        _inherited.extend(self._idle)
        self._idle.clear()

    def __repr__(self) -> str:
        return f"SqliteStore({self.path!r})"
