"""The sweep behind the default budget, on a small grid: its figures have a direction, its tables a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from verification.budget_sweep import runs
from verification.budget_sweep import sweep as grid
from verification.budget_sweep.__main__ import DOCS, PAGE, PICTURE, main
from verification.budget_sweep.sweep import Sweep


def test_larger_burst_keeps_a_sparse_fleet_down_for_longer() -> None:
    after = [runs.recovery_s(10_000, burst, False, 100) for burst in (None, 1, 3)]
    assert None not in after
    assert after == sorted(after)  # type: ignore[type-var]


def test_larger_burst_refuses_a_quiet_caller_less() -> None:
    shares = [runs.refused_share(60.0, 0.05, burst, False, days=60) for burst in (1, 3, 10)]
    assert shares[0] > shares[1] > shares[2]


def test_double_charge_refuses_more_and_recovers_sooner() -> None:
    assert runs.refused_share(60.0, 0.05, 3, True, 60) > runs.refused_share(60.0, 0.05, 3, False, 60)
    double, single = (runs.recovery_s(2_000, 3, double, 60) for double in (True, False))
    assert double is not None and single is not None and double <= single


def test_tables_and_picture_are_written_where_the_page_has_their_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "FLEETS", {40: 60, 100_000: 600})
    monkeypatch.setattr(grid, "GAPS", {60.0: 1.0})

    def small(report: object) -> Sweep:
        found = Sweep((40, 100_000), (3,))
        found.without = {40: 18.0, 100_000: 18.0}
        for double in (False, True):
            found.recovery[40, 3, double], found.recovery[100_000, 3, double] = (
                20.1,
                None if double else 168.0,
            )
            for failing in grid.FAILING:
                found.refused[60.0, failing, 3, double] = failing / 2
        found.weeks[60.0, 3] = [0.01, 0.02, 0.06]
        return found

    (tmp_path / "images").mkdir()
    (tmp_path / PAGE).write_text((DOCS / PAGE).read_text(encoding="utf-8"), encoding="utf-8")
    assert main(tmp_path, small) == 0
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "| 100,000 | 18 | 168 |" in text
    assert "| 100,000 | 18 | over 590 |" in text
    assert "| 1 every 60 s | 5% | 2.50% |" in text
    assert "| 1 every 60 s | 3 | 3 | 3.00% | 6.00% | 6.00% |" in text
    assert (tmp_path / PICTURE).read_text(encoding="utf-8").startswith("<?xml")
