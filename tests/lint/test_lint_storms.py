"""Code printed in texts about retry storms: loops, settings and layers that lint finds, and lookalikes."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import check, sdks

HEAD = """import random, secrets, time, tenacity, backoff, stamina, requests, stormproof as sp
from tenacity import *
"""


def codes(text: str) -> set[str]:
    return {finding.code for finding in check(HEAD + textwrap.dedent(text), "module.py")}


def test_star_import_of_tenacity_is_followed() -> None:
    text = "@retry(wait=wait_fixed(1), stop=stop_after_attempt(3))\ndef f(): ..."
    assert codes(text) == {"SP001"}


def test_drop_ins_are_read_as_the_libraries_they_stand_in_for() -> None:
    text = "from stormproof.compat import tenacity\n@tenacity.retry\ndef f(): ..."
    found = {finding.code for finding in check(text, "module.py")}
    assert {"SP002", "SP003"} <= found


LOOP = """
def f(url):
    for attempt in range({rounds}):
        try:
            return call(url)
        except ConnectionError:
            time.sleep({sleep})
"""


@pytest.mark.parametrize(
    ("rounds", "sleep", "found"),
    [
        (12, "random.uniform(0, 2 ** attempt)", {"SP017"}),
        (12, "min(30, random.uniform(0, 2 ** attempt))", set()),
        (4, "random.uniform(0, 2 ** attempt)", set()),
        (4, "random.gauss(2 ** attempt, 1)", {"SP018"}),
        (4, "random.SystemRandom().uniform(0, 2 ** attempt)", {"SP018"}),
        (4, "secrets.SystemRandom().random() * 2", {"SP018"}),
        (4, "random.expovariate(1)", {"SP018"}),
        (4, "random.random() * 2 ** attempt", set()),
    ],
)
def test_handwritten_loop_with_unsafe_waits_has_findings(rounds: int, sleep: str, found: set[str]) -> None:
    assert codes(LOOP.format(rounds=rounds, sleep=sleep)) - {"SP009"} == found


@pytest.mark.parametrize(
    ("decorator", "found"),
    [
        ("@retry(stop=stop_after_attempt(100), wait=wait_random_exponential(max=9), retry=E)", True),
        ("@retry(stop=stop_after_attempt(19), wait=wait_random_exponential(max=9), retry=E)", False),
        (
            "@retry(stop=stop_after_attempt(100) | stop_after_delay(9), wait=wait_random_exponential(max=9))",
            False,
        ),
        ("@retry(stop=stop_after_attempt(60), wait=wait_fixed(1), retry=retry_if_result(is_none))", False),
        ("@backoff.on_exception(backoff.expo, OSError, max_tries=50, max_value=9)", True),
        ("@backoff.on_exception(backoff.expo, OSError, max_tries=50, max_value=9, max_time=60)", False),
        ("@stamina.retry(on=OSError, attempts=50, timeout=None)", True),
        ("@stamina.retry(on=OSError, attempts=50)", False),
        ("@sp.retry(on=OSError, attempts=100)", True),
    ],
)
def test_many_attempts_are_found(decorator: str, found: bool) -> None:
    assert ("SP016" in codes(f"{decorator}\ndef f(): ...")) is found


@pytest.mark.parametrize(
    ("decorator", "found"),
    [
        ("@retry(stop=stop_after_attempt(12), wait=wait_random_exponential())", True),
        ("@retry(stop=stop_after_attempt(12), wait=wait_random_exponential(max=9))", False),
        ("@retry(stop=stop_after_attempt(5), wait=wait_random_exponential())", False),
        ("@retry(stop=stop_after_attempt(12), wait=wait_exponential_jitter(1, 9))", False),
        ("@backoff.on_exception(backoff.expo, OSError, max_tries=12)", True),
        ("@backoff.on_exception(backoff.expo, OSError, max_tries=12, max_value=9)", False),
        ("@backoff.on_exception(backoff.expo, OSError, max_tries=12, max_time=60)", False),
    ],
)
def test_waits_without_a_maximum_are_found(decorator: str, found: bool) -> None:
    assert ("SP017" in codes(f"{decorator}\ndef f(): ...")) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@sp.retry(on=sp.CircuitOpen)\ndef f(): ...", True),
        ("@sp.retry(on=(OSError, sp.BudgetExhausted))\ndef f(): ...", True),
        ("@sp.retry(on=sp.AttemptTimeout)\ndef f(): ...", False),
        (
            "import pybreaker\n@sp.retry(on=pybreaker.CircuitBreakerError)\ndef f(): ...",
            True,
        ),
    ],
)
def test_retried_refusals_are_found(text: str, found: bool) -> None:
    assert ("SP019" in codes(text)) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(c):\n    p = sp.Policy(sp.Retry())\n    return p.call(c.get)", True),
        ("async def f(c):\n    p = sp.Policy(sp.Retry())\n    return await p.acall(c.get)", True),
        ("def f(c):\n    b = sp.Breaker()\n    b.admit()", True),
        ("p = sp.Policy(sp.Retry())\ndef f(c):\n    return p.call(c.get)", False),
        ("def make_policy():\n    p = sp.Policy(sp.Retry())\n    p.call(print)\n    return p", False),
        ("def f(c):\n    p = sp.Policy(sp.Retry())\n    return p", False),
        ("def f(c):\n    p = sp.Policy(sp.Retry())\n    c.use(p)", False),
        ("class C:\n    def __init__(self):\n        self.p = sp.Policy(sp.Retry())", False),
    ],
)
def test_policies_made_in_each_call_are_found(text: str, found: bool) -> None:
    assert ("SP020" in codes(text)) is found


STATUS = """
def f(url):
    for _ in range(3):
        response = requests.get(url)
        if response.status_code == 200:
            return response
        {between}
        time.sleep(random.uniform(0, 1))
"""


@pytest.mark.parametrize(
    ("between", "found"), [("pass", True), ("if response.status_code == 404: raise KeyError", False)]
)
def test_loop_that_retries_every_status_but_success_is_found(between: str, found: bool) -> None:
    assert ("SP005" in codes(STATUS.format(between=between))) is found


def test_result_condition_that_retries_every_status_but_success_is_found() -> None:
    decorator = (
        "@retry(stop=stop_after_attempt(3), wait=wait_random(0, 1), retry=retry_if_result({}))\ndef f(): ..."
    )
    assert "SP005" in codes(decorator.format("lambda r: r.status_code != 200"))
    assert "SP005" not in codes(decorator.format("lambda r: r.status_code != 200 and r.status_code != 404"))
    assert "SP005" not in codes(decorator.format("lambda r: r.status_code >= 500"))


RAISED = """
@retry(stop=stop_after_attempt(3), wait=wait_random(0, 1), retry=retry_if_exception_type(requests.HTTPError))
def f(url):
    response = requests.get(url)
    {guard}
    response.raise_for_status()
    return response
"""


@pytest.mark.parametrize(
    ("guard", "found"),
    [
        ("pass", True),
        ("if response.status_code < 500: return response", False),
        ("if response.ok: return 1", False),
    ],
)
def test_guarded_raise_for_status_is_left_alone(guard: str, found: bool) -> None:
    assert ("SP005" in codes(RAISED.format(guard=guard))) is found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if response.status_code == 429: raise OSError", True),
        ("if response.status_code == 429: wait(response.headers['Retry-After'])", False),
        ("pass", False),
    ],
)
def test_ignored_retry_after_in_a_decorated_function_is_found(body: str, found: bool) -> None:
    text = f"""
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1), retry=retry_if_exception_type(OSError))
    def f(response):
        {body}
    """
    assert ("SP011" in codes(text)) is found


CLIENTS = {
    "openai.OpenAI()": "2 retries",
    "openai.AsyncAzureOpenAI(api_key=key)": "2 retries",
    "anthropic.Anthropic()": "2 retries",
    "boto3.client('s3')": "2 retries",
    "groq.AsyncGroq()": "2 retries",
    "google.cloud.storage.Client()": "for up to 120 s",
    "azure.storage.blob.BlobServiceClient(url)": "3 retries",
    "redis.Redis()": "10 retries",
    "redis.asyncio.Redis.from_url(url)": "10 retries",
    "elasticsearch.Elasticsearch(url)": "3 retries",
    "opensearchpy.OpenSearch(url)": "3 retries",
    "kubernetes.client.CoreV1Api()": "3 retries of lost connections",
    "pymongo.MongoClient()": "1 retry, 2 of overload",
}


@pytest.mark.parametrize("made", CLIENTS)
def test_client_with_default_retries_inside_a_retry_names_its_count(made: str) -> None:
    package = made.partition(".")[0]
    module = made.partition("(")[0].rpartition(".")[0]
    module = package if module[:1] == "r" or package in ("redis", "boto3") else module
    text = f"""
    import {module if package != "redis" else "redis.asyncio"}
    client = {made}
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1), retry=retry_if_exception_type(OSError))
    def f():
        return client.get("x")
    """
    found = [f.message for f in check(HEAD + textwrap.dedent(text), "module.py") if f.code == "SP007"]
    assert found == [
        f"the client 'client' retries by itself ({CLIENTS[made]}, by default): attempts multiply"
    ]


def test_client_whose_retries_are_set_is_left_alone() -> None:
    assert sdks.default_retries("openai.OpenAI", {"max_retries"}) is None
    assert sdks.default_retries("boto3.client", {"config"}) is None
    assert sdks.default_retries("my.own.Client", set()) is None


def test_client_without_default_retries_is_not_a_layer() -> None:
    assert sdks.default_retries("stripe.StripeClient", set()) is None


def test_celery_task_that_is_queued_again_is_a_layer() -> None:
    text = """
    from celery import shared_task
    @shared_task(autoretry_for=(OSError,), retry_backoff=True)
    @retry(
        reraise=True,
        stop=stop_after_attempt(3),
        wait=wait_random(0, 1),
        retry=retry_if_exception_type(OSError),
    )
    def f(): ...
    """
    assert codes(text) == {"SP007"}
