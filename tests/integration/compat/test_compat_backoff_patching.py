"""``stormproof.compat.backoff``: what users' tests patch, and the clocks behind ``elapsed``."""

# ruff: noqa: F401, F811 -- fixtures are imported by name and named again as arguments

from __future__ import annotations

import asyncio
import datetime
import sys
from unittest import mock

import pytest
from tests.integration.compat.backoff_harness import PACKAGE, Script, fresh_python, run, slept, ticks

from stormproof.compat import backoff

# --- what tests patch


@pytest.mark.parametrize("path", ["time.sleep", f"{PACKAGE}._sync.time.sleep", f"{PACKAGE}._sync.time"])
def test_sync_sleep_can_be_patched(path):
    script = Script(0, 1)
    target = backoff.on_predicate(backoff.constant, interval=10**6, jitter=None)(script.play)
    with mock.patch(path) as patched:
        assert target() == 1
    sleep = patched.sleep if path.endswith("time") else patched
    assert sleep.call_args_list == [mock.call(10**6)]


@pytest.mark.parametrize("path", ["asyncio.sleep", f"{PACKAGE}._async.asyncio.sleep"])
def test_async_sleep_can_be_patched(path):
    script = Script(0, 1)

    @backoff.on_predicate(backoff.constant, interval=10**6, jitter=None)
    async def target():
        return script.play()

    with mock.patch(path, new_callable=mock.AsyncMock) as sleep:
        assert asyncio.run(target()) == 1
    assert sleep.await_args_list == [mock.call(10**6)]


def test_datetime_can_be_patched_where_the_loop_looks_it_up(run, slept):
    start = datetime.datetime(2020, 1, 1)
    seen = []
    script = Script(KeyError(), KeyError())
    with mock.patch(f"{run.module}.datetime") as patched:
        patched.datetime.now.side_effect = [start, start, start + datetime.timedelta(seconds=61)]
        with pytest.raises(KeyError):
            run(backoff.on_exception(backoff.expo, KeyError, max_time=60, on_giveup=seen.append), script)
    assert seen[0]["elapsed"] == 61


def test_next_wait_can_be_patched(run, slept):
    script = Script(0, 0, 1, 0)
    target = run.decorated(backoff.on_predicate(backoff.expo), script)
    with mock.patch(f"{run.module}._next_wait", return_value=0):
        target()
    assert slept == [0, 0]
    with mock.patch(f"{run.module}._next_wait", side_effect=StopIteration):
        assert target() == 0
    assert slept == [0, 0]


def test_limits_can_be_patched(run, slept):
    script = Script(*[KeyError()] * 3)
    target = run.decorated(
        backoff.on_exception(backoff.constant, KeyError, max_tries=50, max_time=600), script
    )
    with mock.patch(f"{run.module}._maybe_call", side_effect=lambda value: 3):
        with pytest.raises(KeyError):
            target()
    assert script.calls == 3


def test_decorators_can_be_patched_away():
    with mock.patch(f"{PACKAGE}.on_exception", return_value=lambda function: function):
        assert backoff.on_exception(backoff.expo, KeyError)(len) is len


def test_package_can_replace_backoff_in_sys_modules():
    code = """
import sys
from unittest import mock
from stormproof.compat import backoff as ours
sys.modules["backoff"] = ours
import backoff
from backoff import expo, on_predicate
outcomes = [0, 1]
with mock.patch("backoff._sync.time.sleep") as sleep:
    on_predicate(expo, jitter=None)(lambda: outcomes.pop(0))()
print(sleep.call_args_list)
"""
    assert fresh_python(code) == "[call(1)]"


# --- clocks


@pytest.fixture
def monotonic(monkeypatch):
    """The monotonic clock as a list of readings; time-machine, if a plugin loaded it, is out of sight."""
    monkeypatch.delitem(sys.modules, "time_machine", raising=False)
    readings = []
    monkeypatch.setattr(f"{PACKAGE}._clock._monotonic", lambda: readings.pop(0))
    return readings


def test_elapsed_is_monotonic_unless_datetime_is_replaced(run, slept, monotonic):
    monotonic += [100.0, 100.0, 105.0, 110.0]
    seen = []
    script = Script(0, 0, 0)
    decorator = backoff.on_predicate(
        backoff.constant, max_time=10, on_backoff=seen.append, on_giveup=seen.append
    )
    run(decorator, script)
    assert [details["elapsed"] for details in seen] == [0, 5, 10]


def test_clock_replaced_during_the_call_is_followed(run, slept, monotonic, ticks):
    monotonic += [100.0, 100.0]
    seen = []

    class Jumping(Script):
        def play(self):
            if not self.calls:
                ticks(10**9)  # years before or after: the stub's first reading decides
            return super().play()

    run(backoff.on_predicate(backoff.constant, on_success=seen.append), Jumping(0, 1))
    assert abs(seen[0]["elapsed"]) > 10**6


def test_patched_time_monotonic_does_not_drive_max_time(slept, monkeypatch):
    monkeypatch.delitem(sys.modules, "time_machine", raising=False)
    script = Script(0, 1)
    target = backoff.on_predicate(backoff.constant, max_time=60)(script.play)
    with mock.patch("time.monotonic", side_effect=AssertionError("asked")):
        assert target() == 1


def test_freezegun_drives_max_time(run, monkeypatch):
    freezegun = pytest.importorskip("freezegun")
    seen = []
    script = Script(*[0] * 4)
    with freezegun.freeze_time("2020-01-01") as frozen:

        async def sleep(seconds):
            frozen.tick(seconds)

        monkeypatch.setattr("time.sleep", frozen.tick)
        monkeypatch.setattr("asyncio.sleep", sleep)
        decorator = backoff.on_predicate(
            backoff.constant,
            interval=4,
            max_time=10,
            jitter=None,
            on_backoff=seen.append,
            on_giveup=seen.append,
        )
        run(decorator, script)
    assert [details["elapsed"] for details in seen] == [0, 4, 8, 10]


def test_time_machine_drives_max_time(run, monkeypatch):
    time_machine = pytest.importorskip("time_machine")
    seen = []
    script = Script(*[0] * 4)
    with time_machine.travel(datetime.datetime(2020, 1, 1), tick=False) as traveller:

        async def sleep(seconds):
            traveller.shift(seconds)

        monkeypatch.setattr("time.sleep", traveller.shift)
        monkeypatch.setattr("asyncio.sleep", sleep)
        decorator = backoff.on_predicate(
            backoff.constant,
            interval=4,
            max_time=10,
            jitter=None,
            on_backoff=seen.append,
            on_giveup=seen.append,
        )
        run(decorator, script)
    assert [details["elapsed"] for details in seen] == [0, 4, 8, 10]
