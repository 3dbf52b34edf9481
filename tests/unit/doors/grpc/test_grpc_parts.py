"""The parts of the gRPC integration that decide: routes, replay, refusals, answers. No server here."""

from __future__ import annotations

import pickle
from typing import Any

import grpc
import pytest

import stormproof as sp
from stormproof import grpc as spg
from stormproof._classify.exhaustion import Mark, exhausted_by, mark
from stormproof._context.deadlines import Scope
from stormproof._primitives.errors import StormproofError
from stormproof._server.admission import TurnedAway
from stormproof._strategies.timeout import AttemptScope
from stormproof.grpc import answers, refusals
from stormproof.grpc.replay import RequestReplay, size_of
from stormproof.grpc.routes import Routes
from stormproof.grpc.rpc import CallScope, Rpc, Wire
from stormproof.grpc.server import sync_behaviour
from stormproof.testing import FakeClock, instant

# Routes.

ONE, TWO, THREE = (sp.Policy(name=name) for name in ("one", "two", "three"))


@pytest.mark.parametrize(
    ("policies", "found"),
    [
        (ONE, ONE),
        ({"/pkg.Service/Method": ONE, "pkg.Service": TWO, "": THREE}, ONE),
        ({"pkg.Service/Method": ONE, "pkg.Service": TWO, "": THREE}, ONE),
        ({"pkg.Service/Other": ONE, "pkg.Service": TWO, "": THREE}, TWO),
        ({"pkg.Servic": ONE, "": THREE}, THREE),
        ({"other.Service": ONE}, None),
        (lambda method: TWO if method == "/pkg.Service/Method" else None, TWO),
        (lambda method: None, None),
    ],
)
def test_routes_find_the_policy_of_a_method(policies: Any, found: Any) -> None:
    assert Routes(policies).find("/pkg.Service/Method") is found


def test_routes_look_up_the_policy_at_every_call() -> None:
    policies = {"": ONE}
    routes = Routes(policies)
    policies[""] = TWO
    assert routes.find("/a.B/C") is TWO


def test_registry_is_a_mapping() -> None:
    registry = sp.Registry.from_data(
        {"policies": {"pkg.Service": {"strategies": [{"retry": {"attempts": 2}}]}}}
    )
    assert Routes(registry).find("/pkg.Service/Method") is registry["pkg.Service"]


@pytest.mark.parametrize("policies", [None, 3, sp.Policy, "pkg.Service"])
def test_routes_refuse_values_that_are_not_policies(policies: Any) -> None:
    for make in (spg.interceptors, spg.aio_interceptors):
        with pytest.raises(TypeError, match="policy must be a Policy"):
            make(policies)


def test_route_must_lead_to_a_policy() -> None:
    with pytest.raises(TypeError, match=r"the policy of '/a.B/C' must be a Policy or None, got 3"):
        Routes(lambda method: 3).find("/a.B/C")  # type: ignore[arg-type,return-value]


# Replay.


class Message:
    def ByteSize(self) -> int:
        return 7


def test_sizes_of_messages_are_estimated() -> None:
    assert [size_of(each) for each in (b"abc", bytearray(2), "ab", Message(), object())] == [3, 2, 2, 7, 0]


@pytest.mark.parametrize(
    ("given", "messages", "size", "says"),
    [
        ([b"a"] * 3, 3, 3, None),
        ([b"a"] * 3, None, None, None),
        ((b"a", b"b"), 3, 3, None),
        ([], 0, 0, None),
        ([b"a"] * 3, 2, 3, "3 messages, more than replay_messages=2"),
        ([b"a"] * 3, 3, 2, "3 bytes, more than replay_bytes=2"),
        ([Message()], 3, 6, "7 bytes"),
        (iter([b"a"]), None, None, "one-shot iterator"),
        ((x for x in ()), None, None, "one-shot iterator"),
        (lambda: iter([b"a"]), 0, 0, None),
    ],
)
def test_replay_refuses_streams_beyond_its_bounds(
    given: Any, messages: Any, size: Any, says: str | None
) -> None:
    refusal = RequestReplay(given, True, messages, size).refusal()
    assert refusal is None if says is None else refusal is not None and says in refusal


def test_single_message_can_always_be_sent_again() -> None:
    replay = RequestReplay(iter([b"a"]), False, 0, 0)
    assert replay.refusal() is None
    assert replay.request() is replay.request()


def test_each_attempt_has_its_own_stream() -> None:
    for given in ([1, 2], lambda: iter([1, 2])):
        replay = RequestReplay(given, True, 9, 9)
        assert [list(replay.request()), list(replay.request())] == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"replay_messages": -1}, "replay_messages must be >= 0"),
        ({"replay_bytes": True}, "replay_bytes must be a whole number"),
        ({"idempotent": "pkg.Service/Method"}, "idempotent must be method names"),
        ({"idempotent": 3}, "idempotent must be method names"),
        ({"attempt_metadata": "x-a"}, "attempt_metadata must be a tuple"),
        ({"attempt_metadata": ("X-A",)}, "attempt_metadata must be a tuple of lower-case"),
    ],
)
def test_bad_option_is_refused(options: Any, says: str) -> None:
    for make in (spg.interceptors, spg.aio_interceptors):
        with pytest.raises((TypeError, ValueError), match=says):
            make(ONE, **options)


# One call.


class Details:
    method = b"/pkg.Service/Method"
    timeout = 5.0
    metadata = None


def rpc_of(request: Any = b"a", streaming: bool = False, **options: Any) -> tuple[Rpc, list[Any]]:
    sent: list[Any] = []

    def start(details: Any, request: Any) -> Any:
        sent.append(details)
        return details

    def make(before: str | None, left: float | None, given: Any, wire: Wire) -> Any:
        return before, left

    return Rpc(Details, request, streaming, Wire(**options), make, start), sent


class Failure(grpc.RpcError):
    def __init__(self, code: Any) -> None:
        self._code = code

    def code(self) -> Any:
        return self._code


DEADLINE = grpc.StatusCode.DEADLINE_EXCEEDED


def test_attempts_are_numbered_and_given_the_remaining_time() -> None:
    rpc, sent = rpc_of()
    clock = FakeClock()
    with Scope(3.0, clock=clock):
        rpc.attempt()
        clock.advance(1)
        with Scope(10.0, clock=clock), AttemptScope(0.5, clock=clock):
            rpc.attempt()
    rpc.attempt()
    assert sent == [(None, 3.0), ("1", 0.5), ("2", 5.0)]
    assert rpc.method == "/pkg.Service/Method"


def test_timeout_counts_from_when_the_call_was_made() -> None:
    with instant() as clock:
        scope = CallScope(5.0)
        clock.advance(2)
        with scope:
            assert scope.remaining() == 3.0
        assert CallScope(None).remaining() is None


@pytest.mark.parametrize(
    ("inner", "passed", "worth"), [(0.5, 0.5, True), (0.5, 0.495, True), (0.5, 0.3, False), (9.0, 3.0, False)]
)
def test_deadline_exceeded_is_retried_only_for_the_attempts_own_deadline(
    inner: float, passed: float, worth: bool
) -> None:
    """Worth retrying if the attempt's own time, the tightest, is over; not if the server says so."""
    rpc, _ = rpc_of()
    clock = FakeClock()
    error = Failure(DEADLINE)
    with Scope(3.0, clock=clock), AttemptScope(inner, clock=clock):
        clock.advance(passed)
        assert rpc.failed(error) is error
    verdict = sp.transient(error)
    assert (verdict.retry, verdict.kind) == ((True, "timeout") if worth else (False, "fatal"))


def test_deadline_exceeded_without_a_scope_is_fatal() -> None:
    rpc, _ = rpc_of()
    assert not sp.transient(rpc.failed(Failure(DEADLINE)))


def test_errors_without_a_status_pass_through() -> None:
    rpc, _ = rpc_of(iter(()), True)
    error = ValueError("x")
    assert rpc.failed(error) is error
    assert rpc.surface(error, None) is error


def test_call_that_cannot_be_sent_again_is_permanent_and_raises_its_own_error() -> None:
    rpc, _ = rpc_of(iter(()), True)
    error = Failure(grpc.StatusCode.UNAVAILABLE)
    marked = rpc.failed(error)
    assert isinstance(marked, sp.Permanent)
    assert marked.error is error
    assert rpc.surface(marked, None) is error


def test_refusal_surfaces_as_the_attempts_error_only_after_one() -> None:
    rpc, _ = rpc_of()
    refusal = sp.BudgetExhausted("spent")
    assert isinstance(rpc.surface(refusal, None), spg.RpcBudgetExhausted)
    rpc.attempt()
    error = Failure(grpc.StatusCode.UNAVAILABLE)
    rpc.failed(error)
    refusal.retry_after = 3.0
    shown: Any = rpc.surface(refusal, None)
    assert shown is error
    assert shown.retry_after == 3.0
    assert exhausted_by(shown) is not None
    # An attempt that is under way when time runs out has no error yet.
    rpc.attempt()
    assert isinstance(rpc.surface(sp.DeadlineExceeded("over"), None), spg.RpcDeadlineExceeded)


class Call:
    def __init__(self, ended: bool = False) -> None:
        self.ended = ended
        self.cancelled = 0

    def done(self) -> bool:
        return self.ended

    def cancel(self) -> None:
        self.cancelled += 1


def test_settle_cancels_every_open_call_but_the_winner() -> None:
    rpc, _ = rpc_of()
    winner, loser, ended = Call(), Call(), Call(True)
    for call in (loser, winner, ended):
        rpc.keep(call)
    rpc.settle(winner)
    assert [call.cancelled for call in (winner, loser, ended)] == [0, 1, 0]
    late = Call()
    rpc.keep(late)
    assert late.cancelled == 1


# Refusals.


@pytest.mark.parametrize(
    "error",
    [
        sp.CircuitOpen("open", 3.0, ValueError("x")),
        sp.BudgetExhausted("spent"),
        sp.Throttled("shed"),
        sp.RateLimited("often", 2.0),
        sp.BulkheadFull("full"),
        sp.DeadlineExceeded("over", "mine"),
        sp.AttemptTimeout("slow"),
        sp.Cancelled("off"),
        StormproofError("of a kind yet unknown"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_refusal_is_a_stormproof_error_and_an_rpc_error(error: Any) -> None:
    mark(error, Mark("inner", None, 2))
    error.__cause__ = KeyError("k")
    refusal: Any = refusals.as_rpc_error(error)
    assert isinstance(refusal, type(error))
    assert isinstance(refusal, grpc.RpcError)
    assert isinstance(refusal, spg.RpcRefused)
    assert refusal.code() is refusals.status_of(error)
    assert refusal.details() == str(error)
    assert refusal.retry_after == error.retry_after
    assert vars(error).items() <= vars(refusal).items()
    assert refusal.__cause__ is error.__cause__
    assert exhausted_by(refusal) is not None
    assert sp.transient(refusal).retry is False
    assert str(refusal) == f"{refusal.code().name}: {error}"
    assert refusals.as_rpc_error(refusal) is refusal
    copy = pickle.loads(pickle.dumps(refusal))
    assert (type(copy), str(copy), copy.retry_after) == (type(refusal), str(refusal), error.retry_after)


def test_refusal_is_a_call_that_has_ended() -> None:
    refusal = refusals.as_rpc_error(sp.CircuitOpen("open"))
    callbacks: list[Any] = []
    refusal.add_done_callback(callbacks.append)
    assert callbacks == [refusal]
    assert (refusal.done(), refusal.running(), refusal.is_active(), refusal.cancelled()) == (
        True,
        False,
        False,
        False,
    )
    assert (refusal.cancel(), refusal.add_callback(print), refusal.time_remaining()) == (False, False, None)
    assert refusal.exception() is refusal
    with pytest.raises(spg.RpcCircuitOpen):
        refusal.result()


def test_control_characters_are_not_sent() -> None:
    refusal = refusals.as_rpc_error(sp.CircuitOpen("a\nb"))
    assert "\n" not in (refusal.details() or "")


# Answers.


def test_time_left_is_none_without_a_deadline() -> None:
    assert [answers.time_left(s) for s in (None, 9.2e18, 5.0, 0.0, -1.0)] == [
        None,
        None,
        5.0,
        0.0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("metadata", "retry"),
    [
        (None, False),
        ((), False),
        ((("x-previous-rpc-attempts", "1"),), True),
        ((("grpc-previous-rpc-attempts", "12"),), True),
        ((("x-previous-rpc-attempts", "0"),), False),
        ((("x-previous-rpc-attempts", "-1"),), False),
        ((("x-previous-rpc-attempts", "٣"),), False),
        ((("x-previous-rpc-attempts", "9" * 5000),), True),
        ((("x-other", "1"),), False),
    ],
)
def test_is_retry_reads_the_attempt_metadata(metadata: Any, retry: bool) -> None:
    assert answers.is_retry(metadata) is retry


@pytest.mark.parametrize(
    ("in_use", "share", "shed"), [(0, 0.5, False), (1, 0.5, True), (1, 1.0, False), (0, 0, True)]
)
def test_retries_beyond_their_share_are_shed_before_first_attempts(
    in_use: int, share: float, shed: bool
) -> None:
    bulkhead = sp.Bulkhead(2)
    door = answers.Door(shed=bulkhead, retry_share=share)
    for _ in range(in_use):
        bulkhead.enter()
    if shed:
        with pytest.raises(TurnedAway, match="retry"):
            door.enter(is_retry=True)
    else:
        with door.enter(is_retry=True):
            assert bulkhead.in_use == in_use + 1
    with door.enter(is_retry=False):
        assert bulkhead.in_use == in_use + 1
    assert bulkhead.in_use == in_use


@pytest.mark.parametrize(("u", "wait"), [(0.0, "1500"), (0.5, "2250"), (0.999999, "3000")])
def test_pushback_is_spread(u: float, wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers.randomness, "source", lambda rng: lambda: u)
    answer = answers.Door(pushback=1.5).answer_to(TurnedAway("full"))
    assert answer is not None
    assert answer.trailers == (("grpc-retry-pushback-ms", wait),)


class Context:
    def time_remaining(self) -> float:
        return 5.0


def test_stream_that_is_left_open_leaves_no_deadline_in_its_thread() -> None:
    def down(request: Any, context: Any) -> Any:
        yield sp.remaining()
        yield sp.remaining()

    wrapped = sync_behaviour(down, answers.Door(), retry=False, stream=True)
    items = wrapped(b"", Context())
    assert 0 < next(items) <= 5
    assert sp.remaining() is None
    assert 0 < next(items) <= 5
    items.close()
    assert sp.remaining() is None


def test_grpc_code_with_the_same_meaning_for_the_caller_is_passed_on() -> None:
    for code, sent in (
        (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE),
    ):
        error = Failure(code)
        assert answers.given_up(error) is None
        mark(error, Mark("inner", None, 3))
        answer = answers.given_up(error)
        assert answer is not None
        assert answer.code is sent
