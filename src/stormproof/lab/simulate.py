"""`simulate`: the user's policy, a scenario, a seed; the choice of engine; warnings for the user."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from contextvars import Context
from typing import Any

from .._policy.checks import PolicyWarning
from .._policy.policy import Policy
from .._primitives.errors import AttemptTimeout
from .._primitives.options import choice, count, source
from .._strategies.retry.retry import Retry
from ..presets.policy_of import policy_of
from .engines.engine import MOST_CALLS
from .engines.plain_engine import PlainDirect, is_plain
from .engines.policy_shape import Shape, shape
from .engines.processes import limited
from .engines.rules_engine import Direct
from .engines.task_engine import Driven
from .model.backend import BackendError
from .model.faults import Burst, Spike
from .model.scenario import Scenario
from .results.recorder import Raw, SoFar, series
from .results.result import Result, Series

#: From this many calls on, in all runs of an experiment, "auto" takes the fast engine where it can: before,
#: compiling takes longer.
MANY_CALLS = 300_000

#: More calls than this are a typing mistake (a Spike by 1e9): they would take the fast engine hours.
MOST_FAST_CALLS = 1_000_000_000


class Progress:
    """Progress of a run: ``now`` of ``until`` seconds, and the columns so far."""

    def __init__(self, state: Raw | SoFar, scenario: Scenario) -> None:
        self.now = state.until
        self.until = scenario.duration
        self._state = state
        self._scenario = scenario

    @property
    def series(self) -> Series:
        state = self._state
        return series(state if isinstance(state, Raw) else state.raw(), self._scenario)


def simulate(
    policy: object,
    scenario: Scenario,
    *,
    seed: int = 0,
    engine: str = "auto",
    progress: Callable[[Progress], object] | None = None,
    name: str | None = None,
) -> Result:
    """Run ``scenario`` with every client calling under ``policy``: a Policy, a strategy, a function decorated
    with one, or None for one plain attempt per call.

    The same seed gives the same result. ``engine`` is "exact" (the policy's own code), "fast" (compiled
    copies of the built-in strategies, for millions of clients; what it cannot do, the exact one does, and
    the result's notes say why) or "auto". ``progress`` is called about 40 times with a `Progress`; if it
    returns False the run ends there.
    """
    policy = checked_policy(policy)
    if not isinstance(scenario, Scenario):
        raise TypeError(f"simulate: scenario must be a lab.Scenario, got {scenario!r}")
    seed = count("simulate", "seed", seed, least=0)
    choice("simulate", "engine", engine, ("auto", "exact", "fast"))
    if progress is not None and not callable(progress):
        raise TypeError(f"simulate: progress must be callable or None, got {progress!r}")
    for mismatch in mismatches(policy, scenario):
        warnings.warn(f"simulate: {mismatch}", PolicyWarning, stacklevel=2)
    return run_checked(policy, scenario, seed, engine, progress, name)


def run_checked(
    policy: Policy | None,
    scenario: Scenario,
    seed: int,
    engine: str,
    progress: Callable[[Progress], object] | None = None,
    name: str | None = None,
    calls: float | None = None,
) -> Result:
    """`simulate` with everything checked and every mismatch reported already.

    ``calls`` is about how many calls the whole experiment makes, by which "auto" chooses (None: this run's).
    """
    watch = None if progress is None else _watched(progress, scenario)
    label = name or (policy.name if policy is not None else None) or "policy"
    notes: tuple[str, ...] = ()
    if engine != "exact":
        calls = scenario.expected_calls if calls is None else calls
        why_not = _not_fast(policy, scenario, engine, calls)
        if why_not is None:
            from .engines.numba import engine as fast  # type: ignore[attr-defined,unused-ignore]

            _bound_calls(scenario, "fast", MOST_FAST_CALLS)
            raw = fast.run(policy, scenario, seed, watch)
            return Result(policy, scenario, seed, "fast", raw, name=label)
        if engine == "fast":
            notes = (f"Run by the exact engine: {why_not}.",)
    return Result(policy, scenario, seed, "exact", exact(policy, scenario, seed, watch), notes, label)


def checked_policy(policy: object) -> Policy | None:
    """Return the policy of ``policy`` (`stormproof.policy_of`), or None for one plain attempt per call."""
    try:
        return None if policy is None else policy_of(policy)
    except TypeError:
        raise TypeError(
            "simulate: policy must be a Policy, a strategy, a decorated function, a tenacity retry object or "
            f"None, got {policy!r}"
        ) from None


def _watched(progress: Callable[[Progress], object], scenario: Scenario) -> Callable[[Raw | SoFar], object]:
    return lambda state: progress(Progress(state, scenario))


def exact(
    policy: Policy | None,
    scenario: Scenario,
    seed: int,
    watch: Callable[[Raw | SoFar], object] | None = None,
    way: str = "auto",
) -> Raw:
    """The exact engine. ``way``: "direct" calls the rules, "driven" the compiled policy, "auto" chooses."""
    _bound_calls(scenario, "exact", MOST_CALLS, "; use engine='fast'")
    groups: list[tuple[tuple[Any, ...], int, float | None]] = [
        (() if policy is None else policy.strategies, scenario.clients, scenario.timeout)
    ]
    for other in scenario.others:
        own = policy if other.policy is None else other.policy
        limit = scenario.timeout if other.timeout is None else other.timeout
        groups.append((() if own is None else own.strategies, other.clients, limit))
    shapes = [shape(limited(row, limit)) for row, _, limit in groups]
    reasons = [each for each in shapes if isinstance(each, str)]
    why = reasons[0] if reasons else ""
    if scenario.connections is not None:
        why = "attempts wait for a connection"
    if scenario.layers:
        why = "services call services"
    if way == "direct" and why:
        raise ValueError(f"exact: way must be 'driven' or 'auto' here: {why}")
    run: Direct | PlainDirect | Driven
    if why or way == "driven":
        run = Driven(groups, scenario, seed, watch)
    else:
        forms = [each for each in shapes if isinstance(each, Shape)]
        rows = [(form, size, limit) for form, (_, size, limit) in zip(forms, groups, strict=True)]
        kind = PlainDirect if is_plain(rows, scenario) else Direct
        run = kind(rows, scenario, seed, watch)
    # An empty context: no deadline, no attempt, and no switched-off policy of the caller reaches inside.
    raw = Context().run(run.run)
    raw.path = "driven" if isinstance(run, Driven) else "direct"
    raw.why = why
    return raw


def _bound_calls(scenario: Scenario, engine: str, most: int, advice: str = "") -> None:
    """Refuse a run that would not end; the error names the field that makes it too long."""
    total = scenario.expected_calls
    if total <= most:
        return
    plain = scenario.replace(faults=[f for f in scenario.faults if not isinstance(f, (Burst, Spike))])
    loud = [f for f in scenario.faults if isinstance(f, (Burst, Spike))]
    if plain.expected_calls > total / 2:
        what = f"arrival_rps times duration (got {scenario.arrival_rps:g}/s for {scenario.duration:g} s)"
    else:
        what = f"faults (got {', '.join(map(repr, loud))})"
    raise ValueError(
        f"Scenario: {what} must make at most {most:,} calls for the {engine} engine, got about "
        f"{total:,.0f}{advice}"
    )


def _not_fast(policy: Policy | None, scenario: Scenario, engine: str, calls: float) -> str | None:
    """Say why the fast engine is not to run this; None: it is."""
    for needed in ("numba", "stormproof.lab.engines.numba.engine"):
        if importlib.util.find_spec(needed) is None:
            return f"{needed} is not installed"
    if engine == "auto" and calls < MANY_CALLS:
        return "there are too few calls for it to be worth compiling"
    from .engines.numba import engine as fast  # type: ignore[attr-defined,unused-ignore]

    reason: str | None = fast.why_not(policy, scenario)
    return reason


def mismatches(policy: Policy | None, scenario: Scenario) -> list[str]:
    """Return warnings for the user: policies that do not retry what fails in a simulation."""
    every = [("the policy", policy)]
    every += [(f"the policy of clients {other.name!r}", other.policy) for other in scenario.others]
    own = [layer for layer in scenario.layers if not isinstance(layer.policy, str)]
    every += [(f"the policy of layer {layer.name!r}", layer.policy) for layer in own]
    return [
        f"on={source(retry.on)} of {whose} matches neither lab.BackendError (a ConnectionError) nor "
        "AttemptTimeout, the failures of a simulation, so it retries nothing here"
        for whose, one in every
        for retry in _retries(one)
        if not retry.judge(BackendError()).retry and not retry.judge(AttemptTimeout()).retry
    ]


def _retries(policy: Policy | None) -> list[Retry]:
    return [] if policy is None else [part for part in policy.strategies if isinstance(part, Retry)]
