"""stamina: the context managers of retry hooks were never cleared, so 9 retries meant 54 exits.

Stormproof: a hook runs once for each attempt and a subscriber once for each event, in the first call and in
the hundredth, and nothing of an attempt stays behind in the context.
"""

from __future__ import annotations

import gc
import weakref

from tests.support.loops import each_loop
from tests.support.scripted import Boom, does, every_way, retry

import stormproof as sp


@every_way
def test_hook_runs_once_per_attempt(play):
    seen = []
    policy = retry(attempts=10, before_attempt=lambda attempt: seen.append(attempt.number))
    for _ in range(3):
        seen.clear()
        played = play(policy, *[Boom] * 9, "ok").returned("ok").made(10)
        assert seen == list(range(1, 11))
        assert played.kinds() == ["Retrying"] * 9 + ["Succeeded"]


@each_loop
def test_async_hook_is_awaited_once_for_each_attempt(loop):
    entered, left = [], []

    async def before(attempt):
        entered.append(attempt.number)
        await loop.sleep(1)
        left.append(attempt.number)

    calls = 0

    @retry(attempts=10, backoff=sp.Constant(0), before_attempt=before)
    async def call():
        nonlocal calls
        calls += 1
        assert len(left) == calls, "the hook ends before its attempt begins"
        if calls < 10:
            raise Boom

    async def scenario():
        await call()
        assert loop.time() == 10

    loop.run(scenario)
    assert entered == left == list(range(1, 11))


@every_way
def test_attempt_is_gone_afterwards(play):
    inside = []
    played = play(retry(), Boom, does(lambda: inside.append(sp.attempt()) or "ok")).returned("ok")
    assert inside[0].number == 2 and inside[0].last_error is played.last
    assert sp.attempt() is None


def test_unsubscribe_ends_the_events():
    seen = []
    stop, again = sp.subscribe(seen.append), sp.subscribe(seen.append)
    retry().call(lambda: None)
    assert len(seen) == 2
    stop()
    stop()  # the second time must not end the other subscription
    retry().call(lambda: None)
    assert len(seen) == 3
    again()
    retry().call(lambda: None)
    assert len(seen) == 3


def test_failed_call_leaves_no_references():
    """Neither the policy nor a context variable keeps an error, and with it every frame, alive."""
    policy = retry(attempts=3)
    kept = []

    def call():
        error = Boom()
        kept.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error  # else this frame and the error's traceback keep each other alive

    gc.disable()
    try:
        with sp.testing.instant():
            try:
                policy.call(call)
            except Boom:
                pass
        assert [ref() for ref in kept] == [None] * 3
    finally:
        gc.enable()
