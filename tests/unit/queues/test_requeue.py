"""Retrying by queueing again: the loop's own rule, with its memory in the message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stormproof as sp
from stormproof._queues.requeue import Again, End, Memory, Requeue

START = 1_700_000_000.0


def through_a_message(memory: Memory) -> Memory:
    return Memory.from_data(json.loads(json.dumps(memory.to_data())))


def run(policy: sp.Policy, failures: int, every: float = 0.0) -> tuple[list[float], End | None]:
    """Return the waits of a task that fails, each attempt judged by a fresh `Requeue`, and its end."""
    now, memory, waits = START, Memory(), []
    for _ in range(failures):
        answer = Requeue(policy, "task", "test").failed(ConnectionError(), memory, now)
        if isinstance(answer, End):
            return waits, answer
        waits.append(answer.wait)
        now += answer.wait + every
        memory = through_a_message(answer.memory)
    return waits, None


def test_schedule_goes_on_from_message_to_message() -> None:
    backoff = sp.Exponential(1, cap=100, jitter="none")
    waits, end = run(sp.retry(on=ConnectionError, attempts=5, backoff=backoff, within=None, budget=None), 9)
    assert waits == [1, 2, 4, 8]
    assert end is not None and end.reason == "attempts"
    assert isinstance(end.error, ConnectionError)
    assert "5 attempts" in end.error.__notes__[0]


def test_decorrelated_waits_know_the_wait_before() -> None:
    class Longest:
        def random(self) -> float:
            return 0.9999999

    policy = sp.retry(
        on=ConnectionError, attempts=4, backoff=sp.Decorrelated(1, cap=100), within=None, rng=Longest()
    )
    waits, _ = run(policy, 3)
    assert waits == pytest.approx([3, 9, 27], rel=1e-3)


def test_time_in_the_queue_counts_for_within() -> None:
    policy = sp.retry(on=ConnectionError, attempts=None, backoff=sp.Constant(1), within=10)
    waits, end = run(policy, 99, every=4)
    # Attempts at 0, 5 and 10 s after the first failure: at 10 there is no second left to wait.
    assert waits == [1, 1]
    assert end is not None and end.reason == "within"
    assert isinstance(end.error, ConnectionError)


def test_fatal_error_ends_a_task_at_once() -> None:
    error = ValueError("no")
    answer = Requeue(sp.retry(on=ConnectionError), "task", "test").failed(error, Memory(), START)
    assert isinstance(answer, End)
    assert answer.error is error and answer.reason == "fatal"


def test_rule_that_raises_ends_the_task_with_both_errors() -> None:
    def on(error: BaseException) -> bool:
        raise KeyError("rule")

    error = ConnectionError("asked about")
    answer = Requeue(sp.retry(on=on), "task", "test").failed(error, Memory(), START)
    assert isinstance(answer, End) and answer.reason == "fault"
    assert isinstance(answer.error, KeyError) and answer.error.__context__ is error


def test_servers_hint_is_waited_for() -> None:
    policy = sp.retry(on=ConnectionError, backoff=sp.Constant(0))
    answer = Requeue(policy, "task", "test").failed(sp.RetryAfter(7, ConnectionError()), Memory(), START)
    assert isinstance(answer, Again)
    assert 7 <= answer.wait <= 7.7


def test_budget_is_charged_and_refunded() -> None:
    budget = sp.QuotaBudget(capacity=12)
    requeue = Requeue(sp.retry(on=ConnectionError, backoff=sp.Constant(0), budget=budget), "task", "test")
    first = requeue.failed(ConnectionError(), Memory(), START)
    assert isinstance(first, Again) and budget.balance == 7
    requeue.succeeded(through_a_message(first.memory), START)
    assert budget.balance == 12
    spent = [requeue.failed(ConnectionError(), Memory(), START) for _ in range(3)]
    assert [type(answer) for answer in spent] == [Again, Again, End]
    assert isinstance(spent[2].error, ConnectionError)


def test_first_attempts_are_reported_to_the_budget_once() -> None:
    budget = sp.WindowBudget(ratio=0.5, floor=0.1, window=10)
    requeue = Requeue(sp.retry(on=ConnectionError, budget=budget), "task", "test")
    before = budget.balance
    requeue.started(Memory())
    requeue.started(Memory(attempts=1))
    assert budget.balance == pytest.approx(before + 0.5)


def test_other_strategies_run_around_each_attempt() -> None:
    breaker = sp.Breaker()
    requeue = Requeue(sp.Policy(sp.Retry(on=ConnectionError), breaker, name="mail"), "task", "test")
    assert requeue.inner is not None
    assert requeue.inner.strategies == (breaker,)
    assert requeue.operation == "mail"
    assert Requeue(sp.retry(on=ConnectionError), "tasks.send", "test").inner is None


def test_requeue_emits_the_events_of_the_loop() -> None:
    events: list[object] = []
    unsubscribe = sp.subscribe(events.append)
    run(sp.retry(on=ConnectionError, attempts=2, backoff=sp.Constant(3)), 2)
    unsubscribe()
    assert [type(event).__name__ for event in events] == ["Retrying", "GaveUp"]
    assert events[0] == sp.events.Retrying("task", attempt=1, wait=3.0, error="ConnectionError")
    assert events[1].attempts == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (sp.Policy(sp.Breaker()), "one Retry"),
        (sp.retry(on=OSError, on_result=bool), "on_result"),
        (sp.retry(on=OSError, before_attempt=print), "before_attempt"),
    ],
)
def test_unsupported_policies_are_refused(policy: sp.Policy, rule: str) -> None:
    with pytest.raises(ValueError, match=f"celery.Task: policy must .*{rule}"):
        Requeue(policy, "task", "celery.Task")


def test_value_that_is_not_a_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="policy must be a Policy, got 3"):
        Requeue(3, "task", "celery.Task")  # type: ignore[arg-type]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(Memory._fields) | st.text(), inner),
    )
)
def test_memory_from_any_header_is_usable(data: object) -> None:
    memory = Memory.from_data(data)
    assert 0 <= memory.attempts < 2**31 and 0 <= memory.place < 2**31
    Requeue(sp.retry(on=ConnectionError, attempts=None), "task", "test").failed(
        ConnectionError(), memory, START
    )


@given(
    attempts=st.integers(0, 2**31 - 1),
    first=st.none() | st.floats(0, 1e11),
    prev=st.none() | st.floats(0, 1e6),
    place=st.integers(0, 2**31 - 1),
    spent=st.none() | st.floats(0, 1e3),
)
def test_memory_survives_the_message(**fields: object) -> None:
    memory = Memory(**fields)  # type: ignore[arg-type]
    assert through_a_message(memory).to_data() == memory.to_data()


def test_error_stored_by_an_earlier_task_is_new_to_the_next() -> None:
    stored = ConnectionError("refused")

    @sp.retry(on=ConnectionError, attempts=1)
    def connect() -> None:
        raise stored

    requeue = Requeue(sp.retry(on=ConnectionError, budget=None), "task", "test")
    ends: list[object] = []
    for fails in (connect, lambda: stored):
        requeue.started(Memory())
        with pytest.raises(ConnectionError) as failure:
            raise fails() or stored
        ends.append(requeue.failed(failure.value, Memory(), START))
    assert isinstance(ends[0], End) and ends[0].reason == "exhausted"
    assert isinstance(ends[1], Again)
