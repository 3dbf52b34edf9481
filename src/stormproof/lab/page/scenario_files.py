"""Scenarios of the reader's own on the page: policy files that are opened there, and saved from there.

The browser reads and writes the files; the server is given text, and gives text back. What `policy` refuses
in a text is refused here too: no name imports a module, stores are refused, and no other file is opened.
"""

from __future__ import annotations

from typing import Any

from ..._config.detached import detached
from ..._config.errors import ConfigError, Document
from ..._config.registry import to_data
from ..._config.sources import parse
from ..model import scenario_file, scenario_table
from ..model.scenario import Scenario
from ..policy_text import toml
from . import policy as page_policy


def document(text: object) -> Document:
    """Return the policy file that ``text`` is, cut off from modules, stores and other files."""
    if not isinstance(text, str):
        raise ConfigError("must be the text of a policy file")
    if len(text) > page_policy.LONGEST:
        raise ConfigError(f"must be at most {page_policy.LONGEST} characters, got {len(text)}")
    return detached(parse(text, ".toml"), only=page_policy.KNOWN_NAMES)


def scenario(text: object, name: str) -> Scenario:
    """Return the scenario ``name`` of a policy file's text. `ConfigError` says what is wrong, and where."""
    scenario: Scenario = scenario_file.read(Scenario, document(text), name)
    return scenario


def names(text: object) -> list[str]:
    """Return the names of the scenarios in a policy file's text, of which there must be one."""
    names = scenario_file.names(document(text))
    if not names:
        raise ConfigError("must have a table [scenarios.NAME]", key="scenarios")
    return names


def policies(text: str) -> list[tuple[str, str]]:
    """Return the names of the policies in a file's text, each with a text in which it comes first."""
    data = {key: value for key, value in document(text).data.items() if key != "scenarios"}
    known = data.get("policies", {})
    if not known:
        return []
    sheets = [
        page_policy.read(toml({**data, "policies": {name: known[name], **known}}), name) for name in known
    ]
    return [(sheet.name, toml(sheet.data)) for sheet in sheets]


def to_policy_file(name: str, own: Scenario, sheets: list[page_policy.Sheet]) -> str:
    """Return a policy file with ``own`` as the scenario ``name``, and the policies of ``sheets``."""
    row, parties = scenario_table.table(own)
    data: dict[str, Any] = {"policies": {who: to_data(policy) for who, policy in parties.items()}}
    for sheet in sheets:
        shared = {key: value for key, value in sheet.data.items() if key not in ("policies", "scenarios")}
        for section, entries in shared.items():
            data[section] = {**data.get(section, {}), **entries} if isinstance(entries, dict) else entries
        policies, table = data["policies"], sheet.data["policies"][sheet.name]
        label = sheet.name
        while label in policies and policies[label] != table:
            label += " 2"
        policies[label] = table
    return toml({**data, "scenarios": {name: row}})
