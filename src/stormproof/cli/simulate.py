"""``stormproof simulate``: a policy against a scenario of the lab, with a verdict that CI can read."""

from __future__ import annotations

import sys

from ._claims import Assertion
from ._exit_codes import NEGATIVE, OK
from ._options import Option
from ._outcome import CommandError, print_json
from ._policies import PYTHON, TARGET, named, split
from ._values import choice, fraction, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..lab import Result
    from ..lab.story import Story

_ENGINES = ("auto", "exact", "fast")

OPTIONS = (
    TARGET,
    Option(
        "scenario",
        "A scenario that ships (--list names them), or [scenarios.NAME] of a policy file.",
        "--scenario",
        metavar="NAME|FILE[:NAME]",
        complete=lambda: list(_scenarios()),
    ),
    PYTHON,
    Option("seed", "The same seed gives the same result.", "--seed", default="0", metavar="NUMBER"),
    Option("seeds", "Number of seeds to run, from --seed on.", "--seeds", default="1", metavar="NUMBER"),
    Option(
        "claims",
        "What must hold in every run, such as 'availability > 0.99 and recovery_time < 30'; "
        "'mine.p99 < 1' is about the policy mine alone. Repeatable.",
        "--assert",
        kind="many",
        metavar="EXPR",
    ),
    Option("engine", "auto, exact or fast.", "--engine", default="auto", complete=lambda: _ENGINES),
    Option(
        "scale", "This part of the clients, load and capacity: 0.01.", "--scale", default="1", metavar="SHARE"
    ),
    Option("report", "Also write a report of the first seed: one HTML file.", "--report", metavar="FILE"),
    Option("list_all", "Name every scenario and end.", "--list", kind="flag"),
    Option("as_json", "Everything as JSON.", "--json", kind="flag"),
)


def command(
    target: str,
    scenario: str | None,
    python: str | None,
    seed: str,
    seeds: str,
    claims: list[str],
    engine: str,
    scale: str,
    report: str | None,
    list_all: bool,
    as_json: bool,
) -> int:
    """Simulate what a policy does to a backend that breaks and recovers, in virtual time.

    Exit code 1 if the service collapses under a policy in any run, or, with --assert, if a claim does not
    hold. A class of your own that a policy file names in "on" stands for the simulated failures.
    """
    known = _scenarios()
    if list_all:
        _list(known, as_json)
        return OK
    number = whole("--seed", seed, least=0)
    runs = whole("--seeds", seeds, least=1)
    choice("--engine", engine, _ENGINES)
    if scenario is None:
        raise CommandError("simulate: give a --scenario; --list prints their names")
    place = _scenario(scenario, known, fraction("--scale", scale))
    policies = named("simulate", target, python)
    wanted = [Assertion(text, list(policies)) for text in claims]
    results = [result for turn in range(runs) for result in _run(policies, place, number + turn, engine)]
    if report is not None:
        _report(results[: len(policies)], report)
    broken = [claim for claim in wanted if not claim.holds(results)]
    if as_json:
        _show_json(results, wanted)
    else:
        _show(results[: len(policies)])
        _show_seeds(results, list(policies), runs)
        _show_claims(wanted)
    if wanted:
        return NEGATIVE if broken else OK
    return OK if all(result.recovered for result in results) else NEGATIVE


def _scenario(text: str, known: Mapping[str, Story], scale: float) -> Any:
    """The scenario that ``text`` names: one that ships, or one in a policy file."""
    if text in known:
        return known[text].scaled(scale).scenario
    import os

    from .._config.errors import ConfigError, unknown
    from ..lab import Scenario

    file, name = split(text)
    if not os.path.splitext(file)[1]:
        raise CommandError(f"--scenario: {unknown('value', text[:64], list(known))}")
    if scale != 1:
        raise CommandError("--scale: must be 1 for a scenario of a file, whose numbers are its own")
    try:
        return Scenario.load(file, name)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--scenario: {file}: {error.strerror or error}") from None


def _scenarios() -> Mapping[str, Story]:
    try:
        from ..lab.scenarios import scenarios
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("stormproof"):
            raise
        raise CommandError(f"simulate: {missing.name} is missing: install stormproof[lab]") from missing
    return scenarios


def _run(policies: dict[str, Any], scenario: Any, seed: int, engine: str) -> list[Result]:
    from .. import lab

    try:
        return [
            lab.simulate(policy, scenario, seed=seed, engine=engine, name=name)
            for name, policy in policies.items()
        ]
    except (TypeError, ValueError) as error:
        raise CommandError(f"simulate: {error}") from error


def _report(results: list[Result], path: str) -> None:
    from ..lab.results import report
    from ..lab.results.result import data_of

    try:
        report.write(path, data_of(results, results[0].scenario, results[0].seed, results[0].engine))
    except report.PageMissing as problem:
        raise CommandError(f"--report: {problem}") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None


def _list(known: Mapping[str, Story], as_json: bool) -> None:
    if as_json:
        rows = [
            {"name": name, "title": each.title, "question": each.question} for name, each in known.items()
        ]
        print_json({"scenarios": rows})
        return
    width = max(map(len, known), default=0)
    for name, each in known.items():
        print(f"{name:<{width}}  {each.title}")


def _show_json(results: list[Result], claims: list[Assertion]) -> None:
    import json

    data = {
        "runs": [result.run_data() for result in results],
        "claims": [{"claim": claim.text, "runs": claim.runs, "held": claim.held} for claim in claims],
    }
    print(json.dumps(data, allow_nan=False))


def _show_seeds(results: list[Result], names: list[str], runs: int) -> None:
    if runs == 1:
        return
    for name in names:
        states = [result.state for result in results if result.name == name]
        counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        print(f"{name}, {runs} seeds: {counted}")


def _show_claims(claims: list[Assertion]) -> None:
    from ._style import Style

    style = Style.of(sys.stdout)
    for claim in claims:
        mark = style.green("holds") if claim.held == claim.runs else style.red("DOES NOT HOLD")
        print(f"{claim.text}: {mark} in {claim.held} of {claim.runs} runs")


def _show(results: list[Result]) -> None:
    from textwrap import fill

    from ._style import Style

    style = Style.of(sys.stdout)
    for result in results:
        colours = {"survived": style.green, "recovered late": style.yellow, "collapsed": style.red}
        mark = colours[result.state](result.state)
        summary = fill(str(result), 100, initial_indent="  ", subsequent_indent="  ")
        print(f"{style.bold(result.name)}: {mark}\n{summary}")
