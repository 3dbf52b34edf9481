"""A running ``stormproof lab``: the real command in a process of its own, on a free port of loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def built_page() -> Path:
    """Return the page, built anew if its sources have changed; skip the test where there is no Node."""
    done = subprocess.run(
        [sys.executable, "tools/build-page"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if "there is no Node" in done.stderr:
        pytest.skip("lab page: no Node >= 20.19 with npm to build it")
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "src/stormproof/lab/_page/index.html"


class Served:
    """The address of the lab, and calls to it as its own page would make them."""

    def __init__(self, address: str) -> None:
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{20,})", address)
        assert found is not None, address
        self.address = address
        self.port = int(found[1])
        self.token = found[2]
        self.origin = f"http://127.0.0.1:{self.port}"

    def headers(self, **changes: str | None) -> dict[str, str]:
        """The headers of the page's calls. A change to None leaves one out."""
        usual: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Origin": self.origin,
            "Content-Type": "application/json",
            "X-Stormproof-Token": self.token,
        }
        merged = {**usual, **{name.replace("_", "-"): value for name, value in changes.items()}}
        return {name: value for name, value in merged.items() if value is not None}

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            sent = self.headers() if headers is None else headers
            if raw is not None and "Content-Length" not in sent:
                sent = {**sent, "Content-Length": str(len(raw))}
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(raw or b"")  # a refusal may come before the body was read
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def post(self, path: str, body: Any, **changes: str | None) -> tuple[int, Any]:
        """The status and the JSON of a POST."""
        status, _, raw = self.ask("POST", path, body, self.headers(**changes))
        return status, json.loads(raw)

    def run(self, request: Any) -> list[dict[str, Any]]:
        """Every message of a run."""
        status, _, raw = self.ask("POST", "/api/run", request)
        assert status == 200, raw
        return [json.loads(line) for line in raw.splitlines()]

    def request(self, *tomls: str, **values: Any) -> dict[str, Any]:
        """A run of the first scenario, short, with ``values`` of its sliders changed."""
        _, _, raw = self.ask("GET", "/api/setup", headers=self.headers(Origin=None, Content_Type=None))
        first = json.loads(raw)["scenarios"][0]
        policies = [{"toml": toml, "name": None} for toml in tomls or ("[policies.p]\nretry = {}\n",)]
        sliders = {**first["values"], **SHORT, **values}
        return {"scenario": first["id"], "values": sliders, "seed": 7, "policies": policies}


SHORT = {
    "clients": 20,
    "arrival_rps": 50,
    "capacity_rps": 80,
    "outage_at": 1,
    "outage_lasts": 0.5,
    "outage_mode": "fail",
    "timeout": 1,
    "duration": 5,
}


@contextlib.contextmanager
def serving() -> Iterator[Served]:
    """Start the command, hand it over, end it as Ctrl-C does, and look that it ended well."""
    built_page()
    command = [sys.executable, "-m", "stormproof.cli", "lab", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert "http://" in line, line + process.stderr.read()
        yield Served(line.split()[-1])
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0, process.stderr.read()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
