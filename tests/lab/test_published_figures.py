"""The table that ``make parity`` prints: a figure that is off is said to be."""

from __future__ import annotations

import pytest
from tests.lab import published_figures
from tests.lab.published_figures import Figure


@pytest.mark.parametrize(
    ("figure", "off", "word"),
    [
        (Figure("AWS", "calls", 10, 10.1, 0.02), 0.01, "ok"),
        (Figure("AWS", "calls", 10, 9.7, 0.02), 0.03, "OFF"),
        (Figure("HotOS", "seconds", 16, 17.5, 2.0, True), 1.5, "ok"),
        (Figure("HotOS", "seconds", 16, 18.5, 2.0, True), 2.5, "OFF"),
        (Figure("HotOS", "goodput", 0, 0.5, 0.0), 0.5, "OFF"),
    ],
)
def test_figure_beyond_its_tolerance_is_reported(figure: Figure, off: float, word: str) -> None:
    assert figure.off == pytest.approx(off)
    assert str(figure).split()[0] == word


@pytest.mark.parametrize("found", [1.0, 2.0])
def test_command_fails_if_a_figure_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: float
) -> None:
    for name in ("contention", "metastability", "independent_failures"):
        monkeypatch.setattr(published_figures, name, lambda: iter([Figure("us", "one", 1.0, found, 0.1)]))
    assert published_figures.main() == (0 if found == 1.0 else 1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == ("all published figures are met" if found == 1.0 else "3 of the published figures are off")
