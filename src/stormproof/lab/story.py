"""A scenario with a question: what each of several policies makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._policy.policy import Policy
from .._primitives.options import Options, number
from .experiments import compare
from .model.faults import Burst, ColdCache
from .model.scenario import Scenario
from .results.comparison import Comparison


class Story(Options):
    """A scenario with its story (a question), the policies to compare, and the answer."""

    def __init__(
        self,
        name: str,
        title: str,
        question: str,
        answer: str,
        scenario: Scenario,
        policies: dict[str, Policy | None],
        engine: str = "auto",
    ) -> None:
        self.name = name
        self.title = title
        self.question = question
        self.answer = answer
        self.scenario = scenario.replace(name=name)
        self.policies = policies
        self.engine = engine

    def run(self, seeds: Iterable[int] = range(1), **options: Any) -> Comparison:
        """Compare the policies; ``options`` as for `compare`."""
        return compare(self.policies, self.scenario, seeds=seeds, **{"engine": self.engine, **options})

    def scaled(self, factor: float) -> Story:
        """The same with ``factor`` times the clients, the load and the capacity."""
        factor = number("Story", "factor", factor, above=0, most=1)
        old = self.scenario
        faults = tuple(
            fault.replace(calls=max(1, round(fault.calls * factor)))
            if isinstance(fault, Burst)
            else fault.replace(warm=max(1, round(fault.warm * factor)))
            if isinstance(fault, ColdCache)
            else fault
            for fault in old.faults
        )
        return self.replace(
            scenario=old.replace(
                clients=max(1, round(old.clients * factor)),
                arrival_rps=old.arrival_rps * factor,
                capacity_rps=old.capacity_rps * factor,
                queue=None if old.queue is None else round(old.queue * factor),
                faults=faults,
            )
        )

    def __str__(self) -> str:
        return f"{self.title}. {self.question} {self.answer}"

    def __hash__(self) -> int:
        return hash(self.name)
