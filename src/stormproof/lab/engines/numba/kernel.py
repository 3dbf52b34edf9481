"""The kernel of the compiled engine: the way of a call, as in `rules_engine`, and the loop over all events.

A call is sent, arrives, then succeeds or fails; a failure sends again, or ends. It stays in one slot, which
stands for the one event that it waits for.
"""

from __future__ import annotations

import math

from ...model.arrivals import Floats, Ints
from . import layout
from .agenda import ask_for, free_slot, new_slot, open_bucket, put, take
from .backend import offer
from .compilation import compiled, kept
from .layout import PurseRecord, RunRules, Slot, VerdictRecord, World
from .randomness import draw, spread
from .records import sample, step_of, succeeded
from .rules import count_due, count_later, credited, debited, open_purse, reserve, wait_for, withdraw

#: Number of calls between the prefetch of a budget and its use.
_AHEAD = 16
#: A turn after all events of the same moment.
_NEVER = 2**63 - 1


@compiled
def begin(w: World, c: Slot, now: float, client: int) -> None:
    """A call begins."""
    r, s = w.rules[0], w.state[0]
    s.now, s.turn = now, _NEVER
    s.calls += 1
    c.step = step_of(r, now)
    w.offered[c.step] += 1
    if r.budget != layout.NO_BUDGET:
        if client % r.stride == 0:
            w.asked[client // r.stride] = 1
        if r.budget == layout.EARNED or r.budget == layout.WINDOW:
            purse = w.purses[0 if r.shared else client]
            open_purse(r, purse, now)
            if r.budget == layout.WINDOW:
                purse.tally += 1.0
    c.kind, c.number, c.client, c.began = layout.AGAIN, 0, client, now
    c.first = c.prev = c.spent = math.nan


@compiled
def send(w: World, c: Slot) -> None:
    """An attempt is sent now. Over a network that takes time, its arrival is an event."""
    r, s = w.rules[0], w.state[0]
    s.attempts += 1
    w.done[c.step].tries += 1
    c.number += 1
    c.gone = s.now + r.timeout
    s.seq += 1
    c.gone_seq = s.seq
    c.half = 0.0
    if r.near:
        return
    trip = spread(w.mt, w.kept, layout.NETWORK, r.latency_kind, r.latency, r.latency_sigma)
    while s.now >= w.row[s.holds].ends:
        s.holds += 1
    c.half = (trip + w.row[s.holds].extra) / 2
    s.seq += 1
    c.kind, c.time, c.seq = layout.ARRIVE, s.now + c.half, s.seq


@compiled
def settled(w: World, c: Slot, end: float) -> int:
    """The attempt's answer was given at ``end``, or minus the answer that refuses it: what must happen now.

    0 or more: the attempt has failed, for this answer. `WAITS`: for the slot's event. `OVER`: nothing more.
    """
    r, s = w.rules[0], w.state[0]
    if end < 0.0 and r.near:
        return int(-end)
    s.seq += 1
    c.seq, c.time = s.seq, (end if end >= 0.0 else s.now) + c.half
    if c.time >= c.gone:
        c.kind, c.time, c.seq = layout.TIMEOUT, c.gone, c.gone_seq
    elif end < 0.0 or s.failing > 0:
        c.kind, c.answer = layout.REFUSED, int(-end) if end < 0.0 else s.failing
    elif r.by_success and not (r.counted and count_later(s, w.purses[c.client], c.time, c.seq)):
        c.kind = layout.SUCCESS
    else:
        if c.time <= r.duration:
            succeeded(w, c.time, c)
        return layout.OVER
    return layout.WAITS


@compiled
def pays(
    r: RunRules, c: Slot, verdict: VerdictRecord, purse: PurseRecord, slices: Floats, now: float, left: float
) -> float:
    """The last step of `Course.next`: return the wait for the budget; -1: it does not pay."""
    if r.waits:
        delay = reserve(r, purse, now, min(left, 1e15))
        c.spent = 1.0
        return delay
    c.spent = withdraw(r, purse, slices, now, verdict.timeout == 1, verdict.throttle == 1)
    return 0.0 if c.spent > 0.0 else -1.0


@compiled
def failed(w: World, c: Slot, answer: int) -> int:
    """The attempt has failed now: `Course.next`. Why the call has too; `WAITS`: it will be tried again."""
    r, s, verdict = w.rules[0], w.state[0], w.verdicts[answer]
    now, who = s.now, 0 if r.shared else c.client
    if c.number == 1:
        c.first = now
    if r.counted:
        count_due(s, w.purses[who])
    if r.budget == layout.THROTTLE and verdict.counts:
        debited(r, w.purses[who], w.slices[who], now)
    if not r.retries or not verdict.retry:
        return int(verdict.reason)
    if 0 <= r.attempts <= c.number:
        return layout.R_ATTEMPTS
    hinted = not math.isnan(verdict.after)
    # Also where the wait does not depend on it, as in the exact engine: a later one may.
    wait = wait_for(r, w.ceilings, c.number - 1, c.prev, draw(w.mt, layout.POLICY))
    c.prev = wait
    if hinted:
        wait = max(wait, verdict.after * (1.0 + 0.1 * draw(w.mt, layout.POLICY)))
        if verdict.after > r.max_hint:
            return layout.R_HINT
    left = r.within - (now - c.first)
    if hinted and 0.0 < left < wait:
        left = wait
    if wait > left:
        # A call that sleeps what is left first may not have ended when the run does.
        return layout.R_WITHIN if not r.clip or now + max(0.0, left) <= r.duration else layout.OVER
    if r.budget != layout.NO_BUDGET:
        delay = pays(r, c, verdict, w.purses[who], w.slices[who], now, left)
        if delay < 0.0:
            return layout.R_BUDGET
        wait = max(wait, delay)
    s.seq += 1
    c.kind, c.time, c.seq = layout.AGAIN, now + wait, s.seq
    return layout.WAITS


@compiled
def stray(w: World, at: int) -> int:
    """The caller of the attempt in slot ``at`` will have gone before it arrives, where it is still served.

    That is another event, whose slot is returned; -1: it is not so.
    """
    c = w.slots[at]
    if c.kind != layout.ARRIVE or c.gone > c.time:
        return -1
    index = new_slot(w)
    lost = w.slots[index]
    lost.kind, lost.time, lost.seq = layout.STRAY, c.time, c.seq
    lost.client, lost.gone = c.client, c.gone
    c.kind, c.time, c.seq = layout.TIMEOUT, c.gone, c.gone_seq
    return index


@compiled
def next_sample(w: World) -> None:
    """Let the gauges be read at the end of the next step."""
    r, s = w.rules[0], w.state[0]
    if s.samples < r.steps and s.now < r.duration:
        s.seq += 1
        at = new_slot(w)
        c = w.slots[at]
        c.kind, c.seq, c.time = layout.SAMPLE, s.seq, min((s.samples + 1) * r.step, r.duration)
        put(w, at)


@compiled
def happen(w: World, c: Slot) -> int:
    """Handle the event that slot ``c`` waits for. `WAITS`: another follows, `OVER`: the call has ended."""
    r, s, kind = w.rules[0], w.state[0], c.kind
    if kind == layout.SUCCESS:
        who = 0 if r.shared else c.client
        credited(r, w.purses[who], w.slices[who], s.now, c.spent)
        succeeded(w, s.now, c)
        return layout.OVER
    if kind == layout.AGAIN:
        send(w, c)
        if not r.near:
            return layout.WAITS
    answer = c.answer if kind == layout.REFUSED else 0
    if kind not in (layout.TIMEOUT, layout.REFUSED):
        # Over no distance a first attempt arrives as its call begins.
        step = c.step if kind == layout.AGAIN and c.number == 1 else step_of(r, s.now)
        end = offer(w, step, c.client, c.gone)
        if kind == layout.STRAY:
            return layout.OVER
        answer = settled(w, c, end)
        if answer < 0:
            return answer
    why = failed(w, c, answer)
    if why >= 0:
        w.failures[why] += 1
        return layout.OVER
    return why


@kept
def advance(w: World, times: Floats, who: Ints, last: bool, most: int, reports: int) -> int:
    """Let time pass over the calls from ``state.next`` on. What is due happens before a call begun then.

    ``last``: no more calls come. ``most`` is the limit of events, ``reports`` the number of progress reports
    per run.
    """
    r, s, slots = w.rules[0], w.state[0], w.slots
    calls = len(times)
    if s.seq == 0:
        next_sample(w)
    for _ in range(most):
        if s.used + 2 > len(slots) and (s.free < 0 or slots[s.free].next < 0):
            return layout.GROW
        if s.next >= calls and not last:
            return layout.MORE
        limit = times[s.next] if s.next < calls else r.duration
        if s.heap == 0 and s.linked > 0:
            open_bucket(w, limit)
        if min(s.won, s.lost, s.soonest) <= limit:
            at = take(w)
            s.turn = slots[at].seq
        elif s.next < calls:
            at = new_slot(w)
            begin(w, slots[at], limit, who[s.next])
            s.next += 1
            if (r.by_success or r.budget == layout.WINDOW) and not r.shared and s.next + _AHEAD < calls:
                ask_for(w, who[s.next + _AHEAD], not w.row[s.holds].quick)
        else:
            return layout.DONE
        c = slots[at]
        if c.kind == layout.SAMPLE:
            free_slot(w, at)
            sample(w)
            next_sample(w)
            if s.samples * reports // r.steps != s.reported:
                s.reported = s.samples * reports // r.steps
                return layout.REPORT
            continue
        if happen(w, c) == layout.OVER:
            free_slot(w, at)
            continue
        other = -1 if r.near else stray(w, at)
        while at >= 0:
            if slots[at].time <= r.duration:
                put(w, at)
            else:
                free_slot(w, at)
            at, other = other, -1
    return layout.PAUSE
