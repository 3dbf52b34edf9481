"""A Celery task to be retried, and a broker that would not take its next message: the task was gone.

Celery rejects the message at hand for good then. Stormproof: it stays in the queue, as a task does that
cannot
be dead-lettered, and is run again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import celery
import celery.canvas
import celery.signals
import pytest
from celery.contrib.testing.worker import start_worker

import stormproof as sp
import stormproof.celery


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """A worker sets up logging for the whole process; other tests have to see what is logged."""
    celery.signals.setup_logging.connect(_leave_it, weak=False)
    yield
    celery.signals.setup_logging.disconnect(_leave_it)


def _leave_it(**_: Any) -> None:
    pass


@pytest.mark.usefixtures("logging_as_it_was")
def test_task_whose_retry_cannot_be_queued_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = celery.Celery("lost", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(worker_timer_precision=0.02)
    runs: list[int] = []
    ended = threading.Event()

    @app.task(
        name="lost.flaky",
        base=stormproof.celery.task_base(sp.retry(on=ConnectionError, attempts=3, backoff=sp.Constant(0))),
    )
    def flaky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError
        ended.set()

    refused: list[Any] = []
    own = celery.canvas.Signature.apply_async

    def refuse_once(self: Any, *args: Any, **options: Any) -> Any:
        if not refused:
            refused.append(self)
            raise OSError("the broker is away")
        return own(self, *args, **options)

    monkeypatch.setattr(celery.canvas.Signature, "apply_async", refuse_once)
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=20):
        flaky.delay()
        assert ended.wait(20)
    assert (len(refused), len(runs)) == (1, 2)
    app.close()
