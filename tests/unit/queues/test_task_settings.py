"""Common parts of both queues, without a broker: keys, the task's own errors, direct calls."""

from __future__ import annotations

import celery
import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Shutdown, TimeLimitExceeded

import stormproof as sp
import stormproof.celery
import stormproof.dramatiq
from stormproof._queues.requeue import Requeue
from stormproof._queues.task_settings import TaskPostponed, TaskSettings
from stormproof.idempotency import IdempotencyConflict, MemoryStore, StoreUnavailable

POLICY = sp.retry(on=(ConnectionError, StoreUnavailable), attempts=2, backoff=sp.Constant(0))


def settings(store: MemoryStore | None) -> TaskSettings:
    return TaskSettings("test", POLICY, store, 10, "error")


def attempt(store: MemoryStore | None, run, key=lambda: "k"):
    own = settings(store)
    return own.attempt(run, Requeue(POLICY, "task", "test"), "task", key)


def test_taken_key_is_busy_until_its_lease_is_over() -> None:
    store = MemoryStore()

    def meanwhile() -> float:
        with pytest.raises(TaskPostponed) as busy:
            attempt(store, lambda: 1)()
        return float(busy.value.wait)

    assert 9 < attempt(store, meanwhile)() <= 10


@pytest.mark.parametrize("error", [IdempotencyConflict("mine"), StoreUnavailable("mine")], ids=repr)
@pytest.mark.parametrize("store", [MemoryStore(), None], ids=["store", "no store"])
def test_error_about_keys_raised_by_the_task_is_raised_unchanged(
    error: Exception, store: MemoryStore | None
) -> None:
    def run() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        attempt(store, run)()
    assert raised.value is error


def test_task_without_a_key_runs_every_time() -> None:
    ran: list[int] = []
    call = attempt(MemoryStore(), lambda: ran.append(1), key=lambda: None)
    call()
    call()
    assert len(ran) == 2


@pytest.mark.parametrize("options", [{"max_retries": 1}, {"autoretry_for": (ValueError,)}])
def test_celerys_own_retry_options_are_refused(options: dict[str, object]) -> None:
    def task() -> None: ...

    app = celery.Celery("tests", broker="memory://", set_as_current=False)
    with pytest.raises(ValueError, match=f"{next(iter(options))} of task .* must not be given"):
        app.task(base=stormproof.celery.task_base(POLICY), name="t", lazy=False, shared=False, **options)(
            task
        )
    app.close()


class Broker(StubBroker):
    """Remembers what was queued again."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[tuple[object, int | None]] = []
        self.policies = stormproof.dramatiq.install(self, idempotency=MemoryStore())

    def enqueue(self, message, *, delay=None):
        self.again.append((message, delay))
        return message


@pytest.fixture
def broker():
    broker = Broker()
    yield broker
    broker.close()


class Message:
    """As much of a message as the middleware looks at."""

    def __init__(self, actor: str) -> None:
        self.actor_name = actor
        self.message_id = "m1"
        self.args, self.kwargs, self.options = (), {}, {}
        self.failed = False

    def fail(self) -> None:
        self.failed = True


def test_worker_that_stops_leaves_its_message_to_the_next(broker: Broker) -> None:
    dramatiq.actor(lambda: None, actor_name="cut", broker=broker, policy=POLICY)
    message = Message("cut")
    broker.policies.after_process_message(broker, message, exception=Shutdown())
    assert not message.failed
    assert broker.again == [(message, 0)]
    assert message.options["stormproof"]["attempts"] == 0


def test_time_limit_is_an_attempts_timeout(broker: Broker) -> None:
    dramatiq.actor(
        lambda: None, actor_name="slow", broker=broker, policy=sp.retry(on=TimeoutError, attempts=2)
    )
    message = Message("slow")
    broker.policies.after_process_message(broker, message, exception=TimeLimitExceeded())
    assert message.options["stormproof"]["attempts"] == 1
    broker.policies.after_process_message(broker, message, exception=TimeLimitExceeded())
    assert message.failed


def test_direct_call_inside_an_actor_has_no_message(broker: Broker) -> None:
    ran: list[str] = []
    inner = dramatiq.actor(lambda: ran.append("inner"), actor_name="inner", broker=broker, policy=POLICY)

    def outer() -> None:
        inner()
        inner()

    outer_actor = dramatiq.actor(outer, actor_name="outer", broker=broker, policy=POLICY)
    broker.policies.before_process_message(broker, Message("outer"))
    outer_actor()
    assert ran == ["inner", "inner"]
    # And no message is left behind for a direct call.
    inner()
    assert len(ran) == 3
