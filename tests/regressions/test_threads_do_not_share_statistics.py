"""tenacity#93: the attempt number and the statistics of a decorated function were shared between threads.

Stormproof: nothing about a call lives on the policy or the function; each call counts its own attempts.
"""

from __future__ import annotations

import threading

from tests.support.loops import each_loop

import stormproof as sp

CALLERS = 6


def check(seen, events):
    for caller in range(CALLERS):
        # Caller k fails k times: attempts 1..k+1, each seeing its own last error.
        assert [number for number, _ in seen[caller]] == list(range(1, caller + 2))
        assert [last for _, last in seen[caller]] == [None, *([(caller,)] * caller)]
    done = sorted(event.attempts for event in events if type(event).__name__ == "Succeeded")
    assert done == list(range(1, CALLERS + 1))


def record(seen, caller):
    attempt = sp.attempt()
    seen[caller].append((attempt.number, attempt.last_error and attempt.last_error.args))
    if attempt.number <= caller:
        raise ConnectionError(caller)


def test_threads_have_their_own_attempt_numbers():
    seen = {caller: [] for caller in range(CALLERS)}
    events = []
    meet = threading.Barrier(CALLERS)
    policy = sp.retry(on=ConnectionError, attempts=CALLERS, backoff=sp.Constant(0), budget=None)

    @policy
    def call(caller):
        if not seen[caller]:
            meet.wait(10)  # every first attempt is under way before any of them ends
        record(seen, caller)

    stop = sp.subscribe(events.append)
    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop()
    check(seen, events)


@each_loop
def test_tasks_have_their_own_attempt_numbers(loop):
    seen = {caller: [] for caller in range(CALLERS)}
    events = []

    @sp.retry(on=ConnectionError, attempts=CALLERS, backoff=sp.Constant(1), budget=None)
    async def call(caller):
        await loop.sleep(0.5)
        record(seen, caller)

    async def scenario():
        await loop.together(*[lambda caller=caller: call(caller) for caller in range(CALLERS)])

    stop = sp.subscribe(events.append)
    loop.run(scenario)
    stop()
    check(seen, events)
