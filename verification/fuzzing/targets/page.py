"""What the lab's page sends: a policy's text and its knobs, a run's request, and its headers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from stormproof.lab.page import policy
from stormproof.lab.page.guard import LARGEST_BODY, RejectedRequest, admit
from stormproof.lab.page.runs import _jobs
from stormproof.lab.page.scenario import shipped_stories, values
from stormproof.lab.page.server import application

from ..model import Target, lines, must, text

_HOST = "127.0.0.1:8080"
_TOKEN = "t" * 32


@cache
def _app() -> Any:
    return application(frozenset({_HOST}), _TOKEN)


def _post(path: str, body: bytes) -> tuple[int, bytes]:
    """The status and body of the answer, by the application itself without a server around it."""
    headers = {
        "host": _HOST,
        "origin": f"http://{_HOST}",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-stormproof-token": _TOKEN,
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    messages: list[dict[str, Any]] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    # Nothing in it waits, so it runs to its end without a loop.
    call = _app()(scope, receive, send)
    try:
        call.send(None)
    except StopIteration:
        pass
    else:
        call.close()
        raise AssertionError("the application waits for something")
    return messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:])


def check_policy(data: bytes) -> None:
    """200 or 422 and JSON, whatever the body. A policy's TOML reads back as the same policy, and its Python
    is Python.
    """
    status, body = _post("/api/policy", data)
    answer = json.loads(body)
    must(status in (200, 422), f"must be 200 or 422, got {status}")
    if status == 422:
        must(isinstance(answer["error"]["message"], str), "a refusal must say why")
        return
    again = policy.read(answer["toml"], answer["name"])
    must(repr(again.policy) == answer["repr"], "the text that is shown must be the same policy")
    compile(answer["python"], "<page>", "exec", dont_inherit=True)


def check_run(data: bytes) -> None:
    """A request for a run gives one job a policy, or an error that the page is told as 422."""
    try:
        request = json.loads(text(data))
    except (ValueError, RecursionError):
        return
    try:
        scenario, jobs = _jobs(request)
    except (ValueError, TypeError):
        return
    must(1 <= len(jobs) <= 2 and scenario.expected_calls <= 2_000_000, "must be bounded")
    json.dumps(jobs, allow_nan=False)


def check_guard(data: bytes) -> None:
    """Only a request with our host, our origin and the token gets in; anything else is a RejectedRequest."""
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in lines(data)]
    scope = {"headers": pairs, "method": "POST", "path": "/api/run"}
    try:
        admit(scope, frozenset({_HOST}), _TOKEN)
    except RejectedRequest as refusal:
        must(400 <= refusal.status < 500, f"must be a 4xx, got {refusal.status}")
        return
    found = dict(pairs)
    must(len(found) >= 5, "a header is missing")
    must(found[b"host"] == _HOST.encode(), "another host")
    must(found[b"origin"].lower() == b"http://" + _HOST.encode(), "another origin")
    must(found[b"x-stormproof-token"] == _TOKEN.encode(), "another token")
    must(0 <= int(found[b"content-length"]) <= LARGEST_BODY, "too long")


def _bodies() -> tuple[str, ...]:
    texts = [
        '[policies.p]\nretry = { attempts = 3, budget = { kind = "KIND" } }\n'.replace("KIND", kind)
        for kind in ("success", "window", "throttle", "rate", "quota")
    ]
    texts += [
        "[policies.p]\nretry = 3\ntimeout = '2s'\n",
        "x-day = 1979-05-27\n[policies.p]\nfallback = { value = [1, {a = 'b'}] }\n[budgets.a]\n",
        "[policies]\np = {strategies = [{retry = {}}, {timeout = 1}]}\n[limiters]\na = '1/s'\n",
        "[policies.p]\nretry = { backoff = { kind = 'constant', wait = 1 } }\n",
    ]
    plain = [json.dumps({"toml": text}) for text in texts]
    turned = [
        json.dumps({"toml": texts[n % len(texts)], "name": "p", "edit": {"knob": knob, "value": value}})
        for n, (knob, value) in enumerate(
            (knob, value)
            for knob in (
                "attempts",
                "backoff",
                "base",
                "cap",
                "jitter",
                "budget",
                "ratio",
                "burst",
                "timeout",
                "breaker",
            )
            for value in ("3", "none", "full", "quota", "constant", "")
        )
    ]
    return (*plain, *turned, '{"toml": "\\ud800"}', '{"toml": "[policies.\\"\\ud83d\\"]", "name": "\\ud800"}')


def _runs() -> tuple[str, ...]:
    name, (story, _) = next(iter(shipped_stories().items()))
    request = {
        "scenario": name,
        "values": values(story.scenario),
        "seed": 42,
        "policies": [{"toml": "[policies.p]\nretry = {}\n"}],
    }
    return json.dumps(request), json.dumps({**request, "policies": [], "seed": "x"})


_JSON = (
    '{"toml":',
    '"name":',
    '"edit":',
    '{"knob":',
    '"value":',
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\n",
    "\\ud800",
    "\\u0000",
    "null",
    "true",
    "1e999",
    "NaN",
    "-1",
    "[policies.p]",
    "retry",
    "=",
    "attempts",
    "budget",
    "kind",
    "backoff",
    "base",
    "ratio",
    "burst",
    "breaker",
    "timeout",
    "1979-05-27",
    "inf",
    "x-",
    "0x1F",
    "fallback",
)

TARGETS = (
    Target("page-policy", "the page's requests about a policy", check_policy, _bodies(), _JSON, 400, 3.0),
    Target(
        "page-run",
        "the page's requests for a run",
        check_run,
        _runs(),
        (
            *_JSON,
            '"scenario":',
            '"values":',
            '"seed":',
            '"policies":',
            '"clients":',
            '"outage_mode":',
            "hang",
        ),
        700,
        3.0,
    ),
    Target(
        "page-guard",
        "the headers of the page's requests",
        check_guard,
        (
            (
                f"host:{_HOST}\norigin:http://{_HOST}\ncontent-type:application/json; charset=utf-8\n"
                f"content-length:2\nx-stormproof-token:{_TOKEN}"
            ),
            f"host:LOCALHOST:8080\norigin:null\nhost:{_HOST}",
        ),
        (
            "host:",
            "origin:",
            "content-type:",
            "content-length:",
            "x-stormproof-token:",
            _HOST,
            _TOKEN,
            "\n",
            "http://",
            "application/json",
            ";",
            "0",
            "999999999",
            "-1",
            "\xb2",
        ),
        longest=300,
    ),
)
