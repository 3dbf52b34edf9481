"""``[store]`` in a policy file, and ``store = true`` for what a fleet shares."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof._config import schema

NOWHERE = "redis://127.0.0.1:1/0"
FILE = """
[store]
url = "{url}"
prefix = "files"
timeout = "500ms"
on_failure = "open"

[budgets.partner]
ratio = 0.2
store = true

[limiters.shared]
rate = "100/s"
burst = 20
store = true
name = "all-of-us"

[policies.fraud-score]
retry = {{ on = "transient", budget = {{ burst = 30, store = true }} }}
rate_limit = {{ limiter = "shared" }}

[policies.partner]
retry = {{ on = "transient", budget = "partner" }}
rate_limit = {{ limiter = {{ rate = 5, burst = 5, store = true }} }}

[policies.alone]
retry = {{ on = "transient", budget = {{ burst = 3 }} }}
"""


@pytest.fixture
def opened() -> Iterator[list[sp.Registry]]:
    """Registries whose stores are closed afterwards."""
    found: list[sp.Registry] = []
    yield found
    for registry in found:
        if registry.store is not None:
            registry.store.close()


def written(tmp_path: Path, text: str, url: str = NOWHERE) -> Path:
    path = tmp_path / "stormproof.toml"
    path.write_text(text.format(url=url))
    return path


def budget(registry: sp.Registry, policy: str) -> sp.Budget:
    found = registry[policy].strategies[0].budget
    assert isinstance(found, sp.Budget)
    return found


def test_strategies_with_store_true_are_in_the_store(tmp_path: Path, opened: list[sp.Registry]) -> None:
    registry = sp.load(written(tmp_path, FILE), environ={})
    opened.append(registry)
    store = registry.store
    assert (store.prefix, store.timeout, store.on_failure) == ("files", 0.5, "open")
    fraud, partner, alone = (budget(registry, name) for name in ("fraud-score", "partner", "alone"))
    assert (fraud.store, fraud.name) == (store, "fraud-score")
    assert (partner.store, partner.name) == (store, "partner")
    assert alone.store is None
    limiters = [registry[name].strategies[1].limiter for name in ("fraud-score", "partner")]
    assert [(limiter.store, limiter.name) for limiter in limiters] == [
        (store, "all-of-us"),
        (store, "partner"),
    ]
    assert registry.describe()["store"]["url"] == NOWHERE


@pytest.mark.redis
def test_budget_of_a_policy_file_is_shared_through_redis(
    tmp_path: Path, shared_server: Server, opened: list[sp.Registry]
) -> None:
    opened.append(sp.load(written(tmp_path, FILE, shared_server.url), environ={}))
    opened.append(sp.load(written(tmp_path, FILE, shared_server.url), environ={}))
    one, two = (budget(registry, "fraud-score") for registry in opened)
    assert all(registry.store.settle(5) for registry in opened)
    for _ in range(100):
        one.success()
    eventually(lambda: two.balance >= 39)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"budgets": {"b": {"store": True}}},
            r"budgets\.b\.store: must not be true without a table \[store\]",
        ),
        ({"store": {}}, r"store: must have 'url'"),
        ({"store": "redis://x"}, r"store: must be a table"),
        ({"store": {"url": 5}}, r"store\.url: must be a string"),
        ({"store": {"url": "http://x"}}, r"store\.url: .*scheme 'http'"),
        ({"store": {"url": NOWHERE, "timeout": 0}}, r"store\.timeout: .*> 0"),
        ({"store": {"url": NOWHERE, "on_failure": "pray"}}, r"store\.on_failure: .*'pray'"),
        ({"store": {"url": NOWHERE, "passwd": "x"}}, r"store\.passwd: .*'passwd'"),
        (
            {"store": {"url": NOWHERE}, "budgets": {"b": {"store": "yes"}}},
            r"budgets\.b\.store: must be true or",
        ),
        ({"store": {"url": NOWHERE}, "budgets": {"b": {"kind": "quota", "store": True}}}, "'store'"),
        ({"stores": {}}, "'stores'"),
    ],
)
def test_error_in_the_store_table_names_its_key(data: dict[str, Any], said: str) -> None:
    with pytest.raises(sp.ConfigError, match=said):
        sp.Registry.from_data({"policies": {}, **data})


def test_password_is_not_in_the_error() -> None:
    with pytest.raises(sp.ConfigError) as caught:
        sp.Registry.from_data({"policies": {}, "store": {"url": "http://:hunter2@h"}})
    assert "hunter2" not in str(caught.value)


def test_store_false_keeps_a_budget_local(opened: list[sp.Registry]) -> None:
    registry = sp.Registry.from_data({"policies": {}, "budgets": {"b": {"store": False}}})
    assert registry.budgets["b"].store is None
    assert registry.store is None


def test_environment_may_give_the_url(opened: list[sp.Registry]) -> None:
    data = {"policies": {}, "store": {"url": NOWHERE}}
    registry = sp.Registry.from_data(
        data, environ={"STORMPROOF_STORE__URL": "redis://127.0.0.1:2/1", "STORMPROOF_STORE__TIMEOUT": "20ms"}
    )
    opened.append(registry)
    assert str(registry.store.address) == "redis://127.0.0.1:2/1"
    assert registry.store.timeout == 0.02


def test_reload_keeps_the_store_and_its_state(tmp_path: Path, opened: list[sp.Registry]) -> None:
    path = written(tmp_path, FILE)
    registry = sp.load(path, environ={})
    opened.append(registry)
    store, before = registry.store, budget(registry, "fraud-score")
    path.write_text(path.read_text().replace("burst = 30", "burst = 60"))
    assert registry.reload() == ("fraud-score",)
    assert registry.store is store
    assert budget(registry, "fraud-score") is before
    assert before.burst == 60


def test_reload_to_another_store_or_none_replaces_fleet_budgets(
    tmp_path: Path, opened: list[sp.Registry]
) -> None:
    path = written(tmp_path, FILE)
    registry = sp.load(path, environ={})
    opened.append(registry)
    store, before, alone = registry.store, budget(registry, "fraud-score"), budget(registry, "alone")
    path.write_text(path.read_text().replace('prefix = "files"', 'prefix = "others"'))
    registry.reload()
    assert registry.store is not store and registry.store.prefix == "others"
    assert store._exchange._closing, "the former one is closed"
    moved = budget(registry, "fraud-score")
    assert moved is not before and moved.store is registry.store
    assert budget(registry, "alone") is alone
    path.write_text(path.read_text().replace("burst = 30, store = true", "burst = 30"))
    registry.reload()
    assert budget(registry, "fraud-score").store is None


def test_registry_with_a_store_round_trips(tmp_path: Path, opened: list[sp.Registry]) -> None:
    registry = sp.load(written(tmp_path, FILE), environ={})
    opened.append(registry)
    data = registry.dump()
    assert data["store"] == {"url": NOWHERE, "prefix": "files", "timeout": "500ms", "on_failure": "open"}
    assert data["budgets"] == {"partner": {"ratio": 0.2, "store": True}}
    assert data["limiters"]["shared"]["name"] == "all-of-us"
    again = sp.Registry.from_data(json.loads(json.dumps(data)))
    opened.append(again)
    assert again.dump() == data


def test_password_is_not_written(opened: list[sp.Registry]) -> None:
    registry = sp.Registry.from_data({"policies": {}, "store": {"url": "redis://:hunter2@127.0.0.1:1"}})
    opened.append(registry)
    with pytest.raises(sp.ConfigError, match="password") as caught:
        registry.dump()
    assert "hunter2" not in str(caught.value)


def test_schema_accepts_a_store_and_refuses_bad_options() -> None:
    check = jsonschema.Draft202012Validator(schema.document())
    good: dict[str, Any] = {
        "policies": {},
        "store": {"url": NOWHERE, "timeout": "20ms", "on_failure": "closed"},
        "budgets": {"b": {"store": True, "name": "x"}},
        "limiters": {"l": {"rate": 1, "store": True}},
    }
    assert check.is_valid(good)
    for bad in ({"store": {}}, {"store": {"url": NOWHERE, "on_failure": "pray"}}, {"store": {"url": 5}}):
        assert not check.is_valid({**good, **bad})


def test_store_table_without_redis_py_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "redis" or name.startswith("redis."):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for module in [
        name for name in sys.modules if name == "stormproof.redis" or name.startswith("stormproof._fleet")
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(sp.ConfigError, match=r"store: needs redis-py: install stormproof\[redis\]"):
        sp.Registry.from_data({"policies": {}, "store": {"url": NOWHERE}})
