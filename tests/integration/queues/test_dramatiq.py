"""Dramatiq with a real worker on a real Redis: retries wait in the broker, a killed worker loses nothing."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from types import ModuleType

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Retries
from tests.integration.queues.conftest import Bench, stop
from tests.support.polling import eventually

import stormproof as sp
import stormproof.dramatiq

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def actors(bench: Bench) -> Iterator[ModuleType]:
    module = importlib.import_module("tests.integration.queues.dramatiq_app")
    yield module
    module.broker.close()
    module.keys.close()


@pytest.fixture(scope="module")
def start(bench: Bench, actors: ModuleType) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    workers = []

    def start() -> subprocess.Popen[bytes]:
        arguments = (
            "tests.integration.queues.dramatiq_app",
            "--processes",
            "1",
            "--threads",
            "2",
            "--skip-logging",
        )
        workers.append(bench.start("dramatiq", *arguments))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.poll() is None:
            stop(worker)


@pytest.fixture(scope="module")
def worker(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    return start()


def buried(bench: Bench, message: dramatiq.Message[None]) -> bool:
    return any(message.message_id.encode() in body for body in bench.redis.hvals("dramatiq:default.XQ.msgs"))


def idle(bench: Bench) -> bool:
    return not bench.redis.hlen("dramatiq:default.msgs") and not bench.redis.hlen("dramatiq:default.DQ.msgs")


@pytest.mark.usefixtures("worker")
def test_message_is_retried_until_it_succeeds(bench: Bench, actors: ModuleType) -> None:
    message = actors.flaky.send("flaky", 2)
    eventually(lambda: len(bench.runs.of("flaky")) == 3, "three runs")
    eventually(lambda: idle(bench), "an empty queue")
    assert len(bench.runs.of("flaky")) == 3
    assert not buried(bench, message)


@pytest.mark.usefixtures("worker")
def test_wait_takes_no_place_in_the_worker(bench: Bench, actors: ModuleType) -> None:
    for i in range(8):
        actors.patient.send(f"patient-{i}")
    eventually(lambda: all(bench.runs.of(f"patient-{i}") for i in range(8)), "the first runs")
    actors.flaky.send("meanwhile", 0)
    eventually(lambda: bench.runs.of("meanwhile"), "a run beside eight that wait")
    assert all(len(bench.runs.of(f"patient-{i}")) == 1 for i in range(8))
    eventually(lambda: all(len(bench.runs.of(f"patient-{i}")) == 2 for i in range(8)), "the second runs")


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(("kind", "runs"), [("fatal", 1), ("transient", 2)])
def test_message_that_fails_for_good_is_dead_lettered(
    bench: Bench, actors: ModuleType, kind: str, runs: int
) -> None:
    message = actors.doomed.send(f"doomed-{kind}", kind)
    eventually(lambda: buried(bench, message), "the dead letter")
    assert len(bench.runs.of(f"doomed-{kind}")) == runs


@pytest.mark.usefixtures("worker")
def test_actor_without_a_policy_is_not_retried(bench: Bench, actors: ModuleType) -> None:
    message = actors.unruled.send("unruled")
    eventually(lambda: buried(bench, message), "the dead letter")
    assert len(bench.runs.of("unruled")) == 1


@pytest.mark.usefixtures("worker")
def test_message_delivered_twice_runs_once(bench: Bench, actors: ModuleType) -> None:
    message = actors.careful.message("twice", 0.3)
    actors.broker.enqueue(message)
    # The broker knows a message by this id, the actor by the other: so it can be there twice.
    actors.broker.enqueue(message.copy(options={"redis_message_id": "another"}))
    eventually(lambda: bench.runs.of("twice"), "the first run")
    eventually(lambda: idle(bench), "an empty queue")
    assert len(bench.runs.of("twice")) == 1


def test_job_of_a_killed_worker_runs_once_more(
    bench: Bench, actors: ModuleType, worker: subprocess.Popen[bytes], start: Callable[[], object]
) -> None:
    actors.careful.send("killed", 60)
    eventually(lambda: bench.runs.of("killed"), "the first run")
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    start()
    eventually(lambda: len(bench.runs.of("killed")) == 2, "the second run")
    eventually(lambda: idle(bench), "an empty queue")
    assert len(bench.runs.of("killed")) == 2


def test_middleware_replaces_the_librarys_own_retries() -> None:
    broker = StubBroker()
    place = [type(kept) for kept in broker.middleware].index(Retries)
    policies = stormproof.dramatiq.install(broker)
    assert broker.middleware[place] is policies
    assert not any(isinstance(kept, Retries) for kept in broker.middleware)
    broker.close()


def test_message_that_cannot_be_queued_again_is_failed_not_lost() -> None:
    broker = StubBroker()
    stormproof.dramatiq.install(broker)

    @dramatiq.actor(broker=broker, policy=sp.retry(on=ConnectionError, backoff=sp.Constant(0)))
    def failing() -> None:
        raise ConnectionError

    broker.declare_queue(failing.queue_name)
    failing.send()
    enqueue = broker.enqueue
    refused: list[object] = []

    def refuse(message: object, **options: object) -> None:
        refused.append(message)
        raise OSError("no broker")

    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=1)
    broker.enqueue = refuse  # type: ignore[method-assign, assignment]
    worker.start()
    broker.join(failing.queue_name, fail_fast=False)
    worker.join()
    worker.stop()
    broker.enqueue = enqueue  # type: ignore[method-assign]
    assert len(refused) == 1
    assert len(broker.dead_letters) == 1
    broker.close()


def test_actors_declared_before_are_refused() -> None:
    broker = StubBroker()
    dramatiq.actor(lambda: None, actor_name="early", broker=broker)
    with pytest.raises(ValueError, match="broker must have no actors yet, got early"):
        stormproof.dramatiq.install(broker)
    broker.close()


def test_librarys_own_retry_options_are_refused() -> None:
    broker = StubBroker()
    stormproof.dramatiq.install(broker)
    with pytest.raises(ValueError, match=r"actor 'both': .* max_retries must not be given.* got 3"):
        dramatiq.actor(
            lambda: None, actor_name="both", broker=broker, policy=sp.retry(on=OSError), max_retries=3
        )
    broker.close()


def test_policy_that_cannot_be_followed_is_refused() -> None:
    broker = StubBroker()
    stormproof.dramatiq.install(broker)
    with pytest.raises(ValueError, match=r"actor 'bad': .* policy must have one Retry"):
        dramatiq.actor(lambda: None, actor_name="bad", broker=broker, policy=sp.Policy(sp.Breaker()))
    assert "bad" not in broker.actors
    broker.close()
