"""backoff#149: time limits were measured with the wall clock, so a change of the system's time ended or
prolonged them.

Stormproof: all time is monotonic. The wall clock is read only to understand a date that a server sent.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import stormproof

# A child, because the clock must be crooked before Stormproof is imported.
CODE = """
import asyncio, sys, time
readings = 0
def crooked():
    global readings
    readings += 1
    return 1e9 * (-1) ** readings
time.time = crooked
time.time_ns = lambda: int(crooked() * 1e9)
time.localtime = time.gmtime = lambda *a: crooked()
sys.path.insert(0, sys.argv[1])

import stormproof as sp
sp.logging.off()  # a log record is stamped with the wall clock's time, and should be

def fails():
    raise ConnectionError

options = dict(on=ConnectionError, attempts=3, backoff=sp.Constant(0.001), within=60)
budget = sp.Budget(burst=10)
limiter = sp.Limiter(1, 5)

def sync():
    with sp.deadline(60):
        sp.retry(**options, budget=budget).call(fails)

def block():
    for attempt in sp.retrying(**options, budget=budget):
        with attempt:
            fails()

async def coroutine():
    async def body():
        fails()
    async with sp.deadline(60):
        await sp.retry(**options, budget=budget).acall(body)

for run in (sync, block, lambda: asyncio.run(coroutine())):
    try:
        run()
    except ConnectionError as error:
        assert error.__notes__[0].startswith("stormproof: 3 attempts in 0."), error.__notes__
    else:
        raise AssertionError
assert limiter.allow(5) and not limiter.allow(4)
assert budget.balance == 10 - 6, budget.balance
assert readings == 0, f"the wall clock was read {readings} times"

assert sp.transient  # a date is what it is read for
from stormproof._classify.server_hints import retry_after
retry_after({"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"})
assert readings == 1, readings
"""


def test_crooked_wall_clock_changes_nothing():
    source = str(Path(stormproof.__file__).parents[1])
    subprocess.run([sys.executable, "-c", CODE, source], check=True, timeout=20)
