"""A Timeout outside the Retry ends all attempts together, and every tool says so.

TOML makes such files by itself: ``timeout = ...`` has to stand before ``[policies.x.retry]``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.cli._app import run
from holdfast.cli._explain_facts import Facts
from holdfast.lint import check

TEXT = """\
[policies.score]
deadline = "5s"
timeout = "500ms"

[policies.score.retry]
attempts = 4
backoff = { base = "100ms" }
"""
DOUBT = "Timeout outside Retry cuts off all attempts together; Deadline is made for that"
RETRY = hf.Retry(on=(ConnectionError, hf.AttemptTimeout), attempts=4, max_hint=0, backoff=hf.Constant(0.1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.toml"
    path.write_text(TEXT)
    return path


def test_the_worst_case_is_what_happens() -> None:
    with pytest.warns(hf.PolicyWarning, match="Timeout outside Retry"):
        policy = hf.Policy(hf.Timeout(0.5), RETRY)

    async def slow() -> None:
        await asyncio.sleep(60)

    async def main(clock: hf.testing.VirtualClock) -> float:
        began = clock.now()
        with pytest.raises(hf.AttemptTimeout):
            await policy.acall(slow)
        return clock.now() - began

    assert hf.testing.run(main) == pytest.approx(0.5)
    assert policy.worst_case().seconds == 0.5


@pytest.mark.filterwarnings("ignore::holdfast.PolicyWarning")
@pytest.mark.parametrize(
    ("row", "one", "whole"),
    [
        ((hf.Timeout(1), RETRY), float("inf"), 1),
        ((RETRY, hf.Timeout(1)), 1, float("inf")),
        ((hf.Timeout(3), RETRY, hf.Timeout(1)), 1, 3),
        ((hf.Deadline(2), hf.Timeout(3), RETRY, hf.Timeout(1)), 1, 2),
        ((RETRY, hf.Deadline(2)), 2, float("inf")),
        ((hf.Timeout(1),), 1, float("inf")),
        ((hf.Deadline(3), hf.Timeout(1)), 1, 3),
    ],
)
def test_what_stands_outside_bounds_the_call_and_what_stands_inside_an_attempt(
    row: tuple[Any, ...], one: float, whole: float
) -> None:
    facts = Facts("p", hf.Policy(*row), None)
    assert (facts.timeout_s, facts.deadline_s) == (one, whole)
    tries = 4 if RETRY in row else 1
    assert facts.worst.seconds == pytest.approx(min(tries * one + (tries - 1) * 0.1, whole))


def test_explain_counts_it_once_and_says_the_doubt(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(file), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert (found["attempt_timeout_s"], found["deadline_s"]) == (None, 0.5)
    assert found["worst_case"]["seconds"] == 0.5
    assert DOUBT in found["advice"]
    assert run(["explain", str(file)]) == 0
    assert DOUBT in capsys.readouterr().out


def test_lint_finds_it() -> None:
    (found,) = check(TEXT, "holdfast.toml")
    assert (found.code, found.place.line) == ("HF015", 5)
    assert found.message == f"policy 'score': {DOUBT}"
    inline = '[policies.score]\nretry = { attempts = 4 }\ntimeout = "500ms"\n'
    assert check(inline, "holdfast.toml") == []
