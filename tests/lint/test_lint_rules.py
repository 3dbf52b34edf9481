"""Every rule: its failing sample fails it, its passing sample passes everything, and its table is whole."""

from __future__ import annotations

import re

import pytest

from stormproof.lint import RULES, Rule, check
from stormproof.lint.settings import make

EVERY = make({}, select=["ALL"])


def path_of(rule: Rule) -> str:
    return "stormproof.toml" if rule.language == "toml" else "sample.py"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_failing_sample_fails(rule: Rule) -> None:
    only = make({}, select=[rule.code])
    found = check(rule.failing, path_of(rule), only)
    assert [finding.code for finding in found] == [rule.code]
    assert found[0].severity == rule.severity
    assert found[0].why == rule.why and found[0].fix == rule.fix
    lines = rule.failing.splitlines()
    assert 1 <= found[0].place.line <= len(lines)
    assert lines[found[0].place.line - 1].strip(), "it points at an empty line"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_passing_sample_passes_the_rule_and_all_default_ones(rule: Rule) -> None:
    assert check(rule.passing, path_of(rule)) == []
    assert check(rule.passing, path_of(rule), make({}, select=[rule.code])) == []


def test_rules_have_consecutive_codes_and_complete_texts() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == [f"SP{number:03}" for number in range(len(RULES))]
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.severity in ("error", "warning", "note")
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert all(text.endswith((".", ")")) for text in (rule.summary, rule.why, rule.fix)), rule.code


def test_python_samples_are_python() -> None:
    for rule in RULES:
        if rule.language == "python":
            compile(rule.failing, rule.code, "exec")
            compile(rule.passing, rule.code, "exec")


def test_rules_off_by_default_are_found_only_if_selected() -> None:
    rule = next(rule for rule in RULES if not rule.default)
    assert rule.code not in {finding.code for finding in check(rule.failing, path_of(rule))}
    assert rule.code in {finding.code for finding in check(rule.failing, path_of(rule), EVERY)}
