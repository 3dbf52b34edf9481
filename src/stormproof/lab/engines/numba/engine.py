"""The fast engine: compiled copies of the built-in rules, for millions of clients.

It makes the same draws from the same generators in the same order as the exact engine, so that a run comes
out the same, call by call; only the percentiles of the latencies are read from bins (see `_BITS`). What it
cannot run, `why_not` says in words, and the exact engine runs that.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ...._classify.on_clause import judge_marked
from ...model.arrivals import Floats, arrays
from ...model.backend import Refusal, reason_of
from ...model.faults import ColdCache
from ...model.scenario import Scenario
from ...model.spread import Spread
from ...model.timeline import Stretch, stretches
from ...results.recorder import PROGRESS_REPORTS, Raw, steps
from ..engine import ASKED
from ..policy_shape import TIMEOUT, Shape, shape
from ..processes import limited
from . import layout
from .kernel import advance
from .policy import fill_policy, unfit
from .randomness import seeded
from .records import rank

if TYPE_CHECKING:
    from ...._policy.policy import Policy

#: Binary digits of a latency: each bin is at most 0.8 % wide, so that its middle is off by
#: 0.4 % at most; where there are very many steps, 6 % wide, off by 3 %.
_BITS, _FEW_BITS, _MANY_STEPS = 7, 4, 10_000
#: Shorter and longer latencies than 1 us and 36 hours, about, share the outermost bins.
_SHORTEST, _LONGEST = 2.0**-20, 2.0**17

#: A first run that takes longer than this to begin is compiling, and says so.
_NOTICE_AFTER_S = 1.5

#: The compiled loop returns after this number of events, so that Ctrl-C works.
_EVENTS = 2_000_000
_SLOTS = 4096
#: Largest number of buckets of the calendar, as a power of 2.
_MOST_BUCKETS = 23
_MOST_QUEUE = 100_000_000

_KINDS = {"fixed": layout.FIXED, "exponential": layout.EXPONENTIAL, "lognormal": layout.LOGNORMAL}


def why_not(policy: Policy | None, scenario: Scenario) -> str | None:
    """Why the fast engine cannot run this; None: it can."""
    reasons = {
        "clients of a closed loop are not compiled": scenario.closed_loop,
        "several classes of clients are not compiled": bool(scenario.others),
        "services that call services are not compiled": bool(scenario.layers),
        f"the order of service {scenario.order!r} is not compiled": scenario.order != "fifo",
        "service= is a function of the user's own": not isinstance(scenario.service, Spread),
        "latency= is a function of the user's own": not isinstance(scenario.latency, (float, Spread)),
        "spreads of samples and histograms are not compiled": any(
            isinstance(spread, Spread) and spread.kind not in _KINDS
            for spread in (scenario.service, scenario.latency)
        ),
        "pools of connections are not compiled": scenario.connections is not None,
        "the loss of a store is not compiled": any(stretch.store for stretch in stretches(scenario)),
        f"queue= is beyond {_MOST_QUEUE:,}": (scenario.queue or 0) > _MOST_QUEUE,
        "clients= is beyond 2**31": scenario.clients >= 2**31,
    }
    reason = next((why for why, applies in reasons.items() if applies), None)
    return reason if reason is not None else unfit(_shape(policy, scenario))


def _shape(policy: Policy | None, scenario: Scenario) -> Shape | str:
    return shape(limited(() if policy is None else policy.strategies, scenario.timeout))


def run(
    policy: Policy | None, scenario: Scenario, seed: int, progress: Callable[[Raw], object] | None
) -> Raw:
    """Run to the end, or to where ``progress`` returned False."""
    form = _shape(policy, scenario)
    assert isinstance(form, Shape), form
    _prepare()
    world = _world(form, scenario, seed)
    reports = 0 if progress is None else PROGRESS_REPORTS
    end = (np.empty(0), np.empty(0, np.int64))
    for times, who in chain(arrays(scenario, seed), [end]):
        last = times is end[0]
        world.state[0]["next"] = 0
        while (why := advance(world, times, who, last, _EVENTS, reports)) not in (layout.MORE, layout.DONE):
            if why == layout.GROW:
                world = _grown(world)
            elif why == layout.REPORT and progress is not None:
                now = float(world.state[0]["now"])
                if progress(_raw(world, scenario, now)) is False:
                    return _raw(world, scenario, now)
    return _raw(world, scenario, scenario.duration)


_prepared = False


def _prepare() -> None:
    """Compile the kernel, or load it from disk, before the first run of this process."""
    global _prepared
    if _prepared:
        return
    notice = threading.Timer(_NOTICE_AFTER_S, logging.getLogger("stormproof.lab").warning, (_COMPILING,))
    notice.daemon = True
    notice.start()
    try:
        tiny = Scenario(clients=1, arrival_rps=1, duration=1)
        world = _world(Shape(), tiny, 0)
        advance(world, np.empty(0), np.empty(0, np.int64), True, 1, 0)
    finally:
        notice.cancel()
    _prepared = True


_COMPILING = (
    "the lab compiles its fast engine, which takes some seconds and is kept on this machine "
    "(NUMBA_CACHE_DIR says where)"
)


# Making the arrays.


def _world(form: Shape, scenario: Scenario, seed: int) -> layout.World:
    size = steps(scenario.duration, scenario.step)
    rules, state = layout.records(layout.RunRules, 1), layout.records(layout.State, 1)
    answers: list[Refusal | None] = [None]
    answers += [Refusal(503, scenario.retry_after), Refusal(429, scenario.retry_after)]
    row, parts = _row(scenario, answers)
    _fill_scenario(rules[0], scenario, row)
    ceilings = fill_policy(rules[0], form, scenario)
    _fill_state(state[0], row, rules[0])
    bits = _BITS if size <= _MANY_STEPS else _FEW_BITS
    rules[0]["shift"] = 52 - bits
    rules[0]["lowest"] = np.float64(_SHORTEST).view(np.int64) >> (52 - bits)
    bins = int(np.float64(_LONGEST).view(np.int64) >> (52 - bits)) - int(rules[0]["lowest"])
    buckets = 1 << max(10, min(_MOST_BUCKETS, int(scenario.expected_calls).bit_length()))
    rules[0]["wide"] = buckets / scenario.duration
    kind, purses = int(rules[0]["budget"]), 1 if rules[0]["shared"] else scenario.clients
    width = {layout.EARNED: layout.ROW, layout.WINDOW: 2 * layout.ROW}.get(kind, 0)
    purse_calls = 0 if kind == layout.NO_BUDGET else -(-scenario.clients // int(rules[0]["stride"]))
    cold = sorted((f for f in scenario.faults if isinstance(f, ColdCache)), key=lambda fault: fault.at)
    mt, kept = _chance(seed)
    return layout.World(
        rules=rules,
        state=state,
        slots=layout.records(layout.Slot, _SLOTS),
        heap=layout.records(layout.Due, _SLOTS),
        heads=np.zeros(buckets, np.int32),
        row=row,
        parts=parts,
        free=np.zeros(scenario.workers),
        line=np.zeros(1 if scenario.queue is None else scenario.queue + 1),
        begun=np.zeros(size, np.int64),
        cold=layout.records(layout.Cold, [(f.at, f.cost, f.warm) for f in cold]),
        mt=mt,
        kept=kept,
        verdicts=_verdicts(form, answers),
        ceilings=ceilings,
        purses=layout.records(layout.PurseRecord, purses if kind != layout.NO_BUDGET else 0),
        slices=np.zeros((purses, width)),
        asked=np.zeros(purse_calls, np.uint8),
        failures=np.zeros(len(layout.REASONS), np.int64),
        offered=np.zeros(size, np.int64),
        received=np.zeros(size, np.int64),
        done=layout.records(layout.Done, size),
        spreads=np.zeros((size, bins), np.uint32),
        queue=np.full(size, math.nan),
        balance=np.full(size, math.nan),
        scratch=np.zeros(2 * layout.ROW),
    )


def _row(
    scenario: Scenario, answers: list[Refusal | None]
) -> tuple[layout.Rows[layout.StretchRecord], layout.Rows[layout.PartRecord]]:
    """The stretches and the partitions in them; the refusals they give are added to ``answers``."""
    steps = stretches(scenario)
    row = layout.records(layout.StretchRecord, len(steps))
    parts: list[tuple[float, bool]] = []
    for index, stretch in enumerate(steps):
        ends = steps[index + 1].begins if index + 1 < len(steps) else math.inf
        row[index] = (
            stretch.begins,
            ends,
            stretch.capacity,
            stretch.error_rate,
            stretch.extra_s,
            _answer(answers, stretch.fail_hint) if stretch.fails else 0,
            _answer(answers, stretch.error_hint),
            stretch.fail_cost,
            stretch.error_cost,
            len(stretch.parted),
            len(parts),
            _is_quick(stretch, scenario),
        )
        parts += [(share, mode == "hang") for share, mode in stretch.parted]
    return row, layout.records(layout.PartRecord, parts)


def _is_quick(stretch: Stretch, scenario: Scenario) -> bool:
    return not (stretch.fails or stretch.error_rate or scenario.limit_rps is not None)


def _answer(answers: list[Refusal | None], hint: float | None) -> int:
    for index, known in enumerate(answers):
        if known is not None and (known.status, known.hint) == (503, hint):
            return index
    answers.append(Refusal(503, hint))
    return len(answers) - 1


def _verdicts(form: Shape, answers: list[Refusal | None]) -> layout.Rows[layout.VerdictRecord]:
    """Return the policy's verdict on each answer; the first is the timeout."""
    verdicts = layout.records(layout.VerdictRecord, len(answers))
    for index, refusal in enumerate(answers):
        error = TIMEOUT if refusal is None else refusal.error()
        reason = layout.REASONS.index(reason_of(error))
        verdicts[index]["after"], verdicts[index]["reason"] = math.nan, reason
        if form.retry is None:
            continue
        verdict = judge_marked(form.retry.judge, error)
        after = math.nan if verdict.after is None else verdict.after
        counts = verdict.retry or verdict.kind == "pushback"
        verdicts[index] = (
            verdict.retry,
            after,
            verdict.kind == "timeout",
            verdict.kind == "throttle",
            counts,
            reason,
        )
    return verdicts


def _fill_scenario(
    rules: layout.RunRules, scenario: Scenario, row: layout.Rows[layout.StretchRecord]
) -> None:
    latency, service = scenario.latency, scenario.service
    limit = scenario.limit_rps
    spread = latency if isinstance(latency, Spread) else Spread("fixed", latency)
    values = {
        "duration": scenario.duration,
        "step": scenario.step,
        "steps": steps(scenario.duration, scenario.step),
        "near": latency == 0.0 and not row["extra"].any(),
        "clients": scenario.clients,
        "stride": max(1, scenario.clients // ASKED),
        "latency": spread.mean,
        "latency_kind": _KINDS[spread.kind],
        "latency_sigma": spread.sigma,
        "work": scenario.workers / scenario.capacity_rps,
        "work_kind": _KINDS[service.kind],
        "work_sigma": service.sigma,
        "fixed": service.kind == "fixed" and not any(isinstance(f, ColdCache) for f in scenario.faults),
        "queue": -1 if scenario.queue is None else scenario.queue,
        "shed": scenario.shed,
        "limit_rps": 0.0 if limit is None else limit,
        "limit_burst": 0.0 if limit is None else max(1, round(limit)),
    }
    for name, value in values.items():
        rules[name] = value


def _fill_state(state: layout.State, row: layout.Rows[layout.StretchRecord], rules: layout.RunRules) -> None:
    for name in ("free", "won_head", "won_tail", "lost_head", "lost_tail"):
        state[name] = -1
    for name in ("won", "lost", "soonest"):
        state[name] = math.inf
    factor = float(row[0]["capacity"])
    state["until"], state["low"] = row[0]["ends"], np.iinfo(np.int64).max
    state["span"] = math.inf if not rules["fixed"] or factor == 0.0 else float(rules["work"]) / factor
    state["level"] = rules["limit_burst"]


def _chance(seed: int) -> tuple[layout.Words, Floats]:
    """The exact engine's generators, in the order of the kernel's names for them."""
    mt = np.array([seeded(f"{seed} {purpose}") for purpose in ("policy", "errors", "service", "network")])
    return mt, np.full(4, math.nan)


def _grown(world: layout.World) -> layout.World:
    """The same with twice the slots."""
    slots = layout.records(layout.Slot, 2 * len(world.slots))
    slots[: len(world.slots)] = world.slots
    heap = layout.records(layout.Due, len(slots))
    used = int(world.state[0]["heap"])
    heap[:used] = world.heap[:used]
    return world._replace(slots=slots, heap=heap)


# Reading the arrays.


def _raw(world: layout.World, scenario: Scenario, until: float) -> Raw:
    """The columns of the run so far."""
    raw = Raw(scenario.step, until)
    raw.path = "fast"
    size, state = len(raw.offered), world.state[0]
    raw.offered = world.offered[:size].astype(float)
    raw.received = world.received[:size].astype(float)
    raw.succeeded = world.done["count"][:size].astype(float)
    raw.kept = world.done["kept"][:size].astype(float)
    raw.tries = world.done["tries"][:size].astype(float)
    raw.calls, raw.attempts = int(state["calls"]), int(state["attempts"])
    # What succeeds later may have been written down already.
    raw.successes = int(world.done["count"][:size].sum())
    counts = zip(layout.REASONS, world.failures.tolist(), strict=True)
    raw.failures = dict(sorted((reason, count) for reason, count in counts if count))
    raw.queue, raw.budget = world.queue[:size].copy(), world.balance[:size].copy()
    # Few of the bins hold anything: the others are left out before they are ranked.
    first, end = int(state["low"]), int(state["high"]) + 1
    bins, totals = np.zeros((size, 2), np.int64), np.zeros(max(0, end - first), np.int64)
    rank(world.spreads, first, bins, totals)
    # The place -1 is that of the NaN.
    middles = np.append(_middles(world)[first:end], math.nan)
    raw.p50, raw.p99 = middles[bins].T
    if raw.successes:
        wanted = [math.ceil(share * raw.successes) for share in (0.5, 0.99)]
        p50, p99 = middles[np.searchsorted(np.cumsum(totals), wanted)].tolist()
        raw.latency = p50, p99
        raw.mean = float(world.done["took"][:size].sum() / raw.successes)
    return raw


def _middles(world: layout.World) -> Floats:
    """The middle of each bin of latencies."""
    edges = np.arange(world.spreads.shape[1] + 1) + int(world.rules[0]["lowest"])
    values = (edges << int(world.rules[0]["shift"])).view(np.float64)
    return (values[1:] + values[:-1]) / 2
