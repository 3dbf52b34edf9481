"""Options of other libraries that lint reads, and code that it leaves alone because it cannot decide."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import check
from stormproof.lint.settings import make

EVERY = make({}, select=["ALL"], ignore=["SP012"])


def codes(text: str, path: str = "module.py") -> list[str]:
    return [finding.code for finding in check(textwrap.dedent(text), path, EVERY)]


def tenacity(options: str) -> list[str]:
    return codes(f"from tenacity import *\nimport tenacity\n@tenacity.retry({options})\ndef f(): ...\n")


STOP, JITTER = "stop=tenacity.stop_after_attempt(3)", "wait=tenacity.wait_random(0, 1)"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (f"{STOP}, {JITTER}", []),
        (f"{STOP}", ["SP002"]),
        (f"{JITTER}", ["SP003"]),
        (f"stop=tenacity.stop_never, {JITTER}", ["SP003"]),
        (f"stop=tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(9), {JITTER}", []),
        ("stop=tenacity.stop_after_attempt(1)", []),
        (f"{STOP}, wait=tenacity.wait_fixed(2)", ["SP001"]),
        (f"{STOP}, wait=tenacity.wait_fixed(0)", ["SP002"]),
        (f"{STOP}, wait=tenacity.wait_none()", ["SP002"]),
        (f"{STOP}, wait=tenacity.wait_fixed(2) + tenacity.wait_random(0, 2)", []),
        (f"{STOP}, wait=tenacity.wait_fixed(2) + tenacity.wait_fixed(1)", ["SP001"]),
        (f"{STOP}, wait=tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_fixed(2))", ["SP001"]),
        (f"{STOP}, wait=tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_random(1, 2))", []),
        (f"{STOP}, wait=tenacity.wait_exponential_jitter(1, 9)", []),
        (f"{STOP}, wait=my_own_wait", []),
        (f"stop=my_own_stop, {JITTER}", []),
        ("**options", []),
        (f"{STOP}, {JITTER}, retry=tenacity.retry_if_exception_type(BaseException)", ["SP010"]),
        (f"{STOP}, {JITTER}, retry=tenacity.retry_if_not_exception_type(ValueError)", ["SP010"]),
        (
            f"{STOP}, {JITTER}, retry=tenacity.retry_if_exception_type((OSError, KeyboardInterrupt))",
            ["SP010"],
        ),
        (f"{STOP}, {JITTER}, retry=tenacity.retry_if_exception_type(OSError)", []),
        (f"{STOP}, {JITTER}, retry=tenacity.retry_if_exception(is_transient)", []),
    ],
)
def test_tenacity_options_are_read(options: str, found: list[str]) -> None:
    assert tenacity(options) == found


def test_tenacity_is_recognised_bare_and_renamed() -> None:
    assert codes("import tenacity\n@tenacity.retry\ndef f(): ...") == ["SP002", "SP003"]
    assert codes("from tenacity import retry as again\n@again\ndef f(): ...") == ["SP002", "SP003"]
    assert codes("import tenacity as t\nfor a in t.Retrying(wait=t.wait_random(0, 1)):\n  with a: ...") == [
        "SP003"
    ]
    assert codes("from mine import retry\n@retry\ndef f(): ...") == []
    assert codes("from .tenacity import retry\n@retry\ndef f(): ...") == []


def test_constants_of_the_module_are_followed() -> None:
    text = """
    from tenacity import retry, stop_after_attempt, wait_fixed
    WAIT = wait_fixed(3)
    @retry(stop=stop_after_attempt(3), wait=WAIT)
    def f(): ...
    """
    assert codes(text) == ["SP001"]
    assert codes(text.replace("WAIT = wait_fixed(3)", "WAIT = wait_fixed(3)\n    WAIT = other()")) == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("backoff.expo, OSError, max_tries=3", []),
        ("backoff.expo, OSError, max_time=30", []),
        ("backoff.expo, OSError", ["SP003"]),
        ("backoff.expo, OSError, max_tries=None", ["SP003"]),
        ("backoff.expo, OSError, max_tries=limit", []),
        ("backoff.expo, OSError, max_tries=3, jitter=None", ["SP001"]),
        ("backoff.constant, OSError, max_tries=3, interval=0", ["SP002"]),
        ("backoff.expo, BaseException, max_tries=3", ["SP010"]),
        ("*arguments", []),
    ],
)
def test_backoff_options_are_read(options: str, found: list[str]) -> None:
    assert codes(f"import backoff\n@backoff.on_exception({options})\ndef f(): ...") == found


def test_backoff_polls_may_have_no_end_but_not_shorten_hints() -> None:
    assert codes("import backoff\n@backoff.on_predicate(backoff.expo)\ndef f(): ...") == []
    runtime = "import backoff\n@backoff.on_predicate(backoff.runtime, value=v{})\ndef f(): ..."
    assert codes(runtime.format("")) == ["SP011"]
    assert codes(runtime.format(", jitter=backoff.full_jitter")) == ["SP011"]
    assert codes(runtime.format(", jitter=backoff.random_jitter")) == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("on=OSError", []),
        ("on=OSError, attempts=None, timeout=None", ["SP003"]),
        ("on=OSError, attempts=None", []),
        ("on=OSError, wait_jitter=0", ["SP001"]),
        ("on=(OSError, asyncio.CancelledError)", ["SP010"]),
    ],
)
def test_stamina_options_are_read(options: str, found: list[str]) -> None:
    assert codes(f"import asyncio\nimport stamina\n@stamina.retry({options})\ndef f(): ...") == found


def test_options_of_retry_and_retrying_are_read() -> None:
    assert codes("from retry import retry\n@retry(OSError, tries=3, delay=1)\ndef f(): ...") == ["SP001"]
    assert codes("from retry import retry\n@retry(OSError, delay=1, jitter=(0, 1))\ndef f(): ...") == [
        "SP003"
    ]
    assert codes("from retry import retry\n@retry(times=3)\ndef f(): ...") == [], "another library's module"
    assert codes("from retrying import retry\n@retry(wait_fixed=9)\ndef f(): ...") == ["SP001", "SP003"]
    assert (
        codes("from retrying import retry\n@retry(stop_max_delay=9, wait_random_max=9)\ndef f(): ...") == []
    )


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("3", []),
        ("total=3, backoff_factor=1", ["SP001"]),
        ("total=3, backoff_factor=1, backoff_jitter=1", []),
        ("total=3, status_forcelist=[503]", ["SP002"]),
        ("total=0, backoff_factor=1", []),
        ("False", []),
        ("total=None", ["SP003"]),
        ("total=None, connect=3", []),
        ("total=3, allowed_methods=None", ["SP006"]),
        ("total=3, allowed_methods=['GET', 'post']", ["SP006"]),
        ("total=3, method_whitelist=False", ["SP006"]),
        ("total=3, allowed_methods=frozenset({'GET'})", []),
        ("total=3, respect_retry_after_header=False", []),
        ("total=3, backoff_factor=1, backoff_jitter=1, status_forcelist=[403, 413, 429, 499]", []),
        (
            "3, backoff_factor=1, backoff_jitter=1, status_forcelist=[429], respect_retry_after_header=False",
            ["SP011"],
        ),
        ("total=3, backoff_factor=1, backoff_jitter=1, status_forcelist=range(400, 600)", ["SP005"]),
        ("total=3, backoff_factor=1, backoff_jitter=1, status_forcelist=(408, 409, 425, 429, 500)", []),
        ("total=3, backoff_factor=1, backoff_jitter=1, status_forcelist=statuses", []),
    ],
)
def test_urllib3_options_are_read(options: str, found: list[str]) -> None:
    assert codes(f"from urllib3.util import Retry\nr = Retry({options})") == found


def test_urllib3_retry_is_found_under_other_imports() -> None:
    for home in ("urllib3", "requests.adapters", "requests.packages.urllib3.util.retry"):
        assert codes(f"from {home} import Retry\nr = Retry(total=3, backoff_factor=1)") == ["SP001"], home


def test_options_of_httpx_retries_and_aiohttp_retry_are_read() -> None:
    assert codes("import httpx_retries\nr = httpx_retries.Retry(total=3)") == ["SP002"]
    assert codes("import httpx_retries\nr = httpx_retries.Retry(total=3, backoff_factor=1)") == []
    assert codes("from aiohttp_retry import *\nimport aiohttp_retry\nr = aiohttp_retry.JitterRetry()") == []
    assert codes("import aiohttp_retry\nr = aiohttp_retry.ExponentialRetry(statuses={404})") == [
        "SP001",
        "SP005",
    ]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("on=OSError", []),
        ("on=OSError, budget=None", ["SP008"]),
        ("on=OSError, budget=sp.Budget(2.0)", ["SP008"]),
        ("on=OSError, budget=sp.Budget(burst=0)", ["SP008"]),
        ("on=OSError, budget=sp.Budget(ratio=0.2, burst=5)", []),
        ("on=OSError, backoff=sp.Constant(1)", ["SP001"]),
        ("on=OSError, backoff=sp.Constant(1, jitter='full')", []),
        ("on=OSError, backoff=sp.Constant(0)", ["SP002"]),
        ("on=OSError, backoff=sp.Exponential(jitter='none')", ["SP001"]),
        ("on=OSError, backoff=mine()", []),
        ("on=BaseException", ["SP010"]),
    ],
)
def test_stormproof_options_are_read(options: str, found: list[str]) -> None:
    assert codes(f"import stormproof as sp\n@sp.retry({options})\ndef f(): ...") == found
    assert codes(f"import stormproof as sp\np = sp.Policy(sp.Retry({options}))") == found


def test_times_of_a_policy_in_code_are_compared() -> None:
    text = "import stormproof as sp\np = sp.Policy(sp.Deadline({}), sp.Retry(), sp.Timeout({}))"
    assert codes(text.format(1, 2)) == ["SP004"]
    assert codes(text.format(2, 0.5)) == []
    assert codes(text.format("limit", 2)) == []


def test_raise_for_status_under_a_wide_exception_is_found() -> None:
    text = """
    import backoff, requests
    @backoff.on_exception(backoff.expo, requests.exceptions.RequestException, max_tries=3{})
    def f(url):
        response = requests.get(url)
        {}
        return response
    """
    assert codes(text.format("", "response.raise_for_status()")) == ["SP005"]
    assert codes(text.format(", giveup=is_fatal", "response.raise_for_status()")) == []
    assert codes(text.format("", "pass")) == []


def test_post_is_recognised_by_its_client() -> None:
    text = """
    import stamina
    class Api:
        @stamina.retry(on=OSError)
        def send(self, order):
            return {}
    """
    assert codes(text.format('self.session.post("/orders", json=order)')) == ["SP006"]
    assert codes(text.format('self.client.patch("/orders/1", json=order)')) == []
    assert codes(text.format('self.client.post("/o", headers={"Idempotency-Key": order.key})')) == []
    assert codes(text.format('self.board.post("hello")')) == []
    assert codes(text.format("self.client.get(order)")) == []


def test_nested_retries_are_found() -> None:
    assert codes(
        """
        import stamina, stormproof as sp
        class Api:
            @stamina.retry(on=OSError)
            def get(self): ...
            @sp.retry(on=OSError)
            def page(self):
                return self.get()
        """
    ) == ["SP007"]
    assert codes("import stamina\n@stamina.retry(on=OSError)\n@stamina.retry(on=OSError)\ndef f(): ...") == [
        "SP007"
    ]
    ours = """
        import stormproof as sp
        @sp.retry(on=OSError)
        def inner(): ...
        @sp.retry(on=OSError)
        def outer():
            return inner() or outer()
        """
    assert codes(ours) == [], "our own layers do not multiply, and a recursion is not another layer"


def test_client_with_default_retries_inside_a_retry_is_found() -> None:
    text = """
    import openai, stamina
    client = openai.OpenAI({})
    @stamina.retry(on=openai.RateLimitError)
    def ask(text):
        return client.responses.create(input=text)
    """
    assert codes(text.format("")) == ["SP007"]
    assert codes(text.format("max_retries=0")) == []


def test_policy_files_are_read() -> None:
    assert codes('[policies.a]\nretry = { on = "BaseException" }\ntimeout = 1\n', "stormproof.toml") == [
        "SP010"
    ]
    endless = '[policies.a]\nretry = { attempts = "none", within = "none" }\ntimeout = 1\n'
    assert codes(endless, "stormproof.toml") == ["SP003"]
    assert codes("[policies.a]\ndeadline = 9\n" + endless.partition("\n")[2], "stormproof.toml") == []
    waits = '[policies.a]\ndeadline = "{}"\nretry = {{ backoff = {{ kind = "constant", wait = "2s" }} }}\n'
    assert codes(waits.format("1s"), "stormproof.toml") == ["SP001", "SP004"]
    assert codes(waits.format("9s"), "stormproof.toml") == ["SP001"]
    loose = '{"policies": {"a": {"retry": {"budget": {"ratio": 3}}, "timeout": 1}}}'
    assert codes(loose, "stormproof.json") == ["SP008"]
    assert codes("policies:\n  a:\n    retry: {budget: none}\n    timeout: 1\n", "stormproof.yaml") == [
        "SP008"
    ]


def test_policy_file_is_checked_without_importing_the_types_it_names() -> None:
    text = '[policies.a]\nretry = { on = "no_such_package.errors.Busy" }\ntimeout = 1\n'
    assert codes(text, "stormproof.toml") == []


def test_policy_files_finding_stands_at_its_key() -> None:
    text = '# policies\n\n[policies.a]\ndeadline = 1\nretry = { attempts = 3, budget = "none" }\n'
    (found,) = check(text, "stormproof.toml", EVERY)
    assert (found.place.line, found.place.column) == (5, 25)
    assert found.place.end_column - found.place.column == len("budget")


def test_policy_used_as_a_decorator_by_name_is_read() -> None:
    text = """
    import stormproof as sp, requests
    policy = sp.Policy({}, sp.Timeout(1))
    @policy
    def pay(order):
        return requests.post("https://example.com/payments", json=order)
    """
    assert codes(text.format("sp.Retry(on=OSError)")) == ["SP006"]
    assert codes(text.format("sp.Breaker()")) == [], "it retries nothing"
    assert codes(text.format("sp.Retry(on=OSError, budget=None)")) == ["SP008", "SP006"], "each once"
