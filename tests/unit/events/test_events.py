"""Events: they sum to the calls made, contain no secrets, and no subscriber can break a call."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scripted import SYNC, Bang, Boom, asks, does, each_way, every_way, retry, takes

import stormproof as sp
from stormproof._events import bus

#: Every attempt of a call that ends by itself is reported by exactly one of these.
COUNTED = ("Retrying", "Succeeded", "GaveUp")


def counted(events: list[Any]) -> int:
    return sum(type(event).__name__ in COUNTED for event in events)


# They sum to the calls made.


@every_way
@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        (["ok"], ["Succeeded"]),
        ([Boom, "ok"], ["Retrying", "Succeeded"]),
        ([Boom, Boom, Boom, Boom], ["Retrying", "Retrying", "Retrying", "GaveUp"]),
        ([Bang], ["GaveUp"]),
        ([Boom, Bang], ["Retrying", "GaveUp"]),
        ([sp.Permanent(Boom())], ["GaveUp"]),
        ([asks(2), "ok"], ["Retrying", "Succeeded"]),
        ([asks(100)], ["GaveUp"]),
    ],
    ids=str,
)
def test_each_attempt_emits_one_event(play: Any, script: list[Any], kinds: list[str]) -> None:
    seen = play(retry(), *script)
    assert seen.kinds() == kinds
    assert counted(seen.events) == seen.calls
    assert seen.events[-1].attempts == seen.calls


@every_way
@pytest.mark.parametrize(
    ("options", "limit", "reason"),
    [
        ({"attempts": 2}, None, "attempts"),
        ({"within": 2}, None, "within"),
        ({}, 2.5, "deadline"),
        ({"late": "clip"}, 2.5, "deadline"),
        ({"budget": sp.Budget(burst=0)}, None, "budget"),
    ],
    ids=str,
)
def test_each_attempt_emits_one_event_for_every_reason(
    play: Any, options: dict[str, Any], limit: float | None, reason: str
) -> None:
    seen = play(retry(**options), Boom, ..., inside=lambda: sp.deadline(limit))
    assert seen.events[-1].reason == reason
    assert counted(seen.events) == seen.calls
    assert seen.events[-1].attempts == seen.calls


class Oversleeping(sp.testing.FakeClock):
    """A sleep that takes longer than asked for."""

    def __init__(self, extra: float) -> None:
        super().__init__()
        self.extra = extra

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.advance(self.extra)


@pytest.mark.parametrize("end", ["deadline", "cancelled"])
def test_one_event_per_attempt_when_the_scope_ends_in_the_sleep(end: str) -> None:
    clock = Oversleeping(100 if end == "deadline" else 0)
    events: list[Any] = []
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise Boom

    def cancel(event: Any) -> None:
        events.append(event)
        if end == "cancelled":
            scope.cancel()

    stop = sp.subscribe(cancel)
    try:
        with sp.deadline(50, clock=clock) as scope, pytest.raises((sp.DeadlineExceeded, sp.Cancelled)):
            retry(clock=clock).call(fail)
    finally:
        stop()
    assert len(calls) == 1
    assert counted(events) == 1


SLOW = takes(4, Boom)


@given(
    script=st.lists(st.sampled_from([Boom, Bang, "ok", asks(3), takes(4, Boom)]), min_size=1),
    attempts=st.integers(1, 5),
    burst=st.integers(0, 4),
    within=st.none() | st.floats(0, 20),
    limit=st.none() | st.floats(0.001, 20),
)
@pytest.mark.proves("invariant 6")
def test_events_sum_up_to_the_attempts_for_any_script(
    script: list[Any], attempts: int, burst: int, within: float | None, limit: float | None
) -> None:
    """Invariant 6."""
    policy = retry(attempts=attempts, within=within, budget=sp.Budget(burst=burst))
    seen = SYNC(policy, *script, ..., inside=lambda: sp.deadline(limit))
    assert counted(seen.events) == seen.calls
    assert sum(event.wait for event in seen.events if isinstance(event, sp.events.Retrying)) == pytest.approx(
        sum(seen.sleeps)
    )


def test_refused_calls_make_no_attempt_and_no_event() -> None:
    seen = SYNC(retry(), "never", inside=lambda: sp.deadline(0)).raised(sp.DeadlineExceeded)
    assert counted(seen.events) == seen.calls == 0


@pytest.mark.proves("invariant 6")
def test_events_of_many_threads_sum_up() -> None:
    events: list[Any] = []
    calls: list[int] = []
    policy = retry(backoff=sp.Constant(0), attempts=3)

    @policy
    def callee(number: int) -> None:
        calls.append(1)
        attempt = sp.attempt()
        assert attempt is not None
        if attempt.number <= number % 4:
            raise Boom

    def worker(number: int) -> None:
        try:
            callee(number)
        except Boom:
            pass

    stop = sp.subscribe(events.append)
    threads = [threading.Thread(target=worker, args=(number,)) for number in range(40)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop()
    assert counted(events) == len(calls) == 10 * (1 + 2 + 3 + 3)


# What they say.


@each_way
def test_operation_is_the_policy_s_name(play: Any) -> None:
    seen = play(retry(name="fraud-score"), Boom, "ok")
    assert {event.operation for event in seen.events} == {"fraud-score"}


@each_way
@pytest.mark.parametrize("script", [["ok"], [Boom, "ok"], [Bang], [Boom, ...]], ids=str)
def test_operation_without_a_name_is_that_of_the_function(play: Any, script: list[Any]) -> None:
    """The same one from the first try on, in every way of calling."""
    expected = "step" if play.name == "call" else "callee"
    for event in play(retry(), *script).events:
        assert event.operation.endswith(expected)


def test_partial_or_callable_object_has_a_name() -> None:
    import functools

    class Client:
        def __call__(self) -> None: ...

    def fetch() -> None: ...

    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        retry()(Client())()
        retry()(functools.partial(fetch))()
    finally:
        stop()
    assert events[0].operation.endswith("Client")
    assert events[1].operation


@every_way
def test_end_event_carries_attempts_and_seconds_since_the_first_failure(play: Any) -> None:
    seen = play(retry(), takes(100, Boom), takes(5, Boom), "ok")
    assert (seen.events[-1].attempts, seen.events[-1].elapsed) == (3, pytest.approx(1 + 5 + 2))
    seen = play(retry(attempts=2), takes(100, Boom), takes(5, Boom))
    assert (seen.events[-1].attempts, seen.events[-1].elapsed) == (2, pytest.approx(1 + 5))


@every_way
@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Bang, "fatal"),
        (sp.Permanent(Boom()), "permanent"),
        (asks(100), "hint"),
    ],
)
def test_gave_up_event_carries_its_reason(play: Any, outcome: Any, reason: str) -> None:
    (event,) = play(retry(), outcome).events
    assert event.reason == reason


@every_way
def test_event_names_the_error_that_surfaces(play: Any) -> None:
    """Not the mark that carried it."""
    seen = play(retry(attempts=2), asks(2), sp.Permanent(Bang()))
    assert [event.error for event in seen.events] == [
        "tests.support.scripted.Boom",
        "tests.support.scripted.Bang",
    ]


@every_way
def test_refused_result_has_no_error(play: Any) -> None:
    seen = play(retry(attempts=2, on_result=lambda value: True), "no", "no").returned("no")
    assert [event.error for event in seen.events] == [None, None]


def test_events_are_frozen_and_plain() -> None:
    seen = SYNC(retry(), Boom, Boom, "ok")
    for event in seen.events:
        assert dataclasses.is_dataclass(event)
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.operation = "other"
        data = event.as_dict()
        assert data["event"] == type(event).__name__
        assert json.loads(json.dumps(data)) == data


# What they never say.

SECRET = "hunter2-s3cr3t"


class Login(Exception):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.password = SECRET


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "stormproof")
    return caplog


@each_way
def test_arguments_and_messages_stay_out(play: Any, records: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise Login(f"https://user:{SECRET}@host/?token={SECRET}")

    seen = play(retry(on=Login), does(fail), ...)
    assert seen.events
    for event in seen.events:
        assert SECRET not in repr(event)
        assert SECRET not in json.dumps(event.as_dict())
    assert records.records
    for record in records.records:
        assert SECRET not in record.getMessage()
        assert SECRET not in repr(record.__dict__)


def test_events_and_notes_hold_no_arguments() -> None:
    events: list[Any] = []
    stop = sp.subscribe(events.append)

    @retry(attempts=2, backoff=sp.Constant(0))
    def login(user: str, password: str) -> None:
        raise Boom

    try:
        with pytest.raises(Boom) as caught:
            login("root", password=SECRET)
    finally:
        stop()
    assert events
    assert SECRET not in repr(events)
    assert not any(SECRET in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "name", ["a\nb", "a\r\nb", "\x1b[31mred", "a\x00b", "a\u2028b", "\u202eflip", "x" * 1000]
)
def test_control_characters_are_escaped_and_text_is_capped(
    name: str, records: pytest.LogCaptureFixture
) -> None:
    seen = SYNC(retry(name=name), Boom, "ok")
    for text in [*(event.operation for event in seen.events), *(r.getMessage() for r in records.records)]:
        assert text.isprintable()
    assert all(len(event.operation) <= 200 for event in seen.events)


def test_odd_names_of_functions_and_exceptions_are_cleaned() -> None:
    odd = type("Evil\nName\x1b" + "x" * 500, (Exception,), {})

    def callee() -> None:
        raise odd

    callee.__qualname__ = "call\nee" + "y" * 500
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        with pytest.raises(odd):
            retry(on=odd, attempts=2, backoff=sp.Constant(0))(callee)()
    finally:
        stop()
    assert events
    for event in events:
        assert event.operation.isprintable() and len(event.operation) <= 200
        assert event.error.isprintable() and len(event.error) <= 200


def test_error_without_readable_text_is_emitted() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        __repr__ = __str__

    def fail() -> None:
        raise Mute

    seen = SYNC(retry(on=Mute, attempts=2), does(fail), ...)
    assert type(seen.error) is Mute
    assert seen.kinds() == ["Retrying", "GaveUp"]


# Subscribers.


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    caught: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: caught.append(report.exc_value))
    return caught


@every_way
def test_subscriber_that_raises_does_not_break_the_call(play: Any, unraisable: list[Any]) -> None:
    def broken(event: Any) -> None:
        raise ZeroDivisionError

    stop = sp.subscribe(broken)
    try:
        seen = play(retry(), Boom, "ok").returned("ok").made(2).slept(1)
        play(retry(attempts=1), Boom).raised_the_last_error()
    finally:
        stop()
    # The next subscriber was still called, and the error was reported.
    assert seen.kinds() == ["Retrying", "Succeeded"]
    assert [type(error) for error in unraisable] == [ZeroDivisionError] * 3


def test_every_subscriber_receives_all_events() -> None:
    heard: list[list[Any]] = [[], [], []]
    stops = [sp.subscribe(events.append) for events in heard]
    try:
        SYNC(retry(), Boom, "ok")
    finally:
        for stop in stops:
            stop()
    assert heard[0] == heard[1] == heard[2]
    assert len(heard[0]) == 2


def test_unsubscribing_twice_is_harmless() -> None:
    events: list[Any] = []
    first, second = sp.subscribe(events.append), sp.subscribe(events.append)
    first()
    first()
    SYNC(retry(), "ok")
    assert len(events) == 1
    second()
    SYNC(retry(), "ok")
    assert len(events) == 1


def test_subscriber_may_unsubscribe_and_subscribe_while_it_is_called() -> None:
    late: list[Any] = []
    stops: list[Callable[[], None]] = []

    def once(event: Any) -> None:
        stops.pop()()
        stops.append(sp.subscribe(late.append))

    stops.append(sp.subscribe(once))
    try:
        SYNC(retry(), Boom, "ok")
    finally:
        for stop in stops:
            stop()
    assert [type(event).__name__ for event in late] == ["Succeeded"]


def test_subscriber_may_use_policies_itself() -> None:
    """No lock is held, so it neither deadlocks nor disturbs the call that is reported."""
    budget = sp.Budget()
    inner: list[Any] = []
    depth = 0

    def busy(event: Any) -> None:
        nonlocal depth
        if depth:
            return
        depth += 1
        try:
            inner.append(
                (retry(budget=budget, clock=sp.testing.FakeClock()).call(lambda: "inner"), budget.balance)
            )
        finally:
            depth -= 1

    stop = sp.subscribe(busy)
    try:
        SYNC(retry(budget=budget), Boom, "ok").returned("ok").made(2)
    finally:
        stop()
    assert [value for value, _ in inner] == ["inner", "inner"]


def test_events_come_in_the_task_where_they_happen() -> None:
    tasks: list[Any] = []
    stop = sp.subscribe(lambda event: tasks.append(asyncio.current_task()))

    @retry()
    async def callee() -> None: ...

    async def main() -> None:
        task = asyncio.create_task(callee())
        await task
        assert tasks == [task]

    try:
        asyncio.run(main())
    finally:
        stop()


# Log lines.


@pytest.fixture
def log_lines(records: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    def lines() -> list[tuple[str, str]]:
        # The lines of calls: those of single retries are DEBUG.
        ours = (r for r in records.records if r.name == "stormproof" and r.levelno > logging.DEBUG)
        return [(record.levelname, record.getMessage()) for record in ours]

    return lines


@every_way
def test_retried_and_succeeded_is_one_info(play: Any, log_lines: Callable[[], Any]) -> None:
    play(retry(name="fraud-score"), Boom, Boom, "ok")
    ((level, text),) = log_lines()
    assert level == "INFO"
    assert "fraud-score" in text
    assert "3" in text


@every_way
def test_gave_up_is_one_warning(play: Any, log_lines: Callable[[], Any]) -> None:
    play(retry(name="fraud-score"), Boom, ...)
    ((level, text),) = log_lines()
    assert level == "WARNING"
    assert "fraud-score" in text
    assert "4 attempts" in text
    assert "Boom" in text


@every_way
@pytest.mark.parametrize("script", [["ok"], [Bang], [sp.Permanent(Bang())]], ids=str)
def test_call_without_a_retry_is_not_logged(
    play: Any, script: list[Any], log_lines: Callable[[], Any]
) -> None:
    play(retry(), *script)
    assert log_lines() == []


def test_line_carries_the_event_as_data(records: pytest.LogCaptureFixture) -> None:
    SYNC(retry(name="op"), Boom, "ok")
    retried, record = records.records
    assert retried.stormproof["event"] == "Retrying"  # type: ignore[attr-defined]
    assert record.stormproof["event"] == "Succeeded"  # type: ignore[attr-defined]
    assert record.stormproof["attempts"] == 2  # type: ignore[attr-defined]


def test_log_lines_can_be_switched_off_and_on(log_lines: Callable[[], Any]) -> None:
    sp.logging.off()
    try:
        seen = SYNC(retry(), Boom, "ok")
        assert log_lines() == []
        assert seen.kinds() == ["Retrying", "Succeeded"]
    finally:
        sp.logging.on()
    SYNC(retry(), Boom, "ok")
    assert len(log_lines()) == 1


def test_program_that_has_not_imported_logging_is_not_made_to(
    log_lines: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(bus, "would_write", bus._find_log)
        before.delitem(sys.modules, "logging")
        assert SYNC(retry(), Boom, "ok").error is None
        assert "logging" not in sys.modules
    assert log_lines() == []
    SYNC(retry(), Boom, "ok")
    assert len(log_lines()) == 1


SILENT = """
    import sys
    sys.path.insert(0, {source!r})
    {prelude}
    import stormproof as sp

    @sp.retry(on=OSError, attempts=2, backoff=sp.Constant(0))
    def fail():
        raise OSError

    try:
        fail()
    except OSError:
        print("logging" in sys.modules)
"""


@pytest.mark.parametrize("prelude", ["", "import logging"], ids=["no logging", "unconfigured"])
def test_application_that_does_not_log_sees_nothing(prelude: str) -> None:
    """Not the "last resort" line on stderr either, and nothing loads logging for its sake."""
    code = textwrap.dedent(SILENT.format(source=str(Path(sp.__file__).parents[1]), prelude=prelude))
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == f"{bool(prelude)}\n"
