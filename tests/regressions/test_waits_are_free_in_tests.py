"""tenacity#25, #106, #156, #228: users' tests slept through every backoff, or patched the library's insides.

Holdfast: ``testing.instant()``, a pytest fixture and a ``FakeClock`` make every wait free and record it.
"""

from __future__ import annotations

import threading
import time

import pytest
from tests.loops import each_loop

import holdfast as hf
from holdfast.pytest_plugin import holdfast_instant  # noqa: F401 -- the fixture, installed or not

pytestmark = pytest.mark.usefixtures("watchdog")

HOUR = hf.Constant(3600)
ways = pytest.mark.parametrize("way", ["sync", "block"])


def fails():
    raise ConnectionError


def give_up(policy, way):
    with pytest.raises(ConnectionError):
        if way == "sync":
            policy.call(fails)
        for attempt in policy.retrying():
            with attempt:
                fails()


def options(**more):
    return {"on": ConnectionError, "attempts": 3, "backoff": HOUR, "within": None, **more}


@ways
def test_context_manager(way):
    with hf.testing.instant() as clock:
        started = clock.now()
        give_up(hf.retry(**options()), way)
    assert clock.sleeps == [3600, 3600]
    assert clock.now() == started + 7200


@ways
def test_fixture(way, holdfast_instant):  # noqa: F811
    give_up(hf.retry(**options()), way)
    assert holdfast_instant.sleeps == [3600, 3600]


@ways
def test_clock_of_one_policy(way):
    clock = hf.testing.FakeClock(start=100)
    give_up(hf.retry(**options(clock=clock)), way)
    assert clock.sleeps == [3600, 3600] and clock.now() == 7300


@each_loop
@pytest.mark.parametrize("own", [True, False], ids=["own clock", "instant"])
def test_async(loop, own):
    mine = hf.testing.FakeClock()

    @hf.retry(**options(clock=mine if own else None))
    async def call():
        fails()

    async def scenario():
        with pytest.raises(ConnectionError):
            await call()
        assert loop.time() == 0, "the loop's own time did not pass either"

    with hf.testing.instant() as clock:
        loop.run(scenario)
    assert (mine if own else clock).sleeps == [3600, 3600]
    assert (clock if own else mine).sleeps == []


def test_it_reaches_other_threads():
    policy = hf.retry(**options())
    with hf.testing.instant() as clock:
        thread = threading.Thread(target=give_up, args=(policy, "sync"))
        thread.start()
        thread.join()
    assert clock.sleeps == [3600, 3600]


def test_time_limits_follow(holdfast_instant):  # noqa: F811
    with pytest.raises(hf.DeadlineExceeded):
        hf.retry(**options(attempts=None, within=10_000)).call(fails)
    assert holdfast_instant.sleeps == [3600, 3600]
    with hf.deadline(5000), pytest.raises(hf.DeadlineExceeded):
        hf.retry(**options(attempts=None, within=10_000)).call(fails)
    assert holdfast_instant.sleeps == [3600] * 3


def test_real_time_comes_back():
    with hf.testing.instant():
        with hf.testing.instant() as inner:
            give_up(hf.retry(**options()), "sync")
            assert len(inner.sleeps) == 2
    with hf.deadline(60) as scope:
        assert abs(scope.clock.now() - time.monotonic()) < 30


def test_a_failing_test_restores_it_too():
    with pytest.raises(KeyError), hf.testing.instant():
        raise KeyError
    with hf.deadline(None) as scope:
        assert not isinstance(scope.clock, hf.testing.FakeClock)
