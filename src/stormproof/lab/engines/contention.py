"""AWS's optimistic-concurrency model: N clients contend for one row, each until it has written it once.

A client reads the row's version, then writes with it; the write fails if another client wrote in between.
Every message takes |N(10, 2)| ms. After a failed write the client waits by its backoff (whose first wait is
that of n = 1, as in the original) and reads again. Calls count writes only. All runs go on side by side
in NumPy arrays, so a wait is the same expression that times a real sleep.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._primitives.options import Options, count
from ..._strategies.retry.backoff import Decorrelated, Jittered
from ..model.arrivals import Floats, Ints, generator

_LEG_S = (0.010, 0.002)


class Contention(Options):
    """The means over all runs: writes per client, and seconds until the last client is done."""

    def __init__(self, calls_per_client: float, completion_time: float, clients: int, runs: int) -> None:
        self.calls_per_client = calls_per_client
        self.completion_time = completion_time
        self.clients = clients
        self.runs = runs


def occ(backoff: object, clients: int = 100, runs: int = 100, seed: int = 0) -> Contention:
    """``runs`` runs of ``clients`` clients that wait by ``backoff`` after a failed write."""
    if isinstance(backoff, type) or not hasattr(backoff, "delay"):
        raise TypeError(f"occ: backoff must be a schedule such as Exponential(), got {backoff!r}")
    count("occ", "clients", clients, most=100_000)
    count("occ", "runs", runs, most=100_000)
    race = _Race(backoff, clients, runs, generator(count("occ", "seed", seed, least=0), "row"))
    while race.step():
        pass
    return Contention(race.writes / (clients * runs), float(race.ended.mean()), clients, runs)


class _Race:
    """The state of all runs: for each client, when its next message reaches the server."""

    def __init__(self, backoff: Any, clients: int, runs: int, draws: np.random.Generator) -> None:
        self._backoff = backoff
        self._draws = draws
        shape = (runs, clients)
        self._due = self._legs(shape)
        self._writes = np.zeros(shape, bool)
        self._seen = np.zeros(shape, np.int64)
        self._failed = np.zeros(shape, np.int64)
        self._prev = np.zeros(shape)
        self._version = np.zeros(runs, np.int64)
        #: The runs that still have clients to serve.
        self._active = np.arange(runs)
        self._left = np.full(runs, clients)
        self.ended = np.zeros(runs)
        self.writes = 0

    def _legs(self, shape: int | tuple[int, int]) -> Floats:
        return np.abs(self._draws.normal(*_LEG_S, size=shape))

    def step(self) -> bool:
        """The next message of every run reaches its server; False when all are done."""
        if not len(self._active):
            return False
        rows = self._active
        who = self._due[rows].argmin(axis=1) if len(rows) < len(self._due) else self._due.argmin(axis=1)
        now = self._due[rows, who]
        writing = self._writes[rows, who]
        self._read(rows[~writing], who[~writing], now[~writing])
        self._write(rows[writing], who[writing], now[writing])
        return True

    def _read(self, rows: Ints, who: Ints, now: Floats) -> None:
        self._seen[rows, who] = self._version[rows]
        self._writes[rows, who] = True
        self._due[rows, who] = now + self._legs(len(rows)) + self._legs(len(rows))

    def _write(self, rows: Ints, who: Ints, now: Floats) -> None:
        self.writes += len(rows)
        answered_at = now + self._legs(len(rows))
        won = self._seen[rows, who] == self._version[rows]
        lost = ~won
        self._back_off(rows[lost], who[lost], answered_at[lost])
        winners = rows[won]
        self._version[winners] += 1
        self._due[winners, who[won]] = math.inf
        self._left[winners] -= 1
        self.ended[winners] = np.maximum(self.ended[winners], answered_at[won])
        if (self._left[winners] == 0).any():
            self._active = np.flatnonzero(self._left)

    def _back_off(self, rows: Ints, who: Ints, now: Floats) -> None:
        if not len(rows):
            return
        self._failed[rows, who] += 1
        n = self._failed[rows, who]
        waits = self._waits(n, self._prev[rows, who], self._draws.random(len(rows)))
        self._prev[rows, who] = waits
        self._writes[rows, who] = False
        self._due[rows, who] = now + waits + self._legs(len(rows))

    def _waits(self, n: Ints, prev: Floats, u: Floats) -> Floats:
        delay = self._backoff.delay
        waits = np.empty(len(n))
        if not isinstance(self._backoff, (Jittered, Decorrelated)):
            # A schedule of the user's own may not know arrays.
            for i, (k, p, draw) in enumerate(zip(n.tolist(), prev.tolist(), u.tolist(), strict=True)):
                waits[i] = delay(k, None if k == 1 else p, draw)
            return waits
        first = n == 1
        if first.any():
            waits[first] = delay(n[first], None, u[first])
        if not first.all():
            waits[~first] = delay(n[~first], prev[~first], u[~first])
        return waits
