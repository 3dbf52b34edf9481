"""A browser and a running lab for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.lab_server import Served, serving
from tests.support.services import SERVICES

sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The system's Chromium; Playwright's own browsers are not needed.

    For one module and not for the session: Playwright keeps an event loop running in this thread, in
    which no other test could run one of its own.
    """
    path = next((found for name in SERVICES["browser"] if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"browser: none of {', '.join(SERVICES['browser'])} on PATH")
    with sync_api.sync_playwright() as playwright:
        # Containers run as root and have a small /dev/shm; the pages opened here are all our own.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lab() -> Iterator[Served]:
    with serving() as served:
        yield served


class Watch:
    """Forbidden acts of a page: requests beyond loopback, errors, policy violations."""

    def __init__(self, context: Any) -> None:
        self.strayed: list[str] = []
        self.said: list[str] = []
        context.on("request", self._request)
        context.on("console", lambda message: self._message(message.type, message.text))
        context.on("weberror", lambda error: self.said.append(str(error.error)))

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")):
            self.strayed.append(request.url)

    def _message(self, kind: str, text: str) -> None:
        # A mistake in the reader's text is an answer of its own, which the browser notes as well.
        if kind in ("error", "warning") and "status of 422" not in text:
            self.said.append(text)


@pytest.fixture
def context(chromium: Any) -> Iterator[Any]:
    """A fresh profile. At its end nothing may have left loopback and nothing may have gone wrong."""
    made = chromium.new_context(
        viewport={"width": 1440, "height": 1000},
        accept_downloads=True,
        locale="en-US",
        color_scheme="light",
        # Else the story plays when the page is opened, and readings move.
        reduced_motion="reduce",
    )
    made.set_default_timeout(15_000)
    watch = Watch(made)
    yield made
    made.close()
    assert watch.strayed == []
    assert watch.said == []


@pytest.fixture(scope="module")
def pictures() -> Any:
    """The folder for screenshots: in the docs when STORMPROOF_PICTURES is set, else None."""
    if not os.environ.get("STORMPROOF_PICTURES"):
        return None
    from tests.support.lab_server import ROOT

    folder = ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
