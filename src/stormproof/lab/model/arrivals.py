"""Open-loop load of a scenario: the time, the client and the key of each call."""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .faults import Burst, Spike
from .scenario import Scenario
from .trace import Trace

#: (when, index of the client class, index of the client in it, key)
Arrival = tuple[float, int, int, int]

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.signedinteger[Any]]

_CHUNK = 16_384


def generator(seed: int, label: str) -> np.random.Generator:
    """A generator for one purpose: what one part of a run draws changes nothing for the others."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(label.encode())])))


class Load:
    """The rate over time, as the integral that maps evenly running time to the times of arrivals."""

    def __init__(self, scenario: Scenario, rate: float) -> None:
        spikes = [fault for fault in scenario.faults if isinstance(fault, Spike)]
        end = scenario.duration
        edges = {0.0, end, *(min(t, end) for s in spikes for t in (s.at, s.end))}
        times = sorted(edges)
        sums = [0.0]
        for left, right in itertools.pairwise(times):
            factor = 1.0
            for spike in spikes:
                if spike.at <= left < spike.end:
                    factor *= spike.factor
            sums.append(sums[-1] + (right - left) * rate * factor)
        self._times, self._sums = np.array(times), np.array(sums)
        self.total = sums[-1]

    def when(self, marks: Floats) -> Floats:
        """The times at which the integral reaches ``marks``."""
        if len(self._times) == 2:
            # One rate all along: what `interp` computes, without a search for the place of each mark.
            times: Floats = marks * (self._times[1] / self._sums[1])
            return times
        times = np.interp(marks, self._sums, self._times)
        return times


def calls(scenario: Scenario, seed: int) -> Iterator[Arrival]:
    """Every call of the run, in the order of time."""
    groups = [(scenario.clients, scenario.arrival_rps)]
    groups += [(group.clients, group.arrival_rps) for group in scenario.others]
    if scenario.closed_loop:
        # The scenario's own clients make their calls one after the other; only the others are open.
        groups[0] = (scenario.clients, 0.0)
    streams: list[Iterator[Arrival]] = [
        _stream(scenario, seed, index, clients, rate)
        for index, (clients, rate) in enumerate(groups)
        if rate > 0
    ]
    streams += [
        _burst(scenario, seed, number, fault)
        for number, fault in enumerate(f for f in scenario.faults if isinstance(f, Burst))
    ]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=_time)


def _time(arrival: Arrival) -> float:
    return arrival[0]


def arrays(scenario: Scenario, seed: int) -> Iterator[tuple[Floats, Ints]]:
    """The same calls as `calls`, of a scenario with one class of clients in an open loop: arrays of their
    times and of their clients, a chunk at a time.
    """
    more = [_burst_calls(scenario, fault) for fault in scenario.faults if isinstance(fault, Burst)]
    late = np.concatenate([np.empty(0), *(times for times, _ in more)])
    order = np.argsort(late, kind="stable")
    late, whose = late[order], np.concatenate([np.empty(0, np.int64), *(who for _, who in more)])[order]
    if scenario.arrival_rps > 0:
        for times, who, _ in _chunks(scenario, seed, 0, scenario.clients, scenario.arrival_rps):
            due = int(np.searchsorted(late, times[-1])) if len(times) and len(late) else 0
            if due:
                times, who = np.concatenate((times, late[:due])), np.concatenate((who, whose[:due]))
                order = np.argsort(times, kind="stable")
                times, who = times[order], who[order]
                late, whose = late[due:], whose[due:]
            yield times, who
    yield late, whose


def _burst_calls(scenario: Scenario, fault: Burst) -> tuple[Floats, Ints]:
    """The calls of a burst."""
    turns = np.arange(fault.calls)
    times = fault.at + turns * (fault.over / fault.calls)
    begun = times < scenario.duration
    return times[begun], (turns % scenario.clients)[begun]


def _stream(scenario: Scenario, seed: int, group: int, clients: int, rate: float) -> Iterator[Arrival]:
    return itertools.chain.from_iterable(
        zip(times.tolist(), itertools.repeat(group), who.tolist(), keys.tolist(), strict=False)
        for times, who, keys in _chunks(scenario, seed, group, clients, rate)
    )


def _chunks(
    scenario: Scenario, seed: int, group: int, clients: int, rate: float
) -> Iterator[tuple[Floats, Ints, Ints]]:
    """Arrays of the times, the clients and the keys of the calls of one class."""
    if group == 0 and isinstance(scenario.arrivals, Trace):
        yield from _recorded(scenario, seed, scenario.arrivals)
        return
    load = Load(scenario, rate)
    draws = generator(seed, f"arrivals {group}")
    even = scenario.arrivals == "even"
    reached = 0.0
    begun = 0
    while reached < load.total:
        if even:
            marks = np.arange(begun, begun + _CHUNK) + 0.5
            who = np.arange(begun, begun + _CHUNK) % clients
        else:
            marks = reached - np.cumsum(np.log1p(-draws.random(_CHUNK)))
            who = draws.integers(clients, size=_CHUNK)
        reached = float(marks[-1])
        keys = _keys(draws, scenario, _CHUNK)
        begun += _CHUNK
        count = int(np.searchsorted(marks, load.total))
        yield load.when(marks[:count]), who[:count], keys[:count]


def _recorded(scenario: Scenario, seed: int, trace: Trace) -> Iterator[tuple[Floats, Ints, Ints]]:
    """The calls of a trace: any client may make any of them."""
    draws = generator(seed, "arrivals 0")
    times = np.array(trace.times)
    times = times[times < scenario.duration]
    for first in range(0, len(times), _CHUNK):
        part = times[first : first + _CHUNK]
        who = draws.integers(scenario.clients, size=len(part))
        yield part, who, _keys(draws, scenario, len(part))


def _keys(draws: np.random.Generator, scenario: Scenario, size: int) -> Ints:
    return draws.integers(scenario.keys, size=size) if scenario.keys > 1 else np.zeros(size, int)


def _burst(scenario: Scenario, seed: int, number: int, fault: Burst) -> Iterator[Arrival]:
    times, who = _burst_calls(scenario, fault)
    keys = _keys(generator(seed, f"burst {number}"), scenario, len(times))
    return zip(times.tolist(), itertools.repeat(0), who.tolist(), keys.tolist(), strict=False)
