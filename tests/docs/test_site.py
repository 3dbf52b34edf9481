"""The documentation site builds without a warning, holds every page, and fetches nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stormproof as sp

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder


def test_every_page_of_docs_is_built(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built


def test_reference_names_every_public_name(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    described = set(re.findall(r'<h\d id="[\w.]*\.(\w+)"', text))
    # The classifier's class is described, and so is what `transient` makes of it.
    assert set(sp.__all__) - described - {"__version__", "transient"} == set()


def test_reference_lists_public_members_only(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    described = set(re.findall(r'id="stormproof\.[\w.]*\.(\w+)"', text))
    assert {"with_", "withdraw", "wait_async", "simulate", "interceptors"} <= described
    assert not described & {"use_clock", "adopt", "warnings_for", "after_fork", "fresh", "retune", "settle"}
    assert {name for name in described if name.startswith("_")} == {"__call__"}


def test_reference_shows_the_options_of_retry(site: Path) -> None:
    page = (site / "reference" / "core.html").read_text(encoding="utf-8")
    signature = re.search(r'<h3 id="stormproof\.retry".*?</code>', page, re.DOTALL)
    assert signature and "retry_exhausted" in signature[0]


def test_home_has_the_three_doors_and_the_readme_a_page_of_its_own(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    for door in ("i-write-an-application", "i-run-a-platform", "i-maintain-a-library"):
        assert f'<h2 id="{door}">' in home
    assert "Retries that cannot become the outage" in (site / "overview.html").read_text(encoding="utf-8")
    for name in ("outage-light.svg", "outage-dark.svg"):
        assert (site / "images" / name).is_file()
        assert f'"images/{name}"' in (site / "overview.html").read_text(encoding="utf-8")


def test_site_fetches_no_file_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="?(https?://[^"> ]+)', text)
        assert [url for url in fetched if "w3.org" not in url] == [], page
