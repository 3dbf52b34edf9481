"""The lab's page, clicked through in a real browser against the real command."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab_server import ROOT, Served

import stormproof as sp

pytestmark = pytest.mark.browser

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

LANES = ["Load", "Goodput", "Latency", "Queue", "Budget, breaker", "Amplification"]


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
    """How many pixels of each run's colour a channel's canvas has."""
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


def test_the_whole_way(
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
        "With “no budget” it never comes back; with “by success"
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
    assert [run["name"] for run in data["runs"]] == ["no budget", "by success (Budget)"]
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
    assert text["policies"]["by success (Budget)"]["retry"]["attempts"] == 2

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


def test_how_soon_the_first_curves_come(
    context: Any, lab: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand clients: the time from Run to the first curves is told, and not asserted."""
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


def test_by_keyboard_alone(context: Any, lab: Served) -> None:
    """Every control can be reached and worked without a pointer, and each says what it is."""
    page = opened(context, lab)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the outcome"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        told = page.evaluate(
            """() => {
                const it = document.activeElement;
                const name = it.labels?.[0]?.textContent || it.getAttribute("aria-label") || it.textContent;
                const outline = getComputedStyle(it).outlineStyle;
                return [it.id || it.tagName, name.trim(), outline];
            }"""
        )
        assert told[1], f"{told[0]} has no name"
        assert told[2] != "none" or told[0] in ("BODY", "outcome"), f"{told[0]} shows no focus"
        reached.add(told[0])
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
    told = page.locator("#playhead").get_attribute("aria-valuetext")
    assert "received" in told and "s:" in told
    assert "t =" in page.locator(".clock").inner_text()


def test_a_run_can_be_cancelled_and_another_begun(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    for name, value in (("duration", "600"), ("arrival_rps", "3000"), ("capacity_rps", "9000")):
        page.locator(f"#{name}-number").fill(value)
        page.locator(f"#{name}-number").press("Tab")
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


def test_a_mistake_is_shown_where_it_is(context: Any, lab: Served) -> None:
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


def test_without_its_token_the_page_says_what_to_do(chromium: Any, lab: Served) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(lab.origin)
    expect(page.get_by_text("This address lacks its token")).to_be_visible()
    page.goto("about:blank")
    page.goto(f"{lab.origin}/#token={'x' * 32}")
    expect(page.get_by_text("the token is missing or wrong")).to_be_visible()
    context.close()


def test_dark_and_light(context: Any, lab: Served, pictures: Path | None) -> None:
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


def test_on_a_phone(context: Any, lab: Served, pictures: Path | None) -> None:
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


def test_page_opens_with_a_story_already_run(context: Any, lab: Served, pictures: Path | None) -> None:
    page = context.new_page()
    page.goto(lab.address)
    expect(page.locator("#headline")).to_have_text(
        re.compile(
            r"With “no budget” it never comes back; with “by success \(Budget\)” it comes back after \d+ s\."
        )
    )
    expect(page.locator("article.verdict")).to_have_count(2)
    expect(page.locator(".because").first).to_contain_text("its queue never empties")
    expect(page.locator("#overlay")).to_be_checked()
    assert min(inks(page, "load").values()) > 100
    visible = page.evaluate("performance.now()")
    sys.stdout.write(f"\n  the story was visible {visible:.0f} ms after opening\n")


def test_readings_say_what_they_are(context: Any, lab: Served) -> None:
    page = opened(context, lab)
    kinds = page.locator("[data-channel=load] .kind")
    assert kinds.all_inner_texts() == ["peak", "mean", "peak"]
    page.locator("#playhead").focus()
    page.keyboard.press("End")
    assert kinds.all_inner_texts() == ["now", "now", "now"]


def test_number_beyond_the_limits_is_said(context: Any, lab: Served) -> None:
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
        frames(page, pictures / "lab-replay.png", (8, 14, 24, 120))


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


def test_report_of_five_policies(context: Any, tmp_path: Path) -> None:
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


def _holds(text: str) -> Any:
    return re.compile(re.escape(text))
