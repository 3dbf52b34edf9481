"""The status page: what a running process says about itself, and what it never says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import starlette.applications
import starlette.routing
import uvicorn

import stormproof as sp
import stormproof._events.operations
import stormproof._policy.policy
import stormproof._telemetry.meters
from stormproof.asgi import StatusApp

pytestmark = pytest.mark.proves("security web-page")


@pytest.fixture(autouse=True)
def own_census(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have used up the names."""
    fresh = stormproof._events.operations.Census()
    for module in (stormproof._events.operations, stormproof._telemetry.meters, stormproof._policy.policy):
        monkeypatch.setattr(module, "census", fresh)


@pytest.fixture
def app() -> Iterator[StatusApp]:
    app = StatusApp(recent=3)
    yield app
    app.close()


@pytest.fixture
def client(app: StatusApp) -> Iterator[httpx.Client]:
    """A real server in a thread, the page mounted in a Starlette application."""
    site = starlette.applications.Starlette(routes=[starlette.routing.Mount("/stormproof", app)])
    server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/stormproof", follow_redirects=True) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def trouble(name: str) -> None:
    @sp.Policy(sp.Retry(on=ConnectionError, attempts=2), sp.Breaker(name=f"{name}-gate"), name=name)
    def call(token: str) -> None:
        raise ConnectionError(token)

    with pytest.raises(ConnectionError):
        call("hunter2")


def test_call_that_gave_up_is_shown(client: httpx.Client, stormproof_instant: object) -> None:
    trouble("status-mail")
    data = client.get("/data.json").json()
    (row,) = [row for row in data["operations"] if row["operation"] == "status-mail"]
    assert (row["attempts"], row["retries"], row["give_ups"]) == (2, 1, {"attempts": 1})
    (last,) = data["recent"]
    assert (last["operation"], last["why"], last["attempts"]) == ("status-mail", "attempts", 2)
    assert last["error"] == "ConnectionError"
    page = client.get("/")
    assert page.status_code == 200
    assert "status-mail" in page.text
    assert "hunter2" not in page.text + str(data)


def test_living_policies_are_shown_with_their_state(client: httpx.Client) -> None:
    breaker = sp.Breaker()
    call = sp.Policy(
        sp.Retry(on=OSError, budget=sp.Budget(burst=4)), breaker, sp.Bulkhead(9), name="status-live"
    )(lambda: 1)
    call()
    breaker.force_open()
    (row,) = [r for r in client.get("/data.json").json()["operations"] if r["operation"] == "status-live"]
    assert row["breaker"] == "open"
    assert row["in_use"] == 0
    assert row["budget"] == pytest.approx(4.1)
    assert '<td class="open">open</td>' in client.get("/").text


def test_recent_events_are_bounded(client: httpx.Client, stormproof_instant: object) -> None:
    for i in range(5):
        trouble(f"status-many-{i}")
    recent = [row["operation"] for row in client.get("/data.json").json()["recent"]]
    assert recent == ["status-many-4", "status-many-3", "status-many-2"]


def test_names_are_text_not_html(client: httpx.Client, stormproof_instant: object) -> None:
    trouble('<script>alert("x")</script>')
    page = client.get("/").text
    assert "<script" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)" in page


def test_status_page_is_read_only_and_locked_down(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert page.headers["cache-control"] == "no-store"
    assert client.post("/").status_code == 405
    assert client.get("/etc/passwd").status_code == 404
    head = client.head("/")
    assert head.status_code == 200 and head.content == b""


def test_closed_status_app_counts_no_further_events(stormproof_instant: object) -> None:
    app = StatusApp()
    app.close()
    trouble("status-closed")
    assert app._status.read()["recent"] == []


def test_standalone_app_starts_and_stops_with_its_server(app: StatusApp) -> None:
    messages = ["lifespan.startup", "lifespan.shutdown"]
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": messages.pop(0)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_websocket_scope_is_refused(app: StatusApp) -> None:
    with pytest.raises(RuntimeError, match="StatusApp: scope must be http or lifespan, got 'websocket'"):
        asyncio.run(app({"type": "websocket"}, None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"recent": 0}, {"refresh": 0}, {"refresh": 1.5}])
def test_bad_option_is_refused(options: dict[str, float]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"StatusApp: {next(iter(options))} must be"):
        StatusApp(**options)  # type: ignore[arg-type]
