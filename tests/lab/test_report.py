"""The report: one file with the page and the data in it, which asks for nothing else."""

from __future__ import annotations

import html.parser
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab_server import built_page

import stormproof as sp
from stormproof import lab
from stormproof.lab.results import report

LARGEST_PAGE = 250 * 1024


@pytest.fixture(scope="module", autouse=True)
def page() -> Path:
    return built_page()


@pytest.fixture(scope="module")
def result() -> lab.Result:
    policy = sp.Policy(sp.Retry(sp.transient, attempts=3), name="<b>&amp;</script>")
    scenario = lab.Scenario(
        clients=10, arrival_rps=40, capacity_rps=60, outage=lab.Outage(1, 0.5, "fail"), duration=4, timeout=1
    )
    return lab.simulate(policy, scenario, seed=5)


class Seen(html.parser.HTMLParser):
    """Every element of a page, and the text of its scripts, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data


def test_page_without_data_is_small_enough(page: Path) -> None:
    assert page.stat().st_size <= LARGEST_PAGE


def test_report_names_no_external_resource(page: Path) -> None:
    seen = Seen(page.read_text())
    for tag, attributes in seen.elements:
        for name in ("src", "srcset", "data", "poster", "action"):
            assert name not in attributes, (tag, attributes)
        assert (attributes.get("href") or "data:").startswith("data:"), (tag, attributes)
    styles = re.findall(r"<style>(.*?)</style>", page.read_text(), re.DOTALL)
    assert len(styles) == 1
    assert "url(" not in styles[0] and "@import" not in styles[0] and "@font-face" not in styles[0]
    assert [tag for tag, _ in seen.elements].count("script") == 2


def test_report_contains_the_licence_of_the_charts(page: Path) -> None:
    text = page.read_text()
    assert "uPlot" in text and "Permission is hereby granted" in text


def test_report_holds_exactly_the_data(result: lab.Result) -> None:
    text = report.render(result.to_data())
    seen = Seen(text)
    assert json.loads(seen.scripts[0]) == result.to_data()
    assert len(seen.scripts) == 2
    assert seen.elements == Seen(report.page().replace("connect-src 'self'", "connect-src 'none'")).elements


def test_report_may_not_even_ask_its_own_server(result: lab.Result) -> None:
    text = report.render(result.to_data())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "connect-src 'none'" in policy[1]
    assert "'self'" not in policy[1] and "unsafe" not in policy[1]


def test_same_data_gives_the_same_bytes(result: lab.Result, tmp_path: Path) -> None:
    result.report(tmp_path / "one.html")
    report.write(str(tmp_path / "two.html"), result.to_data())
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


@pytest.mark.parametrize(
    "nasty", ["</script>", "<!--", "<script>", "]]>", "&lt;", "\u2028", "\\", "$&", "\\1", "é\0"]
)
def test_text_cannot_break_out_of_its_element(result: lab.Result, nasty: str) -> None:
    data = result.to_data()
    data["runs"][0]["name"] = nasty
    seen = Seen(report.render(data))
    assert len(seen.scripts) == 2
    assert json.loads(seen.scripts[0])["runs"][0]["name"] == nasty
    assert not set("<>&\u2028") & set(seen.scripts[0]), "whatever state a browser's parser is in"


def test_values_that_json_cannot_write_become_null() -> None:
    data = {"format": 1, "a": [math.nan, math.inf, 1.5, (-math.inf, 2)], "b": {"c": math.nan}}
    inside = json.loads(Seen(report.render(data)).scripts[0])
    assert inside == {"format": 1, "a": [None, None, 1.5, [None, 2]], "b": {"c": None}}


@pytest.mark.parametrize("data", [None, {}, {"format": 2}, {"format": "1"}, [1]])
def test_foreign_data_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"report: data must be what Result.to_data\(\) gives"):
        report.render(data)


@pytest.mark.parametrize("there", ["nothing", "another page"])
def test_missing_page_error_names_the_build_command(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there != "nothing":
        (tmp_path / "_page").mkdir()
        (tmp_path / "_page" / "index.html").write_text("<p>hello</p>")
    monkeypatch.setattr(report, "files", lambda package: tmp_path)
    report.page.cache_clear()
    try:
        with pytest.raises(report.PageMissing, match="build-page"):
            report.render({"format": 1})
        assert not (tmp_path / "out.html").exists()
        with pytest.raises(report.PageMissing):
            report.write(tmp_path / "out.html", {"format": 1})
        assert not (tmp_path / "out.html").exists()
    finally:
        report.page.cache_clear()
