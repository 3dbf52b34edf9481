"""``stormproof simulate``: a policy against a scenario of the lab, with a verdict that CI can read."""

from __future__ import annotations

import sys

from ._exit_codes import NEGATIVE, OK
from ._options import Option
from ._outcome import CommandError, UsageError
from ._values import choice, fraction, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..lab import Result
    from ..lab.story import Story

_ENGINES = ("auto", "exact", "fast")

OPTIONS = (
    Option("target", "A policy file, or file:name for one policy of it.", default="", metavar="FILE[:NAME]"),
    Option(
        "scenario",
        "Which scenario; --list tells their names.",
        "--scenario",
        metavar="NAME",
        complete=lambda: list(_scenarios()),
    ),
    Option(
        "python",
        "A policy (or a function decorated with one) in code; imports that module.",
        "--python",
        metavar="MODULE:NAME",
    ),
    Option("seed", "The same seed gives the same result.", "--seed", default="0", metavar="NUMBER"),
    Option("engine", "auto, exact or fast.", "--engine", default="auto", complete=lambda: _ENGINES),
    Option(
        "scale", "This part of the clients, load and capacity: 0.01.", "--scale", default="1", metavar="SHARE"
    ),
    Option("report", "Also write a report: one HTML file, of one policy.", "--report", metavar="FILE"),
    Option("list_all", "Name every scenario and end.", "--list", kind="flag"),
    Option("as_json", "Everything as JSON.", "--json", kind="flag"),
)


def command(
    target: str,
    scenario: str | None,
    python: str | None,
    seed: str,
    engine: str,
    scale: str,
    report: str | None,
    list_all: bool,
    as_json: bool,
) -> int:
    """What a policy does to a backend that breaks and recovers, in virtual time.

    Exit code 1 if the service collapses under a policy. A class of your own that a policy file names in "on"
    stands for the simulated failures.
    """
    known = _scenarios()
    if list_all:
        _list(known, as_json)
        return OK
    number = whole("--seed", seed, least=0)
    choice("--engine", engine, _ENGINES)
    if scenario is None:
        raise UsageError("simulate: give a --scenario; --list tells their names")
    choice("--scenario", scenario, list(known))
    story = known[scenario].scaled(fraction("--scale", scale))
    results = _run(_policies(target, python), story.scenario, number, engine)
    if report is not None:
        _report(results, report)
    _show(results, as_json)
    return OK if all(result.recovered for result in results) else NEGATIVE


def _scenarios() -> Mapping[str, Story]:
    try:
        from ..lab.scenarios import scenarios
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("stormproof"):
            raise
        raise UsageError(f"simulate: {missing.name} is missing: install stormproof[lab]") from missing
    return scenarios


def _policies(target: str, python: str | None) -> dict[str, Any]:
    from . import _policies

    if bool(target) == (python is not None):
        raise UsageError("simulate: give either a policy file or --python MODULE:NAME")
    found: dict[str, Any] = {}
    found.update(_policies.from_python(python) if python is not None else _policies.from_file(target))
    return found


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
    if len(results) != 1:
        raise UsageError(f"--report: must be of one policy, got {len(results)}; name one as file:name")
    try:
        results[0].report(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None


def _list(known: Mapping[str, Story], as_json: bool) -> None:
    if as_json:
        import json

        rows = [
            {"name": name, "title": each.title, "question": each.question} for name, each in known.items()
        ]
        print(json.dumps({"scenarios": rows}, indent=2))
        return
    width = max(map(len, known), default=0)
    for name, each in known.items():
        print(f"{name:<{width}}  {each.title}")


def _show(results: list[Result], as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps({"runs": [result.run_data() for result in results]}, allow_nan=False))
        return
    from textwrap import fill

    from ._style import Style

    style = Style.of(sys.stdout)
    for result in results:
        colours = {"survived": style.green, "recovered late": style.yellow, "collapsed": style.red}
        mark = colours[result.state](result.state)
        told = fill(str(result), 100, initial_indent="  ", subsequent_indent="  ")
        print(f"{style.bold(result.name)}: {mark}\n{told}")
