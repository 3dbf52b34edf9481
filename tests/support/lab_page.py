"""Steps on the lab's page that its browser tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .lab_server import Served

expect = pytest.importorskip("playwright.sync_api").expect


def opened(context: Any, lab: Served) -> Any:
    page = context.new_page()
    page.goto(lab.address)
    expect(page.locator("#headline")).to_be_visible()
    expect(page.locator("#attempts-a")).not_to_have_value("")
    return page


def finished(page: Any) -> None:
    expect(page.locator("article.verdict").first).to_be_visible(timeout=30_000)
    expect(page.locator("#state")).to_have_text("done")


def saved(download: Any, folder: Path) -> Path:
    path = folder / str(download.suggested_filename)
    download.save_as(path)
    return path


def picture(page: Any, pictures: Path | None, name: str, **options: Any) -> None:
    if pictures is not None:
        page.mouse.move(0, 0)
        if options:
            page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=pictures / f"lab-{name}.png", **options)


def inks(page: Any, lane: str) -> dict[str, int]:
    """Count the pixels of each run's colour in a channel's canvas."""
    found: dict[str, int] = page.locator(f"[data-channel={lane}] canvas").evaluate(
        """(canvas) => {
            const probe = document.createElement("span");
            document.body.append(probe);
            const wanted = {};
            for (const run of ["a", "b"]) {
                probe.style.color = `var(--run-${run})`;
                wanted[run] = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number);
            }
            probe.remove();
            const copy = new OffscreenCanvas(canvas.width, canvas.height);
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(canvas, 0, 0);
            const { data } = context.getImageData(0, 0, copy.width, copy.height);
            const near = (at, [r, g, b]) =>
                Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 40;
            const counts = { a: 0, b: 0 };
            for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] < 200) continue;
                if (near(at, wanted.a)) counts.a++;
                if (near(at, wanted.b)) counts.b++;
            }
            return counts;
        }"""
    )
    return found
