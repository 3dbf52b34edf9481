"""A retry is spoken of only where its file shows that the call leaves the machine."""

from __future__ import annotations

import textwrap

import pytest

from stormproof.lint import Settings, check

HEAD = "import os, random, shutil, sqlite3, subprocess, time\n"
LOOP = """
{before}
def {name}({parameters}):
    for attempt in range(4):
        try:
            return {call}
        except {error}:
            time.sleep(1)
"""


def codes(text: str, *, strict: bool = False) -> set[str]:
    found = check(HEAD + textwrap.dedent(text), "module.py", Settings(strict=strict))
    return {finding.code for finding in found}


def loop(
    call: str, error: str = "Exception", name: str = "f", parameters: str = "x", before: str = ""
) -> str:
    return LOOP.format(
        call=call, error=error, name=name, parameters=parameters, before=textwrap.dedent(before)
    )


REMOTE = {
    "library": loop("requests.get(x)", before="import requests"),
    "library under another name": loop("r.get(x)", before="import requests as r"),
    "object made by a library": loop("conn.send(x)", before="import httpx\nconn = httpx.Client()"),
    "object of an annotated type": loop(
        "s.get(x)", parameters="s: 'aiohttp.ClientSession', x", before="import aiohttp"
    ),
    "optional annotated type": loop(
        "s.get(x)", parameters="s: httpx.Client | None, x", before="import httpx"
    ),
    "object of a with block": loop(
        "work(x)",
        before="""
        import httpx
        def work(x):
            with httpx.Client() as box:
                return box.open(x)
        """,
    ),
    "error of a library": loop("x()", error="botocore.exceptions.ClientError", before="import botocore"),
    "error that says network": loop("x()", error="ConnectionError"),
    "error of one's own that says network": loop(
        "x()", error="ApiUnavailable", before="class ApiUnavailable(Exception): ..."
    ),
    "name of the call": loop("fetch_page(x)", before="def fetch_page(x): return x"),
    "name of the argument": loop("load(url)", parameters="url", before="def load(url): return url"),
    "name of the function around": loop("x.run()", name="download_report"),
    "method of HTTP with an address": loop("client.get(url)", parameters="client, url"),
    "session of SSH": loop(
        "box.run(x)", before="import paramiko\nbox = paramiko.SSHClient()", error="paramiko.SSHException"
    ),
    "connect of a socket": loop("s.connect(x)", before="import socket\ns = socket.socket()"),
    "one call away": loop(
        "inner(x)",
        before="""
        import urllib.request
        def inner(x):
            return urllib.request.urlopen(x)
        """,
    ),
    "parameter of a function named after retries": loop("fn()", name="retry_call", parameters="fn"),
    "name that the file does not define": loop("call()"),
}
GUESSES = {
    "session of SSH",
    "connect of a socket",
    "error of one's own that says network",
    "name of the call",
    "name of the argument",
    "name of the function around",
    "parameter of a function named after retries",
}
LOCAL = {
    "file": loop("open(x).read()", error="OSError"),
    "folder": loop("shutil.rmtree(x)", name="download_cache", error="OSError"),
    "child process": loop("subprocess.check_output(x)", name="fetch"),
    "database in a file": loop("sqlite3.connect(x)", error="sqlite3.OperationalError"),
    "unknown call": loop("x.run()"),
    "browser on this machine": loop("browser.api_click(x)", parameters="browser, x"),
    "server on this machine": loop('requests.get("http://localhost:8080")', before="import requests"),
    "address of this machine, formatted": loop(
        "requests.get(f'http://127.0.0.1:{x}')", before="import requests"
    ),
    "parameter of a function with another name": loop("fn()", name="apply", parameters="fn"),
    "wait for what was started": loop("client.get(x)", name="wait_until_up", parameters="client, x"),
    "end of what is deleted": loop("client.drop(x)", name="delete_bucket", parameters="client, x"),
    "name of this machine's file behind a remote word": loop("os.remove(url_cache)", parameters="url_cache"),
}


@pytest.mark.parametrize("name", REMOTE)
def test_loop_with_evidence_of_a_network_is_found(name: str) -> None:
    assert codes(REMOTE[name], strict=True) == {"SP009"}
    assert codes(REMOTE[name]) == (set() if name in GUESSES else {"SP009"})


@pytest.mark.parametrize("name", LOCAL)
def test_loop_without_evidence_of_a_network_is_left_alone(name: str) -> None:
    assert codes(LOCAL[name], strict=True) == set()


@pytest.mark.parametrize(
    ("body", "imports", "found"),
    [
        ("return requests.get(x)", "import requests", True),
        ("return x.load()", "import requests", True),
        ("return x.load()", "", False),
        ("return open(x).read()", "import requests", False),
        ("...", "", True),
    ],
    ids=["call", "import of the file", "unknown", "file", "stub"],
)
def test_waits_of_a_library_need_less_evidence_if_strict(body: str, imports: str, found: bool) -> None:
    text = f"""
    from tenacity import retry, stop_after_attempt, wait_fixed
    {imports}
    @retry(stop=stop_after_attempt(3), wait=wait_fixed(1), retry=retry_if)
    def f(x):
        {body}
    """
    assert ("SP001" in codes(text, strict=True)) is found
    assert ("SP001" in codes(text)) is (found and "x.load" not in body)


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("if '429' in str(error): time.sleep(1)", True),
        ("if 'still attached' in str(error): time.sleep(1)", False),
        ("log('waiting for the disk'); time.sleep(1)", False),
        ("log('failed'); time.sleep(1)", True),
    ],
)
def test_handler_that_awaits_a_state_is_a_poll(handler: str, found: bool) -> None:
    text = f"""
    def f(client, log):
        for attempt in range(4):
            try:
                return client.attach()
            except Exception as error:
                {handler}
    """
    assert bool(codes(text, strict=True)) is found


@pytest.mark.parametrize(("name", "found"), [("create_user", True), ("search", False)])
def test_post_without_a_key_is_found_where_names_say_that_it_writes(name: str, found: bool) -> None:
    text = f"""
    import requests
    from tenacity import retry, stop_after_attempt, wait_random
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1))
    def {name}(x):
        return requests.post(address, json=x)
    """
    assert ("SP006" in codes(text)) is found


def test_every_exception_after_raise_for_status_retries_client_errors() -> None:
    text = """
    import httpx
    from tenacity import retry, stop_after_attempt, wait_random
    @retry(stop=stop_after_attempt(3), wait=wait_random(0, 1))
    def read(x):
        response = httpx.get(x)
        response.raise_for_status()
        return response
    """
    assert codes(text) == {"SP005"}


def test_update_conflict_may_be_retried_at_once() -> None:
    text = """
    import requests
    from tenacity import retry, retry_if_exception, stop_after_attempt
    @retry(stop=stop_after_attempt(3), retry=retry_if_exception(lambda e: isinstance(e, {})))
    def change(x):
        return requests.put(x)
    """
    assert codes(text.format("UpdateConflict")) == set()
    assert codes(text.format("Unavailable")) == {"SP002"}


def test_file_in_a_newer_python_is_skipped() -> None:
    assert check("import time\nclass Page[T]:\n    def f[U](self): time.sleep(1)\n    retry", "m.py") == []
    assert {f.code for f in check("import time\ndef f(:\n    retry", "m.py")} == {"SP000"}
