"""Many runs: policies against each other over seeds, and over the values of a parameter.

Near a threshold one seed proves nothing, so the answer is a probability with its confidence interval.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from .._policy.checks import PolicyWarning
from .._primitives.options import choice, count
from .._version import __version__
from .fingerprint import Unknowable, identity
from .model.scenario import Scenario
from .results.comparison import Comparison
from .results.result_store import ResultStore, Row
from .results.sweep_table import Sweep
from .simulate import checked_policy, mismatches, run_checked

if TYPE_CHECKING:
    import os

    Path = str | os.PathLike[str]

#: In the calm leg of a comparison this share of the attempts fails; its size in calls and clients.
CALM_ERRORS, _CALM_CALLS, _CALM_CLIENTS = 0.01, 10_000, 1_000

#: Runs submitted to an executor ahead of their results.
_AHEAD = 256


class Job(NamedTuple):
    """One run to be made, anywhere: it can be pickled. ``whole`` keeps its columns over time too."""

    name: str
    policy: Any
    scenario: Scenario
    seed: int
    engine: str
    whole: bool = False


class Keys:
    """Keys of runs: equal runs have equal keys in every process, so that each is made once."""

    def __init__(self) -> None:
        #: Of each policy and scenario; all are held by the jobs, so an address is one object's.
        self._known: dict[int, str] = {}
        #: Name -> the part of it without a fingerprint: such runs are repeated every time.
        self.unknown: dict[str, str] = {}

    def of(self, place: int, job: Job) -> str:
        """The key of ``job``, which stands at ``place``. "?" begins one that is good for this time only."""
        begin = ""
        try:
            parts = [self._identity(job.policy), self._identity(job.scenario)]
        except Unknowable as reason:
            self.unknown.setdefault(job.name, str(reason))
            begin, parts = "?", [str(place)]
        text = "\n".join([__version__, job.name, *parts, str(job.seed), job.engine])
        return begin + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def _identity(self, part: object) -> str:
        if id(part) not in self._known:
            self._known[id(part)] = identity(part)
        return self._known[id(part)]


def perform(job: Job, calls: float | None = None) -> Row:
    """Make one run of an experiment of about ``calls`` calls: its row, as plain data."""
    result = run_checked(job.policy, job.scenario, job.seed, job.engine, name=job.name, calls=calls)
    run = result.run_data() if job.whole else None
    return {
        "name": job.name,
        "seed": job.seed,
        "engine": result.engine,
        "metrics": result.metrics,
        "run": run,
    }


def compare(
    policies: Mapping[str, Any],
    scenario: Scenario,
    *,
    seeds: Iterable[int] = range(50),
    executor: Executor | None = None,
    engine: str = "auto",
    save: Path | None = None,
    progress: bool = False,
) -> Comparison:
    """Run every policy over the same seeds, and once in calm: which recover, how often, at what load, and
    which serve the most calls.

    ``executor`` is any `concurrent.futures.Executor` (None: one run after the other, here). ``save`` is a
    file that keeps the results, from which a stopped experiment goes on. ``progress`` shows a bar (rich).
    """
    named = _policies("compare", policies)
    chosen = checked_seeds("compare", seeds)
    check_run("compare", scenario, engine)
    _warn_of_mismatches(named, scenario)
    jobs = [
        [Job(name, policy, scenario, seed, engine, whole=seed == chosen[0]) for seed in chosen]
        for name, policy in named.items()
    ]
    quiet = calm_leg(scenario)
    legs = [Job(name, policy, quiet, chosen[0], engine) for name, policy in named.items()]
    *rows, calm = run_all([*jobs, legs], executor, save, progress)
    by_name = dict(zip(named, rows, strict=True))
    return Comparison(named, scenario, chosen, by_name, dict(zip(named, calm, strict=True)))


def assert_survives(
    policy: object,
    scenario: Scenario,
    *,
    availability: float | None = None,
    recovery_time: float | None = None,
    seeds: Iterable[int] = range(20),
    engine: str = "auto",
) -> None:
    """Raise `AssertionError` unless every run recovers, for a test suite of your own.

    ``availability`` is the least share of calls that must succeed in each run, ``recovery_time`` the most
    seconds from the end of the last fault to recovery; None asks for neither. The error says how many seeds
    fail, and has the verdict of the first.
    """
    checked = checked_policy(policy)
    chosen = checked_seeds("assert_survives", seeds)
    check_run("assert_survives", scenario, engine)
    _warn_of_mismatches({"policy": checked}, scenario)
    jobs = [Job("policy", checked, scenario, seed, engine, whole=True) for seed in chosen]
    failed: list[tuple[int, str]] = []
    for seed, row in zip(chosen, run_all([jobs], None, None)[0], strict=True):
        figures = row["metrics"]
        late = recovery_time is not None and (figures["recovery_time"] or 0.0) > recovery_time
        served = figures["availability"]
        short = availability is not None and served is not None and served < availability
        if not figures["recovered"] or late or short:
            failed.append((seed, row["run"]["verdict"]))
    if failed:
        seed, verdict = failed[0]
        raise AssertionError(f"{len(failed)} of {len(chosen)} seeds failed; seed {seed}: {verdict}")


def calm_leg(scenario: Scenario) -> Scenario:
    """Return ``scenario`` without its faults, with 1 % errors, and no larger than is needed to see them."""
    part = min(1.0, _CALM_CLIENTS / scenario.clients)
    quiet = scenario.replace(
        outage=None,
        faults=(),
        error_rate=max(scenario.error_rate, CALM_ERRORS),
        clients=max(1, round(scenario.clients * part)),
        arrival_rps=scenario.arrival_rps * part,
        capacity_rps=scenario.capacity_rps * part,
        limit_rps=None if scenario.limit_rps is None else scenario.limit_rps * part,
        others=[
            group.replace(arrival_rps=group.arrival_rps * part, clients=max(1, round(group.clients * part)))
            for group in scenario.others
        ],
    )
    wanted = scenario.duration * _CALM_CALLS / max(1.0, quiet.expected_calls)
    return quiet.replace(duration=min(scenario.duration, max(wanted, 10 * (scenario.timeout or 0.0))))


def sweep(
    policies: object,
    scenario: Scenario,
    over: Mapping[str, Sequence[Any]],
    *,
    seeds: Iterable[int] = range(5),
    executor: Executor | None = None,
    engine: str = "auto",
    save: Path | None = None,
    progress: bool = False,
) -> Sweep:
    """Run every policy for every combination of the values in ``over``.

    Its keys are fields of the scenario, or ``"policy.OPTION"`` for an option of the policy.
    """
    named = _policies("sweep", policies if isinstance(policies, Mapping) else {"policy": policies})
    chosen = checked_seeds("sweep", seeds)
    check_run("sweep", scenario, engine)
    points = list(_points(over))
    jobs, places = [], []
    for point in points:
        own = scenario.replace(**{k: v for k, v in point.items() if not k.startswith("policy.")})
        options = {k.removeprefix("policy."): v for k, v in point.items() if k.startswith("policy.")}
        for name, policy in named.items():
            changed = policy if not options or policy is None else policy.with_(**options)
            places.append((point, name))
            jobs.append([Job(name, changed, own, seed, engine) for seed in chosen])
    _warn_of_mismatches(named, scenario)
    rows = run_all(jobs, executor, save, progress)
    return Sweep(tuple(over), [(*place, runs) for place, runs in zip(places, rows, strict=True)])


def run_all(
    groups: list[list[Job]], executor: Executor | None, save: Path | None, progress: bool = False
) -> list[list[Row]]:
    """The rows of the jobs, in their order and groups; what ``save`` already holds is not run again."""
    store = ResultStore(save)
    names = Keys()
    jobs = [job for group in groups for job in group]
    keys = [names.of(place, job) for place, job in enumerate(jobs)]
    if save is not None:
        _warn_of_unknown(names.unknown)
    todo: dict[str, Job] = {}
    for key, job in zip(keys, jobs, strict=True):
        missing = key not in store.rows or (job.whole and store.rows[key].get("run") is None)
        # A scenario that is calm anyway is its own calm leg: the run whose columns are wanted serves both.
        if (missing or key[0] == "?") and not (key in todo and todo[key].whole):
            todo[key] = job
    try:
        with _bar(len(todo), progress) as advance:
            for key, row in _results(todo, executor):
                store.put({"key": key, **row})
                advance()
    finally:
        store.close()
    rows = iter([store.rows[key] for key in keys])
    return [list(itertools.islice(rows, len(group))) for group in groups]


def _results(jobs: dict[str, Job], executor: Executor | None) -> Iterator[tuple[str, Row]]:
    calls = sum(job.scenario.expected_calls for job in jobs.values())
    if executor is None:
        yield from ((key, perform(job, calls)) for key, job in jobs.items())
        return
    waiting = iter(jobs.items())
    out: dict[Future[Row], str] = {}

    def submit(most: int) -> None:
        for key, job in itertools.islice(waiting, most):
            out[executor.submit(perform, job, calls)] = key

    try:
        submit(_AHEAD)
        while out:
            done = next(as_completed(out))
            key = out.pop(done)
            submit(1)
            yield key, done.result()
    finally:
        for future in out:
            future.cancel()


@contextmanager
def _bar(total: int, visible: bool) -> Iterator[Callable[[], object]]:
    """Yield the function that advances a progress bar; without one, a function that does nothing."""
    if not visible:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("simulating", total=total)
        yield lambda: bar.advance(task)


def _policies(owner: str, policies: object) -> dict[str, Any]:
    if not isinstance(policies, Mapping) or not policies:
        raise TypeError(f"{owner}: policies must be a dict of name -> policy, got {policies!r}")
    for name in policies:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{owner}: policies must have texts as names, got {name!r}")
    return {name: checked_policy(policy) for name, policy in policies.items()}


def checked_seeds(owner: str, seeds: Iterable[int]) -> list[int]:
    """Validate ``seeds`` for ``owner`` and return them as a list."""
    chosen = [count(owner, "seeds", seed, least=0) for seed in seeds]
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(f"{owner}: seeds must be at least one, each once, got {chosen!r}")
    return chosen


def _points(over: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    if not isinstance(over, Mapping) or not over or any(not len(values) for values in over.values()):
        raise ValueError(f"sweep: over must map fields to the values they take, got {over!r}")
    if math.prod(len(values) for values in over.values()) > 100_000:
        sizes = {field: len(values) for field, values in over.items()}
        raise ValueError(f"sweep: over must give at most 100,000 combinations, got values: {sizes!r}")
    for values in itertools.product(*over.values()):
        yield dict(zip(over, values, strict=True))


def check_run(owner: str, scenario: object, engine: str) -> None:
    """Raise unless ``owner`` was given a scenario and the name of an engine."""
    if not isinstance(scenario, Scenario):
        raise TypeError(f"{owner}: scenario must be a lab.Scenario, got {scenario!r}")
    choice(owner, "engine", engine, ("auto", "exact", "fast"))


def _warn_of_unknown(unknown: dict[str, str]) -> None:
    for name, what in unknown.items():
        warnings.warn(
            f"save: the runs of {name!r} are repeated each time: it holds {what}, which has no "
            "fingerprint that is the same in another process",
            stacklevel=4,
        )


def _warn_of_mismatches(policies: dict[str, Any], scenario: Scenario) -> None:
    for name, policy in policies.items():
        for mismatch in mismatches(policy, scenario):
            warnings.warn(f"{name}: {mismatch}", PolicyWarning, stacklevel=3)
