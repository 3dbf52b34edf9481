"""Grafana: the panel "Refusals by strategy" showed every operation, whichever was chosen."""

from __future__ import annotations

import json
from pathlib import Path

BOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"


def test_every_series_of_every_panel_is_filtered_by_operation() -> None:
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert queries
    for query in queries:
        assert query.count("stormproof_") == query.count('operation=~"$operation"'), query
