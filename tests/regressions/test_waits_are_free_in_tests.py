"""tenacity#25, #106, #156, #228: users' tests slept through every backoff, or patched the library's insides.

Stormproof: ``testing.instant()``, a pytest fixture and a ``FakeClock`` make every wait free and record it.
"""

from __future__ import annotations

import threading
import time

import pytest
from tests.support.loops import each_loop

import stormproof as sp
from stormproof.pytest_plugin import stormproof_instant  # noqa: F401 -- the fixture, installed or not

pytestmark = pytest.mark.usefixtures("watchdog")

HOUR = sp.Constant(3600)
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
def test_instant_makes_waits_free(way):
    with sp.testing.instant() as clock:
        started = clock.now()
        give_up(sp.retry(**options()), way)
    assert clock.sleeps == [3600, 3600]
    assert clock.now() == started + 7200


@ways
def test_fixture_makes_waits_free(way, stormproof_instant):  # noqa: F811
    give_up(sp.retry(**options()), way)
    assert stormproof_instant.sleeps == [3600, 3600]


@ways
def test_clock_of_one_policy_makes_its_waits_free(way):
    clock = sp.testing.FakeClock(start=100)
    give_up(sp.retry(**options(clock=clock)), way)
    assert clock.sleeps == [3600, 3600] and clock.now() == 7300


@each_loop
@pytest.mark.parametrize("own", [True, False], ids=["own clock", "instant"])
def test_instant_makes_async_waits_free(loop, own):
    mine = sp.testing.FakeClock()

    @sp.retry(**options(clock=mine if own else None))
    async def call():
        fails()

    async def scenario():
        with pytest.raises(ConnectionError):
            await call()
        assert loop.time() == 0, "the loop's own time did not pass either"

    with sp.testing.instant() as clock:
        loop.run(scenario)
    assert (mine if own else clock).sleeps == [3600, 3600]
    assert (clock if own else mine).sleeps == []


def test_instant_reaches_other_threads():
    policy = sp.retry(**options())
    with sp.testing.instant() as clock:
        thread = threading.Thread(target=give_up, args=(policy, "sync"))
        thread.start()
        thread.join()
    assert clock.sleeps == [3600, 3600]


def test_time_limits_follow_virtual_time(stormproof_instant):  # noqa: F811
    with pytest.raises(ConnectionError):
        sp.retry(**options(attempts=None, within=10_000)).call(fails)
    assert stormproof_instant.sleeps == [3600, 3600]
    with sp.deadline(5000), pytest.raises(sp.DeadlineExceeded):
        sp.retry(**options(attempts=None, within=10_000)).call(fails)
    assert stormproof_instant.sleeps == [3600] * 3


def test_real_time_is_used_after_nested_instants():
    with sp.testing.instant():
        with sp.testing.instant() as inner:
            give_up(sp.retry(**options()), "sync")
            assert len(inner.sleeps) == 2
    with sp.deadline(60) as scope:
        assert abs(scope.clock.now() - time.monotonic()) < 30


def test_instant_left_by_an_error_restores_the_clock():
    with pytest.raises(KeyError), sp.testing.instant():
        raise KeyError
    with sp.deadline(None) as scope:
        assert not isinstance(scope.clock, sp.testing.FakeClock)
