"""SQLAlchemy: the whole transaction is the attempt, and only what passes is tried again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

import stormproof as sp


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


@pytest.fixture
def sessions(file: Path) -> Iterator[sessionmaker[Session]]:
    engine = sa.create_engine(f"sqlite:///{file}", connect_args={"timeout": 0})
    Base.metadata.create_all(engine)
    yield sessionmaker(engine)
    engine.dispose()


def test_locked_database_is_waited_for_with_a_fresh_transaction(
    file: Path, sessions: sessionmaker[Session]
) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    attempts: list[int] = []

    def release(attempt: sp.Attempt) -> None:
        attempts.append(attempt.number)
        if attempt.number == 3:
            other.execute("ROLLBACK")

    @sp.retry(on=sp.transient, backoff=sp.Constant(0), before_attempt=release)
    def place(item: str) -> int:
        with sessions.begin() as session:
            order = Order(item=item)
            session.add(order)
            session.flush()
            return order.id

    assert place("apple") == 1
    assert attempts == [1, 2, 3]
    other.close()
    with sessions() as session:
        assert session.scalars(sa.select(Order.item)).all() == ["apple"]


def test_violated_constraint_is_not_retried(sessions: sessionmaker[Session]) -> None:
    tries = 0

    @sp.retry(on=sp.transient, backoff=sp.Constant(0))
    def place(number: int) -> None:
        nonlocal tries
        tries += 1
        with sessions.begin() as session:
            session.add(Order(id=number, item="apple"))

    place(1)
    with pytest.raises(sa.exc.IntegrityError):
        place(1)
    assert tries == 2


@pytest.mark.parametrize(
    ("sqlstate", "retried"), [("40001", True), ("40P01", True), ("08006", True), ("23505", False)]
)
def test_postgres_errors_are_recognised_by_their_sqlstate_through_sqlalchemy(
    sqlstate: str, retried: bool
) -> None:
    import psycopg.errors

    original = psycopg.errors.lookup(sqlstate)("said the server")
    wrapped = sa.exc.DBAPIError.instance("SELECT 1", None, original, psycopg.Error)
    assert sp.transient(wrapped).retry is retried
