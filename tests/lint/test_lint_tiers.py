"""The default tier reports what the code shows; the strict one adds what rests on a guess."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, SettingsError, check
from stormproof.lint.settings import make

HEAD = "from tenacity import *\nimport requests\n"


def codes(text: str, *, strict: bool = False) -> set[str]:
    found = check(HEAD + textwrap.dedent(text), "module.py", Settings(strict=strict))
    return {finding.code for finding in found}


LAYERS = """
    {types}
    stop = stop_after_attempt(3)
    @retry(reraise=True, stop=stop, wait=wait_random(0, 1), retry=retry_if_exception_type({inner}))
    def page(url):
        return requests.get(url)

    @retry(reraise=True, stop=stop, wait=wait_random(0, 1), retry=retry_if_exception_type({outer}))
    def report(url):
        return page(url)
"""


@pytest.mark.parametrize(
    ("outer", "inner", "certain"),
    [
        ("TimeoutError", "TimeoutError", True),
        ("Exception", "ServerError", True),
        ("OSError", "requests.RequestException", True),
        ("requests.RequestException", "requests.ConnectionError", True),
        ("IncompleteError", "ServerError", False),
    ],
)
def test_layers_multiply_for_certain_only_where_the_outer_retries_the_inner_error(
    outer: str, inner: str, certain: bool
) -> None:
    text = LAYERS.format(outer=outer, inner=inner, types="from errors import IncompleteError, ServerError")
    assert ("SP007" in codes(text)) is certain
    assert "SP007" in codes(text, strict=True)


def test_conditions_joined_by_and_do_not_retry_cancellation() -> None:
    text = """
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1),
           retry=retry_if_exception_type(Exception) & retry_unless_exception_type(KeyError))
    def fetch(url):
        return requests.get(url)
    """
    assert codes(text, strict=True) == set()


def test_loop_of_one_round_is_not_a_retry() -> None:
    text = """
    import time
    def fetch(url):
        retries = {}
        for attempt in range(retries):
            try:
                return requests.get(url)
            except Exception:
                time.sleep(1)
    """
    assert codes(text.format(1), strict=True) == set()
    assert codes(text.format(3)) == {"SP009"}


def test_handler_that_goes_on_for_one_state_alone_is_a_poll() -> None:
    text = """
    import time
    def fetch(url):
        for attempt in range(4):
            try:
                return requests.get(url)
            except requests.RequestException as error:
                if error.response.reason != "{}":
                    raise
                time.sleep(1)
    """
    assert codes(text.format("AccessDenied"), strict=True) == set()
    assert codes(text.format("Throttling")) == {"SP009"}


def test_retry_in_a_function_named_after_a_wait_needs_no_jitter() -> None:
    text = """
    def {}(url):
        for attempt in Retrying(stop=stop_after_delay(9), wait=wait_fixed(1)):
            with attempt:
                requests.get(url)
    """
    assert codes(text.format("wait_for_server"), strict=True) == set()
    assert codes(text.format("load_page")) == {"SP001"}


def test_strict_in_the_settings_must_be_a_boolean() -> None:
    assert make({"strict": True}).strict
    assert make({}, strict=True).strict
    assert not make({}).strict
    with pytest.raises(SettingsError, match="strict: must be true or false, got 'yes'"):
        make({"strict": "yes"})
