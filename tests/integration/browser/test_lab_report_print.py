"""A saved report on paper: the whole run, in the colours of paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof import lab

pytestmark = pytest.mark.browser

expect = pytest.importorskip("playwright.sync_api").expect

#: Boxes of the canvases and of what holds them: left, right.
_EDGES = """() => [...document.querySelectorAll('.plot canvas, .replay canvas')].map((canvas) => {
    const box = canvas.getBoundingClientRect();
    const frame = canvas.closest('.plot, .replay').getBoundingClientRect();
    return [box.left - frame.left, frame.right - box.right];
})"""


@pytest.fixture
def report(tmp_path: Path) -> str:
    scenario = lab.Scenario(arrival_rps=20, capacity_rps=40, outage=lab.Outage(at=2, lasts=1), duration=10)
    lab.simulate(sp.Policy(sp.Retry(on=sp.transient)), scenario, seed=1).report(tmp_path / "report.html")
    return (tmp_path / "report.html").as_uri()


def test_printed_charts_fit_the_page_without_a_resize_event(context: Any, report: str) -> None:
    page = context.new_page()
    # Printing lays the page out anew and delivers no resize event.
    page.add_init_script("window.ResizeObserver = class { observe() {} };")
    page.goto(report)
    expect(page.locator(".plot canvas")).to_have_count(6)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})
    edges = page.evaluate(_EDGES)
    assert len(edges) == 7
    assert all(left >= -2 and right >= -2 for left, right in edges), edges


def test_charts_of_a_dark_page_are_printed_in_light_colours(context: Any, report: str) -> None:
    image = "document.querySelector('[data-channel=load] canvas').toDataURL()"
    page = context.new_page()
    page.goto(report)
    page.emulate_media(color_scheme="light", media="print")
    expect(page.locator(".plot canvas")).to_have_count(6)
    light = page.evaluate(image)
    page.emulate_media(color_scheme="dark", media="screen")
    page.wait_for_function(f"light => {image} !== light", arg=light)
    page.emulate_media(color_scheme="dark", media="print")
    page.wait_for_function(f"light => {image} === light", arg=light)
