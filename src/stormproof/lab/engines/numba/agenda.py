"""Pending events of a run of the fast engine, ordered by time, then by insertion.

Most events are put in the order of their times: successes make one linked list, timeouts another. The rest
goes to a calendar of linked lists, of which the earliest is a heap.
"""

from __future__ import annotations

import math

from .compilation import apart, compiled, prefetch
from .layout import NO_BUDGET, SUCCESS, TIMEOUT, Due, Rows, Slot, World

#: Number of buckets between the prefetch of a bucket and its use.
_AHEAD = 8


@compiled
def _sooner(heap: Rows[Due], a: int, b: int) -> bool:
    if heap[a].time != heap[b].time:
        return bool(heap[a].time < heap[b].time)
    return bool(heap[a].seq < heap[b].seq)


@compiled
def _swap(heap: Rows[Due], a: int, b: int) -> None:
    x, y = heap[a], heap[b]
    x.time, y.time = y.time, x.time
    x.seq, y.seq = y.seq, x.seq
    x.slot, y.slot = y.slot, x.slot


@apart
def _sink(heap: Rows[Due], size: int, at: int) -> None:
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _sooner(heap, child + 1, child):
            child += 1
        if not _sooner(heap, child, at):
            return
        _swap(heap, at, child)
        at = child


@compiled
def _enter(heap: Rows[Due], at: int, slot: int, time: float, seq: int) -> None:
    heap[at].time = time
    heap[at].seq = seq
    heap[at].slot = slot


@compiled
def _climb(heap: Rows[Due], at: int) -> None:
    while at > 0:
        parent = (at - 1) // 2
        if not _sooner(heap, at, parent):
            return
        _swap(heap, at, parent)
        at = parent


@compiled
def new_slot(w: World) -> int:
    """A free slot: the caller has seen to it that there is one."""
    s, slots = w.state[0], w.slots
    if s.free >= 0:
        index = s.free
        s.free = slots[index].next
        return int(index)
    s.used += 1
    return int(s.used - 1)


@compiled
def free_slot(w: World, at: int) -> None:
    w.slots[at].next = w.state[0].free
    w.state[0].free = at


@compiled
def _comes_last(slots: Rows[Slot], tail: int, c: Slot) -> bool:
    """Return True if the event ``c`` comes after that of slot ``tail``; -1: there is none."""
    if tail < 0 or c.time != slots[tail].time:
        return bool(tail < 0 or c.time > slots[tail].time)
    return bool(c.seq > slots[tail].seq)


@compiled
def put(w: World, at: int) -> None:
    """Let the event of slot ``at`` happen at its time, which is not past the end."""
    r, s, slots, heap, heads = w.rules[0], w.state[0], w.slots, w.heap, w.heads
    c = slots[at]
    c.next = -1
    if c.kind == SUCCESS and _comes_last(slots, s.won_tail, c):
        if s.won_tail < 0:
            s.won_head, s.won = at, c.time
        else:
            slots[s.won_tail].next = at
        s.won_tail = at
        return
    if c.kind == TIMEOUT and _comes_last(slots, s.lost_tail, c):
        if s.lost_tail < 0:
            s.lost_head, s.lost = at, c.time
        else:
            slots[s.lost_tail].next = at
        s.lost_tail = at
        return
    bucket = min(int(c.time * r.wide), len(heads) - 1)
    if bucket <= s.bucket:
        _enter(heap, s.heap, at, c.time, c.seq)
        _climb(heap, s.heap)
        s.heap += 1
        s.soonest = heap[0].time
    else:
        # 0 is an empty bucket, so that fresh memory is an empty calendar.
        c.next = heads[bucket] - 1
        heads[bucket] = at + 1
        s.linked += 1


@compiled
def ask_for(w: World, client: int, all_of_it: bool) -> None:
    """The budget of this client will be needed soon: a run of many clients waits for memory most of all."""
    prefetch(w.purses, client, 0)
    if all_of_it:
        for offset in range(0, 8 * w.slices.shape[1], 64):
            prefetch(w.slices, client, offset)


@compiled
def look_ahead(w: World) -> None:
    """Ask for what the events of the buckets after this one will need."""
    r, s, slots, heads = w.rules[0], w.state[0], w.slots, w.heads
    if s.bucket + 2 * _AHEAD >= len(heads):
        return
    far = heads[s.bucket + 2 * _AHEAD] - 1
    if far >= 0:
        prefetch(slots, far, 0)
        prefetch(slots, far, 64)
    near = heads[s.bucket + _AHEAD] - 1
    if near >= 0 and r.budget != NO_BUDGET and not r.shared:
        ask_for(w, slots[near].client, True)


@compiled
def open_bucket(w: World, limit: float) -> None:
    """The heap is empty: fill it from the first bucket up to ``limit`` that holds anything."""
    r, s, slots, heap, heads = w.rules[0], w.state[0], w.slots, w.heap, w.heads
    last = min(int(limit * r.wide), len(heads) - 1)
    while s.heap == 0 and s.bucket < last and s.linked > 0:
        s.bucket += 1
        look_ahead(w)
        at = heads[s.bucket] - 1
        while at >= 0:
            _enter(heap, s.heap, at, slots[at].time, slots[at].seq)
            s.heap += 1
            at = slots[at].next
    s.linked -= s.heap
    for at in range(s.heap // 2 - 1, -1, -1):
        _sink(heap, s.heap, at)
    s.soonest = heap[0].time if s.heap > 0 else math.inf


@compiled
def take(w: World) -> int:
    """The slot of the event that is due next; there is one."""
    s, slots, heap = w.state[0], w.slots, w.heap
    won, lost, soonest = s.won, s.lost, s.soonest
    first = min(won, lost, soonest)
    best, seq = 0, 0
    if won == first:
        best, seq = 1, slots[s.won_head].seq
    if lost == first and (best == 0 or slots[s.lost_head].seq < seq):
        best, seq = 2, slots[s.lost_head].seq
    if soonest == first and (best == 0 or heap[0].seq < seq):
        best = 3
    if best == 1:
        at = s.won_head
        s.won_head = slots[at].next
        if s.won_head < 0:
            s.won_tail, s.won = -1, math.inf
        else:
            s.won = slots[s.won_head].time
    elif best == 2:
        at = s.lost_head
        s.lost_head = slots[at].next
        if s.lost_head < 0:
            s.lost_tail, s.lost = -1, math.inf
        else:
            s.lost = slots[s.lost_head].time
    else:
        at = heap[0].slot
        s.heap -= 1
        _enter(heap, 0, heap[s.heap].slot, heap[s.heap].time, heap[s.heap].seq)
        _sink(heap, s.heap, 0)
        s.soonest = heap[0].time if s.heap > 0 else math.inf
    s.now = first
    return int(at)
