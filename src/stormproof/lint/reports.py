"""Findings written down: text for people, JSON, SARIF 2.1.0, GitHub annotations, and the rules themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .._version import __version__
from .rules import BY_CODE, RULES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .findings import Finding
    from .rule import Rule

_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def text(findings: Sequence[Finding], files: int) -> str:
    """A line for each finding; then, once for each rule that was broken, why and what to do."""
    lines = [
        f"{f.path}:{f.place.line}:{f.place.column}: {f.code} {f.severity}: {f.message}" for f in findings
    ]
    for code in sorted({finding.code for finding in findings}):
        rule = BY_CODE[code]
        lines += ["", f"{code} {rule.name}", f"  why: {rule.why}", f"  fix: {rule.fix}"]
    looked_at = f"{files:,} file{'' if files == 1 else 's'}"
    count = f"{len(findings):,} finding{'' if len(findings) == 1 else 's'}"
    return "\n".join([*lines, *([""] if lines else []), f"{count} in {looked_at}"])


def as_json(findings: Sequence[Finding], files: int) -> str:
    """Every finding with everything that is known of it."""
    return json.dumps({"files": files, "findings": [finding.as_data() for finding in findings]}, indent=2)


def github(findings: Sequence[Finding], files: int) -> str:
    """A workflow command for each finding, which GitHub shows at its line."""
    levels = {"error": "error", "warning": "warning", "note": "notice"}
    return "\n".join(
        f"::{levels[f.severity]} file={_property(f.path)},line={f.place.line},col={f.place.column},"
        f"endLine={f.place.end_line},endColumn={f.place.end_column},title={f.code} {BY_CODE[f.code].name}"
        f"::{_data(f'{f.message}. {f.fix}')}"
        for f in findings
    )


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def sarif(findings: Sequence[Finding], files: int) -> str:
    """A SARIF log of one run, which code scanning services read."""
    places = {rule.code: place for place, rule in enumerate(RULES)}
    driver = {"name": "stormproof", "version": __version__, "rules": [_descriptor(rule) for rule in RULES]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, places[finding.code]) for finding in findings],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity, "enabled": rule.default},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    from urllib.parse import quote

    place = finding.place
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": f"{finding.message}. {finding.fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(finding.path.replace("\\", "/"))},
                    "region": region,
                }
            }
        ],
    }


WRITERS = {"text": text, "json": as_json, "sarif": sarif, "github": github}


def rules_as_text() -> str:
    """Every rule in a few lines."""
    return "\n\n".join(
        f"{rule.code} {rule.name} ({rule.severity}{'' if rule.default else ', off by default'})\n"
        f"  {rule.summary}\n  why: {rule.why}\n  fix: {rule.fix}"
        for rule in RULES
    )


def rules_as_data() -> list[dict[str, Any]]:
    """Every rule with its samples, as plain data."""
    names = ("code", "name", "severity", "default", "summary", "why", "fix", "language", "failing", "passing")
    return [{name: getattr(rule, name) for name in names} for rule in RULES]
