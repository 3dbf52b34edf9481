"""The pages that are made from the results of a benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verification.benchmarks import page


def a_run(**changes: Any) -> dict[str, Any]:
    """The results of a run with two groups."""

    def case(name: str, ns: float | None, compared: float | None) -> dict[str, Any]:
        state = "not installed" if ns is None else "measured"
        return {"name": name, "state": state, "figures": {"ns": ns}, "compared": compared}

    bar = {"what": "retry", "state": "met", "measured": 0.7, "limit": 1.5, "goal": None, "why": None}
    groups = [
        {
            "name": "sync",
            "title": "A call that succeeds",
            "baseline": "hand-written loop",
            "units": ["ns"],
            "compared": "ratio",
            "cases": [
                case("hand-written loop", 100.0, 1.0),
                case("Stormproof retry", 70.0, 0.7),
                case("tenacity", None, None),
            ],
            "bars": [bar],
        },
        {
            "name": "outage-retried",
            "title": "A call that fails",
            "baseline": "hand-written loop",
            "units": ["ns"],
            "compared": "ratio",
            "cases": [case("Stormproof, the user's own exception", 6543.0, 6.0)],
            "bars": [],
        },
    ]
    versions = {"nopanic": "0.3.0", "backoff": None, "tenacity": None, "stamina": None}
    facts = {"python": "CPython 3.11.7", "platform": "Linux x86_64", "cpus": 2, "versions": versions}
    return {"cpu": True, **facts, "groups": groups, **changes}


def test_page_has_every_case_and_bar_of_every_run() -> None:
    text = page.page([a_run(), a_run(python="CPython 3.13.0", cpu=False)])
    assert text.count("| Stormproof retry | 70.00 | 0.70 |") == 2
    assert text.count("| hand-written loop (baseline) | 100.0 | 1.00 |") == 2
    assert text.count("| tenacity | not installed |  |") == 2
    assert text.count("- met: retry: 0.70 (at most 1.50)") == 2
    assert "## CPython 3.11.7" in text and "## CPython 3.13.0" in text
    assert text.count("`--cpu`") == 1


def test_costs_are_ratios_to_the_loop_that_succeeds() -> None:
    lines = page.costs(a_run()).splitlines()
    assert "| succeeds: Stormproof retry with its default budget | 0.70 |  |" in lines
    assert "| fails three times, then succeeds: Stormproof retry | 65.4 |  |" in lines
    assert "| succeeds: tenacity |  |  |" not in lines
    assert lines[-1] == "Measured in CPU time, with CPython 3.11.7 on 2 cores, next to nopanic 0.3.0."


def test_command_replaces_the_page_and_the_part_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    results = tmp_path / "run.json"
    results.write_text(json.dumps(a_run()), encoding="utf-8")
    assert page.main([str(results)]) == 0
    assert (tmp_path / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page.page([a_run()])
    assert readme.read_text(encoding="utf-8") == (
        f"before\n{page.BEGIN}\n{page.costs(a_run())}\n{page.END}\nafter\n"
    )
    assert page.main([]) == 2


def test_readme_has_the_part_that_is_replaced() -> None:
    text = (page.ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
