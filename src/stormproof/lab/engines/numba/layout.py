"""The arrays of the fast engine's kernel: what their records hold, and the numbers that stand for kinds.

A record is passed as one pointer, and memory that was never touched takes no room: that is why the state of a
run is kept so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compilation import stamp

#: One event to come, and the call that it concerns.
SLOT = np.dtype(
    [
        ("time", "f8"),
        ("seq", "i8"),
        ("began", "f8"),
        ("first", "f8"),
        ("prev", "f8"),
        ("spent", "f8"),
        ("gone", "f8"),
        ("half", "f8"),
        ("gone_seq", "i8"),
        ("client", "i4"),
        ("number", "i4"),
        ("kind", "i4"),
        ("answer", "i4"),
        ("next", "i4"),
        ("pad", "i4"),
    ]
)
SUCCESS, TIMEOUT, AGAIN, ARRIVE, STRAY, REFUSED, SAMPLE = range(7)

#: An entry of the heap of events that are due soonest.
DUE = np.dtype([("time", "f8"), ("seq", "i8"), ("slot", "i8")])

#: What holds from ``begins`` to ``ends``; ``fail`` and ``error`` are answers (0: no outage); ``parted`` is
#: how many of the partitions, from ``parts`` on, there are.
STRETCH = np.dtype(
    [
        ("begins", "f8"),
        ("ends", "f8"),
        ("capacity", "f8"),
        ("error_rate", "f8"),
        ("extra", "f8"),
        ("fail", "i8"),
        ("error", "i8"),
        ("fail_cost", "f8"),
        ("error_cost", "f8"),
        ("parted", "i8"),
        ("parts", "i8"),
        ("quick", "i8"),
    ]
)
PART = np.dtype([("share", "f8"), ("hangs", "i8")])
COLD = np.dtype([("at", "f8"), ("cost", "f8"), ("warm", "f8")])

#: What an answer means: answer 0 is the timeout, 1 "no room", 2 "over the limit".
VERDICT = np.dtype(
    [
        ("retry", "i8"),
        ("after", "f8"),
        ("timeout", "i8"),
        ("throttle", "i8"),
        ("counts", "i8"),
        ("reason", "i8"),
    ]
)
R_ATTEMPTS, R_BUDGET, R_HINT, R_WITHIN, R_TIMEOUT, R_503, R_429 = range(7)

#: Sums that make up a window, and what a row of them takes.
SLICES = 20
ROW = SLICES + 4

#: The budget of one client, as far as every call or success may touch it. ``due`` is when a success will
#: count that has been written down already (``due_seq`` 0: there is none).
PURSE = np.dtype(
    [
        ("made", "f8"),
        ("tokens", "f8"),
        ("last", "f8"),
        ("tally", "f8"),
        ("due", "f8"),
        ("due_seq", "i8"),
    ]
)
NO_BUDGET, EARNED, WINDOW, QUOTA, THROTTLE, RATE = range(6)
FULL, EQUAL, SYMMETRIC, UNSPREAD, DECORRELATED, DECORRELATED_SAMPLE = range(6)
FIXED, EXPONENTIAL, LOGNORMAL = range(3)

#: The calls that succeed in a step: how many, and the sum of their latencies. Of the calls begun in it: how
#: many succeed, and the attempts they make.
DONE_IN_STEP = np.dtype([("count", "i8"), ("took", "f8"), ("kept", "i8"), ("tries", "i8")])

#: What never changes in a run. NaN or -1: none. The last field has a name only.
RULES = np.dtype(
    [
        ("duration", "f8"),
        ("step", "f8"),
        ("steps", "i8"),
        ("timeout", "f8"),
        ("near", "i8"),
        ("clients", "i8"),
        ("shared", "i8"),
        ("stride", "i8"),
        ("wide", "f8"),
        ("shift", "i8"),
        ("lowest", "i8"),
        # The network and the backend.
        ("latency", "f8"),
        ("latency_kind", "i8"),
        ("latency_sigma", "f8"),
        ("work", "f8"),
        ("work_kind", "i8"),
        ("work_sigma", "f8"),
        ("fixed", "i8"),
        ("queue", "i8"),
        ("shed", "i8"),
        ("limit_rps", "f8"),
        ("limit_burst", "f8"),
        # The retries.
        ("retries", "i8"),
        ("attempts", "i8"),
        ("within", "f8"),
        ("max_hint", "f8"),
        ("clip", "i8"),
        ("jitter", "i8"),
        ("jitter_r", "f8"),
        ("min", "f8"),
        ("base", "f8"),
        ("cap", "f8"),
        # The budget.
        ("budget", "i8"),
        ("by_success", "i8"),
        ("counted", "i8"),
        ("ratio", "f8"),
        ("burst", "f8"),
        ("window", "f8"),
        ("width", "f8"),
        ("floor", "f8"),
        ("cost", "f8"),
        ("timeout_cost", "f8"),
        ("throttle_cost", "f8"),
        ("credit", "f8"),
        ("top", "f8"),
        ("rate", "f8"),
        ("waits", "i8"),
        (stamp(), "i8"),
    ]
)

#: What changes in a run, besides what is kept per client, per step and per event.
STATE = np.dtype(
    [
        ("now", "f8"),
        ("seq", "i8"),
        ("turn", "i8"),
        ("used", "i8"),
        ("free", "i8"),
        ("heap", "i8"),
        ("linked", "i8"),
        ("bucket", "i8"),
        ("soonest", "f8"),
        ("won", "f8"),
        ("won_head", "i8"),
        ("won_tail", "i8"),
        ("lost", "f8"),
        ("lost_head", "i8"),
        ("lost_tail", "i8"),
        ("next", "i8"),
        ("samples", "i8"),
        ("reported", "i8"),
        ("calls", "i8"),
        ("attempts", "i8"),
        # The backend.
        ("holds", "i8"),
        ("speed", "i8"),
        ("until", "f8"),
        ("span", "f8"),
        ("waited", "i8"),
        ("begun", "i8"),
        ("line", "i8"),
        ("line_head", "i8"),
        ("cold", "i8"),
        ("served", "f8"),
        ("level", "f8"),
        ("last", "f8"),
        # The answer that the request just taken fails with, after its work; 0: it succeeds.
        ("failing", "i8"),
    ]
)

#: The rows of the generators.
POLICY, ERRORS, SERVICE, NETWORK = range(4)

#: What is to be done with the slot of a call: keep it, free it.
WAITS, OVER = -1, -2

#: Why the kernel comes back: for more calls, more slots, to report progress, to let Ctrl-C in, at the end.
MORE, GROW, REPORT, PAUSE, DONE = range(5)


class World(NamedTuple):
    """Every array of a run."""

    rules: Any
    state: Any
    slots: Any
    heap: Any
    heads: Any
    row: Any
    parts: Any
    free: Any
    line: Any
    begun: Any
    cold: Any
    mt: Any
    kept: Any
    verdicts: Any
    ceilings: Any
    purses: Any
    slices: Any
    asked: Any
    failures: Any
    offered: Any
    received: Any
    done: Any
    spreads: Any
    queue: Any
    balance: Any
    scratch: Any
