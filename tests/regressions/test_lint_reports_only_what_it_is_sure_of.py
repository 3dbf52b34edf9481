"""False findings of lint in a second set of packages: each kind, and what must still be found."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, check

SPARED = """
    import asyncio
    from tenacity import retry, retry_if_not_exception_type, stop_after_attempt, wait_random

    @retry(retry=retry_if_not_exception_type({}), stop=stop_after_attempt(3), wait=wait_random())
    async def embed(): ...
"""
LAYERS = """
    from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

    @retry(retry=retry_if_exception_type({inner}), stop=stop_after_attempt(3), wait=wait_random(){reraise})
    def create(): ...

    @retry(retry=retry_if_exception_type({outer}), stop=stop_after_attempt(3), wait=wait_random())
    def insert():
        create()
"""
PAGES = """
    import time

    def export(client):
        page = failures = 0
        while True:
            try:
                items = client.get(page)
            except ConnectionError:
                failures += 1
                if failures > 3:
                    break
                {}
                time.sleep(1)
                continue
            if not items:
                break
            page += 1
"""
FILE = """
    import time

    def store(storage, name):
        for attempt in range(10):
            try:
                return storage.write(name)
            except ({}, OSError):
                time.sleep(0.5)
"""
RATE_LIMITED = """
    import tenacity

    def wait(state):
        return reset_of(state)

    @tenacity.retry(stop=tenacity.stop_after_attempt(3), wait={wait})
    def fetch():
        {text}
        return client.get()
"""
RESULT = """
    import tenacity

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_delay(30),
        wait=tenacity.wait_fixed(1),
        retry=tenacity.retry_if_result({}),
    )
"""
EMPTY = """
    from tenacity import retry, retry_if_exception_type, stop_after_attempt

    @retry(stop=stop_after_attempt(3), retry=retry_if_exception_type((ParseError, {})))
    def judge(): ...
"""


def codes(text: str) -> list[str]:
    return [finding.code for finding in check(textwrap.dedent(text), "module.py", Settings(strict=True))]


@pytest.mark.parametrize(
    "spared", ["(KeyError, asyncio.CancelledError)", "KeyboardInterrupt", "tuple(given)"]
)
def test_retry_that_may_spare_cancellation_has_no_finding(spared: str) -> None:
    assert codes(SPARED.format(spared)) == []


def test_retry_that_spares_no_cancellation_is_found() -> None:
    assert codes(SPARED.format("KeyError")) == ["SP010"]


def test_layer_that_ends_in_a_retry_error_is_not_retried_by_one_that_names_failures() -> None:
    named = {"inner": "ProgrammingError", "outer": "DatabaseError"}
    assert codes(LAYERS.format(**named, reraise="")) == []
    assert codes(LAYERS.format(**named, reraise=", reraise=True")) == ["SP007"]
    assert codes(LAYERS.format(inner="ProgrammingError", outer="Exception", reraise="")) == ["SP007"]


def test_loop_that_goes_on_to_the_next_page_is_not_a_retry() -> None:
    assert codes(PAGES.format("page += 1")) == []
    assert codes(PAGES.format("pass")) == ["SP009"]


def test_loop_about_a_file_has_no_finding() -> None:
    assert codes(FILE.format("PermissionError")) == []
    assert codes(FILE.format("ConnectionError")) == ["SP009"]


def test_429_counts_in_code_and_with_a_wait_that_can_be_read() -> None:
    jittered, looks = "tenacity.wait_random()", "if client.status == 429: raise ValueError"
    assert codes(RATE_LIMITED.format(wait="wait", text=looks)) == []
    assert codes(RATE_LIMITED.format(wait=jittered, text="# never a 429")) == []
    assert codes(RATE_LIMITED.format(wait=jittered, text=looks)) == ["SP011"]


def test_poll_of_a_result_needs_no_jitter() -> None:
    assert codes(RESULT.format("is_none")) == codes(RESULT.format("lambda done: not done")) == []
    assert codes(RESULT.format("lambda answer: answer.status_code >= 500")) == ["SP001"]


def test_empty_poll_result_may_be_requested_again_at_once() -> None:
    assert codes(EMPTY.format("EmptyResponseError")) == []
    assert codes(EMPTY.format("UnavailableError")) == ["SP002"]
