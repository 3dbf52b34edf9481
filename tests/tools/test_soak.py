"""Seconds of what `make load` does for minutes: everything fails at once, and nothing is left over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from verification.soak import page
from verification.soak.acceptance import OTHERS, bars, received
from verification.soak.outcomes import Ledger, Undocumented, name_of
from verification.soak.run import Outcome, Setting, run
from verification.soak.scheduler_lag import Lag
from verification.soak.treatments import MIX, Mind, body_of

import stormproof as sp

SHORT = Setting(
    8.0,
    tasks=150,
    threads=12,
    kill_every_s=3.0,
    away_s=(0.3, 0.8),
    outage_every_s=4.0,
    outage_s=1.0,
    retries=30,
    idle_s=1.0,
    sample_s=0.5,
)


@pytest.mark.long
@pytest.mark.redis
@pytest.mark.proves("fault redis-killed")
def test_short_storm_meets_every_bar_of_the_soak(measured: Callable[[str], None]) -> None:
    outcome = run(SHORT)
    assert outcome.client["failures"] == []
    assert [f"{bar.name}: {bar.seen}" for bar in bars(outcome) if not bar.met] == []
    calls = sum(outcome.client["ended"].values())
    # How many depends on the machine; that there are some shows that the storm lets calls through.
    assert outcome.client["ended"]["200, whole"] > 0
    measured(
        f"{calls:,} calls of {SHORT.tasks} tasks and {SHORT.threads} threads, "
        f"Redis killed {outcome.kills} times, {received(outcome) / calls:.2f} requests a call, nothing left"
    )


# The tool itself: a bar that cannot be missed proves nothing.


def test_server_treats_requests_by_their_shares_and_each_kind_comes_early() -> None:
    mind = Mind(1, outage_every_s=1e9, outage_s=1.0)
    treatments = [mind.treatment("/x").partition(" 0.")[0].partition(" 1.")[0] for _ in range(400)]
    assert set(MIX) < set(treatments[:50])
    assert {name: treatments.count(name) / 4 for name in MIX} == MIX


_ENDED = {"200, whole": 1000, "CircuitOpen": 10}
_EVENTS = {
    "Retrying": 5,
    "Hedged": 5,
    "StoreDown": 20,
    "StoreUp": 20,
    "BreakerChanged open": 9,
    "BreakerChanged closed": 9,
}
_QUIET: dict[str, Any] = {
    "samples": [(float(at), 110.0, 50, 200, 20, 150, 10.0, 60, 0) for at in range(600)],
    "ended": _ENDED,
    "failed": 0,
    "failures": [],
    "late": {"tasks": [], "threads": []},
    "lag": {"loop": 0.01, "threads": 0.01},
    "events": _EVENTS,
    "held": [],
    "slots": [],
    "left": {"tasks": {}, "objects": {}, "threads": {}, "descriptors": {}},
    "complaints": 0,
    "heard": [],
}


def _outcome(**client: Any) -> Outcome:
    counts = {**dict.fromkeys((*MIX, *OTHERS), 1), "requests": 1010}
    return Outcome(Setting(600.0), {**_QUIET, **client}, {"open": 0, "counts": counts}, 20, 700.0)


def _missed(outcome: Outcome) -> list[str]:
    return [bar.name for bar in bars(outcome) if not bar.met]


def _rising(place: int, by: float) -> list[tuple[float, ...]]:
    """Samples of which one column grows evenly, by ``by`` in all."""
    grown = []
    for sample in _QUIET["samples"]:
        sample = list(sample)
        sample[place] *= 1 + by * sample[0] / 600
        grown.append(tuple(sample))
    return grown


@pytest.mark.parametrize(
    ("client", "missed"),
    [
        ({}, []),
        ({"failed": 1}, ["every call ended as the docs say"]),
        ({"samples": _rising(1, 0.04)}, ["memory in use grows by at most 2%"]),
        ({"samples": _rising(1, 0.02)}, []),
        ({"samples": _rising(2, 2.0)}, ["descriptors beside the pools' stay as many"]),
        (
            {"samples": [*_QUIET["samples"], (600.0, *_QUIET["samples"][-1][1:-1], 1)]},
            ["no connection is lost"],
        ),
        ({"samples": _rising(3, 0.5)}, ["asyncio tasks stay as many"]),
        ({"samples": _rising(4, 4.0)}, ["threads stay as many"]),
        ({"late": {"tasks": [(0.7, 0.01, "x")], "threads": []}}, ["tasks: no call past its deadline"]),
        ({"late": {"tasks": [(0.5, 0.1, "x")], "threads": []}}, []),
        ({"late": {"tasks": [], "threads": [(3.5, 0.01, "x")]}}, ["threads: no call past its deadline"]),
        ({"left": {"threads": {"stormproof-worker": 1}}}, ["threads are gone at the end"]),
        ({"held": ["bulkhead: 1 in use"]}, ["places, tokens, probes and the budget are back"]),
        (
            {"slots": ["tasks, reads: {'PoolTimeout': 24} of 24"]},
            ["every connection and stream of the pools serves again"],
        ),
        ({"complaints": 1, "heard": ["unclosed"]}, ["no warnings, no lost exceptions"]),
        ({"events": {**_EVENTS, "Retrying": 5000}}, ["retries and hedges stay within the budget"]),
        ({"events": {**_EVENTS, "StoreDown": 1}}, ["the Redis was killed as often as it should"]),
        ({"events": {**_EVENTS, "BreakerChanged open": 0}}, ["the breaker opened, and closed again"]),
        ({"events": {**_EVENTS, "BreakerChanged closed": 0}}, ["the breaker opened, and closed again"]),
    ],
)
def test_each_bar_can_be_missed(client: dict[str, Any], missed: list[str]) -> None:
    assert _missed(_outcome(**client)) == missed


class _Lagging(Lag):
    """A machine that is late by a given time."""

    def __init__(self, by_s: float) -> None:
        super().__init__()
        self._by_s = by_s

    def worst(self, seconds: float) -> float:
        return self._by_s


def test_late_call_counts_beside_calls_excused_by_machine_lag() -> None:
    ledger = Ledger()
    ledger.was_late("tasks", 0.40, "200, whole", _Lagging(0.0))
    for _ in range(10):
        ledger.was_late("tasks", 0.42, "200, whole", _Lagging(0.42))
    assert _missed(_outcome(late=ledger.late)) == ["tasks: no call past its deadline"]


def test_connections_left_at_the_server_are_a_miss() -> None:
    outcome = _outcome()
    outcome.server["open"] = 1
    assert _missed(outcome) == ["the server has no connection left"]


def test_protocol_error_of_a_client_is_a_miss() -> None:
    outcome = _outcome()
    outcome.server["counts"]["HTTP/2 protocol errors"] = 1
    assert _missed(outcome) == ["no HTTP/2 connection was broken by a cut"]


def test_fault_that_the_server_never_injected_is_a_miss() -> None:
    outcome = _outcome()
    del outcome.server["counts"]["silence"]
    assert _missed(outcome) == ["the server did all that it can"]


def test_short_run_is_not_judged_by_memory() -> None:
    outcome = replace(_outcome(samples=_rising(1, 1.0)), setting=Setting(30.0))
    assert _missed(outcome) == []


def _answered(content: bytes, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=content, request=httpx.Request("GET", "http://x/task1/2"))


def test_answer_counts_only_if_whole_and_for_its_path() -> None:
    whole = body_of("/task1/2")
    assert name_of(_answered(whole), "/task1/2", False) == "200, whole"
    for response, path in ((_answered(whole[:-1]), "/task1/2"), (_answered(whole), "/task1/3")):
        with pytest.raises(Undocumented, match="not whole, or to another question"):
            name_of(response, path, False)
    with pytest.raises(Undocumented, match="nobody sent"):
        name_of(_answered(b"", 404), "/task1/2", False)


def test_only_documented_errors_have_a_name() -> None:
    assert name_of(httpx.ReadError("x"), "/", False) == "httpx.ReadError"
    assert name_of(sp.CircuitOpen("x"), "/", False) == "CircuitOpen"
    assert name_of(sp.Cancelled("x"), "/", True) == "called off by the caller"
    for error in (sp.Cancelled("x"), sp.BudgetExhausted("x"), RuntimeError("x"), KeyError("x")):
        with pytest.raises(Undocumented):
            name_of(error, "/", False)


def test_page_is_made_from_the_figures_alone(tmp_path: Path) -> None:
    page.write(_outcome(), tmp_path / "load.json", tmp_path / "soak.md")
    figures = json.loads((tmp_path / "load.json").read_text(encoding="utf-8"))
    assert (tmp_path / "soak.md").read_text(encoding="utf-8") == page.text(figures)
    assert "| 200, whole | 1,000 |" in page.text(figures)


def test_page_in_the_docs_is_that_of_the_figures() -> None:
    assert page.PAGE.exists() == page.FIGURES.exists()
    if not page.FIGURES.exists():
        return
    figures = json.loads(page.FIGURES.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == page.text(figures)
