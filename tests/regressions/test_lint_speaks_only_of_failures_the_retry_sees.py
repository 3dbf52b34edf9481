"""Lint reported retries that see no failure of a server, and options that another file may set.

A handler inside the retried function that turns every error into one that is not retried, settings spread
into a decorator, probes of a machine that the program has started, and POSTs to the name of what they make.
"""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, check

HEAD = """\
import subprocess
import backoff
import requests
import time
from settings import SETTINGS, LostConnection, OwnError, handle, is_lost
from tenacity import retry, retry_if_exception, retry_if_exception_type, stop_after_attempt
from tenacity import wait_fixed, wait_random
"""
DECORATED = """
class Refined(LostConnection): ...

@retry(stop=stop_after_attempt(3), wait=wait_fixed(1), {condition})
def load(url):
    try:
        return requests.get(url)
    except {caught}:
        {handler}
"""
LOST = "retry=retry_if_exception_type(LostConnection)"


def codes(text: str, *, strict: bool = False) -> set[str]:
    found = check(HEAD + textwrap.dedent(text), "module.py", Settings(strict=strict))
    return {finding.code for finding in found}


@pytest.mark.parametrize(
    ("condition", "caught", "handler"),
    [
        (LOST, "Exception as error", "raise OwnError() from error"),
        (LOST, "Exception as error", "print(error)"),
        ("retry=retry_if_exception(is_lost)", "Exception as error", "raise OwnError() from error"),
        ("", "Exception", "return None"),
        ("", "requests.RequestException", "return None"),
    ],
)
def test_retry_whose_function_keeps_the_failure_is_not_reported(
    condition: str, caught: str, handler: str
) -> None:
    text = DECORATED.format(condition=condition, caught=caught, handler=handler)
    assert codes(text) == set()
    assert codes(text, strict=True) == {"SP001"}


@pytest.mark.parametrize(
    ("condition", "caught", "handler"),
    [
        (LOST, "Exception as error", "raise LostConnection() from error"),
        (LOST, "Exception as error", "raise Refined() from error"),
        (LOST, "Exception", "raise"),
        (LOST, "Exception as error", "raise error"),
        (LOST, "ValueError", "return None"),
        ("", "Exception as error", "raise OwnError() from error"),
        ("", "Exception as error", "handle(error)"),
        ("retry=retry_if_exception_type(OSError)", "Exception", "raise ConnectionError"),
    ],
)
def test_retry_whose_function_passes_the_failure_on_is_reported(
    condition: str, caught: str, handler: str
) -> None:
    assert codes(DECORATED.format(condition=condition, caught=caught, handler=handler)) == {"SP001"}


def test_retry_around_whose_block_a_handler_stands_is_reported() -> None:
    text = """
    def load(url):
        try:
            for attempt in Retrying(stop=stop_after_attempt(3), wait=wait_fixed(1)):
                with attempt:
                    return requests.get(url)
        except Exception:
            return None
    """
    assert codes("from tenacity import Retrying\n" + textwrap.dedent(text)) == {"SP001"}


def test_settings_from_another_file_may_say_which_errors_are_given_up() -> None:
    text = """
    @backoff.on_exception(backoff.expo, Exception, {options})
    def load(url):
        response = requests.get(url)
        response.raise_for_status()
    """
    assert codes(text.format(options="**SETTINGS")) == set()
    assert codes(text.format(options="max_tries=3, max_value=9")) == {"SP005"}


@pytest.mark.parametrize(
    "text",
    [
        """
        def ready(host):
            proxy = subprocess.Popen(["proxy", host])
            for _ in range(9):
                try:
                    return requests.get(host)
                except requests.ConnectionError:
                    time.sleep(1)
        """,
        """
        def sign_in(site):
            for _ in range(9):
                try:
                    return requests.post(site, data={"password": input()})
                except requests.ConnectionError:
                    time.sleep(1)
        """,
        """
        def result(site, delay):
            while True:
                try:
                    return requests.get(site)
                except requests.ConnectionError:
                    print(f"Waiting {delay:.1f} s for the model to finish")
                    time.sleep(delay)
        """,
    ],
    ids=["starts a process", "asks its user", "awaits a result"],
)
def test_loop_that_no_crowd_shares_is_not_reported(text: str) -> None:
    assert codes(text) == set()


POST = """
@retry(stop=stop_after_attempt(3), wait=wait_random(0, 1), retry=retry_if_exception_type(requests.Timeout))
def {name}(name):
    address = {address}
    return requests.{method}(address, json={{}}, timeout=5)
"""


@pytest.mark.parametrize(
    ("method", "address", "certain"),
    [
        ("post", '"https://example.com/orders"', True),
        ("post", 'f"https://example.com/{name}/orders"', True),
        ("post", 'f"https://example.com/orders/{name}"', False),
        ("patch", '"https://example.com/orders"', False),
    ],
)
def test_only_a_post_to_a_collection_certainly_happens_twice(
    method: str, address: str, certain: bool
) -> None:
    text = POST.format(name="create_order", method=method, address=address)
    assert codes(text) == ({"SP006"} if certain else set())
    assert codes(text, strict=True) == {"SP006"}


def test_retry_option_is_reported_where_the_post_is_sent() -> None:
    text = """
    from urllib3 import Retry

    def options():
        return Retry(total=3, backoff_factor=1, backoff_jitter=1, allowed_methods=["POST"])

    class Shop:
        {maker}

        def create_order(self):
            return self.session.post("https://example.com/orders", json={{}})
    """
    own = """def __init__(self):
            self.retry = Retry(total=3, backoff_factor=1, backoff_jitter=1, allowed_methods=["POST"])"""
    assert codes(text.format(maker="retry = None")) == set()
    assert codes(text.format(maker=own)) == {"SP006"}


@pytest.mark.parametrize(("condition", "certain"), [("retry_if_exception(is_lost)", False), ("None", True)])
def test_condition_by_name_does_not_show_that_a_sent_post_is_sent_again(
    condition: str, certain: bool
) -> None:
    retry = "" if condition == "None" else f"retry={condition}"
    text = f"""
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1), {retry})
    def create_order():
        return requests.post("https://example.com/orders", json={{}}, timeout=5)
    """
    assert codes(text) == ({"SP006"} if certain else set())
    assert codes(text, strict=True) >= {"SP006"}


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("raise NotImplementedError", False),
        ("raise NotImplementedError('later')", False),
        ("return load(requests.Request('GET', url))", False),
        ("return load(requests.request('GET', url))", True),
    ],
)
def test_request_that_is_only_made_is_not_evidence_that_it_is_sent(text: str, certain: bool) -> None:
    source = f"""
    from pages import load

    @retry(stop=stop_after_attempt(3), wait=wait_fixed(1))
    def page(url):
        {text}
    """
    assert codes(source) == ({"SP001"} if certain else set())


@pytest.mark.parametrize(("schedule", "certain"), [("backoff.expo", True), ("as_the_server_asks", False)])
def test_schedule_of_the_programs_own_may_be_random(schedule: str, certain: bool) -> None:
    text = f"""
    from settings import as_the_server_asks

    @backoff.on_exception({schedule}, ConnectionError, jitter=None, max_tries=3)
    def page(url):
        return requests.get(url)
    """
    assert codes(text) == ({"SP001"} if certain else set())


@pytest.mark.parametrize(("options", "certain"), [("", False), (", respect_retry_after_header=False", True)])
def test_wait_after_a_429_is_the_servers(options: str, certain: bool) -> None:
    text = f"from urllib3 import Retry\nretries = Retry(total=3, status_forcelist=[429]{options})\n"
    assert ("SP002" in codes(text)) is certain


@pytest.mark.parametrize(("name", "certain"), [("_deleteLockPath", False), ("storeLockPath", True)])
def test_name_in_camel_case_says_that_it_awaits_a_state(name: str, certain: bool) -> None:
    text = f"""
    class Lock:
        def {name}(self, site):
            for _ in range(9):
                try:
                    return requests.get(site)
                except requests.ConnectionError:
                    time.sleep(1)
    """
    assert codes(text) == ({"SP009"} if certain else set())


ROUNDS = """
def load(site, limit):
    for attempt in range({rounds}):
        try:
            {body}
        except requests.RequestException as error:
            {handler}
            time.sleep({pause})
"""


@pytest.mark.parametrize(
    ("changed", "certain"),
    [
        ({}, True),
        ({"rounds": "limit.MAX_POLLS"}, False),
        ({"pause": "limit.poll_delay"}, False),
        ({"body": "requests.ping(); return"}, False),
        ({"handler": "if error.status != 412: raise"}, False),
        ({"handler": "if error.status != 503: raise"}, True),
        ({"handler": "if error.status == 404: raise"}, True),
    ],
)
def test_poll_by_its_names_or_its_status_is_not_a_retry(changed: dict[str, str], certain: bool) -> None:
    plain = {"rounds": "3", "body": "return requests.get(site)", "handler": "pass", "pause": "1"}
    assert codes(ROUNDS.format(**plain | changed)) == ({"SP009"} if certain else set())


def test_connection_that_is_kept_for_ever_needs_no_limit_but_jitter() -> None:
    text = """
    def listen(site, alive):
        while True:
            try:
                stream = requests.get(site, stream=True)
                while alive():
                    stream.read()
                if site.closed:
                    break
            except requests.RequestException:
                time.sleep(1)
    """
    found = check(HEAD + textwrap.dedent(text), "module.py")
    assert [finding.message for finding in found] == ["a retry loop written by hand, with no jitter"]


@pytest.mark.parametrize(("header", "certain"), [("X-RateLimit-Reset", False), ("X-Request-Id", True)])
def test_reset_of_a_limit_is_a_servers_hint(header: str, certain: bool) -> None:
    text = f"""
    @backoff.on_exception(backoff.expo, OwnError, max_tries=3)
    def load(site):
        response = requests.get(site)
        if response.status_code == 429:
            handle(response.headers["{header}"])
            raise OwnError
    """
    assert codes(text) == ({"SP011"} if certain else set())


@pytest.mark.parametrize(
    ("attempts", "wait", "found"),
    [
        (30, "wait_fixed(1)", set()),
        (5, "wait_fixed(1)", {"SP001"}),
        (30, "wait_fixed(0.1)", {"SP001", "SP016"}),
        (30, "wait_random(0, 1)", {"SP016"}),
    ],
)
def test_many_looks_at_even_intervals_are_a_poll(attempts: int, wait: str, found: set[str]) -> None:
    text = f"""
    @retry(stop=stop_after_attempt({attempts}), wait={wait})
    def load(site):
        return requests.get(site)
    """
    assert codes(text) == found


@pytest.mark.parametrize(("lines", "certain"), [(0, True), (200, False)])
def test_name_that_nothing_binds_is_evidence_in_samples_alone(lines: int, certain: bool) -> None:
    text = """
    def load(site):
        for attempt in range(3):
            try:
                return call(site)
            except Exception:
                time.sleep(1)
    """
    assert codes("\n" * lines + textwrap.dedent(text)) == ({"SP009"} if certain else set())


STATUS = """
def {name}(site):
    for {counter} in range(9):
        time.sleep(1)
        response = requests.get(site)
        if response.status_code == 200:
            return response
        {otherwise}
"""


@pytest.mark.parametrize(
    ("changed", "certain"),
    [
        ({}, False),
        ({"counter": "attempt"}, True),
        ({"otherwise": "elif response.status_code != 429: raise OwnError"}, True),
        ({"counter": "attempt", "name": "poll_result"}, False),
        ({"counter": "attempt", "otherwise": "print('waiting for the result')"}, False),
    ],
)
def test_loop_until_a_status_is_a_retry_if_it_looks_at_errors(changed: dict[str, str], certain: bool) -> None:
    plain = {"name": "load", "counter": "i", "otherwise": ""}
    assert ("SP009" in codes(STATUS.format(**plain | changed))) is certain


@pytest.mark.parametrize(("error", "found"), [("Http401Error", set()), ("Http502Error", {"SP001"})])
def test_new_token_after_a_401_needs_no_jitter(error: str, found: set[str]) -> None:
    text = f"""
    from errors import {error}

    @backoff.on_exception(backoff.expo, {error}, max_tries=3, jitter=None)
    def load(site):
        return requests.get(site)
    """
    assert codes(text) == found
