"""Helpers for tests of ``stormproof.compat.backoff``: scripted targets, recorded waits, a clock to set.

Every behaviour is checked around a plain function and around a coroutine function.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import subprocess
import sys

import pytest

PACKAGE = "stormproof.compat.backoff"


class Script:
    """A target: returns or raises its outcomes in turn, and counts."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.calls = 0

    def play(self):
        outcome = self.outcomes[self.calls]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture(params=["sync", "async"])
def run(request):
    """``run(decorator, script, *args)``: decorate a target that plays ``script``, and call it."""

    def decorated(decorator, script):
        if request.param == "sync":

            @decorator
            def target(*args, **kwargs):
                return script.play()

            return target

        @decorator
        async def target(*args, **kwargs):
            return script.play()

        return lambda *args, **kwargs: asyncio.run(target(*args, **kwargs))

    def call(decorator, script, *args, **kwargs):
        return decorated(decorator, script)(*args, **kwargs)

    call.decorated = decorated
    call.mode = request.param
    call.module = f"{PACKAGE}._{request.param}"
    return call


@pytest.fixture
def slept(monkeypatch):
    """The waits asked of time.sleep and asyncio.sleep; none is slept."""
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("asyncio.sleep", sleep)
    return waits


@pytest.fixture
def ticks(monkeypatch):
    """A stand-in for datetime.datetime whose now() follows a list of seconds."""

    def install(*seconds, path="datetime.datetime"):
        start = datetime.datetime(2020, 1, 1)
        left = [start + datetime.timedelta(seconds=s) for s in seconds]

        class Clock:
            @staticmethod
            def now():
                return left.pop(0)

        monkeypatch.setattr(path, Clock)
        return left

    return install


def fresh_python(code):
    """Return the output of ``code`` in a new interpreter that finds the same packages."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    return done.stdout.strip()
