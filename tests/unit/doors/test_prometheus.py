"""Prometheus: what a real scrape of a real run says, and what it never says."""

from __future__ import annotations

import gc
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

import stormproof as sp
import stormproof._events.operations
import stormproof.prometheus

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"


class Scraped:
    """The samples of a scrape over HTTP."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def get(self, name: str, **labels: str) -> float | None:
        return self.samples.get((f"stormproof_{name}", tuple(sorted(labels.items()))))

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


@pytest.fixture
def scrape() -> Iterator[object]:
    registry = CollectorRegistry()
    uninstall = sp.prometheus.install(registry)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)

    def get() -> Scraped:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as reply:
            return Scraped(reply.read().decode())

    yield get
    server.shutdown()
    server.server_close()
    thread.join()
    uninstall()


def failing_twice(name: str, **strategies: object) -> object:
    failures = [ConnectionError(), ConnectionError()]

    @sp.Policy(sp.Retry(on=ConnectionError, backoff=sp.Constant(0.3)), name=name)
    def call() -> str:
        if failures:
            raise failures.pop()
        return "ok"

    return call


def test_call_that_succeeds_at_its_third_attempt_counts_two_retries(scrape, stormproof_instant) -> None:
    failing_twice("prom-third")()
    now = scrape()
    assert now.get("attempts_total", operation="prom-third") == 3
    assert now.get("retries_total", operation="prom-third") == 2
    assert now.get("attempts_at_success_bucket", operation="prom-third", le="2.0") == 0
    assert now.get("attempts_at_success_bucket", operation="prom-third", le="3.0") == 1
    assert now.get("attempts_at_success_sum", operation="prom-third") == 3
    assert now.get("wait_seconds_count", operation="prom-third") == 2
    assert now.get("wait_seconds_sum", operation="prom-third") == pytest.approx(0.6)
    assert now.get("wait_seconds_bucket", operation="prom-third", le="0.25") == 0
    assert now.get("wait_seconds_bucket", operation="prom-third", le="0.5") == 2


def test_limiter_per_key_has_no_level(scrape) -> None:
    keyed = sp.Policy(sp.RateLimit(sp.keyed(sp.Limiter(0, 5), key=str)), sp.Bulkhead(2), name="prom-keyed")
    plain = sp.Policy(sp.RateLimit(sp.Limiter(0, 5)), sp.Bulkhead(2), name="prom-plain")
    kept = [policy(lambda key: key) for policy in (keyed, plain)]
    for call in kept:
        call("a")
    now = scrape()
    assert now.get("limiter_tokens", operation="prom-keyed") is None
    assert now.get("limiter_tokens", operation="prom-plain") == 4
    # What comes after it in the policy is looked at all the same.
    assert now.get("bulkhead_in_use", operation="prom-keyed") == 0


def test_first_tries_are_counted_without_an_event(scrape) -> None:
    events = []

    @sp.retry(on=ConnectionError, name="prom-first")
    def fine() -> int:
        return 1

    for _ in range(500):
        fine()
    now = scrape()
    assert now.get("attempts_total", operation="prom-first") == 500
    assert now.get("attempts_at_success_bucket", operation="prom-first", le="1.0") == 500
    unsubscribe = sp.subscribe(events.append, first_tries=False)
    fine()
    unsubscribe()
    assert events == []
    assert scrape().get("attempts_total", operation="prom-first") == 501


def test_first_tries_are_counted_once_beside_a_subscriber_to_all(scrape) -> None:
    events = []
    unsubscribe = sp.subscribe(events.append)

    @sp.retry(on=ConnectionError, name="prom-both")
    def fine() -> int:
        return 1

    fine()
    fine()
    unsubscribe()
    assert [type(event).__name__ for event in events] == ["Succeeded", "Succeeded"]
    assert scrape().get("attempts_total", operation="prom-both") == 2


def test_calls_with_hooks_are_counted(scrape) -> None:
    @sp.retry(on=ConnectionError, before_attempt=lambda attempt: None, name="prom-hooked")
    def fine() -> int:
        return 1

    fine()
    now = scrape()
    assert now.get("attempts_total", operation="prom-hooked") == 1
    assert now.get("attempts_at_success_count", operation="prom-hooked") == 1


def test_collector_exports_nothing_from_before_its_installation(stormproof_instant) -> None:
    @sp.retry(on=ConnectionError, name="prom-before")
    def fine() -> int:
        return 1

    unsubscribe = sp.subscribe(lambda event: None, first_tries=False)
    fine()
    collector = sp.prometheus.StormproofCollector()
    fine()
    fine()
    unsubscribe()
    found = {
        sample.value
        for family in collector.collect()
        for sample in family.samples
        if sample.name == "stormproof_attempts_total" and sample.labels["operation"] == "prom-before"
    }
    collector.close()
    assert found == {2}


def test_give_ups_are_counted_by_reason(scrape, stormproof_instant) -> None:
    @sp.retry(on=ConnectionError, attempts=2, name="prom-reasons")
    def call(error: Exception) -> None:
        raise error

    for error in (ConnectionError(), ConnectionError(), ValueError()):
        with pytest.raises((ConnectionError, ValueError)):
            call(error)
    now = scrape()
    assert now.get("give_ups_total", operation="prom-reasons", reason="attempts") == 2
    assert now.get("give_ups_total", operation="prom-reasons", reason="fatal") == 1
    assert now.get("attempts_total", operation="prom-reasons") == 5


def test_states_and_balances_are_exported(scrape) -> None:
    policy = sp.Policy(
        sp.Retry(on=ConnectionError, budget=sp.Budget(burst=7)),
        sp.Breaker(name="prom-gate"),
        sp.RateLimit(sp.Limiter(1e-9, 9)),
        sp.Bulkhead(5),
        name="prom-live",
    )

    @policy
    def call() -> float | None:
        return scrape().get("bulkhead_in_use", operation="prom-live")

    assert call() == 1
    now = scrape()
    assert now.get("bulkhead_in_use", operation="prom-live") == 0
    assert now.get("budget_balance", operation="prom-live") == pytest.approx(7.1)
    assert now.get("limiter_tokens", operation="prom-live") == pytest.approx(8, abs=1e-3)
    assert now.get("breaker_state", operation="prom-live", state="closed") == 1
    policy.strategies[1].force_open()
    with pytest.raises(sp.CircuitOpen):
        call()
    now = scrape()
    assert now.get("breaker_state", operation="prom-live", state="closed") == 0
    assert now.get("breaker_state", operation="prom-live", state="open") == 1
    assert now.get("refusals_total", operation="prom-gate", by="breaker") == 1
    assert now.get("breaker_changes_total", operation="prom-gate", state="open") == 1


def test_policy_that_is_gone_leaves_no_gauge(scrape) -> None:
    call = sp.Policy(sp.Breaker(), name="prom-gone")(lambda: 1)
    assert scrape().get("breaker_state", operation="prom-gone", state="closed") == 1
    del call
    gc.collect()
    assert scrape().get("breaker_state", operation="prom-gone", state="closed") is None


@pytest.mark.parametrize(
    ("make", "by"),
    [
        (lambda: sp.Bulkhead(1), "bulkhead"),
        (lambda: sp.RateLimit(sp.Limiter(0, 1)), "rate_limit"),
        (lambda: sp.AdaptiveLimit(initial=1, max=1), "adaptive_limit"),
    ],
)
def test_refusals_are_counted_by_strategy(scrape, make, by) -> None:
    policy = sp.Policy(make(), name=f"prom-refused-{by}")

    @policy
    def outer() -> None:
        policy.call(lambda: None)

    with pytest.raises(sp.StormproofError):
        outer()
        outer()
    labels = {
        dict(key[1])["by"]: value for key, value in scrape().samples.items() if "refusals_total" in key[0]
    }
    assert labels == {by: 1}


def test_labels_are_bounded_in_number(monkeypatch, stormproof_instant) -> None:
    fresh = stormproof._events.operations.Census()
    monkeypatch.setattr(stormproof._events.operations, "LIMIT", 3)
    names = {fresh.name(f"op-{i}") for i in range(10)}
    assert names == {"op-0", "op-1", "op-2", "other"}
    assert fresh.name("op-1") == "op-1"


def test_scrape_contains_no_secret(scrape, stormproof_instant) -> None:
    @sp.retry(on=ConnectionError, attempts=2, name="prom-secret\n# HELP evil")
    def call(token: str) -> None:
        raise ConnectionError(f"https://user:{token}@example.invalid/?key={token}")

    with pytest.raises(ConnectionError):
        call("hunter2")
    text = scrape().text
    assert "prom-secret" in text
    assert "hunter2" not in text
    assert "\n# HELP evil" not in text


def test_dashboard_asks_only_for_metrics_that_exist(scrape, stormproof_instant) -> None:
    import re

    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    asked = {name for query in queries for name in re.findall(r"stormproof_\w+", query)}
    families = set()
    for line in scrape().text.splitlines():
        if line.startswith("# TYPE stormproof_"):
            _, _, name, kind = line.split()
            families |= (
                {name} if kind != "histogram" else {f"{name}_{end}" for end in ("bucket", "sum", "count")}
            )
    assert len(queries) >= 8
    assert asked <= families, asked - families
