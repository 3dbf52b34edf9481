"""The scenarios that the page offers, and how far its sliders go: no page may ask for a run without end."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from ..._config.registry import to_data
from ..model.faults import Outage
from ..model.scenario import Scenario
from ..policy_text import toml
from ..scenarios import ON, scenarios
from ..story import Story
from . import scenario_files

#: Least and most of what a slider gives.
LIMITS: dict[str, tuple[float, float]] = {
    "clients": (1, 100_000),
    "arrival_rps": (0, 20_000),
    "capacity_rps": (1, 50_000),
    "outage_at": (0, 300),
    "outage_lasts": (0.05, 120),
    "timeout": (0.01, 60),
    "duration": (2, 600),
}
MOST_CALLS = 2_000_000
MODES = ("hang", "fail")
SEEDS = 2**32
#: The seed that the page begins with.
SEED = 42

#: What stands for "no timeout" on a slider: longer than any that a scenario has.
_NO_TIMEOUT = LIMITS["timeout"][1]
_OUTAGE_KEYS = ("outage_at", "outage_lasts", "outage_mode")
_FIRST = "metastable"
#: Larger stories run on a smaller scale, which leaves their curves as they are.
_SCALES = (1.0, 0.1, 0.01, 0.001, 0.0001)


#: What the page calls its sliders.
LABELS = {
    "clients": "Clients",
    "arrival_rps": "Arrivals",
    "capacity_rps": "Capacity",
    "outage_at": "Outage at",
    "outage_lasts": "Outage lasts",
    "outage_mode": "Outage mode",
    "timeout": "Timeout",
    "duration": "Duration",
    "seed": "Seed",
}


class BadValue(ValueError):
    """An invalid value from the page: ``field`` says which."""

    def __init__(self, field: str, rule: str, value: object) -> None:
        super().__init__(f"{LABELS.get(field, field)} must be {rule}, got {_shown(value)}")
        self.field = field


def _shown(value: object) -> str:
    """``value`` in the words of the page, which knows JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


@lru_cache(maxsize=1)
def shipped_stories() -> dict[str, tuple[Story, float]]:
    """The shipped stories by name, each on the largest scale that fits the page, and that scale."""
    stories: dict[str, tuple[Story, float]] = {}
    for full_size in sorted(scenarios.values(), key=lambda story: story.name != _FIRST):
        for scale in _SCALES:
            story = full_size.scaled(scale)
            if _fits(story.scenario):
                stories[story.name] = story, scale
                break
    return stories


def _fits(scenario: Scenario) -> bool:
    inside = all(
        LIMITS[name][0] <= getattr(scenario, name) <= LIMITS[name][1]
        for name in ("clients", "arrival_rps", "capacity_rps", "duration")
    )
    return inside and scenario.expected_calls <= MOST_CALLS


def describe_all() -> list[dict[str, Any]]:
    """Return the scenarios as the page lists them."""
    return [
        {
            **_sheet(name, story.scenario),
            "title": story.title + ("" if scale == 1 else f" (1:{round(1 / scale):,})"),
            "story": story.question,
            "answer": story.answer,
            "policies": [
                {"id": f"{name}/{title}", "title": title, "toml": _text(title, policy)}
                for title, policy in story.policies.items()
            ],
        }
        for name, (story, scale) in shipped_stories().items()
    ]


def describe_file(text: Any) -> list[dict[str, Any]]:
    """Describe the scenarios of a policy file that the reader has opened, as `describe_all` does."""
    sheets = []
    for name in scenario_files.names(text):
        own = scenario_files.scenario(text, name)
        # A file may say more than the page can run: that is said when it is opened.
        make(name, values(own), text)
        policies = [
            {"id": f"{name}/{title}", "title": title, "toml": toml}
            for title, toml in scenario_files.policies(text)
        ]
        more = {"title": f"{name} (opened)", "story": "", "answer": "", "policies": policies, "file": text}
        sheets.append({**_sheet(name, own), **more})
    return sheets


def _sheet(name: str, scenario: Scenario) -> dict[str, Any]:
    return {
        "id": name,
        "values": values(scenario),
        **faults(scenario),
        "fixed": [] if len(scenario.outages) == 1 else list(_OUTAGE_KEYS),
    }


def story() -> dict[str, Any]:
    """The run that the page opens with: the first story, its problem and its answer."""
    first = describe_all()[0]
    problem, answer = first["policies"][0], first["policies"][-1]
    policies = [{"toml": each["toml"], "name": each["title"]} for each in (problem, answer)]
    return {"scenario": first["id"], "values": first["values"], "seed": SEED, "policies": policies}


def faults(scenario: Scenario) -> dict[str, Any]:
    """Return the outages and other faults that the strip marks, as in the scenario's data."""
    data = scenario.to_data()
    return {"outages": data["outages"], "faults": data["faults"]}


def _text(title: str, policy: Any) -> str:
    """The text of a story's policy. None is a policy too: one attempt."""
    if policy is None:
        return toml({"policies": {title: {"retry": {"attempts": 1}}}})
    table = to_data(policy)
    if "retry" in table and policy.strategies[0].on == ON:
        # What the simulator raises is transient, and that is what a policy for real use would say.
        table["retry"].pop("on")
    return toml({"policies": {title: table}})


def values(scenario: Scenario) -> dict[str, Any]:
    """Return the values of the sliders for ``scenario``."""
    outage = scenario.outages[0] if scenario.outages else Outage(0, LIMITS["outage_lasts"][0])
    return {
        "clients": scenario.clients,
        "arrival_rps": scenario.arrival_rps,
        "capacity_rps": scenario.capacity_rps,
        "outage_at": outage.at,
        "outage_lasts": outage.lasts,
        "outage_mode": outage.mode,
        "timeout": _NO_TIMEOUT if scenario.timeout is None else scenario.timeout,
        "duration": scenario.duration,
    }


def make(name: object, given: object, file: object = None) -> Scenario:
    """The scenario called ``name`` with the page's values in it. `BadValue` or the scenario's own error.

    ``file`` is the text of the policy file that it stands in; None: it is one of those that ship.
    """
    known = list(shipped_stories()) if file is None else scenario_files.names(file)
    if not isinstance(name, str) or name not in known:
        raise BadValue("scenario", f"one of {', '.join(known)}", name)
    base = shipped_stories()[name][0].scenario if file is None else scenario_files.scenario(file, name)
    if not isinstance(given, dict) or given.keys() != values(base).keys():
        raise BadValue("values", "a table with every slider's value", given)
    checked = {key: _number(key, given[key]) for key in LIMITS}
    if given["outage_mode"] not in MODES:
        raise BadValue("outage_mode", " or ".join(MODES), given["outage_mode"])
    if len(base.outages) == 1 and checked["outage_at"] >= checked["duration"]:
        raise BadValue(
            "outage_at", f"before the end of the run, {checked['duration']:g} s", checked["outage_at"]
        )
    scenario = base.replace(**_changes(base, checked, given["outage_mode"]))
    if scenario.expected_calls > MOST_CALLS:
        raise BadValue(
            "arrival_rps",
            f"so low that at most {MOST_CALLS:,} calls are made on the page",
            scenario.arrival_rps,
        )
    return scenario


def _changes(base: Scenario, checked: dict[str, float], mode: str) -> dict[str, Any]:
    changes: dict[str, Any] = {name: checked[name] for name in ("arrival_rps", "capacity_rps", "duration")}
    changes["clients"] = int(checked["clients"])
    changes["timeout"] = None if checked["timeout"] >= _NO_TIMEOUT else checked["timeout"]
    if len(base.outages) == 1:
        hint = base.outages[0].retry_after
        cost = None if mode == "hang" else base.outages[0].cost
        changes["outage"] = Outage(checked["outage_at"], checked["outage_lasts"], mode, hint, cost)
    return changes


def _number(name: str, value: object) -> float:
    least, most = LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise BadValue(name, f"a number from {least:g} to {most:g}", value)
    if name == "clients" and value != int(value):
        raise BadValue(name, "a whole number", value)
    return value


def seed(value: object) -> int:
    """``value`` as a seed."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < SEEDS:
        raise BadValue("seed", f"a whole number from 0 to {SEEDS - 1}", value)
    return value
