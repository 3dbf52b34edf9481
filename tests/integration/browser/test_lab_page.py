"""The lab's page, clicked through in a real browser against the real command."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab_page import finished, inks, opened, picture, saved
from tests.support.lab_server import Served

import stormproof as sp

pytestmark = pytest.mark.browser

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

LANES = ["Load", "Goodput", "Latency", "Queue", "Budget, breaker", "Amplification"]


def test_page_loads_edits_runs_overlays_and_exports(
    context: Any, lab: Served, tmp_path: Path, pictures: Path | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Load, edit, run, watch the curves come, overlay, read the verdict, take everything away."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(context, lab)
    for title in LANES:
        expect(page.get_by_role("region", name=title, exact=True)).to_be_visible()
    picture(page, pictures, "start")

    # One policy, edited through a knob. Its curves come while it runs.
    page.get_by_label("Overlay a second policy").uncheck()
    page.locator("#duration-number").fill("200")
    page.locator("#attempts-a").fill("3")
    page.locator("#attempts-a").press("Tab")
    expect(page.locator("#toml-a")).to_have_value(_holds("attempts = 3"))
    page.locator("#run").click()
    seen = 0.0
    while page.locator("#state").text_content() != "done":
        share = page.locator("#progress").evaluate("bar => bar.value")
        if 0 < share < 1 and inks(page, "load")["a"] > 0:
            seen = max(seen, share)
    assert 0 < seen < 1, "no curve was seen before the run was over"
    finished(page)
    expect(page.locator("article.verdict")).to_have_count(1)
    assert (inks(page, "load")["a"] > 100, inks(page, "load")["b"]) == (True, 0)

    # A second policy over it.
    page.get_by_label("Overlay a second policy").check()
    page.locator("#run").click()
    expect(page.locator("article.verdict")).to_have_count(2, timeout=30_000)
    finished(page)
    verdicts = page.locator("#verdict")
    expect(verdicts).to_have_attribute("aria-live", "polite")
    expect(verdicts.locator("[data-run=A]")).to_contain_text("✕ collapsed")
    expect(verdicts.locator("[data-run=B]")).to_contain_text("◷ recovered late")
    expect(page.locator("#headline")).to_contain_text(
        "With “no budget” the service never comes back; with “a budget"
    )
    for lane in ("load", "goodput", "queue", "amplification"):
        assert min(inks(page, lane).values()) > 20, lane
    picture(page, pictures, "overlay", full_page=True)

    # The figures and the rest of the outcome.
    rows = page.locator(".figures tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("never")
    facts = page.locator("#provenance")
    expect(facts).to_contain_text(sp.__version__)
    expect(facts).to_contain_text("42")
    page.locator("#data summary").click()
    table = page.locator("table.rows")
    expect(table).to_have_count(2)
    expect(table.first.locator("tbody tr")).to_have_count(61)

    # Taking it away.
    with page.expect_download() as caught:
        page.locator("#get-json").click()
    data = json.loads(saved(caught.value, tmp_path).read_text())
    assert [run["name"] for run in data["runs"]] == ["no budget", "a budget earned by success"]
    with page.expect_download() as caught:
        page.locator("#get-csv").click()
    lines = saved(caught.value, tmp_path).read_text().splitlines()
    assert len(lines) == 1 + sum(len(run["series"]["time"]) for run in data["runs"])
    with page.expect_download() as caught:
        page.locator("#get-report").click()
    report = saved(caught.value, tmp_path)

    page.locator("#policy-a").get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#policy-a").get_by_role("button", name="Copied")).to_be_visible()
    names: dict[str, Any] = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    assert names["policy"].strategies[0].attempts == 3
    page.locator("#policy-b").get_by_role("button", name="Copy as TOML").click()
    expect(page.locator("#policy-b").get_by_role("button", name="Copied")).to_be_visible()
    text = tomllib.loads(page.evaluate("navigator.clipboard.readText()"))
    assert text["policies"]["a budget earned by success"]["retry"]["attempts"] == 2

    # The report is a page of its own, from the disk.
    saved_page = context.new_page()
    saved_page.goto(report.as_uri())
    expect(saved_page.locator("article.verdict")).to_have_count(2)
    expect(saved_page.locator("#run")).to_have_count(0)
    assert saved_page.locator("#verdict").inner_text() == page.locator("#verdict").inner_text()
    assert saved_page.locator("#figures").inner_text() == page.locator("#figures").inner_text()
    assert min(inks(saved_page, "load").values()) > 100
    with saved_page.expect_download() as caught:
        saved_page.locator("#get-json").click()
    assert json.loads(saved(caught.value, tmp_path).read_text()) == data
    picture(saved_page, pictures, "report", full_page=True)


def test_first_curves_report_their_time_from_run(
    context: Any, lab: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand clients: the time from Run to the first curves is printed, not asserted."""
    page = opened(context, lab)
    page.get_by_label("Situation").select_option("config-reload")
    expect(page.locator("#clients-number")).to_have_value("1000")
    expect(page.locator("#policy-a")).to_contain_text("Jitter")
    page.locator("#run").click()
    finished(page)
    took = page.locator("#outcome").get_attribute("data-first-paint")
    with capsys.disabled():
        sys.stdout.write(f"\n  first paint of a 1,000-client run: {took} ms after Run\n")
    assert took is not None and int(took) >= 0


def test_page_works_by_keyboard_alone(context: Any, lab: Served) -> None:
    """Every control can be reached and worked without a pointer, and each says what it is."""
    page = opened(context, lab)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the outcome"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const it = document.activeElement;
                const name = it.labels?.[0]?.textContent || it.getAttribute("aria-label") || it.textContent;
                const outline = getComputedStyle(it).outlineStyle;
                return [it.id || it.tagName, name.trim(), outline];
            }"""
        )
        assert focused[1], f"{focused[0]} has no name"
        assert focused[2] != "none" or focused[0] in ("BODY", "outcome"), f"{focused[0]} shows no focus"
        reached.add(focused[0])
    wanted = {
        "scenario",
        "clients",
        "duration",
        "outage_mode",
        "seed",
        "attempts-a",
        "jitter-a",
        "breaker-a",
        "overlay",
        "run",
        "playhead",
    }
    assert wanted <= reached

    page.locator("#scenario").focus()
    page.keyboard.type("A rolling")
    expect(page.locator("#outage_lasts")).to_be_disabled()
    page.locator("#duration").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#duration-number").input_value() != "50"
    page.keyboard.press("Control+Enter")
    finished(page)
    page.locator("#playhead").focus()
    page.keyboard.press("End")
    focused = page.locator("#playhead").get_attribute("aria-valuetext")
    assert "received" in focused and "s:" in focused
    assert "t =" in page.locator(".clock").inner_text()


def test_run_can_be_cancelled_and_another_begun(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    for name, value in (("duration", "600"), ("arrival_rps", "3000"), ("capacity_rps", "9000")):
        page.locator(f"#{name}-number").fill(value)
        page.locator(f"#{name}-number").press("Tab")
    # A breaker is not compiled, so that the run takes a minute on any machine.
    page.locator("#overlay").uncheck()
    page.locator("#breaker-a").check()
    expect(page.locator("#toml-a")).to_have_value(_holds("breaker"))
    page.locator("#run").click()
    expect(page.locator("#cancel")).to_be_enabled()
    expect(page.locator("#run")).to_be_disabled()
    expect(page.locator("#progress")).not_to_have_js_property("value", 0, timeout=20_000)
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("cancelled")
    expect(page.locator("#verdict")).to_contain_text("Cancelled")
    page.locator("#duration-number").fill("30")
    page.locator("#arrival_rps-number").fill("50")
    page.locator("#run").click()
    finished(page)


def test_mistake_in_the_policy_text_is_shown_at_its_line(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    page.locator("#policy-a details.file summary").click()
    page.locator("#toml-a").fill("[policies.mine]\n\nretry = { atempts = 3 }\n")
    problem = page.locator("#problem-a")
    expect(problem).to_have_text(
        "line 3: policies.mine.retry.atempts: unknown option 'atempts'; did you mean 'attempts'?"
    )
    expect(page.locator("#toml-a")).to_have_attribute("aria-invalid", "true")
    page.locator("#run").click()
    expect(page.locator("#verdict")).to_contain_text("Policy A cannot be run")
    page.locator("#toml-a").fill("[policies.mine]\nretry = { attempts = 3 }\n")
    expect(problem).to_be_empty()
    page.locator("#attempts-a").fill("0")
    page.locator("#attempts-a").press("Tab")
    expect(problem).to_contain_text("attempts must be >= 1, got 0")
    expect(page.locator("#attempts-a")).to_have_attribute("aria-invalid", "true")


NASTY = '<img src=x onerror=document.title="bad">'


def test_html_in_a_name_is_shown_as_text(context: Any, lab: Served, tmp_path: Path) -> None:
    page = opened(context, lab)
    page.locator("#policy-a details.file summary").click()
    chooser = page.locator("#file-a")
    file = tmp_path / "mine.toml"
    file.write_text(f"[policies.{json.dumps(NASTY)}]\nretry = {{}}\n\n[policies.other]\nretry = {{}}\n")
    chooser.set_input_files(file)
    expect(page.get_by_label("Policy of the file").first).to_be_visible()
    page.locator("#duration-number").fill("30")
    page.get_by_label("Overlay a second policy").uncheck()
    page.locator("#run").click()
    finished(page)
    expect(page.locator("article.verdict .name")).to_have_text(NASTY)
    with page.expect_download() as caught:
        page.locator("#get-report").click()
    report = saved(caught.value, tmp_path)
    saved_page = context.new_page()
    saved_page.goto(report.as_uri())
    expect(saved_page.locator("article.verdict .name")).to_have_text(NASTY)
    for one in (page, saved_page):
        assert one.locator("img").count() == 0
        assert "bad" not in one.title()[:3]


def test_page_without_its_token_shows_instructions(chromium: Any, lab: Served) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(lab.origin)
    expect(page.get_by_text("This address lacks its token")).to_be_visible()
    page.goto("about:blank")
    page.goto(f"{lab.origin}/#token={'x' * 32}")
    expect(page.get_by_text("the token is missing or wrong")).to_be_visible()
    context.close()


def test_page_switches_between_dark_and_light(context: Any, lab: Served, pictures: Path | None) -> None:
    page = opened(context, lab)
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(paper)
    assert light != dark
    theme = page.locator("#theme")
    theme.click()
    expect(theme).to_have_text("Colours: light")
    assert page.evaluate(paper) == light
    theme.click()
    assert page.evaluate(paper) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(paper) == dark
    page.locator("#duration-number").fill("60")
    page.locator("#outage_lasts-number").fill("2.5")
    page.locator("#run").click()
    finished(page)
    assert min(inks(page, "load").values()) > 100, "the curves follow the colours"
    picture(page, pictures, "dark")
    page.reload()
    expect(page.locator("#theme")).to_have_text("Colours: dark")


def test_page_fits_a_phone(context: Any, lab: Served, pictures: Path | None) -> None:
    page = opened(context, lab)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#duration-number").fill("60")
    page.locator("#outage_lasts-number").fill("2.5")
    page.locator("#run").click()
    finished(page)
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide == 0, "nothing sticks out to the side"
    box = page.locator("[data-channel=load] canvas").bounding_box()
    assert 300 < box["width"] <= 390
    expect(page.locator("#run")).to_be_in_viewport()
    expect(page.locator("#headline")).to_be_in_viewport()
    # The picture comes first, then the curves, the words, and what was asked.
    tops = [page.locator(it).first.bounding_box()["y"] for it in (".replay", ".strip", ".cards", "#controls")]
    assert tops == sorted(tops)
    expect(page.locator(".replay canvas")).to_be_in_viewport()
    picture(page, pictures, "phone")


def test_zoom_and_cursor_go_through_all_channels(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    page.locator("#duration-number").fill("60")
    page.locator("#run").click()
    finished(page)
    box = page.locator("[data-channel=load] .u-over").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    assert "t =" in page.locator(".clock").inner_text()
    first = page.locator("[data-channel=queue] .u-cursor-x").evaluate("it => it.style.transform")
    page.mouse.move(box["x"] + box["width"] / 4, y)
    assert page.locator("[data-channel=queue] .u-cursor-x").evaluate("it => it.style.transform") != first
    before = page.locator("[data-channel=queue] canvas").evaluate("it => it.toDataURL()")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, y, steps=4)
    page.mouse.up()
    whole = page.get_by_role("button", name="Whole run")
    expect(whole).to_be_visible()
    assert page.locator("[data-channel=queue] canvas").evaluate("it => it.toDataURL()") != before
    whole.click()
    expect(whole).not_to_be_visible()


def _holds(text: str) -> Any:
    return re.compile(re.escape(text))
