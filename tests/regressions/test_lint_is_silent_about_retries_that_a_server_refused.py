"""False findings of lint in twelve further packages: each kind, and what must still be found."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, check

REFUSED_POST = """
    from tenacity import retry, retry_if_exception_type, stop_after_attempt

    AGAIN = {{
        "retry": retry_if_exception_type({}),
        "stop": stop_after_attempt(2),
        "before_sleep": sign_in,
    }}

    class Catalog:
        @retry(**AGAIN)
        def create(self, table):
            return self._session.post("/tables", json=table)
"""
STATUS_POLL = """
    import time, requests

    def values(url):
        for attempt in range(10):
            response = requests.get(url)
            if response.status_code == 200:
                if response.json()["done"]:
                    return response.json()
                time.sleep(1)
            else:
                {}
"""
STATUS_LOOP = """
    import time, requests

    def values(url):
        for attempt in range(10):
            response = requests.get(url)
            if response.status_code == 200:
                return response.json()
            time.sleep(5)
"""
TWO_FAILURES = """
    from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

    REST = {{"stop": stop_after_attempt(3), "wait": wait_random(), "reraise": True}}

    class Agent:
        @retry(retry=retry_if_exception_type({inner}), **REST)
        def finish(self): ...

        @retry(retry=retry_if_exception_type({outer}), **REST)
        def command(self):
            return self.finish()
"""


def codes(text: str) -> list[str]:
    return [finding.code for finding in check(textwrap.dedent(text), "module.py", Settings(strict=True))]


@pytest.mark.parametrize(
    "caught", ["UnauthorizedError", "(rest.AuthorizationExpiredError, UnauthorizedError)"]
)
def test_post_that_is_repeated_with_a_new_token_has_no_finding(caught: str) -> None:
    assert codes(REFUSED_POST.format(caught)) == []


def test_options_in_a_dictionary_of_the_module_are_read() -> None:
    assert codes(REFUSED_POST.format("ConnectionError")) == ["SP002", "SP006"]
    assert codes(REFUSED_POST.format("(UnauthorizedError, ConnectionError)")) == ["SP002", "SP006"]
    assert "SP003" in codes(REFUSED_POST.format("ConnectionError").replace('"stop"', '"after"'))


@pytest.mark.parametrize("otherwise", ["break", "raise ValueError(response)", "return None", "time.sleep(5)"])
def test_loop_that_a_good_status_may_stay_in_has_no_finding(otherwise: str) -> None:
    assert codes(STATUS_POLL.format(otherwise)) == []


def test_loop_that_every_good_status_leaves_is_found() -> None:
    assert codes(STATUS_LOOP) == ["SP005", "SP009"]


@pytest.mark.parametrize(
    ("inner", "outer"),
    [("errors.CommandTimeout", "errors.ConnectionFailed"), ("TimeoutError", "ConnectionError")],
)
def test_layers_that_retry_different_failures_do_not_multiply(inner: str, outer: str) -> None:
    assert codes(TWO_FAILURES.format(inner=inner, outer=outer)) == []


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("errors.ConnectionFailed", "errors.ConnectionFailed"),
        ("errors.ConnectionFailed", "errors.AgentError"),
        ("ConnectionResetError", "ConnectionError"),
        ("errors.ConnectionFailed", "Exception"),
    ],
)
def test_layers_that_may_retry_the_same_failure_multiply(inner: str, outer: str) -> None:
    assert codes(TWO_FAILURES.format(inner=inner, outer=outer)) == ["SP007"]
