"""Users' own code inside a call (``before_attempt``, ``on``, ``on_result``, subscribers, keys, jitter)
that raises, blocks, or calls back into Stormproof.

Whatever a hook does, no lock is held meanwhile, the call it disturbs ends, and no other call notices.
"""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, does, every_way, retry

import stormproof as sp

pytestmark = [pytest.mark.usefixtures("watchdog"), pytest.mark.proves("fault hooks")]


class Broken(Exception):
    """A bug in a hook."""


def chain(error):
    """The error and all it came from."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


def broken(*_):
    raise Broken


def broken_from(number):
    def before(attempt):
        if attempt.number >= number:
            raise Broken

    return before


# Raising: the hook's own error surfaces at once, and the failure it was asked about is not lost.

RAISING = {
    "on": {"on": broken},
    "before the second attempt": {"before_attempt": broken_from(2)},
    "jitter": {"backoff": sp.Exponential(jitter=broken)},
    "rng": {"backoff": sp.Exponential(), "rng": broken},
}


@every_way
@pytest.mark.parametrize("hook", RAISING)
def test_raising_hook_ends_the_call(play, hook):
    played = play(retry(**RAISING[hook]), Boom)  # a second attempt would be beyond the script
    assert isinstance(played.error, Broken)
    assert sp.attempt() is None


@every_way
@pytest.mark.parametrize("hook", RAISING)
def test_raising_hook_keeps_the_failure_in_the_chain(play, hook):
    played = play(retry(**RAISING[hook]), Boom)
    assert played.last in chain(played.error), "the failure is not even in the traceback"


class Sealed(Broken):
    """Takes no attribute, not even what it came from."""

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} cannot be set")


@every_way
def test_hook_error_that_refuses_a_context_is_raised_unchanged(play):
    sealed = Sealed()

    def on(error):
        raise sealed

    assert play(retry(on=on), Boom).error is sealed


@every_way
@pytest.mark.parametrize("number", [1, 2])
def test_hooks_error_is_never_retried(play, number):
    """Even where every exception is: it is a bug of the caller's, not a failure of the call."""
    asked = []

    def before(attempt):
        asked.append(attempt.number)
        if attempt.number == number:
            raise Broken

    played = play(retry(on=Exception, before_attempt=before), *[Boom] * (number - 1))
    assert isinstance(played.error, Broken)
    assert asked == list(range(1, number + 1))


@every_way
def test_error_of_on_result_is_raised(play):
    played = play(retry(on=Exception, on_result=broken), "ok")
    assert isinstance(played.error, Broken)


@every_way
@pytest.mark.parametrize("hook", RAISING)
def test_call_after_a_raising_hook_succeeds(play, hook):
    options = {**RAISING[hook], "budget": sp.Budget()}
    policy = retry(**options)
    play(policy, Boom)
    play(policy, "ok").returned("ok")
    assert options["budget"].balance > 0, "its lock was left behind"


@every_way
@pytest.mark.parametrize("answer", [1, "yes", object()], ids=["1", "str", "object"])
def test_hook_answer_counts_by_its_truth(play, answer):
    play(retry(on=lambda error: answer), Boom, "ok").returned("ok")
    play(retry(on_result=lambda value: answer, attempts=2), 1, 2).returned(2)


def test_async_hook_in_sync_code_raises():
    async def before(attempt):
        pytest.fail("must not be awaited")

    def uses():
        yield lambda: retry(before_attempt=before).call(pytest.fail)
        yield lambda: next(iter(retry(before_attempt=before).retrying()))

    for use in uses():
        with pytest.raises(TypeError, match="before_attempt"):
            use()


@each_loop
def test_async_hook_that_raises_is_a_hook_that_raises(loop):
    async def before(attempt):
        await loop.sleep(1)
        raise Broken

    async def scenario():
        with pytest.raises(Broken):
            await retry(on=Exception, before_attempt=before).acall(pytest.fail)
        with pytest.raises(Broken):
            async for _ in retry(on=Exception, before_attempt=before).retrying():
                pytest.fail("an attempt")

    loop.run(scenario)


# Subscribers: what they raise is reported and ignored.


@pytest.fixture
def reports(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    return seen


@every_way
def test_raising_subscriber_disturbs_no_other_subscriber(play, reports):
    seen = []
    stops = [sp.subscribe(broken), sp.subscribe(seen.append)]
    try:
        play(retry(), Boom, "ok").returned("ok")
    finally:
        for stop in stops:
            stop()
    assert [type(event).__name__ for event in seen] == ["Retrying", "Succeeded"]
    assert [report.exc_type for report in reports] == [Broken, Broken]
    for report in reports:
        where = report.exc_traceback
        while where.tb_next is not None:
            where = where.tb_next
        assert where.tb_frame.f_code is broken.__code__


@every_way
def test_subscriber_that_leaves_or_joins_during_an_event(play):
    seen = []
    stops = []

    def once(event):
        seen.append(event)
        stops.pop()()
        stops.append(sp.subscribe(seen.append))

    stops.append(sp.subscribe(once))
    play(retry(), Boom, "ok").returned("ok")
    stops.pop()()
    assert [type(event).__name__ for event in seen] == ["Retrying", "Succeeded"]


@every_way
def test_subscriber_may_call_a_policy(play, reports):
    """It reports every event through a client with a policy, whose own events it would have to report ..."""
    sent = []

    def report(event):
        retry(name="reporting").call(sent.append, event)

    stop = sp.subscribe(report)
    try:
        play(retry(name="work"), Boom, "ok").returned("ok")
    finally:
        stop()
    assert reports == [], "it recursed until the stack was full"
    assert [type(event).__name__ for event in sent if event.operation == "work"] == ["Retrying", "Succeeded"]
    assert len(sent) <= 10


# Blocking: while one caller's hook blocks, all others go on, with the same policy and budget.


def blocked_while(hold, others):
    """Run ``hold(entered, release)`` in a thread; when it is inside its hook, run ``others()`` here."""
    entered, release = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(entered, release))
    thread.start()
    try:
        assert entered.wait(10)
        others()
    finally:
        release.set()
        thread.join()


BLOCKING = {
    "on": lambda block: {"on": lambda error: block() or True},
    "on_result": lambda block: {"on_result": lambda value: block() or False},
    "before_attempt": lambda block: {"before_attempt": lambda attempt: block()},
    "jitter": lambda block: {"backoff": sp.Exponential(jitter=lambda u, ceiling: block() or 0.0)},
    "rng": lambda block: {"rng": lambda: block() or 0.5, "backoff": sp.Exponential(1e-9, cap=1e-9)},
    "key": lambda block: {"budget": sp.keyed(sp.Budget(burst=20), key=lambda *args: block() or "key")},
}


@pytest.mark.parametrize("hook", BLOCKING)
def test_blocking_hook_blocks_only_its_own_call(hook):
    budget = sp.Budget(burst=20)
    local = threading.local()
    gate = []

    def block():
        if getattr(local, "blocks", False):
            local.blocks = False
            gate[0].set()
            gate[1].wait(20)

    options = {"backoff": sp.Constant(0), "budget": budget, **BLOCKING[hook](block)}
    policy = sp.retry(**{"on": Boom, **options})
    outcomes = iter([Boom(), "ok"])

    def fails_once(*_):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def hold(entered, release):
        gate[:] = [entered, release]
        local.blocks = True
        policy(fails_once)()

    def others():
        assert policy(lambda: "ok")() == "ok"
        calls = []
        with pytest.raises(Boom):
            policy(lambda: calls.append(1) or _boom())()
        assert len(calls) == 4
        assert budget.balance >= 0

    blocked_while(hold, others)


def _boom():
    raise Boom


def test_blocking_subscriber_blocks_only_its_own_call():
    local = threading.local()
    gate = []

    def subscriber(event):
        if getattr(local, "blocks", False):
            local.blocks = False
            gate[0].set()
            gate[1].wait(20)

    def hold(entered, release):
        gate[:] = [entered, release]
        local.blocks = True
        policy.call(lambda: "ok")

    policy = sp.retry(on=Boom, backoff=sp.Constant(0))
    stop = sp.subscribe(subscriber)
    try:
        blocked_while(hold, lambda: policy.call(int))
    finally:
        stop()


# Calling back in.


@every_way
def test_hooks_may_use_the_same_policy(play):
    """Each of them makes a call of its own, with the same budget, in the middle of this one."""
    budget = sp.Budget(burst=100)
    depth = []

    def nested(*_):
        if len(depth) < 2:
            depth.append(1)
            try:
                with pytest.raises(Boom):
                    policy.call(_boom)
            finally:
                depth.pop()
        return True

    policy = retry(on=nested, before_attempt=lambda attempt: nested() and None, budget=budget, attempts=2)
    outer = sp.attempt()
    play(policy, Boom, does(lambda: sp.attempt().number)).returned(2)
    assert sp.attempt() is outer is None
    assert 0 <= budget.balance < 99


def test_key_function_may_use_the_same_keyed_budget():
    budgets = sp.keyed(sp.Budget(burst=1), key=lambda: budgets["other"] and "mine")
    with sp.testing.instant(), pytest.raises(Boom):
        retry(budget=budgets)(_boom)()
    assert budgets["mine"].balance == 0 and budgets["other"].balance == 1


def test_factory_of_a_keyed_budget_may_raise():
    budgets = sp.keyed(broken)
    for _ in range(2):
        with pytest.raises(Broken):
            budgets["key"]
    assert len(budgets) == 0


@each_loop
def test_cancelled_hook_ends_the_call(loop):
    async def before(attempt):
        await loop.sleep(60)

    async def scenario():
        assert await loop.cut(1, retry(on=Exception, before_attempt=before).acall, pytest.fail)
        assert sp.attempt() is None

    loop.run(scenario)


def test_cancelled_subscriber_is_a_cancelled_call():
    """A subscriber runs in the caller's task: what is not an Exception goes on its way."""

    def subscriber(event):
        raise asyncio.CancelledError

    stop = sp.subscribe(subscriber)
    try:
        with pytest.raises(asyncio.CancelledError):
            retry().call(lambda: "ok")
    finally:
        stop()


# The hooks of the other strategies.


def _tripping(hook):
    return sp.Policy(sp.Breaker(trip=lambda counts: hook() or False, min_calls=1))


#: A policy whose hook is ``hook()``, which its calls come through.
OTHERS = {
    "Breaker.trip": _tripping,
    "Breaker.on": lambda hook: sp.Policy(sp.Breaker(on=lambda error: hook() or True)),
    "Breaker.exclude": lambda hook: sp.Policy(sp.Breaker(exclude=lambda error: hook() or False)),
    "Throttle.on": lambda hook: sp.Policy(sp.Throttle(on=lambda error: hook() or True), rng=lambda: 0.999),
    "Bulkhead, keyed": lambda hook: sp.Policy(sp.keyed(sp.Bulkhead(5), key=lambda: hook() or "key")),
    "RateLimit.cost": lambda hook: sp.Policy(sp.RateLimit(sp.Limiter(1e6, 1000), cost=lambda: hook() or 1)),
    "Fallback": lambda hook: sp.Policy(sp.Fallback(lambda error: hook() or _boom(), on=Boom)),
    "Hedge.on": lambda hook: sp.Policy(
        sp.Hedge(after=60, idempotent=True, max=2, on=lambda error: hook() or False)
    ),
}
each_other = pytest.mark.parametrize("name", OTHERS)


@each_other
def test_raising_hook_leaves_nothing_locked(name):
    """Its error comes out, every time: nothing stays taken or locked, and the next call is judged."""
    raises = True
    policy = OTHERS[name](lambda: broken() if raises else None)
    for _ in range(12):
        with pytest.raises(Broken):
            policy(_boom)()
    raises = False
    with pytest.raises(Boom):
        policy(_boom)()
    assert policy(_boom) is not None and sp.attempt() is None


@each_other
def test_blocking_hook_does_not_block_other_callers(name):
    local = threading.local()
    gate = []

    def block():
        if getattr(local, "blocks", False):
            local.blocks = False
            gate[0].set()
            gate[1].wait(20)

    policy = OTHERS[name](block)

    def hold(entered, release):
        gate[:] = [entered, release]
        local.blocks = True
        with pytest.raises(Boom):
            policy(_boom)()

    def others():
        for _ in range(3):
            with pytest.raises(Boom):
                policy(_boom)()

    blocked_while(hold, others)


@each_other
def test_hook_may_call_its_own_policy(name):
    depth = []

    def nested():
        if not depth:
            depth.append(1)
            with pytest.raises(Boom):
                policy(_boom)()
            depth.pop()

    policy = OTHERS[name](nested)
    with pytest.raises(Boom):
        policy(_boom)()
    assert depth == []
