"""The arrays of the fast engine's kernel: what their records hold, and the numbers that stand for kinds.

A record is passed as one pointer, and memory that was never touched takes no room: that is why the state of a
run is kept so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from ...model.arrivals import Floats, Ints
from .compilation import stamp

Words = NDArray[np.unsignedinteger[Any]]

#: A whole number of 32 bits.
Short = int
_KINDS = {"float": "f8", "int": "i8", "Short": "i4"}


class NumbaRecord:
    """Fields of a record, by their types; outside the kernel they are items by name."""

    def __getitem__(self, name: str) -> Any: ...

    def __setitem__(self, name: str, value: object) -> None: ...


R = TypeVar("R", bound=NumbaRecord)
R_co = TypeVar("R_co", bound=NumbaRecord, covariant=True)


class Rows(Protocol[R_co]):
    """An array of records; outside the kernel, the arrays of their fields, too."""

    @overload
    def __getitem__(self, index: int) -> R_co: ...
    @overload
    def __getitem__(self, index: slice) -> Rows[R_co]: ...
    @overload
    def __getitem__(self, index: str) -> Floats: ...
    def __setitem__(self, index: int | slice, value: object) -> None: ...
    def __len__(self) -> int: ...


#: Of the sources as they were loaded.
_STAMP = stamp()


def dtype_of(kind: type[NumbaRecord]) -> np.dtype[np.void]:
    """The fields of a record in memory. The rules have one more, with a name only: see `stamp`."""
    fields = [(name, _KINDS[str(given)]) for name, given in kind.__annotations__.items()]
    return np.dtype([*fields, (_STAMP, "i8")] if kind is RunRules else fields)


def records(kind: type[R], values: int | Sequence[tuple[float, ...]]) -> Rows[R]:
    """Records with these values, or so many empty ones: memory that was never touched takes no room."""
    dtype = dtype_of(kind)
    rows = np.zeros(values, dtype) if isinstance(values, int) else np.array(values, dtype)
    return cast("Rows[R]", rows)


class Slot(NumbaRecord):
    """One event to come, and the call that it concerns; ``step`` is the one in which it began."""

    time: float
    seq: int
    began: float
    first: float
    prev: float
    spent: float
    gone: float
    half: float
    gone_seq: int
    client: Short
    number: Short
    kind: Short
    answer: Short
    next: Short
    step: Short


SUCCESS, TIMEOUT, AGAIN, ARRIVE, STRAY, REFUSED, SAMPLE = range(7)


class Due(NumbaRecord):
    """An entry of the heap of events that are due soonest."""

    time: float
    seq: int
    slot: int


class StretchRecord(NumbaRecord):
    """Conditions from ``begins`` to ``ends``; ``fail`` and ``error`` are answers (0: no outage).

    ``parted`` is how many of the partitions, from ``parts`` on, there are.
    """

    begins: float
    ends: float
    capacity: float
    error_rate: float
    extra: float
    fail: int
    error: int
    fail_cost: float
    error_cost: float
    parted: int
    parts: int
    quick: int


class PartRecord(NumbaRecord):
    """A partition."""

    share: float
    hangs: int


class Cold(NumbaRecord):
    """A cold cache."""

    at: float
    cost: float
    warm: float


class VerdictRecord(NumbaRecord):
    """Meaning of an answer: answer 0 is the timeout, 1 "no room", 2 "over the limit"."""

    retry: int
    after: float
    timeout: int
    throttle: int
    counts: int
    reason: int


#: Why a call fails.
REASONS = ("attempts", "budget", "hint", "within", "timeout", "503", "429")
R_ATTEMPTS, R_BUDGET, R_HINT, R_WITHIN = range(4)

#: Sums that make up a window, and what a row of them takes.
SLICES = 20
ROW = SLICES + 4


class PurseRecord(NumbaRecord):
    """The budget of one client, as far as every call or success may touch it. ``due`` is when a success will
    count that has been written down already (``due_seq`` 0: there is none).
    """

    made: float
    tokens: float
    last: float
    tally: float
    due: float
    due_seq: int


NO_BUDGET, EARNED, WINDOW, QUOTA, THROTTLE, RATE = range(6)
FULL, EQUAL, SYMMETRIC, UNSPREAD, DECORRELATED, DECORRELATED_SAMPLE = range(6)
FIXED, EXPONENTIAL, LOGNORMAL = range(3)


class Done(NumbaRecord):
    """The calls that succeed in a step: how many, and the sum of their latencies. Of the calls begun in it:
    how many succeed, and the attempts they make.
    """

    count: int
    took: float
    kept: int
    tries: int


class RunRules(NumbaRecord):
    """Constants of a run. NaN or -1: none."""

    duration: float
    step: float
    steps: int
    timeout: float
    near: int
    clients: int
    shared: int
    stride: int
    wide: float
    shift: int
    lowest: int
    # The network and the backend.
    latency: float
    latency_kind: int
    latency_sigma: float
    work: float
    work_kind: int
    work_sigma: float
    fixed: int
    queue: int
    shed: int
    limit_rps: float
    limit_burst: float
    # The retries.
    retries: int
    attempts: int
    within: float
    max_hint: float
    clip: int
    jitter: int
    jitter_r: float
    min: float
    base: float
    cap: float
    # The budget.
    budget: int
    by_success: int
    counted: int
    ratio: float
    burst: float
    window: float
    width: float
    floor: float
    cost: float
    timeout_cost: float
    throttle_cost: float
    credit: float
    top: float
    rate: float
    waits: int


class State(NumbaRecord):
    """State of a run, besides what is kept per client, per step and per event."""

    now: float
    seq: int
    turn: int
    used: int
    free: int
    heap: int
    linked: int
    bucket: int
    soonest: float
    won: float
    won_head: int
    won_tail: int
    lost: float
    lost_head: int
    lost_tail: int
    next: int
    samples: int
    reported: int
    calls: int
    attempts: int
    # The backend.
    holds: int
    speed: int
    until: float
    span: float
    waited: int
    begun: int
    line: int
    line_head: int
    cold: int
    served: float
    level: float
    last: float
    # The answer that the request just taken fails with, after its work; 0: it succeeds.
    failing: int
    # The lowest and the highest bin of latencies in use.
    low: int
    high: int


#: The rows of the generators.
POLICY, ERRORS, SERVICE, NETWORK = range(4)

#: What is to be done with the slot of a call: keep it, free it.
WAITS, OVER = -1, -2

#: Why the kernel comes back: for more calls, more slots, to report progress, to let Ctrl-C in, at the end.
MORE, GROW, REPORT, PAUSE, DONE = range(5)


class World(NamedTuple):
    """Every array of a run."""

    rules: Rows[RunRules]
    state: Rows[State]
    slots: Rows[Slot]
    heap: Rows[Due]
    heads: Ints
    row: Rows[StretchRecord]
    parts: Rows[PartRecord]
    free: Floats
    line: Floats
    begun: Ints
    cold: Rows[Cold]
    mt: Words
    kept: Floats
    verdicts: Rows[VerdictRecord]
    ceilings: Floats
    purses: Rows[PurseRecord]
    slices: Floats
    asked: Words
    failures: Ints
    offered: Ints
    received: Ints
    done: Rows[Done]
    spreads: Words
    queue: Floats
    balance: Floats
    scratch: Floats
