"""The lab's server admits only its own page, and no request makes it do what it should not."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.lab_server import Served, serving

pytestmark = pytest.mark.proves("security web-page")

POLICY = "[policies.p]\nretry = { attempts = 3 }\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Served]:
    with serving() as served:
        yield served


def test_server_listens_on_loopback_only(lab: Served) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: only asks which address this machine would use
        other = probe.getsockname()[0]
    if other.startswith("127."):
        other = "127.0.0.2"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((other, lab.port), timeout=5).close()


def test_page_itself_holds_no_secret_and_changes_nothing(lab: Served) -> None:
    status, _, body = lab.ask("GET", "/", headers={"Host": f"127.0.0.1:{lab.port}"})
    assert status == 200
    assert lab.token.encode() not in body
    assert b'id="stormproof-data">null</script>' in body


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost",
        "127.0.0.1:{port}.evil.example",
        "evil.example:{port}",
        "127.0.0.1:{port}@evil.example",
        "[::1]:{port}",
        "0.0.0.0:{port}",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/setup"])
def test_foreign_host_is_refused(lab: Served, host: str, path: str) -> None:
    headers = lab.headers(Host=host.format(port=lab.port), Origin=None, Content_Type=None)
    status, _, body = lab.ask("GET", path, headers=headers)
    assert (status, json.loads(body)) == (421, {"error": {"message": "this host is not served here"}})


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
def test_foreign_host_is_refused_before_any_other_check(lab: Served, method: str) -> None:
    """For any method and path, even with the token."""
    for path in ("/", "/api/setup", "/api/policy", "/api/run", "/api/cancel", "/nothing", "/../x"):
        headers = lab.headers(Host=f"evil.example:{lab.port}")
        status, _, _ = lab.ask(method, path, headers=headers)
        assert status == 421, (method, path)


def test_localhost_is_accepted(lab: Served) -> None:
    host = f"localhost:{lab.port}"
    status, _ = lab.post("/api/policy", {"toml": POLICY}, Host=host, Origin=f"http://{host}")
    assert status == 200


def raw(lab: Served, text: str) -> str:
    """The status line of a request written by hand."""
    with socket.create_connection(("127.0.0.1", lab.port), timeout=10) as connection:
        connection.sendall(text.format(port=lab.port, token=lab.token).replace("\n", "\r\n").encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.split(b"\r\n")[0].decode()


def test_two_hosts_or_none_are_refused(lab: Served) -> None:
    assert " 200 " in raw(lab, "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nConnection: close\n\n")
    two = "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: evil.example\nConnection: close\n\n"
    assert re.search(r" 4\d\d ", raw(lab, two))
    assert re.search(r" 4\d\d ", raw(lab, "GET / HTTP/1.0\n\n"))


def test_repeated_header_is_ignored(lab: Served) -> None:
    """Two parsers may each take another one of two values; so neither is taken."""
    post = (
        "POST /api/policy HTTP/1.1\nHost: 127.0.0.1:{port}\nOrigin: http://127.0.0.1:{port}\n"
        "X-Stormproof-Token: {token}\nContent-Type: application/json\nConnection: close\n"
    )
    end = "Content-Length: 2\n\n{{}}"
    assert " 422 " in raw(lab, post + end)
    assert " 403 " in raw(lab, post + "X-Stormproof-Token: wrong\n" + end)
    assert " 403 " in raw(lab, post + "Origin: http://evil.example\n" + end)
    assert " 415 " in raw(lab, post + "Content-Type: text/plain\n" + end)


CALLS = ["/api/policy", "/api/run", "/api/cancel", "/api/report"]


@pytest.mark.parametrize("token", [None, "", "wrong", "x" * 32])
@pytest.mark.parametrize("path", CALLS)
def test_call_without_the_token_is_refused(lab: Served, path: str, token: str | None) -> None:
    status, answer = lab.post(path, {"toml": POLICY}, X_Stormproof_Token=token)
    assert status == 403
    assert "token" in answer["error"]["message"]


def test_token_is_required_for_reads_and_not_accepted_in_the_address(lab: Served) -> None:
    plain = lab.headers(Origin=None, Content_Type=None, X_Stormproof_Token=None)
    for path in ("/api/setup", f"/api/setup?token={lab.token}", "/api/nothing"):
        assert lab.ask("GET", path, headers=plain)[0] == 403
    assert lab.ask("GET", "/api/setup", headers=lab.headers(Origin=None, Content_Type=None))[0] == 200


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
    ],
)
@pytest.mark.parametrize("path", CALLS)
def test_post_from_another_page_is_refused_even_with_the_token(
    lab: Served, path: str, origin: str | None
) -> None:
    given = None if origin is None else origin.format(port=lab.port)
    status, answer = lab.post(path, {"toml": POLICY}, Origin=given)
    assert (status, answer["error"]["message"]) == (403, "this request comes from another page")


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_form_of_another_page_cannot_be_a_call(lab: Served, kind: str | None) -> None:
    assert lab.post("/api/policy", {"toml": POLICY}, Content_Type=kind)[0] == 415


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_get_reaches_no_call_that_changes_state(lab: Served, method: str, path: str) -> None:
    status, _, _ = lab.ask(method, path, headers=lab.headers(Content_Type=None))
    assert status == 405


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_and_preflights_are_refused(lab: Served, method: str) -> None:
    status, headers, _ = lab.ask(method, "/api/run", b"")
    assert status == 405
    assert not [name for name in headers if name.startswith("access-control-")]


def test_body_that_is_too_large_is_refused_unread(lab: Served) -> None:
    status, answer = lab.post("/api/policy", {"toml": "#" * 300_000})
    assert (status, "at most" in answer["error"]["message"]) == (413, True)
    status, answer = lab.post("/api/policy", {"toml": "#" * 70_000})
    assert status == 422
    assert "at most 65536 characters" in answer["error"]["message"]


def test_body_without_a_length_is_refused(lab: Served) -> None:
    line = raw(
        lab,
        "POST /api/policy HTTP/1.1\nHost: 127.0.0.1:{port}\nOrigin: http://127.0.0.1:{port}\n"
        "X-Stormproof-Token: {token}\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n",
    )
    assert " 413 " in line


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999999999999999", "0x10", ""])
def test_invalid_content_length_is_refused(lab: Served, length: str) -> None:
    line = raw(
        lab,
        "POST /api/policy HTTP/1.1\nHost: 127.0.0.1:{port}\nOrigin: http://127.0.0.1:{port}\n"
        f"X-Stormproof-Token: {{token}}\nContent-Type: application/json\nContent-Length: {length}\n\n",
    )
    assert re.search(r" 4\d\d ", line), line


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"toml": 5}'])
def test_body_that_is_not_a_table_is_an_error_and_not_a_crash(lab: Served, body: bytes) -> None:
    status, answer = lab.post("/api/policy", body)
    assert status == 422
    assert answer["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/_page/index.html",
        "/index.html",
        "/static/../server.py",
        "/api/../",
        "/docs",
        "/openapi.json",
        "http://127.0.0.1:1/",
    ],
)
def test_no_path_serves_a_file(lab: Served, path: str) -> None:
    status, _, body = lab.ask("GET", path, headers=lab.headers(Origin=None, Content_Type=None))
    assert status == 404
    assert b"root:" not in body


def test_every_answer_has_the_strict_security_headers(lab: Served) -> None:
    get = lab.headers(Origin=None, Content_Type=None)
    answers = [
        lab.ask("GET", "/", headers=get),
        lab.ask("GET", "/api/setup", headers=get),
        lab.ask("GET", "/nothing", headers=get),
        lab.ask("GET", "/", headers={**get, "Host": "evil.example"}),
        lab.ask("POST", "/api/policy", {"toml": "nonsense"}),
    ]
    assert [status for status, _, _ in answers] == [200, 200, 404, 421, 422]
    for _, headers, _ in answers:
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_pages_policy_allows_its_own_script_by_hash_and_no_other(lab: Served) -> None:
    import base64
    import hashlib

    _, headers, body = lab.ask("GET", "/", headers={"Host": f"127.0.0.1:{lab.port}"})
    rules = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    scripts = re.findall(r'<script type="module">(.*?)</script>', body.decode(), re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", body.decode(), re.DOTALL)
    for texts, rule in ((scripts, "script-src"), (styles, "style-src")):
        assert len(texts) == 1
        digest = base64.b64encode(hashlib.sha256(texts[0].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert rules["connect-src"] == "'self'"


# What a policy's text can do.


@pytest.mark.parametrize("key", ["on", "exclude", "fault"])
@pytest.mark.parametrize("name", ["trap_module.Error", "os.error", "stormproof.cli.main", "antigravity.x"])
def test_name_in_a_policy_imports_nothing(lab: Served, key: str, name: str, tmp_path: Path) -> None:
    strategy = {"on": "retry", "exclude": "breaker", "fault": "chaos"}[key]
    for value in (f'"{name}"', f'["ValueError", "{name}"]'):
        status, answer = lab.post(
            "/api/policy", {"toml": f"[policies.p]\n{strategy} = {{ {key} = {value} }}\n"}
        )
        assert status == 422
        place = "" if value.startswith('"') else "[1]"
        assert answer["error"]["field"] == f"policies.p.{strategy}.{key}{place}"
        assert "nothing is imported" in answer["error"]["message"]
    assert name.partition(".")[0] not in {"trap_module", "antigravity"} & set(sys.modules)


@pytest.mark.parametrize("name", ["on", "exclude", "fault", "store"])
def test_policys_own_name_opens_no_way_to_import(lab: Served, name: str) -> None:
    text = f'[policies.{name}]\nretry = {{ on = "antigravity.Nope" }}\n'
    status, answer = lab.post("/api/policy", {"toml": text})
    assert (status, answer["error"]["field"]) == (422, f"policies.{name}.retry.on")
    assert "nothing is imported" in answer["error"]["message"]


def test_store_in_a_policy_is_refused_and_nothing_connects(lab: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        store = f'[store]\nurl = "redis://127.0.0.1:{port}/0"\n'
        shared = "[policies.a]\nretry = { budget = { store = true, burst = 5 } }\n"
        for text, line, field in (
            (store + shared, 1, "store"),
            (store + POLICY, 1, "store"),
            ('[store]\nurl = "env:HOME"\n' + POLICY, 1, "store"),
            (shared, 2, "policies.a.retry.budget.store"),
        ):
            for path, request in (("/api/policy", {"toml": text}), ("/api/run", lab.request(text))):
                status, answer = lab.post(path, request)
                assert status == 422, answer
                assert (answer["error"]["line"], answer["error"]["field"]) == (line, field)
                assert "connects to a store" in answer["error"]["message"]
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_names_of_the_simulators_errors_are_accepted(lab: Served) -> None:
    text = '[policies.p]\nretry = { on = ["ConnectionError", "stormproof.lab.BackendError"] }\n'
    status, answer = lab.post("/api/policy", {"toml": text})
    assert status == 200, answer
    assert "BackendError" in answer["python"]


def test_code_in_a_policy_text_is_not_run(lab: Served, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    code = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    for text in (
        f'[policies."{code}"]\nretry = {{}}\n',
        f'[policies.p]\nretry = {{ attempts = "{code}" }}\n',
        f'[policies.p]\nretry = {{ on = "{code}" }}\n',
        f'[policies.p]\nfallback = "{code}"\nretry = {{}}\n',
        "!!python/object/apply:os.system ['true']",
    ):
        status, _ = lab.post("/api/policy", {"toml": text})
        assert status in (200, 422)
        if status == 200:
            assert lab.run(lab.request(text))[-1]["type"] in ("done", "error")
    assert not trap.exists()


def test_error_names_line_field_value_and_rule(lab: Served) -> None:
    _, answer = lab.post("/api/policy", {"toml": "[policies.p]\n\nretry = { attempts = 0 }\n"})
    error = answer["error"]
    assert (error["line"], error["field"]) == (3, "policies.p.retry.attempts")
    assert error["message"] == "Retry: attempts must be >= 1, got 0"


# How much a run can ask for.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clients", 10**9),
        ("clients", 0),
        ("clients", 1.5),
        ("clients", True),
        ("clients", "many"),
        ("clients", None),
        ("arrival_rps", 10**12),
        ("arrival_rps", -1),
        ("capacity_rps", 0),
        ("duration", 10**9),
        ("timeout", 0),
        ("outage_lasts", [1]),
        ("outage_mode", "explode"),
    ],
)
def test_value_beyond_a_sliders_ends_is_refused(lab: Served, name: str, value: object) -> None:
    status, answer = lab.post("/api/run", lab.request(**{name: value}))
    assert (status, answer["error"]["field"]) == (422, name)
    assert "got" in answer["error"]["message"]


def test_infinity_and_nan_are_refused(lab: Served) -> None:
    for word in ("NaN", "Infinity", "1e999"):
        body = json.dumps(lab.request()).replace('"clients": 20', f'"clients": {word}').encode()
        status, answer = lab.post("/api/run", body)
        assert (status, answer["error"]["field"]) == (422, "clients")


def test_too_many_calls_are_refused(lab: Served) -> None:
    status, answer = lab.post("/api/run", lab.request(arrival_rps=20_000, duration=600))
    assert (status, answer["error"]["field"]) == (422, "arrival_rps")
    assert "2,000,000" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scenario": "../../etc/passwd"}, "scenario"),
        ({"scenario": None}, "scenario"),
        ({"values": {}}, "values"),
        ({"values": "x" * 1000}, "values"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"seed": "1"}, "seed"),
        ({"policies": []}, "policies"),
        ({"policies": [{"toml": POLICY}] * 3}, "policies"),
        ({"policies": [{"toml": 1}]}, "toml"),
        ({"policies": [{"toml": POLICY, "name": 1}]}, "name"),
    ],
)
def test_invalid_run_is_refused(lab: Served, change: dict[str, object], field: str) -> None:
    status, answer = lab.post("/api/run", {**lab.request(), **change})
    assert (status, answer["error"]["field"]) == (422, field)
    assert len(answer["error"]["message"]) < 400


#: Too few calls for the fast engine, which might have to be compiled first.
LONG = {"arrival_rps": 450, "capacity_rps": 20000, "duration": 600, "clients": 1000}


@contextlib.contextmanager
def begun(lab: Served) -> Iterator[tuple[http.client.HTTPResponse, str]]:
    """A run under way: its answer so far, and its identity. At the end the reader leaves."""
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=30)
    connection.request("POST", "/api/run", json.dumps(lab.request(**LONG)), lab.headers())
    response = connection.getresponse()
    try:
        assert response.status == 200
        first = json.loads(response.readline())
        assert first["type"] == "started"
        yield response, first["id"]
    finally:
        response.close()
        connection.close()


def test_second_run_is_refused_until_the_first_is_cancelled(lab: Served) -> None:
    with begun(lab) as (response, run):
        status, answer = lab.post("/api/run", lab.request())
        assert (status, answer["error"]["message"]) == (409, "another run is under way: cancel it first")
        assert lab.post("/api/cancel", {"id": "another"}) == (200, {"cancelled": False})
        assert lab.post("/api/cancel", {"id": run}) == (200, {"cancelled": True})
        rest = [json.loads(line) for line in response.read().splitlines()]
        assert rest[-1] == {"type": "cancelled"}
    assert lab.post("/api/report", {"id": run})[0] == 404
    assert lab.run(lab.request())[-1]["type"] == "done"


def test_reader_that_leaves_ends_the_run(lab: Served) -> None:
    with begun(lab):
        assert probe(lab) == 409
    until = time.monotonic() + 30
    while (status := probe(lab)) == 409:
        assert time.monotonic() < until, "the run goes on without a client"
        time.sleep(0.05)
    assert status == 200


def probe(lab: Served) -> int:
    """The status of a run asked for now."""
    return lab.ask("POST", "/api/run", lab.request())[0]


# What comes out.


NASTY = "</script><img src=x onerror=alert(1)><!--\u2028"


def test_html_in_a_name_is_text_in_the_report(lab: Served) -> None:
    done = lab.run(lab.request(f"[policies.{json.dumps(NASTY)}]\nretry = {{}}\n"))[-1]
    assert done["type"] == "done", done
    assert done["data"]["runs"][0]["name"] == NASTY
    status, headers, body = lab.ask("POST", "/api/report", {"id": done["id"]})
    text = body.decode()
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    assert NASTY not in text and "<img src=x" not in text and "\u2028" not in text
    assert "connect-src 'none'" in text
    inside = re.search(r'id="stormproof-data">(.*?)</script>', text, re.DOTALL)
    assert inside is not None
    assert json.loads(inside[1]) == done["data"]


def test_same_seed_gives_the_same_data(lab: Served) -> None:
    request = lab.request(POLICY, '[policies.q]\nretry = { budget = "none" }\n')
    first, second = (lab.run(request)[-1]["data"] for _ in range(2))
    assert first == second
    assert [run["name"] for run in first["runs"]] == ["p", "q"]


def test_only_the_last_results_are_kept(lab: Served) -> None:
    ids = [lab.run(lab.request(duration=2))[-1]["id"] for _ in range(9)]
    assert lab.post("/api/report", {"id": ids[0]})[0] == 404
    assert lab.ask("POST", "/api/report", {"id": ids[-1]})[0] == 200
