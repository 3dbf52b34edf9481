"""A Timeout outside the Retry ends all attempts together, and every tool says so.

TOML makes such files by itself: ``timeout = ...`` has to stand before ``[policies.x.retry]``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof.cli._app import run
from stormproof.cli._explain_facts import Facts
from stormproof.lint import check

TEXT = """\
[policies.score]
deadline = "5s"
timeout = "500ms"

[policies.score.retry]
attempts = 4
backoff = { base = "100ms" }
"""
DOUBT = "Timeout outside Retry cuts off all attempts together; Deadline is made for that"
RETRY = sp.Retry(on=(ConnectionError, sp.AttemptTimeout), attempts=4, max_hint=0, backoff=sp.Constant(0.1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stormproof.toml"
    path.write_text(TEXT)
    return path


def test_worst_case_is_the_measured_case() -> None:
    with pytest.warns(sp.PolicyWarning, match="Timeout outside Retry"):
        policy = sp.Policy(sp.Timeout(0.5), RETRY)

    async def slow() -> None:
        await asyncio.sleep(60)

    async def main(clock: sp.testing.VirtualClock) -> float:
        began = clock.now()
        with pytest.raises(sp.AttemptTimeout):
            await policy.acall(slow)
        return clock.now() - began

    assert sp.testing.run(main) == pytest.approx(0.5)
    assert policy.worst_case().seconds == 0.5


@pytest.mark.filterwarnings("ignore::stormproof.PolicyWarning")
@pytest.mark.parametrize(
    ("row", "one", "whole"),
    [
        ((sp.Timeout(1), RETRY), float("inf"), 1),
        ((RETRY, sp.Timeout(1)), 1, float("inf")),
        ((sp.Timeout(3), RETRY, sp.Timeout(1)), 1, 3),
        ((sp.Deadline(2), sp.Timeout(3), RETRY, sp.Timeout(1)), 1, 2),
        ((RETRY, sp.Deadline(2)), 2, float("inf")),
        ((sp.Timeout(1),), 1, float("inf")),
        ((sp.Deadline(3), sp.Timeout(1)), 1, 3),
    ],
)
def test_outer_timeout_bounds_the_call_and_inner_timeout_an_attempt(
    row: tuple[Any, ...], one: float, whole: float
) -> None:
    facts = Facts("p", sp.Policy(*row), None)
    assert (facts.timeout_s, facts.deadline_s) == (one, whole)
    tries = 4 if RETRY in row else 1
    assert facts.worst.seconds == pytest.approx(min(tries * one + (tries - 1) * 0.1, whole))


def test_explain_counts_a_timeout_outside_retry_once_and_warns(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(file), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert (found["attempt_timeout_s"], found["deadline_s"]) == (None, 0.5)
    assert found["worst_case"]["seconds"] == 0.5
    assert DOUBT in found["advice"]
    assert run(["explain", str(file)]) == 0
    assert DOUBT in capsys.readouterr().out


def test_lint_finds_a_timeout_outside_a_retry() -> None:
    (found,) = check(TEXT, "stormproof.toml")
    assert (found.code, found.place.line) == ("SP015", 5)
    assert found.message == f"policy 'score': {DOUBT}"
    inline = '[policies.score]\nretry = { attempts = 4 }\ntimeout = "500ms"\n'
    assert check(inline, "stormproof.toml") == []
