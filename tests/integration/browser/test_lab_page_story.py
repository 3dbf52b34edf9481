"""The story that the lab's page opens with, what can be taken from it, and how it reads everywhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab_page import finished, inks, opened, saved
from tests.support.lab_server import ROOT, Served

import stormproof as sp
from stormproof import lab as sp_lab

pytestmark = pytest.mark.browser

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

LANES = ["Load", "Goodput", "Latency", "Queue", "Budget, breaker", "Amplification"]


def test_page_opens_with_a_story_already_run(context: Any, lab: Served, pictures: Path | None) -> None:
    page = context.new_page()
    page.goto(lab.address)
    expect(page.locator("#headline")).to_have_text(
        re.compile(
            r"With “no budget” the service never comes back; "
            r"with “a budget earned by success” it comes back after \d+\ss\."
        )
    )
    expect(page.locator("#situation")).to_have_text(
        "280 calls a second on a backend that serves 300. It hangs for 10 s. Callers wait 1 s for an answer."
    )
    expect(page.locator("article.verdict")).to_have_count(2)
    expect(page.locator(".because").first).to_contain_text("its queue never empties")
    expect(page.locator("#overlay")).to_be_checked()
    assert min(inks(page, "load").values()) > 100
    visible = page.evaluate("performance.now()")
    sys.stdout.write(f"\n  the story was visible {visible:.0f} ms after opening\n")


def test_readings_are_labelled_peak_mean_or_now(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    kinds = page.locator("[data-channel=load] .kind")
    assert kinds.all_inner_texts() == ["peak", "mean", "peak"]
    page.locator("#playhead").focus()
    page.keyboard.press("End")
    assert kinds.all_inner_texts() == ["now", "now", "now"]


def test_number_beyond_the_limits_is_clamped_with_a_message(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    page.locator("#duration-number").fill("9000")
    page.locator("#duration-number").press("Tab")
    expect(page.locator("#duration-number")).to_have_value("600")
    expect(page.locator("#clamped")).to_contain_text(
        "Duration: 9,000 was typed, and the page goes up to 600 s"
    )
    page.locator("#duration-number").fill("30")
    page.locator("#duration-number").press("Tab")
    expect(page.locator("#clamped")).to_be_empty()
    page.locator("#outage_at-number").fill("31")
    page.locator("#outage_at-number").press("Tab")
    page.locator("#run").click()
    expect(page.locator("#verdict")).to_contain_text(
        "Outage at must be before the end of the run, 30 s, got 31"
    )


def test_run_is_shared_by_a_link(context: Any, lab: Served) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(context, lab)
    page.get_by_label("Situation").select_option("config-reload")
    page.locator("#seed").fill("7")
    page.locator("#run").click()
    finished(page)
    page.get_by_role("button", name="Copy link to this run").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert lab.token not in link
    other = context.new_page()
    other.goto(f"{lab.address}&{link.partition('#')[2]}")
    finished(other)
    assert other.locator("#seed").input_value() == "7"
    assert other.locator("#verdict").inner_text() == page.locator("#verdict").inner_text()


def test_replay_moves_through_the_run_and_can_be_paused(
    context: Any, lab: Served, pictures: Path | None
) -> None:
    page = opened(context, lab)
    moment = page.locator("#moment")
    before = moment.inner_text()
    page.locator("#play").click()
    expect(page.locator("#play")).to_contain_text("Pause")
    expect(moment).not_to_have_text(before)
    expect(page.locator(".clock")).to_contain_text("t =")
    page.locator("#play").click()
    expect(page.locator("#play")).to_contain_text("Play")
    assert "received a second" in page.locator(".replay canvas").get_attribute("aria-label")
    page.locator("#playhead").fill("0")
    expect(moment).to_have_text("t = 0 s")
    if pictures is not None:
        frames(page, pictures / "lab-replay.png", (8, 14, 24, 180))


def test_story_plays_by_itself_where_motion_is_welcome(context: Any, lab: Served) -> None:
    page = context.new_page()
    page.emulate_media(reduced_motion="no-preference")
    page.goto(lab.address)
    expect(page.locator("#play")).to_contain_text("Pause")
    page.locator("#play").click()
    moment = page.locator("#moment").inner_text()
    page.emulate_media(reduced_motion="reduce")
    page.reload()
    expect(page.locator("#headline")).to_be_visible()
    expect(page.locator("#play")).to_contain_text("Play")
    assert moment.startswith("t = ")


def frames(page: Any, path: Path, times: tuple[float, ...]) -> None:
    """Write the moving picture at some moments, one below the other."""
    from io import BytesIO

    from PIL import Image

    found = []
    for time in times:
        page.locator("#playhead").fill(str(round(time / 0.5)))
        found.append(Image.open(BytesIO(page.locator(".replay").screenshot())))
    strip = Image.new("RGB", (found[0].width, sum(each.height for each in found)))
    top = 0
    for each in found:
        strip.paste(each, (0, top))
        top += each.height
    strip.save(path)


def test_report_shows_five_policies_without_overlap(context: Any, tmp_path: Path) -> None:
    from stormproof.lab.scenarios import scenarios

    story = scenarios["metastable"].scaled(0.1)
    policies = {"no retries": None, **story.policies}
    compared = story.replace(policies=policies).run(seeds=range(2))
    compared.report(tmp_path / "five.html")
    page = context.new_page()
    page.goto((tmp_path / "five.html").as_uri())
    expect(page.locator("article.verdict")).to_have_count(5)
    assert page.locator("article.verdict .letter").all_inner_texts() == list("ABCDE")
    assert "undefined" not in page.locator("body").inner_text()
    expect(page.locator("#headline")).to_contain_text("never comes back")
    expect(page.locator(".compared")).to_contain_text("serves")
    expect(page.locator("#provenance")).to_contain_text("service")
    # The readings stand beside the charts, not over them.
    for lane in ("load", "latency", "budget"):
        words = page.locator(f"[data-channel={lane}] .readings").bounding_box()
        chart = page.locator(f"[data-channel={lane}] .plot").bounding_box()
        assert words["x"] + words["width"] <= chart["x"] + 1
        table = page.locator(f"[data-channel={lane}] .readings table").bounding_box()
        assert (
            table["width"] <= words["width"]
            and table["y"] + table["height"] <= words["y"] + words["height"] + 1
        )
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide == 0


AXE = ROOT / "web/node_modules/axe-core/axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_page_has_no_accessibility_findings(context: Any, lab: Served, width: int, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed in web/")
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(lab.address)
    expect(page.locator("#headline")).to_be_visible()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []


FILE = """
[policies.eager]
retry = { attempts = 3, budget = "none" }

[scenarios.checkout]
clients = 20
arrival_rps = 50
capacity_rps = 80
timeout = "500ms"
duration = "20s"
outage = { at = "5s", lasts = "2s" }
faults = [{ kind = "brownout", at = "12s", lasts = "2s", capacity = 0.5 }]
"""


def test_scenario_of_a_file_is_run_shared_and_saved_again(context: Any, lab: Served, tmp_path: Path) -> None:
    given = tmp_path / "checkout.toml"
    given.write_text(FILE)
    page = opened(context, lab)
    page.locator("#scenario-file").set_input_files(given)
    expect(page.locator("#scenario option:checked")).to_have_text("checkout (opened)")
    expect(page.locator("#arrival_rps-number")).to_have_value("50")
    page.locator("#overlay").uncheck()
    page.locator("#clients-number").fill("30")
    page.locator("#run").click()
    finished(page)
    with page.expect_download() as download:
        page.locator("#save-scenario").click()
    kept = saved(download.value, tmp_path / "saved")
    assert kept.name == "checkout.toml"
    scenario = sp_lab.Scenario.load(kept, "checkout")
    assert scenario == sp_lab.Scenario.load(given, "checkout").replace(clients=30)
    assert list(sp.load(kept)) == ["eager"]

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link to this run").click()
    link = page.evaluate("navigator.clipboard.readText()")
    other = context.new_page()
    other.goto(f"{lab.address}&run={link.split('run=')[1]}")
    finished(other)
    expect(other.locator("#scenario option:checked")).to_have_text("checkout (opened)")
    expect(other.locator("#clients-number")).to_have_value("30")


def test_file_without_a_scenario_is_refused_in_words(context: Any, lab: Served, tmp_path: Path) -> None:
    given = tmp_path / "policies.toml"
    given.write_text("[policies.p]\nretry = {}\n")
    page = opened(context, lab)
    page.locator("#scenario-file").set_input_files(given)
    expect(page.locator("#outcome .problem, .outcome .problem").first).to_contain_text(
        "must have a table [scenarios.NAME]"
    )
