"""The span of a request that was sent again for new credentials had no ``http.request.resend_count``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer

import stormproof as sp
from stormproof.httpx import Transport


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(kept))
    uninstall = sp.otel.install(MeterProvider(), attempts=True, tracer_provider=tracers)
    yield kept
    uninstall()


def _values(spans: InMemorySpanExporter, name: str) -> list[Any]:
    return [dict(span.attributes or {}).get(name) for span in spans.get_finished_spans()]


@each_client
async def test_request_with_new_credentials_is_counted_as_resent(
    http: Http, spans: InMemorySpanExporter
) -> None:
    def reauth(draft: sp.httpx.Draft, response: object) -> None:
        draft.headers["Authorization"] = "new"

    http.server.on("/", answer(401), answer(503), answer(200))
    await http.client(retry(), reauth=reauth).get("/")
    assert _values(spans, "http.response.status_code") == [401, 503, 200]
    assert _values(spans, "http.request.resend_count") == [None, 1, 2]


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_port_that_the_url_leaves_out_is_that_of_its_scheme(
    spans: InMemorySpanExporter, scheme: str, port: int
) -> None:
    inner = httpx.MockTransport(lambda request: httpx.Response(200))
    with httpx.Client(transport=Transport(retry(), inner), trust_env=False) as client:
        client.get(f"{scheme}://shop.test/orders")
    assert _values(spans, "server.port") == [port]
