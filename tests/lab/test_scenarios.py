"""The scenarios that come with the lab: their answers are what comes out."""

from __future__ import annotations

from typing import Any

import pytest

from stormproof import lab
from stormproof.lab.scenarios import contention, scenarios

#: Some are run smaller here; what they say does not depend on their size.
SCALE = {
    "failover": 0.02,
    "video-players": 0.0002,
    "three-layers": 0.4,
    "metastable": 0.2,
    "cold-cache": 0.5,
    "reconnects": 0.1,
}


def summaries(name: str) -> dict[str, dict[str, Any]]:
    story = scenarios[name]
    story = story.scaled(SCALE[name]) if name in SCALE else story
    return story.run(engine="exact").summary


def test_every_story_is_listed() -> None:
    wanted = [
        "config-reload",
        "herd",
        "failover",
        "video-players",
        "three-layers",
        "metastable",
        "cold-cache",
    ]
    assert list(scenarios) == [*wanted, "rolling-deploy", "reconnects"]
    for story in scenarios.values():
        assert story.question.endswith((".", "?"))
        assert story.answer.endswith(".")
        assert story.scenario.name == story.name
        assert len(story.policies) >= 2
        assert story.answer in str(story)


def test_config_reload_story_gives_its_figures() -> None:
    figures = summaries("config-reload")
    assert figures["no jitter"]["peak_rps_after"] == pytest.approx(1000, rel=0.05)
    for kind in ("equal jitter", "full jitter"):
        assert figures[kind]["peak_rps_after"] == pytest.approx(1200, rel=0.15)
        assert figures[kind]["availability"] > 0.999
    assert figures["no retry"]["availability"] == pytest.approx(1 - 100 / 3000, abs=0.001)
    assert figures["no retry"]["peak_rps_after"] == pytest.approx(500, rel=0.05)


def test_herd_story_gives_its_figures() -> None:
    peaks = {name: summary["peak_rps_after"] for name, summary in summaries("herd").items()}
    assert peaks["no jitter"] == pytest.approx(20_000, rel=0.05)
    assert peaks["equal jitter"] == pytest.approx(10_000, rel=0.15)
    assert peaks["full jitter"] == pytest.approx(6_700, rel=0.2)


def test_failover_story_gives_its_figures() -> None:
    figures = summaries("failover")
    usual = 100_000 * SCALE["failover"]
    assert figures["no jitter"]["peak_rps_after"] == pytest.approx(4 * usual, rel=0.1)
    assert figures["full jitter"]["peak_rps_after"] == pytest.approx(3.6 * usual, rel=0.1)
    budgeted = figures["full jitter and budget"]
    assert budgeted["peak_rps_after"] == pytest.approx(usual, rel=0.05)
    assert budgeted["availability"] == pytest.approx(1 - 2 / 12, abs=0.005)
    assert 0.86 < figures["full jitter"]["availability"] < figures["no jitter"]["availability"] < 0.9


def test_video_players_story_gives_its_figures() -> None:
    figures = summaries("video-players")
    met = 0.1 / 12  # the share of the calls that begin in the hiccup
    assert figures["three times at once"]["availability"] == pytest.approx(1 - met, abs=0.001)
    once = figures["once, jittered, one in 30 s"]
    assert once["availability"] == pytest.approx(1 - met / 2, abs=0.002)
    assert once["amplification"] == pytest.approx(1 + met, abs=0.001)


def test_three_layers_story_gives_its_figures() -> None:
    figures = summaries("three-layers")
    assert figures["every layer retries all"]["peak_rps"] > 8 * figures["marks are honoured"]["peak_rps"]
    assert figures["marks are honoured"]["amplification"] < 4


def test_metastable_story_gives_its_figures() -> None:
    figures = summaries("metastable")
    recovered = {name: summary["recovered"] for name, summary in figures.items()}
    assert recovered == {
        "no budget": 0.0,
        "a budget refilled by time": 0.0,
        "a budget refilled by calls": 0.0,
        "a budget earned by success": 1.0,
    }
    assert 120 < figures["a budget earned by success"]["recovery_time"] < 200


def test_cold_cache_story_gives_its_figures() -> None:
    figures = summaries("cold-cache")
    assert figures["no budget"]["recovered"] == 0.0
    assert 10 < figures["budget"]["recovery_time"] < 30


def test_rolling_deploy_story_gives_its_figures() -> None:
    figures = summaries("rolling-deploy")
    assert figures["no retry"]["availability"] == pytest.approx(0.99, abs=0.003)
    assert figures["default"]["availability"] > 0.9995
    assert figures["default"]["amplification"] == pytest.approx(1.01, abs=0.005)


def test_reconnects_story_gives_its_figures() -> None:
    figures = summaries("reconnects")
    assert figures["every second"]["availability"] > 0.99
    assert figures["exponential, full jitter"]["availability"] > 0.99
    assert figures["exponential, no jitter"]["availability"] < 0.9
    assert figures["every second"]["amplification"] > 2 * figures["exponential, full jitter"]["amplification"]


def test_contention_story_gives_its_figures() -> None:
    figures = contention(clients=30, runs=30)
    calls = {name: summary.calls_per_client for name, summary in figures.items()}
    assert min(calls, key=lambda name: calls[name]) == "full jitter"
    assert max(figures, key=lambda name: figures[name].completion_time) == "exponential, no jitter"


def test_smaller_story_keeps_its_proportions() -> None:
    small = scenarios["failover"].scaled(0.01)
    assert (small.scenario.clients, small.scenario.arrival_rps, small.scenario.capacity_rps) == (
        1000,
        1000,
        1200,
    )
    crowd = scenarios["reconnects"].scaled(0.1).scenario
    assert [fault.calls for fault in crowd.faults if isinstance(fault, lab.Burst)] == [2000]
    with pytest.raises(ValueError, match="factor must be"):
        scenarios["failover"].scaled(2)
