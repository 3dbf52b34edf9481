"""The log: nothing is made for a line that no handler would write."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp
from stormproof._events import bus, types
from stormproof._events.log import would_write


def bare_logger(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The logger ``stormproof`` as an application without handlers has it (pytest adds its own)."""
    found = logging.getLogger("stormproof")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(found, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(found, "filters", [])
    return found


class Kept(logging.Handler):
    """A handler that keeps what it is given."""

    def __init__(self, level: int = 0) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def give_up() -> None:
    def failing() -> None:
        raise Boom

    policy = sp.retry(on=Boom, attempts=2, backoff=sp.Constant(0), budget=None)
    with pytest.raises(Boom):
        policy.call(failing)


def test_logger_without_a_handler_writes_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    bare_logger(monkeypatch)
    assert not would_write(logging.WARNING)


@pytest.mark.parametrize("place", ["stormproof", ""])
def test_handler_of_a_parent_logger_writes_lines_of_its_level(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    logger = bare_logger(monkeypatch)
    handler = Kept(logging.WARNING)
    logging.getLogger(place).handlers.append(handler)
    assert would_write(logging.WARNING)
    logger.setLevel(logging.DEBUG)
    try:
        assert not would_write(logging.INFO)
    finally:
        logger.setLevel(logging.NOTSET)


def test_logger_that_does_not_propagate_ignores_root_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = bare_logger(monkeypatch)
    logging.getLogger().handlers.append(Kept())
    monkeypatch.setattr(logger, "propagate", False)
    assert not would_write(logging.WARNING)


def test_filter_sees_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = bare_logger(monkeypatch)
    seen: list[Any] = []
    logger.filters.append(lambda record: not seen.append(record))  # type: ignore[arg-type]
    give_up()
    assert [record.levelname for record in seen] == ["WARNING"]


def test_no_event_is_made_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = bare_logger(monkeypatch)
    made: list[str] = []
    real = types.GaveUp

    def make(**fields: Any) -> Any:
        made.append(fields["reason"])
        return real(**fields)

    assert bus.watchers == []
    monkeypatch.setattr(types, "GaveUp", make)
    give_up()
    assert made == []
    handler = Kept()
    logger.handlers.append(handler)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(types, "GaveUp", real)
        give_up()
    assert len(handler.lines) == 1 and "attempts used up" in handler.lines[0]
