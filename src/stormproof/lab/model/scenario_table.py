"""A scenario as the table ``[scenarios.NAME]`` of a policy file: what `scenario_file` reads, written."""

from __future__ import annotations

import inspect
from typing import Any

from ..._primitives.options import Options
from .scenario import Scenario
from .scenario_file import FAULTS
from .spread import Spread
from .trace import Trace

_KINDS = {made: kind for kind, made in FAULTS.items()}


def table(scenario: Scenario) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scenario's table, without what is as by default, and the policies that it names.

    A ValueError names a field that no file can hold: a function of the user's own.
    """
    policies: dict[str, Any] = {}
    options = {
        name: _value(name, value, policies)
        for name, value in _changed(scenario).items()
        if name not in ("name", "outage")
    }
    if scenario.outages:
        rows = [_plain(_changed(outage)) for outage in scenario.outages]
        options["outage"] = rows[0] if len(rows) == 1 else rows
    return options, policies


def _changed(options: Options) -> dict[str, Any]:
    """The fields whose values are not their defaults."""
    normal = {name: each.default for name, each in inspect.signature(type(options)).parameters.items()}
    if isinstance(options, Scenario):
        normal["service"] = Spread("fixed")
    return {name: value for name, value in options.fields().items() if normal[name] != value}


def _value(name: str, value: Any, policies: dict[str, Any]) -> Any:
    if isinstance(value, Spread):
        return _spread(value)
    if isinstance(value, Trace):
        return {"times": list(value.times)}
    if name == "faults":
        return [{"kind": _KINDS[type(each)], **_plain(_changed(each))} for each in value]
    if name in ("others", "layers"):
        return [_party(each, policies) for each in value]
    if callable(value):
        raise ValueError(f"Scenario: {name} must be data to be saved, got a function: {value!r}")
    return value


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _spread(spread: Spread) -> dict[str, Any]:
    if spread.kind == "samples" and spread.mean in (None, spread.own_mean):
        return {"samples": list(spread.values)}
    if spread.kind == "histogram" and spread.mean in (None, spread.own_mean):
        return {"edges": list(spread.values), "counts": list(spread.weights)}
    if spread.kind in ("samples", "histogram"):
        raise ValueError(f"Spread: mean must be that of its {spread.kind} to be saved, got {spread.mean!r}")
    return _changed(spread) | {"kind": spread.kind}


def _party(party: Any, policies: dict[str, Any]) -> dict[str, Any]:
    """A class of clients or a layer; its policy is named after it."""
    options = _plain(_changed(party))
    if "policy" in options and options["policy"] != "same":
        policies[party.name] = options["policy"]
        options["policy"] = party.name
    return options
