"""False findings of lint in ten packages that use tenacity: each kind, and what must still be found."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, check

SHADOWED = """
    from tenacity import retry, stop_after_attempt

    class Images:
        def retry(error, tries=4): ...

        @retry(OSError)
        def open(self): ...
"""
DEVICE = """
    import os, time

    def is_there(device):
        for attempt in range(10):
            try:
                return os.stat(device)
            except OSError:
                time.sleep(1)
"""
ROOT_DEVICE = """
    import time

    def wait(self):
        for attempt in range(10):
            try:
                return self.find_device()
            except errors.DeviceNotFound:
                time.sleep(1)
"""
UNREADABLE = """
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

    retrying = Retrying(stop=stop_after_attempt(3), retry=retry_if_exception_type({}))
"""
MIRRORS = """
    from tenacity import retry, stop_after_attempt

    class Images:
        @retry(stop=stop_after_attempt(3))
        def fetch(self):
            self.mirror += 1
            return self.download(MIRRORS[self.mirror])
"""
START = """
    import time, requests

    def start():
        for attempt in range(100):
            try:
                return requests.get(URL)
            except requests.ConnectionError:
                time.sleep(1)
"""


def codes(text: str, path: str = "module.py") -> list[str]:
    return [finding.code for finding in check(textwrap.dedent(text), path, Settings(strict=True))]


@pytest.mark.parametrize(
    "text",
    [SHADOWED, DEVICE, ROOT_DEVICE, MIRRORS, UNREADABLE.format("(ValidationError, ResponseParsingError)")],
)
def test_harmless_code_has_no_finding(text: str) -> None:
    assert codes(text) == []


def test_loop_of_a_test_that_waits_for_its_server_has_no_finding() -> None:
    assert codes(START, "tests/base.py") == codes(START, "test_start.py") == []
    assert codes(START) == ["SP009"]


def test_real_storms_are_still_found() -> None:
    assert codes(UNREADABLE.format("ConnectionError")) == ["SP002"]
    assert codes(MIRRORS.replace("+=", "=")) == ["SP002"]
    assert codes(DEVICE.replace("os.stat", "remote.stat")) == ["SP009"]
    read = ROOT_DEVICE.replace("def wait", "def read")
    assert codes(read.replace("DeviceNotFound", "Unavailable")) == ["SP009"]
    assert "SP003" in codes(SHADOWED.replace("def retry(", "def other("))
