"""A task that failed for good went to its dead letters without a word in any log."""

from __future__ import annotations

import logging

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

import stormproof as sp
import stormproof.celery
import stormproof.dramatiq

POLICY = sp.retry(on=ConnectionError, attempts=2, backoff=sp.Constant(0))


def test_celery_task_handed_to_a_function_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    celery = pytest.importorskip("celery")
    app = celery.Celery("mail", broker="memory://", backend="cache+memory://")
    letters: list[object] = []

    @app.task(
        name="send",
        base=stormproof.celery.task_base(POLICY, dead_letter=lambda t, error: letters.append(error)),
    )
    def send(address: str) -> None:
        raise ValueError(f"no such address: {address}")

    send.push_request(id="42", args=("ann@example.org",), kwargs={}, called_directly=False, is_eager=False)
    try:
        with caplog.at_level(logging.ERROR, "stormproof.celery"), pytest.raises(ValueError):
            send("ann@example.org")
    finally:
        send.pop_request()
    assert len(letters) == 1
    (record,) = [record for record in caplog.records if record.name == "stormproof.celery"]
    line = record.getMessage()
    assert line == "task send[42] failed for good (ValueError): handed to its dead-letter function"
    assert "ann" not in line


def test_dramatiq_message_left_to_the_dead_letters_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broker = StubBroker()
    stormproof.dramatiq.install(broker)

    @dramatiq.actor(broker=broker, policy=POLICY)
    def resize(picture: str) -> None:
        raise ValueError(picture)

    worker = dramatiq.Worker(broker, worker_timeout=20)
    worker.start()
    try:
        with caplog.at_level(logging.ERROR, "stormproof.dramatiq"):
            message = resize.send("cat.png")
            broker.join(resize.queue_name, fail_fast=False)
            worker.join()
    finally:
        worker.stop()
        broker.close()
    (record,) = [record for record in caplog.records if record.name == "stormproof.dramatiq"]
    assert record.getMessage() == (
        f"actor resize: message {message.message_id} failed for good (ValueError, attempts made: 1): "
        "left to the dead letters"
    )
