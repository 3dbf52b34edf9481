"""Search: the policy that recovers fastest within what you promise and what the backend can bear."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from random import Random
from typing import Any

from .._policy.policy import Policy
from .._primitives.errors import AttemptTimeout
from .._primitives.options import Options, count, number, seconds
from .._strategies.retry.retry import Retry
from .experiments import Job, check_run, checked_seeds, run_all
from .model.backend import BackendError
from .model.scenario import Scenario
from .results.comparison import MEANS, summary


def default_space() -> dict[str, Sequence[Any]]:
    """Attempts, schedules and budgets worth trying for a `Retry`."""
    from .._strategies.budget.budget import Budget
    from .._strategies.retry.backoff import Exponential

    return {
        "attempts": [2, 3, 4, 6],
        "backoff": [Exponential(base, cap=cap) for base in (0.05, 0.1, 0.5) for cap in (1.0, 5.0)],
        "budget": [Budget(ratio=ratio) for ratio in (0.05, 0.1, 0.2)] + [None],
    }


class Objective(Options):
    """Goal of a search: the least ``minimise`` (a figure of the summary) such that at least ``availability``
    (0 to 1) of the calls succeed, the peak load is at most ``peak`` times the capacity, there are at most
    ``amplification`` attempts per call, and 99 % of the successes come within ``p99`` seconds. A run that
    does not recover counts as recovering when the run ends. The bounds' defaults bound nothing.
    """

    def __init__(
        self,
        minimise: str = "recovery_time",
        availability: float = 0.0,
        peak: float = math.inf,
        amplification: float = math.inf,
        p99: float = math.inf,
    ) -> None:
        if minimise not in MEANS:
            raise ValueError(f"Objective: minimise must be one of {', '.join(MEANS)}, got {minimise!r}")
        self.minimise = minimise
        self.availability = number("Objective", "availability", availability, least=0, most=1)
        self.peak = number("Objective", "peak", peak, above=0, infinite=True)
        self.amplification = number("Objective", "amplification", amplification, least=1, infinite=True)
        self.p99 = seconds("Objective", "p99", p99, above=0, infinite=True)

    def excess(self, figures: dict[str, Any], scenario: Scenario) -> float:
        """By how much the bounds are broken, as a share of them, added up; 0: all are kept."""
        broken = 0.0
        if self.availability > 0:
            broken += max(0.0, 1.0 - (figures["availability"] or 0.0) / self.availability)
        for value, bound in (
            (figures["peak_rps"], self.peak * scenario.capacity_rps),
            (figures["amplification"], self.amplification),
            (figures["p99"], self.p99),
        ):
            if bound < math.inf:
                broken += math.inf if value is None else max(0.0, value / bound - 1.0)
        return broken


class Trial(Options):
    """One policy that was tried: its options, its summary, what is minimised, and the broken bounds."""

    def __init__(
        self, options: dict[str, Any], policy: Any, figures: dict[str, Any], value: float, excess: float
    ) -> None:
        self.options = options
        self.policy = policy
        self.figures = figures
        self.value = value
        self.excess = excess
        #: The mean peak load, per second.
        self.load: float = figures["peak_rps"]

    def __hash__(self) -> int:
        return id(self)


class Tuning:
    """``trials`` from best to worst; ``best`` is the winning policy (None: nothing keeps the bounds);
    ``front`` is the trade-off: the trials than which none has both less peak load and a better value.
    """

    def __init__(self, trials: list[Trial], objective: Objective) -> None:
        self.objective = objective
        self.trials = sorted(trials, key=lambda trial: (trial.excess, trial.value, trial.load))
        best = self.trials[0]
        self.best: Policy | None = best.policy if best.excess == 0 else None
        self.front = _front(self.trials)

    def __str__(self) -> str:
        first = self.trials[0]
        fitting = sum(trial.excess == 0 for trial in self.trials)
        what = f"{len(self.trials)} policies tried, {fitting} keep the bounds."
        end = f"{self.objective.minimise} {first.value:.4g}, peak load {first.load:,.0f}/s: {first.options!r}"
        lines = [what, f"Best: {end}" if self.best is not None else f"None keeps the bounds; nearest: {end}"]
        lines.append("Trade-off, from the least load:")
        lines += [
            f"  {t.load:10,.0f}/s  {self.objective.minimise} {t.value:.4g}  {t.options!r}" for t in self.front
        ]
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw every trial and the trade-off curve (matplotlib)."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        axis.scatter([t.load for t in self.trials], [t.value for t in self.trials], s=12, color="0.7")
        axis.plot(
            [t.load for t in self.front], [t.value for t in self.front], marker="o", drawstyle="steps-post"
        )
        axis.set_xlabel("peak load, per second")
        axis.set_ylabel(self.objective.minimise)
        figure.savefig(os.fspath(path))


def _front(trials: list[Trial]) -> list[Trial]:
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda t: (t.load, t.value)):
        if not front or trial.value < front[-1].value:
            front.append(trial)
    return front


def tune(
    scenario: Scenario,
    objective: Objective | Callable[[dict[str, Any]], float] | None = None,
    space: Mapping[str, Sequence[Any]] | None = None,
    *,
    policy: Policy | None = None,
    seeds: Iterable[int] = range(5),
    trials: int = 100,
    seed: int = 0,
    executor: Executor | None = None,
    engine: str = "auto",
    save: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Tuning:
    """Try policies made from ``policy`` (None: a `Retry` on what a simulation raises) by the options in
    ``space`` (None: attempts, backoff, budget), each over ``seeds``. At most ``trials`` of them,
    drawn evenly with ``seed`` where there are more. ``objective`` may also be a function of the summary,
    to be minimised.
    """
    check_run("tune", scenario, engine)
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"tune: policy must be a Policy or None, got {policy!r}")
    base = policy if policy is not None else Policy(Retry(on=(BackendError, AttemptTimeout)))
    goal, score = _goal(objective)
    options = _combinations(
        default_space() if space is None else space, count("tune", "trials", trials), seed
    )
    chosen = checked_seeds("tune", seeds)
    policies = [base.with_(**each) for each in options]
    jobs = [
        [Job(f"trial {i}", policy, scenario, one, engine) for one in chosen]
        for i, policy in enumerate(policies)
    ]
    found = []
    for rows, each, policy in zip(run_all(jobs, executor, save, progress), options, policies, strict=True):
        figures = summary(_counted(rows, scenario))
        value = score(figures) if score is not None else figures[goal.minimise]
        excess = goal.excess(figures, scenario)
        found.append(Trial(each, policy, figures, math.inf if value is None else float(value), excess))
    return Tuning(found, goal)


def _goal(objective: object) -> tuple[Objective, Callable[[dict[str, Any]], float] | None]:
    """The bounds to keep, and what to minimise in place of one of the summary's figures, if anything."""
    if objective is None or isinstance(objective, Objective):
        return objective or Objective(), None
    if not callable(objective) or isinstance(objective, type):
        raise TypeError(f"tune: objective must be an Objective, a function or None, got {objective!r}")
    score: Any = objective
    return Objective(), score


def _counted(rows: list[dict[str, Any]], scenario: Scenario) -> list[dict[str, Any]]:
    """The rows with a time for each: a run that did not recover counts as one that did at its end, and one
    that had nothing to recover from as one that did at once.
    """
    rest = max(0.0, scenario.duration - scenario.broken_until)

    def timed(figures: dict[str, Any]) -> dict[str, Any]:
        if figures["recovery_time"] is not None:
            return figures
        return {**figures, "recovery_time": 0.0 if figures["recovered"] else rest}

    return [{**row, "metrics": timed(row["metrics"])} for row in rows]


def _combinations(space: Mapping[str, Sequence[Any]], most: int, seed: int) -> list[dict[str, Any]]:
    if not isinstance(space, Mapping) or not space or any(not len(values) for values in space.values()):
        raise ValueError(f"tune: space must map options to the values they may take, got {space!r}")
    total = math.prod(len(values) for values in space.values())
    if total <= most:
        return [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    combinations = []
    for place in sorted(Random(f"{seed} tune").sample(range(total), most)):
        each = {}
        for name, values in space.items():
            place, index = divmod(place, len(values))
            each[name] = values[index]
        combinations.append(each)
    return combinations
