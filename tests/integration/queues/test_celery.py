"""Celery with real workers on a real Redis: retries wait in the broker, and a killed worker loses nothing."""

from __future__ import annotations

import importlib
import json
import os
import signal
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.integration.queues.conftest import Bench, stop
from tests.support.polling import eventually

import stormproof as sp
import stormproof.celery

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def tasks(bench: Bench) -> Iterator[ModuleType]:
    module = importlib.import_module("tests.integration.queues.celery_app")
    worker = bench.start(
        "celery", "-A", "tests.integration.queues.celery_app", "worker", "-c", "2", "-l", "INFO"
    )
    eventually(lambda: b"ready." in bench.log.read_bytes(), "the worker's start")
    yield module
    stop(worker)
    module.app.close()
    module.keys.close()


def dead(bench: Bench) -> list[dict[str, object]]:
    return [json.loads(message) for message in bench.redis.lrange("dead", 0, -1)]


def test_task_is_retried_until_it_succeeds(bench: Bench, tasks: ModuleType) -> None:
    assert tasks.flaky.delay("flaky", 2).get(timeout=30) == "done"
    assert len(bench.runs.of("flaky")) == 3


def test_attempts_are_counted_across_messages(bench: Bench, tasks: ModuleType) -> None:
    with pytest.raises(ConnectionError):
        tasks.flaky.delay("hopeless", 99).get(timeout=30)
    assert len(bench.runs.of("hopeless")) == 4


def test_wait_takes_no_place_in_the_worker(bench: Bench, tasks: ModuleType) -> None:
    waiting = [tasks.patient.delay(f"patient-{i}") for i in range(8)]
    eventually(lambda: all(bench.runs.of(f"patient-{i}") for i in range(8)), "the first runs")
    # Two processes, eight tasks that wait: yet there is room for this one.
    assert tasks.flaky.delay("meanwhile", 0).get(timeout=30) == "done"
    assert all(len(bench.runs.of(f"patient-{i}")) == 1 for i in range(8))
    assert [task.get(timeout=30) for task in waiting] == ["done"] * 8


@pytest.mark.parametrize(("kind", "runs"), [("fatal", 1), ("transient", 2)])
def test_task_that_fails_for_good_is_dead_lettered(
    bench: Bench, tasks: ModuleType, kind: str, runs: int
) -> None:
    failed = tasks.doomed.delay(f"doomed-{kind}", kind)
    with pytest.raises((ValueError, ConnectionError), match=kind):
        failed.get(timeout=30)
    assert len(bench.runs.of(f"doomed-{kind}")) == runs
    (letter,) = [letter for letter in dead(bench) if letter["headers"]["id"] == failed.id]
    assert letter["headers"]["task"] == "tests.integration.queues.celery_app.doomed"
    assert f"doomed-{kind}" in letter["headers"]["argsrepr"]


def test_task_with_an_empty_budget_is_not_retried(bench: Bench, tasks: ModuleType) -> None:
    with pytest.raises(ConnectionError):
        tasks.broke.delay("broke").get(timeout=30)
    assert len(bench.runs.of("broke")) == 1


def test_message_delivered_twice_runs_once(bench: Bench, tasks: ModuleType) -> None:
    first = tasks.careful.apply_async(("twice", 0.3), task_id="the-same")
    second = tasks.careful.apply_async(("twice", 0.3), task_id="the-same")
    assert first.get(timeout=30) == second.get(timeout=30) == 1
    eventually(
        lambda: bench.redis.llen("celery") == 0 and not bench.redis.hlen("unacked"), "the second delivery"
    )
    assert len(bench.runs.of("twice")) == 1


def test_job_of_a_killed_worker_runs_once_more(bench: Bench, tasks: ModuleType) -> None:
    held = tasks.careful.delay("killed", 60)
    eventually(lambda: bench.runs.of("killed"), "the first run")
    os.kill(bench.runs.of("killed")[0], signal.SIGKILL)
    assert held.get(timeout=60) == 2
    assert len(bench.runs.of("killed")) == 2


def test_killed_worker_reports_unknown_outcome_when_rerun_is_forbidden(
    bench: Bench, tasks: ModuleType
) -> None:
    held = tasks.once.delay("unknown", 60)
    eventually(lambda: bench.runs.of("unknown"), "the first run")
    os.kill(bench.runs.of("unknown")[0], signal.SIGKILL)
    with pytest.raises(sp.idempotency.OutcomeUnknown):
        held.get(timeout=60)
    assert len(bench.runs.of("unknown")) == 1
    assert any(letter["headers"]["id"] == held.id for letter in dead(bench))


def test_task_called_directly_is_the_plain_function(bench: Bench, tasks: ModuleType) -> None:
    assert tasks.flaky("direct", 0) == "done"
    with pytest.raises(ConnectionError):
        tasks.flaky("direct-failing", 1)


def test_task_applied_eagerly_is_retried_at_once(bench: Bench, tasks: ModuleType) -> None:
    assert tasks.flaky.apply(("eager", 2)).get() == "done"
    assert len(bench.runs.of("eager")) == 3


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"policy": sp.Policy(sp.Breaker())}, "policy must have one Retry"),
        ({"idempotency": 3}, "idempotency must be a store"),
        ({"lease": 0}, "lease must be"),
        ({"on_unknown": "ask"}, "on_unknown must be"),
        ({"dead_letter": ""}, "dead_letter must be"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, object], rule: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"celery.task_base: {rule}"):
        stormproof.celery.task_base(**{"policy": sp.retry(on=OSError), **options})
