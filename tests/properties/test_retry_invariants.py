"""Invariants 1, 2, 4 and 6: how often a call is made, how long it waits, and what comes out of it."""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.scripted import Bang, Boom, asks, each_way, every_way, retry, takes

import stormproof as sp

Measured = Callable[[str], None]

# 1. calls <= attempts; exactly 1 if the first succeeds; 0 if the deadline has passed.

FAILS = [Boom, asks(2), takes(3, Boom)]
FATAL = [Bang, sp.Permanent(Boom()), asks(100)]
OUTCOMES = st.sampled_from([*FAILS, *FAILS, *FATAL, "ok"])


def ends_at(script: list[Any]) -> float:
    """The number of the call that nothing follows but for a limit on them, by the script alone."""
    ends = [place for place, outcome in enumerate(script, 1) if outcome == "ok" or outcome in FATAL]
    return min(ends, default=math.inf)


@pytest.mark.proves("invariant 1")
@every_way
def test_retry_makes_at_most_the_allowed_attempts(play: Any, measured: Measured) -> None:
    calls, firsts = [], []

    @settings(max_examples=40)
    @given(
        attempts=st.integers(1, 8),
        script=st.lists(OUTCOMES, min_size=1, max_size=9),
        within=st.none() | st.floats(0, 40),
        limit=st.none() | st.floats(0.001, 60),
        burst=st.none() | st.integers(0, 5),
    )
    @example(attempts=8, script=["ok", Boom], within=None, limit=None, burst=None)
    @example(attempts=8, script=[Boom], within=None, limit=None, burst=None)
    def check(
        attempts: int, script: list[Any], within: float | None, limit: float | None, burst: int | None
    ) -> None:
        budget = None if burst is None else sp.Budget(burst=burst)
        policy = retry(attempts=attempts, within=within, budget=budget)
        seen = play(policy, *script, ..., inside=lambda: sp.deadline(limit))
        calls.append(seen.calls)
        most = min(attempts, ends_at(script))
        assert 1 <= seen.calls <= most
        if script[0] == "ok":
            firsts.append(seen.calls)
        if within is limit is burst is None:
            assert seen.calls == most
        if burst is not None:
            assert seen.calls <= 1 + burst

    check()
    assert firsts and set(firsts) == {1}
    measured(
        f"{len(calls):,} policies and scripts ({play.name}): {sum(calls):,} calls, never one more than "
        f"`attempts`; {len(firsts)} that succeed at first made 1 call each"
    )


@contextlib.contextmanager
def used_up(limit: float) -> Iterator[None]:
    with sp.deadline(limit) as scope:
        scope.clock.advance(limit)  # type: ignore[attr-defined]
        yield


@contextlib.contextmanager
def called_off() -> Iterator[None]:
    with sp.deadline(3600) as scope:
        scope.cancel()
        with sp.deadline(None):
            yield


@contextlib.contextmanager
def longer_inside(limit: float) -> Iterator[None]:
    with used_up(limit), sp.deadline(3600):
        yield


PASSED = {
    "zero": lambda: sp.deadline(0),
    "used up": lambda: used_up(5),
    "used up around a longer one": lambda: longer_inside(5),
    "cancelled": called_off,
}


@pytest.mark.proves("invariant 1")
@every_way
def test_call_past_the_deadline_makes_no_attempt(play: Any, measured: Measured) -> None:
    seen = {name: play(retry(), "never", inside=inside) for name, inside in PASSED.items()}
    for name, played in seen.items():
        played.raised(sp.Cancelled if name == "cancelled" else sp.DeadlineExceeded).made(0).slept()
    measured(f"{len(seen)} ways to be too late ({play.name}): {sum(p.calls for p in seen.values())} calls")


# 2. 0 <= wait <= bound, finite, for n up to 10^6 and any valid config.

FAR = 10**6
LARGEST = math.nextafter(math.inf, 0.0)

durations = st.one_of(st.floats(0.0, LARGEST), st.floats(0.001, 1000.0), st.sampled_from([0.0, 5e-324]))
positive = durations.filter(bool)
draws = st.floats(0.0, 1.0, exclude_max=True) | st.just(math.nextafter(1.0, 0.0))
retry_numbers = st.integers(0, 30) | st.integers(0, FAR) | st.sampled_from([1023, 1024, 1100, FAR])
jitters = st.sampled_from(["none", "full", "equal"]) | st.builds(sp.Symmetric, st.floats(0, 1))
factors = st.floats(1.0, 4.0) | st.floats(1.0, LARGEST) | st.just(math.nextafter(1.0, 2.0))


@st.composite
def configs(draw: st.DrawFn) -> Any:
    kind = draw(
        st.sampled_from([sp.Exponential, sp.Linear, sp.Fibonacci, sp.Decorrelated, sp.Constant, sp.Schedule])
    )
    options: dict[str, Any] = {}
    if kind in (sp.Constant, sp.Schedule):
        options["min"] = draw(durations)
        first = draw(durations if kind is sp.Constant else st.lists(durations, min_size=1, max_size=5))
    else:
        first, cap = sorted([draw(positive), draw(positive)])
        options |= {"cap": cap, "min": min(draw(st.just(0.0) | durations), cap)}
    if kind is sp.Exponential:
        options["factor"] = draw(factors)
    if kind is sp.Decorrelated:
        options["clip"] = draw(st.sampled_from(["range", "sample"]))
    else:
        options["jitter"] = draw(jitters)
    return kind(first, **options)


def ceiling(b: Any, n: int) -> Decimal:
    """The specification's ceiling, in 60 digits, of the options alone."""
    if isinstance(b, sp.Constant):
        return Decimal(b.wait)
    if isinstance(b, sp.Schedule):
        return Decimal(b.values[min(n, len(b.values) - 1)])
    if isinstance(b, sp.Exponential):
        return min(Decimal(b.cap), Decimal(b.base) * Decimal(b.factor) ** n)
    if isinstance(b, sp.Linear):
        return min(Decimal(b.cap), Decimal(b.base) * (n + 1))
    # Golden to the 4,000th power is past the ratio of any two floats.
    a, following = 1, 1
    for _ in range(min(n, 4_000)):
        a, following = following, a + following
    return min(Decimal(b.cap), Decimal(b.base) * a)


def bound(b: Any, n: int, prev: float | None) -> Decimal:
    """The longest wait that the specification's table allows."""
    if isinstance(b, sp.Decorrelated):
        reach = 3 * Decimal(b.base if prev is None else prev)
        high = max(Decimal(b.base), min(Decimal(b.cap), reach))
    else:
        spread = 1 + Decimal(b.jitter.r) if isinstance(b.jitter, sp.Symmetric) else Decimal(1)
        high = spread * ceiling(b, n)
    return min(max(Decimal(b.min), high), Decimal(LARGEST))


@pytest.mark.proves("invariant 2")
def test_every_wait_is_within_the_specified_bound(measured: Measured) -> None:
    seen: list[int] = []

    @settings(max_examples=250)
    @given(configs(), retry_numbers, st.none() | durations, draws)
    def check(b: Any, n: int, prev: float | None, u: float) -> None:
        wait = b.delay(n, prev, u)
        assert type(wait) is float and math.isfinite(wait)
        with localcontext() as context:
            context.prec, context.Emax, context.Emin = 60, 10**17, -(10**17)
            high = bound(b, n, prev)
            # Rounding: a few of the last places, or one step of the smallest floats.
            assert 0.0 <= b.min <= wait
            assert Decimal(wait) <= high * (1 + Decimal("1e-11")) + Decimal(2 * math.ulp(0.0))
        seen.append(n)

    check()
    measured(f"{len(seen):,} random configs, n up to {max(seen):,}: every wait finite, from 0 to its bound")


@pytest.mark.proves("invariant 2")
def test_wait_is_finite_for_every_n_up_to_a_million(measured: Measured) -> None:
    """The schedule with the most to overflow: 1.001**n passes the largest float before n = 710,200."""
    b = sp.Exponential(1e-300, factor=1.001, cap=3600.0, jitter=sp.Symmetric(0.5))
    waits = b.delay(np.arange(FAR + 1), None, np.random.default_rng(7).random(FAR + 1))
    assert len(waits) == FAR + 1 and np.isfinite(waits).all()
    assert 0.0 < waits.min() <= waits.max() <= 1.5 * 3600.0
    measured(f"every n from 0 to {FAR:,}: waits from {waits.min():.3g} s to {waits.max():,.1f} s of 5,400 s")


# Waits of 1e300 seconds are warned of as milliseconds.
@pytest.mark.filterwarnings("ignore::stormproof.PolicyWarning")
@pytest.mark.proves("invariant 2")
@each_way
def test_waits_of_the_loop_are_within_hint_and_ceiling(play: Any, measured: Measured) -> None:
    waits: list[float] = []

    @settings(max_examples=40)
    @given(configs(), st.lists(st.just(Boom) | st.builds(asks, st.floats(0, 100)), min_size=1, max_size=6))
    def check(b: Any, script: list[Any]) -> None:
        policy = retry(attempts=None, within=1e300, backoff=b, max_hint=60)
        seen = play(policy, *script, "ok")
        waits.extend(seen.sleeps)
        prev = None
        with localcontext() as context:
            context.prec, context.Emax, context.Emin = 60, 10**17, -(10**17)
            for place, (outcome, wait) in enumerate(zip(script, seen.sleeps, strict=False)):
                hint = outcome.seconds if isinstance(outcome, asks) else 0.0
                assert 0.0 <= hint <= wait < math.inf and hint <= 60
                # Of a hinted wait our own part is not seen, so its bound is that of the widest one.
                high = bound(b, place, LARGEST if prev is None and place else prev)
                most = max(high * (1 + Decimal("1e-11")), Decimal(hint * 1.1))
                assert Decimal(wait) <= most + Decimal("1e-300")
                prev = None if hint else wait

    check()
    measured(f"{len(waits):,} waits really asked for ({play.name}): all finite, none above its bound")


# 4. Full jitter: the test of its distribution is the loop's own, in unit/test_retry_loop.py. Processes:


def _waits_of_a_call(count: int) -> list[float]:
    """Return the real waits of a call, with no seed, in the process that runs this."""

    def fail() -> None:
        raise Boom

    clock = sp.testing.FakeClock()
    with contextlib.suppress(Boom):
        retry(attempts=count + 1, backoff=sp.Exponential(1, factor=1, cap=1), clock=clock).call(fail)
    return clock.sleeps


def _send_waits(pipe: Any, count: int) -> None:
    pipe.send((os.getpid(), _waits_of_a_call(count)))
    pipe.close()


@pytest.mark.proves("invariant 4")
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_waits_of_two_processes_share_no_prefix(method: str, measured: Measured) -> None:
    count = 1_000
    here = _waits_of_a_call(count)  # the generator of this process exists before the others do
    context = multiprocessing.get_context(method)
    rows: dict[int, list[float]] = {}
    with warnings.catch_warnings():
        # Newer Pythons warn of fork in a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        for _ in range(2):
            reading, writing = context.Pipe(duplex=False)
            child = context.Process(target=_send_waits, args=(writing, count))
            child.start()
            writing.close()
            pid, waits = reading.recv()
            rows[pid] = waits
            child.join(30)
            assert child.exitcode == 0
            reading.close()
    rows[os.getpid()] = _waits_of_a_call(count)
    rows[0] = here
    assert len(rows) == 4 and {len(row) for row in rows.values()} == {count}
    shared = [len(set(mine) & set(other)) for mine, other in itertools.combinations(rows.values(), 2)]
    prefixes = [
        sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(mine, other, strict=True)))
        for mine, other in itertools.combinations(rows.values(), 2)
    ]
    assert max(prefixes) == 0
    assert max(shared) == 0, "one runs behind the other"
    measured(
        f"two {method} children and their parent, {count:,} waits each: longest common prefix "
        f"{max(prefixes)}, {sum(shared)} waits in common"
    )


# 6. The last exception keeps identity and traceback; events sum to calls made.

ITSELF = {"attempts", "fatal", "permanent", "hint", "exhausted", "budget", "within"}


def attempts_in(events: list[Any]) -> int:
    """Return the number of calls that the events report: each is retried, or the last one."""
    names = [type(event).__name__ for event in events]
    assert names.count("Succeeded") + names.count("GaveUp") == 1
    return sum(name in ("Retrying", "Succeeded", "GaveUp") for name in names)


@pytest.mark.proves("invariant 6")
@every_way
def test_events_of_a_call_sum_up_to_its_attempts(play: Any, measured: Measured) -> None:
    calls, errors, refusals = 0, 0, 0

    @settings(max_examples=40)
    @given(
        script=st.lists(
            st.sampled_from([Boom, Boom, Bang, "ok", asks(3), asks(100), takes(4, Boom)]), min_size=1
        ),
        attempts=st.integers(1, 5),
        burst=st.integers(0, 4),
        within=st.none() | st.floats(0, 20),
        limit=st.none() | st.floats(0.001, 20),
        late=st.sampled_from(["stop", "clip"]),
    )
    @example(script=[Boom], attempts=3, burst=4, within=None, limit=None, late="stop")
    @example(script=[Boom], attempts=5, burst=2, within=None, limit=None, late="stop")
    @example(script=[Boom], attempts=5, burst=4, within=None, limit=2.5, late="clip")
    def check(
        script: list[Any], attempts: int, burst: int, within: float | None, limit: float | None, late: str
    ) -> None:
        nonlocal calls, errors, refusals
        policy = retry(attempts=attempts, within=within, budget=sp.Budget(burst=burst), late=late)
        seen = play(policy, *script, ..., inside=lambda: sp.deadline(limit))
        calls += seen.calls
        assert attempts_in(seen.events) == seen.calls
        assert seen.events[-1].attempts == seen.calls
        if seen.error is None:
            return
        if seen.events[-1].reason in ITSELF:
            errors += 1
            last = seen.error
        else:
            refusals += 1
            assert isinstance(seen.error, sp.StormproofError)
            last = seen.error.__cause__
        assert last is seen.last
        names = [frame.name for frame in traceback.extract_tb(last.__traceback__)]
        if last.__traceback__ is not None or seen.events[-1].reason in ITSELF:
            # It leads to the line of the callee that raised it, in the last call and in no other.
            assert names[-1] == "_perform" and names.count("step") == 1

    check()
    assert errors and refusals
    measured(
        f"{calls:,} calls ({play.name}), one event each; {errors} last exceptions raised as they "
        f"are, {refusals} as the cause of a refusal, the callee's line last in their traceback"
    )
