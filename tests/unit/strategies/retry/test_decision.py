"""The rule of the loop at its edges: its events, its questions, and its handling of odd answers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.scripted import SYNC, Boom, BudgetSpy, does, retry

import stormproof as sp
from stormproof._classify.exhaustion import Mark, exhausted_by, mark, response_mark
from stormproof._classify.verdict import Verdict
from stormproof._strategies.retry.call import RetriedCall, note
from stormproof._strategies.retry.rules.decision import Stop, scope_ended
from stormproof._strategies.retry.sync_loop import retry_loop


class Asked:
    """A client's request that writes down what it is asked."""

    draft = None

    def __init__(self, veto: str | None = None) -> None:
        self.why = veto
        self.asked: list[Any] = []

    def turn(self, number: int, error: Exception | None) -> None:
        self.asked.append(("turn", number, error))

    def veto(self, error: BaseException | None) -> str | None:
        self.asked.append(("veto", error))
        return self.why


def run_of(exchange: Any = None, budget: Any = None, **options: Any) -> RetriedCall:
    """One call under a Retry that waits 1 s, in the hands of the test."""
    given = {"on": Boom, "backoff": sp.Constant(1), "within": None, "budget": None}
    env: Any = SimpleNamespace(timer=sp.testing.FakeClock(), draw=lambda: 0.5, breakers=())
    return RetriedCall(sp.Retry(**{**given, **options}), budget, env, "op", object(), exchange=exchange)


# What the scope's end in the middle of a wait is called.


def ended_in_the_wait(spoil: Any) -> tuple[Any, Any]:
    """Play a call whose clock is slept on for longer than was asked, and at whose end ``spoil`` strikes."""
    scopes: list[Any] = []
    of_scope = sp.testing.FakeClock()

    class Oversleeping(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            spoil(of_scope, scopes[0])

    def scope() -> Any:
        scopes.append(sp.deadline(50, name="job", clock=of_scope))
        return scopes[0]

    seen = SYNC(retry(clock=Oversleeping(), name="op"), Boom, "never", inside=scope).made(1)
    return seen.error, seen.events[-1]


def test_deadline_that_passes_in_the_wait_raises_deadline_exceeded() -> None:
    error, event = ended_in_the_wait(lambda clock, scope: clock.advance(100))
    assert type(error) is sp.DeadlineExceeded
    assert error.scope == "job"
    assert "'job'" in str(error)
    assert (type(event).__name__, event.reason, event.attempts) == ("Interrupted", "deadline", 1)


def test_cancel_in_the_wait_raises_cancelled() -> None:
    error, event = ended_in_the_wait(lambda clock, scope: scope.cancel())
    assert type(error) is sp.Cancelled
    assert "'job'" in str(error)
    assert (type(event).__name__, event.reason) == ("Interrupted", "cancelled")


# A clock set back goes on from where it was, as often as it happens.


def test_clock_set_back_twice_hides_no_time() -> None:
    clock = sp.testing.FakeClock()
    run = run_of()
    run.env.timer = SimpleNamespace(now=lambda: clock.now() + offset)  # type: ignore[assignment]
    offset = 0.0
    began = run.now()
    offset -= 100
    assert run.now() == began
    clock.advance(5)
    assert run.now() == began + 5
    offset -= 40
    clock.advance(1)
    assert run.now() == began + 5
    clock.advance(2)
    assert run.now() == began + 7


# The objects that the rule asks about an outcome.


def test_veto_of_the_request_stops_with_reason_unrepeatable() -> None:
    asked, error = Asked(veto="its body is gone"), Boom()
    run = run_of(asked)
    run.begin(None)
    assert run.after(None, error) is None and run.stop is not None
    assert (run.stop.reason, run.stop.message) == ("unrepeatable", "not sent again: its body is gone")
    assert asked.asked[0] == ("turn", 1, None)
    assert asked.asked[-1] == ("veto", error)


def test_request_is_given_the_error_before_it_is_sent_again() -> None:
    asked, error = Asked(), Boom()
    run = run_of(asked)
    run.begin(None)
    again = run.begin(error)
    assert asked.asked == [("turn", 1, None), ("turn", 2, error)]
    assert (again.operation, again.number, again.last_error) == ("op", 2, error)
    assert (again.owner, again.exchange) == (run.owner, asked)


# Marks of inner layers.


class Answer:
    """A response that takes a mark."""


def test_refused_result_that_an_inner_layer_gave_up_on_is_not_retried() -> None:
    answer = Answer()
    mark(answer, Mark("inner", object(), 3, "attempts used up"))
    seen = SYNC(retry(on_result=lambda result: result is answer), answer, "never").made(1)
    assert seen.value is answer
    assert seen.events[-1].reason == "exhausted"


def test_refused_result_without_a_mark_is_retried() -> None:
    answer = Answer()
    SYNC(retry(on_result=lambda result: result is answer), answer, "ok").returned("ok").made(2)


def test_retry_exhausted_retries_an_error_that_an_inner_layer_gave_up_on() -> None:
    error = Boom("inner")
    mark(error, Mark("inner", object(), 3, "attempts used up"))
    SYNC(retry(), error, "never").made(1).raised_the_last_error()
    SYNC(retry(retry_exhausted=True), error, "ok").returned("ok").made(2)


# What a marked hint keeps of what it is about.


def test_hint_keeps_the_kind_and_the_reason_of_its_cause() -> None:
    run = run_of(on=lambda error: Verdict(True, 3.0, "throttle", "quota"))
    verdict = run.judge(None, sp.RetryAfter(5, Boom()))
    assert verdict == Verdict(True, 5.0, "throttle", "quota")
    verdict = run.judge(None, sp.RetryAfter(2, Boom()))
    assert verdict == Verdict(True, 3.0, "throttle", "quota")


def test_hint_around_a_timeout_is_a_timeout_to_the_budget() -> None:
    def wait_and_time_out() -> None:
        raise sp.RetryAfter(1) from TimeoutError()

    budget = BudgetSpy()
    SYNC(retry(on=TimeoutError, budget=budget), does(wait_and_time_out), "ok").returned("ok")
    assert ("failure", True) in budget.calls
    assert ("withdraw", True) in budget.calls


# Schedules of the user's own.


class Own:
    """A schedule that returns given waits."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def delay(self, n: int, prev: float | None, u: float) -> Any:
        return self.answer


class Planned(Own):
    """A schedule with a plan of its own."""

    def plan(self, place: int, prev: float | None, verdict: Any, draw: Any) -> Any:
        return self.answer, prev, place + 1


@pytest.mark.parametrize("answer", [math.inf, math.nan, -1.0])
def test_invalid_wait_of_a_backoff_is_refused_by_name(answer: float) -> None:
    run = run_of(backoff=Own(answer))
    with pytest.raises(ValueError, match=r"^backoff: delay must .*"):
        run.next(Verdict.RETRY, 0.0, lambda: 0.5, None)


@pytest.mark.parametrize("answer", [math.nan, -1.0])
def test_invalid_plan_of_a_backoff_is_refused_by_name(answer: float) -> None:
    run = run_of(backoff=Planned(answer))
    with pytest.raises(ValueError, match=r"^backoff: plan must .*"):
        run.next(Verdict.RETRY, 0.0, lambda: 0.5, None)


def test_infinite_plan_stops_at_the_limit() -> None:
    """A wait without end is for a limit to refuse."""
    seen = SYNC(retry(backoff=Planned(math.inf), within=10), Boom, "never")
    assert seen.made(1).slept().events[-1].reason == "within"


def test_throttled_call_pays_the_usual_price_to_a_budget_without_a_throttle_cost() -> None:
    budget = BudgetSpy()
    throttled = retry(on=lambda error: Verdict(True, kind="throttle"), budget=budget)
    SYNC(throttled, Boom, "ok").returned("ok").made(2)
    assert ("withdraw", False) in budget.calls


# Reports to the log alone.


def test_success_after_retries_is_logged_without_a_subscriber(caplog: pytest.LogCaptureFixture) -> None:
    clock = sp.testing.FakeClock()
    answers = iter([Boom(), "ok"])

    def callee() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with caplog.at_level("INFO", logger="stormproof"):
        assert retry(clock=clock, name="op").call(callee) == "ok"
    assert [(line.levelname, "op" in line.getMessage()) for line in caplog.records] == [("INFO", True)]


def test_end_of_a_call_reports_its_time() -> None:
    seen = SYNC(retry(attempts=3, name="op"), Boom, ...).made(3)
    assert (seen.events[-1].elapsed, seen.events[-1].attempts, seen.events[-1].reason) == (3, 3, "attempts")
    assert seen.events[-1].error == "tests.support.scripted.Boom"
    assert seen.notes == [
        "stormproof: 3 attempts in 3.000 s since the first failure; stopped: attempts used up"
    ]


# When a wait is too long.


def waits(wait: float, now: float, scope: Any = None, **options: Any) -> Any:
    """Return the step after a failure at ``now``, the first having been at 0, with a schedule of ``wait``."""
    run = run_of(backoff=Own(wait), **options)
    run.first_failure_at = 0.0
    return run.next(Verdict.RETRY, now, lambda: 0.5, scope)


def test_wait_of_all_the_time_left_stops() -> None:
    with sp.deadline(10, name="job", clock=sp.testing.FakeClock()) as scope:
        assert waits(9.999, 0.0, scope) == 9.999
        late = waits(10.0, 0.0, scope)
    assert (late.reason, late.scope, late.left) == ("deadline", scope, 10.0)
    assert late.message == "a wait of 10 s would outlast 'job', which has 10 s left"


def test_wait_that_ends_with_within_is_made() -> None:
    assert waits(8.0, 2.0, within=10) == 8.0
    late = waits(8.001, 2.0, within=10)
    assert (late.reason, late.scope, late.left) == ("within", None, 8.0)
    assert late.message == "a wait of 8 s would end past the 10 s allowed for retrying"


def test_deadline_is_named_before_an_equal_within() -> None:
    with sp.deadline(10, name="job", clock=sp.testing.FakeClock()) as scope:
        assert waits(20.0, 0.0, scope, within=10).reason == "deadline"
    with sp.deadline(11, name="job", clock=sp.testing.FakeClock()) as scope:
        assert waits(20.0, 0.0, scope, within=10).reason == "within"


def test_refusals_name_the_reason() -> None:
    seen = SYNC(retry(name="op", within=0.5, raises="refusal"), Boom, "never").raised(sp.DeadlineExceeded)
    assert isinstance(seen.error, sp.DeadlineExceeded) and seen.error.scope == "within"
    assert str(seen.error) == (
        "op: gave up after 1 attempt: a wait of 1 s would end past the 0.5 s allowed for retrying"
    )
    spent = retry(name="op", budget=BudgetSpy(allow=0), raises="refusal")
    seen = SYNC(spent, Boom, "never").raised(sp.BudgetExhausted)
    assert str(seen.error) == "op: gave up after 1 attempt: retry budget exhausted"


# Calls of the budget.


def test_start_of_a_call_is_reported_to_the_budget_once() -> None:
    budget = BudgetSpy()
    run = run_of(budget=budget)
    for _ in range(3):
        run.begin(None)
        assert budget.calls == ["started"]


# What is left on the outcome.


def given_up(stop: Stop, number: int = 2, exchange: Any = None, error: Exception | None = None) -> Any:
    """(the run, what its caller gets) of a call that ends with ``stop`` after ``number`` attempts."""
    run = run_of(exchange)
    run.number = number
    run.visible_error = error
    run.stop, answer = stop, Answer()
    return run, answer, run.give_up(answer, error)


@pytest.mark.parametrize(
    ("reason", "marked"),
    [("attempts", True), ("budget", True), ("exhausted", False), ("unrepeatable", False)],
)
def test_refused_response_is_marked_unless_exhausted_or_unrepeatable(reason: str, marked: bool) -> None:
    _, answer, outcome = given_up(Stop(reason, "because"), exchange=Asked())
    assert outcome == (answer, None)
    found = response_mark(answer)
    if marked:
        assert found is not None and (found.layer, found.attempts, found.reason) == ("op", 2, "because")
    else:
        assert found is None


def test_refused_result_of_no_client_is_not_marked() -> None:
    _, answer, outcome = given_up(Stop("attempts", "because"))
    assert outcome == (answer, None)
    assert response_mark(answer) is None


@pytest.mark.parametrize(
    ("reason", "number", "noted"),
    [
        ("fatal", 1, False),
        ("permanent", 1, False),
        ("fatal", 2, True),
        ("permanent", 2, True),
        ("attempts", 1, True),
        ("unrepeatable", 1, True),
        ("exhausted", 1, False),
        ("exhausted", 2, False),
    ],
)
def test_attempts_are_noted_unless_exhausted_or_fatal_at_once(reason: str, number: int, noted: bool) -> None:
    error = Boom()
    _, _, outcome = given_up(Stop(reason, "because"), number, error=error)
    assert outcome == (None, error)
    notes = getattr(error, "__notes__", [])
    tries = "1 attempt" if number == 1 else f"{number} attempts in 0.000 s since the first failure"
    assert notes == ([f"stormproof: {tries}; stopped: because"] if noted else [])


def test_note_replaces_our_own_of_an_earlier_call_and_no_other() -> None:
    error = Boom()
    error.add_note("theirs")
    note(error, "first")
    error.add_note("theirs too")
    note(error, "second")
    assert error.__notes__ == ["theirs", "theirs too", "stormproof: second"]


def test_traceback_of_a_marked_error_leads_to_its_mark() -> None:
    cause = Boom("inner")

    def mark_it() -> None:
        raise sp.RetryAfter(0, cause)

    seen = SYNC(retry(attempts=1), does(mark_it))
    assert seen.error is cause
    assert cause.__traceback__ is not None
    names = []
    at = cause.__traceback__
    while at is not None:
        names.append(at.tb_frame.f_code.co_name)
        at = at.tb_next
    assert names[-1] == "mark_it"


def test_hint_beyond_max_hint_is_kept_on_the_error() -> None:
    error = Boom()
    run = run_of()
    run.number, run.visible_error, run.verdict = 1, error, Verdict(True, 99.0)
    run.stop = Stop("hint", "too long")
    outcome = run.give_up(None, error)
    assert outcome == (None, error)
    assert error.retry_after == 99.0  # type: ignore[attr-defined]
    found = exhausted_by(error)
    assert found is not None and (found.layer, found.owner) == ("op", run.owner)


# The loop, step by step.


def looped(run: RetriedCall, *outcomes: Any, first: Exception | None = None, slept: Any = None) -> Any:
    """Run the loop on ``outcomes``; ``slept`` is called in the place of every sleep, with its seconds."""
    script = iter(outcomes)

    def call() -> Any:
        outcome = next(script)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    run.env.clock = SimpleNamespace(now=run.env.timer.now, sleep=slept or (lambda seconds: None))
    if first is not None:
        run.number = 1
        run.wait = run.after(None, first)
    return retry_loop(run, call, (), {}, first)


def test_loop_emits_retrying_before_each_wait_and_succeeded_at_the_end() -> None:
    run = run_of(on_result=lambda result: result == "bad", attempts=4)
    error = Boom()
    events: list[Any] = []
    sleeps: list[float] = []
    stop = sp.subscribe(events.append)
    try:
        marked = sp.RetryAfter(4, error)
        assert looped(run, error, "bad", marked, "good", slept=sleeps.append) == "good"
    finally:
        stop()
    assert sleeps == [1.0, 1.0, pytest.approx(4.2)]
    names = [(type(event).__name__, event.operation) for event in events]
    assert names == [*[("Retrying", "op")] * 3, ("Succeeded", "op")]
    assert [(event.attempt, event.wait, event.error, event.hint) for event in events[:3]] == [
        (1, 1.0, "tests.support.scripted.Boom", None),
        (2, 1.0, None, None),
        (3, pytest.approx(4.2), "tests.support.scripted.Boom", 4.0),
    ]


def test_loop_counts_a_first_attempt_that_was_made_elsewhere() -> None:
    run = run_of(attempts=2)
    second = Boom()
    with pytest.raises(Boom) as raised:
        looped(run, second, first=Boom())
    assert raised.value is second
    assert run.number == 2


def test_refused_result_is_returned_in_the_end() -> None:
    assert looped(run_of(on_result=lambda result: True, attempts=1), "bad") == "bad"


def test_scope_knows_the_last_error_while_its_call_waits_and_no_longer() -> None:
    error = Boom()
    seen: list[Any] = []
    with sp.deadline(100, clock=sp.testing.FakeClock()) as scope:
        looped(run_of(), "ok", first=error, slept=lambda seconds: seen.append(scope.last_error))
        assert seen == [error]
        assert scope.last_error is None


@pytest.mark.parametrize("late", ["clip", "stop"])
def test_clipped_wait_is_the_time_left(late: Any) -> None:
    run = run_of(late=late, backoff=sp.Constant(50))
    error = Boom()
    events: list[Any] = []
    seen: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        with sp.deadline(20, name="job", clock=sp.testing.FakeClock()) as scope:
            with pytest.raises(sp.DeadlineExceeded):
                looped(run, first=error, slept=lambda seconds: seen.append((seconds, scope.last_error)))
    finally:
        stop()
    assert seen == ([(20.0, error)] if late == "clip" else [])
    assert [(type(event).__name__, event.reason) for event in events] == [("GaveUp", "deadline")]


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_interrupt_in_a_clipped_wait_emits_gave_up() -> None:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        with sp.deadline(20, name="job", clock=sp.testing.FakeClock()):
            with pytest.raises(KeyboardInterrupt):
                looped(run_of(late="clip", backoff=sp.Constant(50)), first=Boom(), slept=interrupt)
    finally:
        stop()
    assert [(type(event).__name__, event.reason, event.attempts) for event in events] == [
        ("GaveUp", "deadline", 1)
    ]


def test_scope_cancelled_in_a_clipped_wait_raises_cancelled() -> None:
    with sp.deadline(20, name="job", clock=sp.testing.FakeClock()) as scope:
        with pytest.raises(sp.Cancelled):
            looped(
                run_of(late="clip", backoff=sp.Constant(50)),
                first=Boom(),
                slept=lambda seconds: scope.cancel(),
            )


def test_scope_that_ends_in_the_wait_gives_the_caller_its_error() -> None:
    error = Boom()
    clock = sp.testing.FakeClock()
    with sp.deadline(20, name="job", clock=clock):
        with pytest.raises(sp.DeadlineExceeded) as raised:
            looped(run_of(), first=error, slept=lambda seconds: clock.advance(30))
    assert raised.value.__cause__ is error


def test_refused_result_is_returned_when_the_scope_ends_in_the_wait() -> None:
    clock = sp.testing.FakeClock()
    with sp.deadline(20, clock=clock):
        run = run_of(on_result=lambda result: True)
        assert looped(run, "bad", slept=lambda seconds: clock.advance(30)) == "bad"


@pytest.mark.parametrize("end", ["interrupt", "deadline"])
def test_token_is_given_back_when_its_wait_is_cut_short(end: str) -> None:
    clock = sp.testing.FakeClock()
    budget = sp.RateBudget(rate=1, burst=1, wait=True, clock=clock)
    with sp.deadline(20, clock=clock):
        with pytest.raises((KeyboardInterrupt, sp.DeadlineExceeded)):
            looped(
                run_of(budget=budget),
                first=Boom(),
                slept=interrupt if end == "interrupt" else lambda seconds: clock.advance(30),
            )
    assert budget.balance == 1


def test_error_inside_retry_after_keeps_its_own_traceback() -> None:
    def break_down() -> None:
        raise Boom("inner")

    def mark_it() -> None:
        try:
            break_down()
        except Boom as error:
            raise sp.RetryAfter(0, error) from None

    seen = SYNC(retry(attempts=1), does(mark_it))
    assert isinstance(seen.error, Boom) and seen.error.__traceback__ is not None
    at = seen.error.__traceback__
    while at.tb_next is not None:
        at = at.tb_next
    assert at.tb_frame.f_code.co_name == "break_down"


def test_stop_names_the_scope_that_ended() -> None:
    scope = sp.deadline(5, name="job")
    stop = scope_ended(scope)
    assert (stop.reason, stop.scope) == ("deadline", scope)
    scope.cancel()
    stop = scope_ended(scope)
    assert (stop.reason, stop.message) == ("cancelled", "scope 'job' was cancelled")


def test_permanent_error_is_noted_as_marked_permanent() -> None:
    error = Boom()
    with pytest.raises(Boom) as raised:
        looped(run_of(), sp.Permanent(error), first=Boom())
    assert raised.value is error
    assert error.__notes__ == [
        "stormproof: 2 attempts in 0.000 s since the first failure; stopped: marked permanent"
    ]
