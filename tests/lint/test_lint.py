"""Lint as a whole: ignore comments, settings, reports in every format, files that are not Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stormproof.lint import RULES, Finding, Settings, SettingsError, check, reports
from stormproof.lint.findings import Place
from stormproof.lint.settings import make
from stormproof.lint.source import TRIGGERS

ROOT = Path(__file__).parents[2]
BARE = "import tenacity\n@tenacity.retry{}\ndef f(): ...\n"


def codes(text: str, settings: Settings | None = None) -> list[str]:
    return [finding.code for finding in check(text, "module.py", settings)]


# Comments.


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("", ["SP002", "SP003"]),
        ("  # stormproof: ignore[SP003]", ["SP002"]),
        ("  # stormproof: ignore[SP002, SP003] - on purpose", []),
        ("  # stormproof: ignore", []),
        ("  #stormproof:ignore[SP003]", ["SP002"]),
        ("  # stormproof: ignore[SP001]", ["SP002", "SP003"]),
        ("  # stormproof: ignore[]", ["SP002", "SP003"]),
        ("  # noqa: SP003", ["SP002", "SP003"]),
    ],
)
def test_comment_ignores_the_named_rules_on_its_line(comment: str, left: list[str]) -> None:
    assert codes(BARE.format(comment)) == left


def test_comment_on_its_own_line_applies_to_the_next() -> None:
    above = BARE.format("").replace("@", "# stormproof: ignore[SP003]\n@")
    assert codes(above) == ["SP002"]
    assert codes(above.replace("]\n@", "]\n\n@")) == ["SP002", "SP003"]


def test_comment_may_ignore_the_whole_file() -> None:
    assert codes("# stormproof: ignore-file[SP003]\n" + BARE.format("")) == ["SP002"]
    assert codes(BARE.format("") + "# stormproof: ignore-file\n") == []


def test_comment_inside_a_long_call_ignores_its_findings() -> None:
    text = "import tenacity\nr = tenacity.Retrying(\n    sleep=s,  # stormproof: ignore\n)\n"
    assert codes(text.replace("  # stormproof: ignore", "")) == ["SP002", "SP003"]
    assert codes(text) == []


def test_comment_in_a_policy_file_ignores_its_line() -> None:
    text = '[policies.a]\nretry = { budget = "none" }  # stormproof: ignore[SP008]\n'
    assert check(text, "stormproof.toml") == []
    assert [f.code for f in check(text.partition("  #")[0], "stormproof.toml")] == ["SP008"]


# Settings.


def test_settings_choose_rules() -> None:
    text = BARE.format("")
    assert codes(text, make({"select": ["SP003"]})) == ["SP003"]
    assert codes(text, make({"ignore": ["SP003"]})) == ["SP002"]
    assert codes(text, make({"select": ["SP003"]}, select=["SP002"])) == ["SP002"], "the command line wins"
    assert codes(text, make({"ignore": ["SP002"]}, ignore=["SP003"])) == [], "ignores add up"
    assert codes(text, make({}, select=["SP00"])) == ["SP002", "SP003"]
    assert codes(text, make({}, select=["SP002,SP003"])) == ["SP002", "SP003"]
    assert codes(text, make({}, select=["ALL"], ignore=["SP002"])) == ["SP003", "SP012"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"selct": ["SP001"]}, "did you mean 'select'"),
        ({"select": "SP001"}, "select: must be a list of strings, got 'SP001'"),
        ({"select": [1]}, "select: must be a list of strings"),
        ({"ignore": ["SP999"]}, "ignore: unknown rule 'SP999'"),
        ({"select": [""]}, "must be a list of strings"),
        ({"select": [","]}, "unknown rule ''"),
    ],
)
def test_settings_that_make_no_sense_are_refused(data: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make(data)
    assert says in str(caught.value)


def test_settings_choose_files_to_lint() -> None:
    chosen = make({"exclude": ["generated", "*_pb2.py"], "policy-files": ["config/*.json"]})
    assert chosen.excluded("src/generated/x.py") and chosen.excluded("generated/x.py")
    assert chosen.excluded("src/api_pb2.py") and not chosen.excluded("src/api.py")
    assert not chosen.excluded("src/generated_by_hand/x.py")
    assert chosen.is_policy_file("deploy/stormproof.toml") and chosen.is_policy_file(
        "payments.stormproof.yml"
    )
    assert chosen.is_policy_file("config/retries.json") and not chosen.is_policy_file("other/retries.json")
    assert not chosen.is_policy_file("pyproject.toml") and not chosen.is_policy_file("stormproof.py")


# Files of all kinds.


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("import retry\n\ndef f(:\n", 3, "is not Python"),
        ("retry = 1\0\n", 1, "is not Python"),
        ("retry = " + "(" * 5000 + ")" * 5000, 1, "is not Python"),
    ],
)
def test_text_that_does_not_parse_is_a_finding(text: str, line: int, says: str) -> None:
    (found,) = check(text, "module.py")
    assert (found.code, found.place.line) == ("SP000", line) and says in found.message


def test_file_that_mentions_nothing_is_not_parsed() -> None:
    assert check("def f(:\n", "module.py") == []
    for rule in RULES:
        if rule.language == "python":
            assert any(trigger in rule.failing for trigger in TRIGGERS)


def test_error_of_a_broken_policy_file_names_the_place() -> None:
    (found,) = check("[policies.a]\nretry = {}\ntimeout = -1\n", "stormproof.toml")
    assert (found.code, found.place.line) == ("SP000", 3) and "timeout" in found.message
    (found,) = check("[policies.a\n", "stormproof.toml")
    assert (found.code, found.place.line) == ("SP000", 1)
    twice = "[[policies.a.strategies]]\nretry = {}\n" * 2
    (found,) = check(twice, "stormproof.toml")
    assert (found.code, found.place.line) == ("SP000", 1) and "one Retry" in found.message


def test_columns_count_characters() -> None:
    text = 'import tenacity\nx = "äöü", tenacity.Retrying()\n'
    found = check(text, "module.py")[0]
    assert text.splitlines()[1][found.place.column - 1 :].startswith("tenacity.Retrying")
    assert found.place.end_column == len(text.splitlines()[1]) + 1


def test_our_own_source_is_clean() -> None:
    files = sorted((ROOT / "src").rglob("*.py"))
    assert len(files) > 50
    assert [f for path in files for f in check(path.read_text("utf-8"), str(path))] == []


# Reports.


def some() -> list[Finding]:
    return [
        Finding("a b.py", Place(3, 5, 4, 9), "SP003", "error", "50% of: this,\nthat", "why", "fix"),
        Finding("stormproof.toml", Place(1, 1, 1, 2), "SP014", "note", "message", "why", "fix"),
    ]


def test_text_report_lists_findings_and_a_total() -> None:
    lines = reports.text(some(), 7).splitlines()
    assert lines[0] == "a b.py:3:5: SP003 error: 50% of: this,"
    assert "SP003 unbounded" in lines and "SP014 no-timeout" in lines
    assert lines[-1] == "2 findings in 7 files"
    assert reports.text([], 1) == "0 findings in 1 file"


def test_json_report_holds_every_finding() -> None:
    data = json.loads(reports.as_json(some(), 7))
    assert data["files"] == 7 and len(data["findings"]) == 2
    first = data["findings"][0]
    assert (first["code"], first["line"], first["column"], first["end_line"], first["end_column"]) == (
        "SP003",
        3,
        5,
        4,
        9,
    )


def test_github_annotations_are_escaped() -> None:
    error, note = reports.github(some(), 7).splitlines()
    assert error == (
        "::error file=a b.py,line=3,col=5,endLine=4,endColumn=9,title=SP003 unbounded"
        "::50%25 of: this,%0Athat. fix"
    )
    assert note.startswith("::notice file=stormproof.toml,line=1,")
    odd = Finding("a,b:c.py", Place(1, 1, 1, 2), "SP001", "warning", "m", "w", "f")
    assert "file=a%2Cb%3Ac.py," in reports.github([odd], 1)
    assert reports.github([], 1) == ""


#: The parts of the SARIF 2.1.0 schema that a log of ours uses, with their requirements.
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string", "format": "uri"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "additionalProperties": False,
    "$defs": {
        "text": {
            "type": "object",
            "required": ["text"],
            "properties": {"text": {"type": "string", "minLength": 1}},
        },
        "run": {
            "type": "object",
            "required": ["tool", "results"],
            "additionalProperties": False,
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "tool": {
                    "type": "object",
                    "required": ["driver"],
                    "additionalProperties": False,
                    "properties": {"driver": {"$ref": "#/$defs/driver"}},
                },
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
        },
        "driver": {
            "type": "object",
            "required": ["name", "rules"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "version": {"type": "string"},
                "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}},
            },
        },
        "level": {"enum": ["none", "note", "warning", "error"]},
        "rule": {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "name": {"type": "string"},
                "shortDescription": {"$ref": "#/$defs/text"},
                "fullDescription": {"$ref": "#/$defs/text"},
                "help": {"$ref": "#/$defs/text"},
                "defaultConfiguration": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"level": {"$ref": "#/$defs/level"}, "enabled": {"type": "boolean"}},
                },
            },
        },
        "result": {
            "type": "object",
            "required": ["message", "ruleId", "level", "locations"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": -1},
                "level": {"$ref": "#/$defs/level"},
                "message": {"$ref": "#/$defs/text"},
                "locations": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/location"}},
            },
        },
        "location": {
            "type": "object",
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "type": "object",
                    "required": ["artifactLocation", "region"],
                    "properties": {
                        "artifactLocation": {
                            "type": "object",
                            "required": ["uri"],
                            "properties": {"uri": {"type": "string", "pattern": "^[^ \\\\]+$"}},
                        },
                        "region": {
                            "type": "object",
                            "required": ["startLine"],
                            "additionalProperties": False,
                            "properties": {
                                name: {"type": "integer", "minimum": 1}
                                for name in ("startLine", "startColumn", "endLine", "endColumn")
                            },
                        },
                    },
                }
            },
        },
    },
}


def test_sarif_is_valid() -> None:
    import jsonschema

    for findings in (some(), []):
        log = json.loads(reports.sarif(findings, 2))
        jsonschema.Draft202012Validator(SARIF).validate(log)
        (run,) = log["runs"]
        rules = run["tool"]["driver"]["rules"]
        assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
        for finding, result in zip(findings, run["results"], strict=True):
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
            assert result["level"] == finding.severity
    first = json.loads(reports.sarif(some(), 2))["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"]["uri"] == "a%20b.py"
    assert first["region"] == {"startLine": 3, "startColumn": 5, "endLine": 4, "endColumn": 9}


def test_rules_can_be_read() -> None:
    text = reports.rules_as_text()
    assert all(rule.code in text and rule.fix in text for rule in RULES)
    assert [row["code"] for row in reports.rules_as_data()] == [rule.code for rule in RULES]
