"""The default tier is silent about code that only looks like a careless retry."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, check

HEAD = "from tenacity import *\nimport asyncio, backoff, openai, requests, time\nfrom urllib3 import Retry\n"


def codes(text: str, *, strict: bool = False) -> set[str]:
    found = check(HEAD + textwrap.dedent(text), "module.py", Settings(strict=strict))
    return {finding.code for finding in found}


RETRY = """
@retry(stop=stop_after_attempt(3), wait=wait_fixed(1){condition})
{kind} {name}(url):
    {body}
"""


def decorated(
    condition: str = "", name: str = "f", body: str = "return requests.get(url)", kind: str = "def"
) -> str:
    return RETRY.format(condition=condition, name=name, body=body, kind=kind)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (decorated(), {"SP001"}),
        (decorated(kind="async def", body="yield await requests.get(url)"), set()),
        (decorated(body="def each():\n        yield url\n    return requests.get(each())"), {"SP001"}),
        (decorated(", retry=retry_if_exception(is_transient)"), {"SP001"}),
        (decorated(", retry=checks.retry_auth_check"), set()),
        (decorated(", retry=retry_if_exception(is_job_not_finished)"), set()),
        (decorated(", retry=retry_if_exception_type(ImportPendingError)"), set()),
        (decorated(", retry=retry_if_not_exception_type(ValueError)"), {"SP001", "SP010"}),
        (decorated(", retry=retry_if_not_exception_type(self.ignored)"), {"SP001"}),
        (decorated(name="token_from_cache"), set()),
        (decorated(name="complete_if_cache"), {"SP001"}),
    ],
)
def test_retry_of_a_library_by_its_condition_and_function(text: str, found: set[str]) -> None:
    assert codes(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@retry(wait=wait_random(0, 1))\ndef f(url):\n    return requests.get(url)", {"SP003"}),
        ("@retry(wait=wait_random(0, 1))\ndef f(layer):\n    return layer.lock()", set()),
        (
            "@retry(wait=wait_random(0, 1), retry=retry_never)\ndef f(url):\n    return requests.get(url)",
            set(),
        ),
    ],
)
def test_endless_retry_needs_evidence_of_a_network(text: str, found: set[str]) -> None:
    assert codes(text) == found


CLIENT = """
class Model:
    def __init__(self, key):
        self.client = {made}

    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1){condition})
    def ask(self, text):
        {body}

class Other:
    def __init__(self):
        self.client = {other}
"""


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"body": "return self.client.count_tokens(text)"}, False),
        ({"body": "return self.client.with_options(timeout=1)"}, False),
        ({"condition": ", retry=retry_if_result(is_empty)"}, False),
        ({"made": "make_client()", "other": "openai.OpenAI()"}, False),
        ({"made": "openai.OpenAI()\n        self.client = make_client()"}, False),
        (
            {
                "body": "try:\n            return self.client.embeddings.create(text)\n"
                "        except Exception:\n            return None"
            },
            False,
        ),
    ],
)
def test_client_is_a_layer_where_it_is_made_and_asked(changes: dict[str, str], found: bool) -> None:
    given = {
        "made": "openai.OpenAI()",
        "other": "None",
        "condition": "",
        "body": "return self.client.chat.completions.create(text)",
        **changes,
    }
    assert ("SP007" in codes(CLIENT.format(**given))) is found


LOOP = """
{before}
{kind} load(url, client):
    {doc}
    for attempt in range(4):
        {pre}
        try:
            response = client.get(url)
            return response
        except requests.RequestException as error:
            {handler}
"""


def loop(handler: str, kind: str = "def", doc: str = "", pre: str = "", before: str = "") -> str:
    return LOOP.format(
        handler=handler, kind=kind, doc=doc or "pass", pre=pre or "pass", before=textwrap.dedent(before)
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (loop("time.sleep(1)"), {"SP009"}),
        (loop("time.sleep(1)", doc='"""Configure a host that is not running yet."""'), set()),
        (loop("time.sleep(1); log('result is not yet there')"), set()),
        (loop("if str(error).startswith('404'): time.sleep(1)"), set()),
        (loop("code = error.code\n            if code == 'Conflict': time.sleep(1)"), set()),
        (loop("time.sleep(1)", before="HOST = 'http://localhost:80'"), set()),
        (loop("time.sleep(1)", before="BLOCKED = {'localhost', 'example.com'}"), {"SP009"}),
        (loop("time.sleep(1)", kind="async def"), {"SP009", "SP013"}),
        (
            loop(
                "await sleep(1)", kind="async def", before="from asyncio import sleep; from time import sleep"
            ),
            {"SP009"},
        ),
    ],
)
def test_loop_by_hand_that_waits_for_a_state_is_left_alone(text: str, found: set[str]) -> None:
    assert codes(text) == found


def test_sleep_before_a_raise_is_not_the_pause_of_a_loop() -> None:
    text = """
    def run(node, client):
        while node.ttl > 0:
            try:
                return client.get(node.url)
            except requests.Timeout:
                time.sleep(1)
                raise
            except Moved as error:
                node = error.node
    """
    assert codes(text) == set()


@pytest.mark.parametrize(
    ("handler", "found", "strict"),
    [
        ("if error.response.status_code != 429: raise\n            time.sleep(1)", True, True),
        ("if error.response.status_code == 429: raise\n            time.sleep(1)", False, False),
        ("if '429' in str(error): time.sleep(1)", False, True),
        ("if error.code == 429: time.sleep(1)", False, True),
    ],
)
def test_429_is_certain_where_the_response_is_at_hand(handler: str, found: bool, strict: bool) -> None:
    assert ("SP011" in codes(loop(handler))) is found
    assert ("SP011" in codes(loop(handler), strict=True)) is strict


@pytest.mark.parametrize(
    ("branch", "found"), [("return answer", True), ("if answer.json()['done']: return answer", False)]
)
def test_loop_around_a_status_is_a_retry_if_a_good_one_leaves_it(branch: str, found: bool) -> None:
    text = f"""
    def load(url):
        while True:
            answer = requests.get(url)
            if answer.status_code == 200:
                {branch}
            time.sleep(2)
    """
    assert codes(text) == ({"SP005", "SP009"} if found else set())


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ("if True:", True),
        ("with suppress(requests.HTTPError):", False),
        ("with open(url):", True),
    ],
)
def test_suppressed_status_is_not_retried(block: str, found: bool) -> None:
    text = f"""
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1))
    def load(url):
        {block}
            response = requests.get(url)
            response.raise_for_status()
    """
    assert ("SP005" in codes(text)) is found


@pytest.mark.parametrize(
    ("name", "found"),
    [("create_order", True), ("send_message", True), ("send_heart_beat", False), ("create_chat", False)],
)
def test_post_is_a_write_if_its_names_say_so(name: str, found: bool) -> None:
    text = f"""
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1))
    def {name}(url):
        return requests.post(url)

    options = Retry(3, allowed_methods=["POST"])
    """
    assert ("SP006" in codes(text)) is found
    assert "SP006" in codes(text, strict=True)


def test_giveup_of_backoff_may_wait_in_its_place() -> None:
    text = """
    @backoff.on_exception(backoff.constant, requests.Timeout, max_tries=3, interval=0{})
    def load(url):
        return requests.get(url)
    """
    assert codes(text.format("")) == {"SP002"}
    assert codes(text.format(", giveup=wait_for_the_server")) == set()


@pytest.mark.parametrize("line", ["print 'again'", "raise Error, value, None", "self.async = False"])
def test_file_in_an_older_python_is_skipped(line: str) -> None:
    assert codes(f"def retry(self):\n    {line}\n") == set()


REMOTE_LOOP = """
def f(url, stub):
    {before}
    for attempt in range(3):
        try:
            return {call}
        except {error}:
            {after}
"""


def remote_loop(
    before: str = "pass",
    call: str = "requests.get(url)",
    error: str = "requests.ConnectionError",
    after: str = "time.sleep(1)",
) -> str:
    return REMOTE_LOOP.format(before=before, call=call, error=error, after=after)


@pytest.mark.parametrize(
    ("path", "found"),
    [("kinesis_it_test.py", set()), ("integration_tests.py", set()), ("contest.py", {"SP009"})],
)
def test_file_of_tests_by_its_name(path: str, found: set[str]) -> None:
    assert {finding.code for finding in check(HEAD + remote_loop(), path)} == found


@pytest.mark.parametrize(("error", "found"), [("TimeoutError", set()), ("ConnectionError", {"SP009"})])
def test_loop_at_once_after_a_timeout_has_waited(error: str, found: set[str]) -> None:
    assert codes(remote_loop(error=error, after="print(url)")) == found


@pytest.mark.parametrize(
    ("error", "found"), [("http.client.RemoteDisconnected", set()), ("requests.ConnectionError", {"SP002"})]
)
def test_connection_closed_by_the_server_is_replaced_at_once(error: str, found: set[str]) -> None:
    condition = f"stop=stop_after_attempt(2), retry=retry_if_exception_type({error})"
    assert codes(f"@retry({condition})\ndef f(url):\n    return requests.get(url)\n") == found


def test_time_that_remains_ends_a_loop() -> None:
    text = """
    def f(stub, publish, end):
        while True:
            try:
                return requests.get(stub)
            except requests.ConnectionError as error:
                remaining_secs = end - clock()
                if {left} <= 0:
                    give_up(error)
                time.sleep(random.uniform(0, 1))
    """
    assert codes(text.format(left="remaining_secs")) == set()
    assert codes(text.format(left="others")) == {"SP009"}
