"""The backend of the fast engine: compiled copies of `backend.Backend.offer`, `service.FirstCome.serve`,
`service.Work.amount` and `timeline.Capacity.finish`.
"""

from __future__ import annotations

import math

from ...model.arrivals import Floats
from .compilation import compiled
from .layout import ERRORS, SERVICE, Rows, State, StretchRecord, World
from .randomness import draw, spread
from .rules import take_token


@compiled
def _finish(row: Rows[StretchRecord], index: int, start: float, work: float) -> float:
    while True:
        factor = row[index].capacity
        if factor > 0.0:
            end = start + work / factor
            if end <= row[index].ends:
                return float(end)
            work -= (row[index].ends - start) * factor
        start = row[index].ends
        if start == math.inf:
            return math.inf
        index += 1


@compiled
def _amount(w: World, start: float) -> float:
    r, s, cold = w.rules[0], w.state[0], w.cold
    work = spread(w.mt, w.kept, SERVICE, r.work_kind, r.work, r.work_sigma)
    if s.cold < len(cold) and start >= cold[s.cold].at:
        if s.cold + 1 < len(cold) and start >= cold[s.cold + 1].at:
            s.cold += 1
            s.served = 0.0
        left = 1.0 - s.served / cold[s.cold].warm
        s.served += 1.0
        if left > 0.0:
            work *= 1.0 + (cold[s.cold].cost - 1.0) * left
    return work


@compiled
def _depth(s: State, line: Floats, now: float) -> int:
    while s.line > 0 and line[s.line_head] <= now:
        s.line_head = (s.line_head + 1) % len(line)
        s.line -= 1
    return int(s.line)


@compiled
def _lines_up(w: World, start: float) -> None:
    """One more waits, until ``start``."""
    r, s = w.rules[0], w.state[0]
    s.waited += 1
    if r.queue >= 0:
        w.line[(s.line_head + s.line) % len(w.line)] = start
        s.line += 1
    if start <= r.duration:
        # It waits no longer at the first sample at or after its start.
        sample = max(0, int(start / r.step) - 1)
        while sample < r.steps - 1 and (sample + 1) * r.step < start:
            sample += 1
        w.begun[sample] += 1


@compiled
def serve(w: World, gone: float, share: float) -> float:
    """Return the end of work that arrives now; inf: its caller has gone by then, so drop it; -1: no room."""
    r, s, row, free = w.rules[0], w.state[0], w.row, w.free
    now = s.now
    start = free[0]
    if start <= now:
        start = now
    else:
        if r.queue >= 0 and _depth(s, w.line, now) >= r.queue:
            return -1.0
        _lines_up(w, start)
        if r.shed and start >= gone:
            return math.inf
    if start >= s.until:
        while s.speed + 1 < len(row) and row[s.speed + 1].begins <= start:
            s.speed += 1
        factor = row[s.speed].capacity
        s.until = row[s.speed].ends
        s.span = math.inf if r.fixed == 0 or factor == 0.0 else r.work / factor
    end = start + s.span * share
    if end >= s.until:
        work = r.work if r.fixed else _amount(w, start)
        end = _finish(row, s.speed, start, work * share)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= len(free):
            break
        if child + 1 < len(free) and free[child + 1] < free[child]:
            child += 1
        if end <= free[child]:
            break
        free[at] = free[child]
        at = child
    free[at] = end
    return float(end)


@compiled
def offer(w: World, step: int, client: int, gone: float) -> float:
    """An attempt arrives in ``step``: when it is served (inf: never), or minus the answer that refuses it.

    ``state.failing`` is the answer that it gets when it is served; 0: a success.
    """
    r, s, share = w.rules[0], w.state[0], 1.0
    now = s.now
    s.failing = 0
    while now >= w.row[s.holds].ends:
        s.holds += 1
    holds = w.row[s.holds]
    for index in range(holds.parts, holds.parts + holds.parted):
        if (client + 0.5) / r.clients < w.parts[index].share:
            return math.inf if w.parts[index].hangs else -1.0
    w.received[step] += 1
    if not holds.quick:
        if holds.fail > 0:
            s.failing, share = holds.fail, holds.fail_cost
        elif holds.error_rate > 0.0 and draw(w.mt, ERRORS) < holds.error_rate:
            s.failing, share = holds.error, holds.error_cost
        elif r.limit_burst > 0.0:
            left = take_token(r.limit_rps, r.limit_burst, s.level, s.last, now)
            if left < 0.0:
                return -2.0
            s.last, s.level = now, left
    if share == 0.0:
        return float(-s.failing)
    return serve(w, gone, share)
