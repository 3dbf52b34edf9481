"""Policy files: what they mean, where their errors are, and what the environment may change."""

from __future__ import annotations

import json
import math
import os
import pickle
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof._config.detached import detached
from stormproof._config.key_lines import in_json, in_toml
from stormproof._config.registry import ConfigError, Registry, load, to_data
from stormproof._config.sources import parse
from stormproof._policy.checks import PolicyWarning

EXAMPLE = """\
[policies.fraud-score]
deadline = "5s"
retry = { on = "transient", attempts = 4, backoff = { base = "100ms", cap = "2s" }, budget = { ratio = 0.1 } }
breaker = { failure_ratio = 0.5, min_calls = 20 }
bulkhead = { limit = 50, queue = 10, max_wait = "100ms" }
rate_limit = "100/s burst 200"
timeout = "500ms"
"""


def write(folder: Path, text: str, name: str = "stormproof.toml") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def read(folder: Path, text: str, name: str = "stormproof.toml", **options: Any) -> Registry:
    return load(write(folder, text, name), environ=options.pop("environ", {}), **options)


def policy(**strategies: Any) -> sp.Policy:
    return Registry.from_data({"policies": {"p": strategies}})["p"]


def refused(folder: Path, text: str, name: str = "stormproof.toml", **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, name, **options)
    return caught.value


# --- what a file means -------------------------------------------------------------------------------------


def test_policy_of_a_file_equals_the_policy_in_code(tmp_path: Path) -> None:
    registry = read(tmp_path, EXAMPLE)
    policy = registry["fraud-score"]
    expected = sp.Policy(
        sp.Deadline(5),
        sp.Retry(sp.transient, attempts=4, backoff=sp.Exponential(0.1, cap=2), budget=sp.Budget(ratio=0.1)),
        sp.Breaker(failure_ratio=0.5, min_calls=20, name="fraud-score"),
        sp.Bulkhead(50, queue=10, max_wait=0.1, name="fraud-score"),
        sp.RateLimit(sp.Limiter(100, 200)),
        sp.Timeout(0.5),
        name="fraud-score",
    )
    assert repr(policy) == repr(expected)
    assert isinstance(policy, sp.Policy)
    assert policy(lambda x: x + 1)(1) == 2


def test_three_formats_say_the_same(tmp_path: Path) -> None:
    import tomllib

    data = tomllib.loads(EXAMPLE)
    as_yaml = """
        policies:
          fraud-score:
            deadline: 5s
            retry:
              on: transient
              attempts: 4
              backoff: {base: 100ms, cap: 2s}
              budget: {ratio: 0.1}
            breaker: {failure_ratio: 0.5, min_calls: 20}
            bulkhead: {limit: 50, queue: 10, max_wait: 100ms}
            rate_limit: 100/s burst 200
            timeout: 500ms
    """
    texts = {
        "a.toml": EXAMPLE,
        "a.json": json.dumps(data),
        "a.yaml": as_yaml,
        "b.yml": as_yaml,
        "B.TOML": EXAMPLE,
    }
    seen = {repr(read(tmp_path, text, name)["fraud-score"]) for name, text in texts.items()}
    assert seen == {repr(Registry.from_data(data)["fraud-score"])}


@pytest.mark.parametrize("name", ["a.toml", "a.json", "a.yaml"])
def test_order_of_the_file_is_the_order_of_the_strategies(tmp_path: Path, name: str) -> None:
    texts = {
        "a.toml": "[policies.a]\nbreaker = {}\nretry = {}\ntimeout = 1\n"
        "[policies.b]\nretry = {}\nbreaker = {}\n",
        "a.json": '{"policies": {"a": {"breaker": {}, "retry": {}, "timeout": 1},'
        ' "b": {"retry": {}, "breaker": {}}}}',
        "a.yaml": "policies:\n  a: {breaker: {}, retry: {}, timeout: 1}\n  b: {retry: {}, breaker: {}}\n",
    }
    registry = read(tmp_path, texts[name], name)
    kinds = {key: [type(s).__name__ for s in registry[key].strategies] for key in registry}
    assert kinds == {"a": ["Breaker", "Retry", "Timeout"], "b": ["Retry", "Breaker"]}


def test_list_of_strategies_may_repeat_a_kind() -> None:
    shop_policy = policy(
        strategies=[{"deadline": 9}, {"breaker": {}}, {"retry": {}}, {"breaker": {}}, {"timeout": "1s"}]
    )
    assert [type(s).__name__ for s in shop_policy.strategies] == [
        "Deadline",
        "Breaker",
        "Retry",
        "Breaker",
        "Timeout",
    ]


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        ({"deadline": 2}, sp.Deadline(2)),
        ({"deadline": {"seconds": "2s"}}, sp.Deadline(2)),
        ({"timeout": {"seconds": "1m", "thread": True}}, sp.Timeout(60, thread=True)),
        ({"bulkhead": 5}, sp.Bulkhead(5, name="p")),
        ({"rate_limit": {"limiter": {"kind": "pacer", "rate": "90/min"}, "max_wait": "none"}}, None),
        ({"retry": {"on": "ConnectionError"}}, sp.Retry(ConnectionError)),
        ({"retry": {"on": ["OSError", "json.JSONDecodeError"]}}, sp.Retry((OSError, json.JSONDecodeError))),
        ({"retry": {"on": ["transient"]}}, sp.Retry(sp.transient)),
        ({"retry": {"on": "stormproof.CircuitOpen"}}, sp.Retry(sp.CircuitOpen)),
        ({"retry": {"attempts": "none", "within": 5}}, sp.Retry(attempts=None, within=5)),
        ({"retry": {"within": None, "budget": "none"}}, sp.Retry(within=None, budget=None)),
        ({"retry": {"max_hint": "inf"}}, sp.Retry(max_hint=math.inf)),
        ({"retry": {"late": "clip", "retry_exhausted": True}}, sp.Retry(late="clip", retry_exhausted=True)),
        (
            {"retry": {"backoff": {"jitter": {"symmetric": 0.2}}}},
            sp.Retry(backoff=sp.Exponential(jitter=sp.Symmetric(0.2))),
        ),
        (
            {"retry": {"backoff": {"kind": "schedule", "values": ["100ms", 1]}}},
            sp.Retry(backoff=sp.Schedule([0.1, 1])),
        ),
        ({"retry": {"backoff": {"kind": "constant", "wait": 0}}}, sp.Retry(backoff=sp.Constant(0))),
        (
            {"breaker": {"window": "none", "exclude": ["KeyError"]}},
            sp.Breaker(window=None, exclude=(KeyError,), name="p"),
        ),
        ({"breaker": {"name": "mine"}}, sp.Breaker(name="mine")),
        ({"hedge": {"after": "p95", "max": 3, "idempotent": True}}, None),
    ],
)
def test_values_of_a_file_become_options(strategies: dict[str, Any], expected: Any) -> None:
    strategy = policy(**strategies).strategies[0]
    if expected is not None:
        assert repr(strategy) == repr(sp.Policy(expected, name="p").strategies[0])


def test_values_may_hold_nested_objects() -> None:
    limit = policy(
        rate_limit={"limiter": {"kind": "pacer", "rate": "90/min"}, "max_wait": "none"}
    ).strategies[0]
    assert (limit.limiter.rate, limit.limiter.burst, limit.max_wait) == (1.5, 1, None)
    hedge = policy(hedge={"after": "p95", "max": 3, "idempotent": True}).strategies[0]
    assert (hedge.after, hedge.max, hedge.idempotent) == ("p95", 3, True)
    chaos = policy(
        chaos={"fault": "ConnectionError", "latency": "1s", "rate": 0.5, "name": "dark"}
    ).strategies[0]
    assert (chaos.fault, chaos.latency, chaos.rate, chaos.name) == (ConnectionError, 1.0, 0.5, "dark")
    assert policy(fallback="sorry")(_fails)() == "sorry"
    assert policy(fallback={"value": {"items": []}, "on": "ConnectionError"})(_fails)() == {"items": []}


def _fails() -> Any:
    raise ConnectionError("down")


def test_on_may_mix_transient_and_other_exceptions() -> None:
    class Odd(Exception): ...

    on = policy(retry={"on": ["transient", "LookupError"]}).strategies[0].on
    assert on(ConnectionError()).retry
    assert on(KeyError()).retry
    assert not on(Odd()).retry
    assert not sp.transient(KeyError()).retry, "the shipped classifier has learnt nothing from it"


def test_exception_in_a_module_not_yet_imported_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_errors.py").write_text("class Outer:\n    class Busy(Exception): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        on = policy(retry={"on": "shop_errors.Outer.Busy"}).strategies[0].on
        assert on is sys.modules["shop_errors"].Outer.Busy
    finally:
        sys.modules.pop("shop_errors", None)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import shop_nowhere\n", "importing 'shop_broken' failed: No module named 'shop_nowhere'"),
        ("raise OSError('no disk')\n", "importing 'shop_broken' failed: OSError: no disk"),
    ],
)
def test_exception_in_a_broken_module_is_refused_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    (tmp_path / "shop_broken.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    error = refused(tmp_path, "[policies.a]\nretry = { on = 'shop_broken.Busy' }\n")
    assert (error.line, error.key, error.message) == (2, "policies.a.retry.on", says)
    assert "shop_broken" not in sys.modules


def test_shared_objects_are_the_same_object(tmp_path: Path) -> None:
    registry = read(
        tmp_path,
        """
        [budgets.partner]
        kind = "rate"
        rate = "5/s"
        [limiters.partner]
        rate = 10
        burst = 2
        [limiters.text]
        rate = "60/min"
        [breakers.partner]
        consecutive = 3
        [bulkheads.partner]
        limit = 7
        [policies.a]
        retry = { budget = "partner" }
        breaker = "partner"
        rate_limit = "partner"
        bulkhead = "partner"
        [policies.b]
        hedge = { budget = "partner", idempotent = true }
        breaker = "partner"
        rate_limit = { limiter = "partner", max_wait = "1s" }
        bulkhead = "partner"
        """,
    )
    a, b = registry["a"].strategies, registry["b"].strategies
    assert a[0].budget is b[0].budget is registry.budgets["partner"]
    assert a[1] is b[1] is registry.breakers["partner"]
    assert a[2].limiter is b[2].limiter is registry.limiters["partner"]
    assert a[3] is b[3] is registry.bulkheads["partner"]
    assert registry.limiters["text"].rate == 1.0
    assert registry.breakers["partner"].name == "partner"


def test_policy_without_a_budget_shares_that_of_its_name() -> None:
    registry = Registry.from_data({"policies": {"shared-by-name": {"retry": {}}}})
    other = sp.Policy(sp.Retry(), name="shared-by-name")
    assert registry["shared-by-name"].strategies[0].budget is other.strategies[0].budget


def test_empty_policy_just_calls() -> None:
    assert policy()(lambda: 3)() == 3


def test_doubtful_order_warns(tmp_path: Path) -> None:
    # In TOML plain keys come before tables, so this timeout is outside.
    text = '[policies.a]\ntimeout = "1s"\n[policies.a.retry]\nattempts = 2\n'
    with pytest.warns(PolicyWarning, match="Timeout outside Retry"):
        read(tmp_path, text)


def test_clock_and_rng_reach_the_policies(tmp_path: Path) -> None:
    clock = sp.testing.FakeClock()
    registry = read(
        tmp_path,
        '[policies.p]\nretry = { attempts = 3, on = "ConnectionError" }\n',
        clock=clock,
        rng=lambda: 0.5,
    )
    with pytest.raises(ConnectionError):
        registry["p"](_fails)()
    assert clock.sleeps == [0.05, 0.1]


# --- the registry as a mapping -----------------------------------------------------------------------------


def test_registry_is_a_mapping() -> None:
    registry = Registry.from_data({"policies": {"a": {}, "b": {"retry": {}}}})
    assert list(registry) == ["a", "b"]
    assert len(registry) == 2
    assert "a" in registry and "c" not in registry
    assert registry.get("c") is None
    assert registry["a"] is registry["a"]
    assert {name: p.name for name, p in registry.items()} == {"a": "a", "b": "b"}
    assert registry == registry and registry != Registry.from_data({"policies": {}})
    assert hash(registry) == hash(registry)
    assert "a, b" in repr(registry)


def test_unknown_policy_is_a_key_error_with_a_suggestion() -> None:
    registry = Registry.from_data({"policies": {"fraud-score": {}}})
    with pytest.raises(KeyError, match="did you mean 'fraud-score'"):
        registry["fraud_score"]


def test_describe_shows_live_state() -> None:
    registry = Registry.from_data(
        {"budgets": {"b": {"burst": 3}}, "policies": {"p": {"retry": {"budget": "b"}, "breaker": {}}}}
    )
    breaker = registry["p"].strategies[1]
    breaker.force_open()
    registry.budgets["b"].withdraw()
    description = json.loads(json.dumps(registry.describe()))
    assert description["generation"] == 1
    assert description["policies"]["p"]["strategies"][1]["state"] == "open"
    assert description["budgets"]["b"]["balance"] == 2.0


def test_policy_of_a_registry_can_be_pickled_and_changed() -> None:
    policy = Registry.from_data({"policies": {"p": {"retry": {"attempts": 7}}}})["p"]
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert policy.with_(attempts=2).strategies[0].attempts == 2
    assert type(policy.with_(attempts=2)) is sp.Policy


# --- errors ------------------------------------------------------------------------------------------------

BROKEN = {
    "unknown option": (
        "[policies.a]\nretry = { attempts = 3,\n atempts = 4 }\n".replace(",\n", ", "),
        2,
        "policies.a.retry.atempts",
        "unknown option 'atempts'; did you mean 'attempts'?",
    ),
    "unknown option in a table": (
        "[policies.a]\ntimeout = 1\n\n[policies.a.retry]\n# note\natempts = 4\n",
        6,
        "policies.a.retry.atempts",
        "did you mean 'attempts'?",
    ),
    "unknown strategy": (
        "[policies.a]\nretries = {}\n",
        2,
        "policies.a.retries",
        "unknown strategy 'retries'; did you mean 'retry'?",
    ),
    "unknown section": ("[polices.a]\nretry = {}\n", 1, "polices", "did you mean 'policies'?"),
    "wrong type": (
        '[policies.a]\nretry = { attempts = "four" }\n',
        2,
        "policies.a.retry.attempts",
        "must be a whole number, got 'four'",
    ),
    "a bool is not a number": (
        "[policies.a]\nretry = { attempts = true }\n",
        2,
        "policies.a.retry.attempts",
        "must be a whole number, got true",
    ),
    "a float is not a count": (
        "[policies.a]\nretry = { attempts = 4.0 }\n",
        2,
        "policies.a.retry.attempts",
        "must be a whole number, got 4.0",
    ),
    "a number is not a flag": (
        "[policies.a]\nretry = { retry_exhausted = 1 }\n",
        2,
        "policies.a.retry.retry_exhausted",
        "must be true or false, got 1",
    ),
    "out of range": (
        "[policies.a]\n\nretry = { attempts = 0 }\n",
        3,
        "policies.a.retry.attempts",
        "Retry: attempts must be >= 1, got 0",
    ),
    "out of range, deep": (
        "[policies.a.retry.backoff]\ncap = 1\nbase = '2s'\n",
        3,
        "policies.a.retry.backoff.base",
        "Exponential: base must be <= cap",
    ),
    "out of range, short form": (
        "[policies.a]\ntimeout = 0\n",
        2,
        "policies.a.timeout",
        "Timeout: seconds must be > 0 seconds, got 0",
    ),
    "out of range, in a list": (
        "[policies.a.retry.backoff]\nkind = 'schedule'\nvalues = [1,\n -2]\n",
        3,
        "policies.a.retry.backoff.values",
        "Schedule: values[1] must be >= 0 seconds, got -2",
    ),
    "a duration without a unit": (
        "[policies.a]\ntimeout = '5'\n",
        2,
        "policies.a.timeout",
        "a duration must read like '10ms'",
    ),
    "no table": ("[policies]\na = 3\n", 2, "policies.a", "must be a table, got 3"),
    "no table, strategy": ("[policies.a]\nretry = 3\n", 2, "policies.a.retry", "must be a table, got 3"),
    "an option that is missing": (
        "[policies.a]\nbulkhead = { queue = 3 }\n",
        2,
        "policies.a.bulkhead",
        "must have 'limit'",
    ),
    "an option for code": (
        "[policies.a]\nretry = { before_attempt = 'os.system' }\n",
        2,
        "policies.a.retry.before_attempt",
        "can only be given in code",
    ),
    "an unknown kind": (
        "[policies.a.retry.backoff]\nkind = 'exponental'\n",
        2,
        "policies.a.retry.backoff.kind",
        "unknown kind of backoff 'exponental'; did you mean 'exponential'?",
    ),
    "an unknown choice": (
        "[policies.a]\nretry = { late = 'stopp' }\n",
        2,
        "policies.a.retry.late",
        "did you mean 'stop'?",
    ),
    "an unknown jitter": (
        "[policies.a.retry.backoff]\njitter = { symetric = 1 }\n",
        2,
        "policies.a.retry.backoff.jitter.symetric",
        "did you mean 'symmetric'?",
    ),
    "a name that is not there": (
        "[budgets.partner]\n[policies.a]\nretry = { budget = 'partnr' }\n",
        3,
        "policies.a.retry.budget",
        "unknown name in budgets 'partnr'; did you mean 'partner'?",
    ),
    "a shared limiter with a bad rate": (
        "[limiters.x]\nrate = '10/fortnight'\n",
        2,
        "limiters.x.rate",
        "must read like '100/s'",
    ),
    "a shared name that means something else": (
        "[budgets.none]\n",
        1,
        "budgets.none",
        "must not be called 'none'",
    ),
    "an exception that does not exist": (
        "[policies.a]\nretry = { on = 'ConectionError' }\n",
        2,
        "policies.a.retry.on",
        "unknown exception 'ConectionError'; did you mean 'ConnectionError'?",
    ),
    "a module that does not exist": (
        "[policies.a]\nretry = { on = ['OSError',\n 'nowhere.Gone'] }\n".replace(",\n", ", "),
        2,
        "policies.a.retry.on[1]",
        "no module 'nowhere' here",
    ),
    "an attribute that does not exist": (
        "[policies.a]\nretry = { on = 'json.Gone' }\n",
        2,
        "policies.a.retry.on",
        "module 'json' has no 'Gone'",
    ),
    "a class that is not an exception": (
        "[policies.a]\nretry = { on = 'builtins.dict' }\n",
        2,
        "policies.a.retry.on",
        "'builtins.dict' is not an exception class",
    ),
    "a function": (
        "[policies.a]\nretry = { on = 'os.system' }\n",
        2,
        "policies.a.retry.on",
        "'os.system' is not an exception class",
    ),
    "code": (
        '[policies.a]\nretry = { on = \'__import__("os").system("true")\' }\n',
        2,
        "policies.a.retry.on",
        "a name like",
    ),
    "a way round": (
        "[policies.a]\nretry = { on = 'ValueError.__base__' }\n",
        2,
        "policies.a.retry.on",
        "a name like",
    ),
    "what is never retried": (
        "[policies.a]\nretry = { on = 'KeyboardInterrupt' }\n",
        2,
        "policies.a.retry.on",
        "on must not hold KeyboardInterrupt",
    ),
    "an empty list": ("[policies.a]\nretry = { on = [] }\n", 2, "policies.a.retry.on", "got a list"),
    "a row that makes no sense": (
        "[policies.b]\n[policies.a]\nstrategies = [{ retry = {} }, { retry = {} }]\n",
        2,
        "policies.a",
        "strategies must hold one Retry, got 2",
    ),
    "keys beside a list": (
        "[policies.a]\ntimeout = 3\nstrategies = []\n",
        2,
        "policies.a.timeout",
        "must be in the list 'strategies'",
    ),
    "a list of something else": (
        "[policies.a]\nstrategies = [\n  { retry = {} },\n  { timeout = 1, deadline = 2 },\n]\n",
        4,
        "policies.a.strategies[1]",
        "must have one key",
    ),
    "an unknown strategy in a list": (
        "[[policies.a.strategies]]\nretry = {}\n[[policies.a.strategies]]\ntimout = 1\n",
        4,
        "policies.a.strategies[1].timout",
        "did you mean 'timeout'?",
    ),
    "no policies": ("[budgets.x]\nratio = 0.1\n", None, None, "must have a table 'policies'"),
    "a name with dots": (
        '[policies."a.b"]\nretry = { attempts = 0 }\n',
        2,
        'policies."a.b".retry.attempts',
        "must be >= 1",
    ),
    "a dotted key": (
        "[policies]\na.retry.attempts = 3\na.retry.backoff.base = '1x'\n",
        3,
        "policies.a.retry.backoff.base",
        "a duration must",
    ),
    "a policy without a name": (
        '[policies.""]\nretry = {}\n',
        1,
        'policies.""',
        "a policy must have a name",
    ),
    "strategies that are not a list": (
        "[policies.a]\nstrategies = { retry = {} }\n",
        2,
        "policies.a.strategies",
        "must be a list of tables such as { retry = {} }, got a table",
    ),
    "out of range beside a default": (
        "[policies.a.retry.backoff]\nbase = '1m'\n",
        2,
        "policies.a.retry.backoff.base",
        "Exponential: base must be <= cap",
    ),
    "out of range because of a default": (
        "[policies.a.retry.backoff]\ncap = '1ms'\n",
        1,
        "policies.a.retry.backoff",
        "Exponential: base must be <= cap",
    ),
    "a failure that is not a name": (
        "[policies.a]\nretry = { on = ['OSError', 3] }\n",
        2,
        "policies.a.retry.on[1]",
        'must be "transient" or the name of an exception, got 3',
    ),
    "a fault that is not a name": (
        "[policies.a]\nchaos = { fault = 3 }\n",
        2,
        "policies.a.chaos.fault",
        "must be the name of an exception, got 3",
    ),
    "waits that are not a list": (
        "[policies.a.retry.backoff]\nkind = 'schedule'\nvalues = 3\n",
        3,
        "policies.a.retry.backoff.values",
        "must be a list of durations, got 3",
    ),
    "an empty jitter": (
        "[policies.a.retry.backoff]\njitter = {}\n",
        2,
        "policies.a.retry.backoff.jitter",
        "must have 'symmetric'",
    ),
    "a burst in a rate": (
        "[policies.a.retry.budget]\nkind = 'rate'\nrate = '5/s burst 3'\n",
        3,
        "policies.a.retry.budget.rate",
        "must not have a burst here; give it as the option burst",
    ),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_error_names_file_line_and_key(tmp_path: Path, case: str) -> None:
    text, line, key, says = BROKEN[case]
    error = refused(tmp_path, text)
    assert (error.line, error.key) == (line, key)
    assert error.file == str(tmp_path / "stormproof.toml")
    assert says in error.message
    where = error.file if line is None else f"{error.file}:{line}"
    assert str(error).startswith(f"{where}: ")
    assert isinstance(error, ValueError)


def test_error_can_be_pickled() -> None:
    error = ConfigError("is wrong", "f.toml", 3, "a.b")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "f.toml:3: a.b: is wrong"
    assert (copy.file, copy.line, copy.key) == ("f.toml", 3, "a.b")


def test_error_in_data_has_no_file() -> None:
    with pytest.raises(ConfigError) as caught:
        Registry.from_data({"policies": {"a": {"retry": {"attempts": 0}}}})
    assert (caught.value.file, caught.value.line) == (None, None)
    assert str(caught.value).startswith("policies.a.retry.attempts: Retry: attempts")


def test_text_from_anywhere_may_name_only_allowed_exceptions() -> None:
    text = "[policies.a]\nretry = { on = ['OSError', 'shop.Busy'] }\nbreaker = { on = 'shop.Gone' }\n"
    document = parse(text, ".toml")
    assert detached(document, only=("shop.Busy", "shop.Gone")).data == document.data
    with pytest.raises(ConfigError) as caught:
        detached(document, only=("shop.Busy",))
    assert (caught.value.line, caught.value.key) == (3, "policies.a.breaker.on")
    assert caught.value.message == (
        "must be a built-in exception here, or one of shop.Busy: nothing is imported, got 'shop.Gone'"
    )


@pytest.mark.parametrize(
    ("name", "text", "line", "key", "says"),
    [
        ("a.toml", "[policies.a]\nx = \n", 2, None, "Invalid value"),
        ("a.toml", "[policies.a]\nretry = {}\nretry = {}\n", 3, None, "Cannot overwrite a value"),
        ("a.toml", "[policies.a]\n[policies.a]\n", 2, None, "Cannot declare"),
        ("a.toml", "[policies.a", 1, None, "Expected"),
        ("a.toml", "[policies.a]\ntimeout = " + "9" * 5000, None, None, "Exceeds the limit"),
        (
            "a.json",
            '{"policies": {"a": {\n"retry": {},\n"retry": {}}}}',
            3,
            "policies.a.retry",
            "given twice, first on line 2",
        ),
        ("a.json", '{"policies":\n{"a": }}', 2, None, "Expecting value"),
        ("a.json", '{"policies": {"a": {"timeout": NaN}}}', None, None, "NaN is not JSON"),
        ("a.json", '{"policies": {"a":\n {"timeout":\n  "x"}}}', 2, "policies.a.timeout", "a duration must"),
        ("a.json", "[]", None, None, "must be a table, got a list"),
        (
            "a.yaml",
            "policies:\n  a:\n    retry: {}\n    retry: {}\n",
            4,
            "policies.a.retry",
            "given twice, first on line 3",
        ),
        ("a.yaml", "policies:\n  a: [\n", 3, None, "expected"),
        (
            "a.yaml",
            "policies:\n  a:\n    retry:\n      attempts: 0\n",
            4,
            "policies.a.retry.attempts",
            "must be >= 1",
        ),
        ("a.yaml", "policies:\n  1:\n    retry: {}\n", 1, "policies", "keys must be strings, got 1"),
        ("a.yaml", "", None, None, "must be a table, got nothing"),
        (
            "a.yaml",
            "policies: !!python/object/apply:os.system ['true']\n",
            1,
            None,
            "could not determine a constructor",
        ),
        ("a.yaml", "a: 1\n---\nb: 2\n", 2, None, "expected a single document"),
        ("a.ini", "[policies]\n", None, None, "the suffix must be one of .toml, .json, .yaml, .yml"),
    ],
)
def test_invalid_file_is_refused_with_line_and_key(
    tmp_path: Path, name: str, text: str, line: int | None, key: str | None, says: str
) -> None:
    error = refused(tmp_path, text, name)
    assert (error.line, error.key) == (line, key)
    assert says in error.message


def test_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "gone.toml")


def test_file_that_is_not_utf8_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"[policies.a]\n# caf\xe9\n")
    with pytest.raises(ConfigError, match="must be UTF-8") as caught:
        load(path, environ={})
    assert caught.value.line == 2


def test_byte_order_mark_and_windows_lines_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf[policies.a]\r\n\r\nretry = { attempts = 0 }\r\n")
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[" * 100_000),
        ("a.toml", "x = " + "[" * 100_000),
        ("a.yaml", "[" * 600 + "]" * 600),
        ("a.yaml", "a: &a [*a]\n"),
    ],
)
def test_deep_nesting_is_an_error_and_not_a_crash(tmp_path: Path, name: str, text: str) -> None:
    assert refused(tmp_path, text, name)


def test_yaml_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["x-a: &a0 [0, 0]"]
    lines += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many values" in refused(tmp_path, "\n".join(lines), "a.yaml").message


def test_yaml_without_pyyaml_names_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "install stormproof[yaml]" in refused(tmp_path, "policies: {}\n", "a.yaml").message


def test_yaml_keys_are_strings_and_not_booleans(tmp_path: Path) -> None:
    # In YAML 1.1 `on` is true, and the option would be lost.
    registry = read(
        tmp_path, "policies:\n  yes:\n    retry: {on: ConnectionError, retry_exhausted: true}\n", "a.yaml"
    )
    retry = registry["yes"].strategies[0]
    assert (retry.on, retry.retry_exhausted) == (ConnectionError, True)


def test_yaml_anchors_and_merges_are_followed(tmp_path: Path) -> None:
    text = """
        x-base: &base
          retry: {attempts: 2}
        policies:
          a: *base
          b:
            <<: *base
            timeout: 1s
          c:
            <<: *base
            retry: {attempts: 9}
    """
    registry = read(tmp_path, text, "a.yaml")
    assert [registry[name].strategies[0].attempts for name in "abc"] == [2, 2, 9]
    broken = text.replace("{attempts: 2}", "{attempts: 0}")
    assert refused(tmp_path, broken, "a.yaml").line == 3


# --- finding lines -----------------------------------------------------------------------------------------

AWKWARD = '''\
# [not.a] = "table"
text = """
[policies.fake]
key = 1 # """
lit = \'\'\'
it's "quoted" \\\'\'\'
five = """a"""""
"quoted.key" = 1
'lit.key' = { a = "}", b = [ "]", { c = 1 } ] }
a . "b" . c = 1

[ table . "x.y" ] # ] comment
one = [
  1, # ]
  "two \\" ]",

  { three = 3 },
]
day = 1979-05-27 07:32:00
esc\\u0061ped = 1
[[rows]]
n = 1
[rows.sub]
m = 1
[[rows]]
n = 2
[[rows.inner]]
k = 1
[[rows.inner]]
k = 2
'''.replace("esc\\u0061ped", '"esc\\u0061ped"')


def test_lines_of_an_awkward_toml_file_are_found() -> None:
    import tomllib

    data = tomllib.loads(AWKWARD)
    lines = in_toml(AWKWARD)
    assert {path: lines[path] for path in paths(data)} == {
        ("text",): 2,
        ("lit",): 5,
        ("five",): 7,
        ("quoted.key",): 8,
        ("lit.key",): 9,
        ("lit.key", "a"): 9,
        ("lit.key", "b"): 9,
        ("lit.key", "b", 0): 9,
        ("lit.key", "b", 1): 9,
        ("lit.key", "b", 1, "c"): 9,
        ("a",): 10,
        ("a", "b"): 10,
        ("a", "b", "c"): 10,
        ("table",): 12,
        ("table", "x.y"): 12,
        ("table", "x.y", "one"): 13,
        ("table", "x.y", "one", 0): 14,
        ("table", "x.y", "one", 1): 15,
        ("table", "x.y", "one", 2): 17,
        ("table", "x.y", "one", 2, "three"): 17,
        ("table", "x.y", "day"): 19,
        ("table", "x.y", "escaped"): 20,
        ("rows",): 21,
        ("rows", 0): 21,
        ("rows", 0, "n"): 22,
        ("rows", 0, "sub"): 23,
        ("rows", 0, "sub", "m"): 24,
        ("rows", 1): 25,
        ("rows", 1, "n"): 26,
        ("rows", 1, "inner"): 27,
        ("rows", 1, "inner", 0): 27,
        ("rows", 1, "inner", 0, "k"): 28,
        ("rows", 1, "inner", 1): 29,
        ("rows", 1, "inner", 1, "k"): 30,
    }


def paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = []
    for key, value in items:
        found += [(*path, key), *paths(value, (*path, key))]
    return found


def test_lines_of_a_json_file_are_found() -> None:
    text = '{\n "a\\"}": [1,\n  {"b": "]"}],\n "c":\n\n  {}\n}'
    lines, twice = in_json(text)
    assert twice is None
    assert lines == {('a"}',): 2, ('a"}', 0): 2, ('a"}', 1): 3, ('a"}', 1, "b"): 3, ("c",): 4}


def test_scanner_is_linear() -> None:
    # Ten times the text takes ten times the steps; counting lines from the start each time would not.
    text = "".join(f"[policies.p{n}]\nretry = {{ attempts = {n} }}\n" for n in range(5_000))
    lines = in_toml(text)
    assert lines[("policies", "p4999", "retry", "attempts")] == 10_000


# --- the environment ---------------------------------------------------------------------------------------

SOURCE = """\
[budgets.big-partner]
ratio = 0.1
[policies.fraud-score]
retry = { attempts = 4 }
rate_limit = "10/s"
timeout = "500ms"
[policies.listed]
strategies = [{ breaker = {} }, { retry = { budget = "big-partner" } }, { breaker = { name = "inner" } }]
"""


def overridden(folder: Path, **environ: str) -> Registry:
    return read(folder, SOURCE, environ=environ)


def test_environment_variable_overrides_an_option(tmp_path: Path) -> None:
    registry = overridden(
        tmp_path,
        STORMPROOF_FRAUD_SCORE__RETRY__ATTEMPTS="2",
        STORMPROOF_FRAUD_SCORE__RETRY__ON="ConnectionError, KeyError",
        STORMPROOF_FRAUD_SCORE__RETRY__RETRY_EXHAUSTED="True",
        STORMPROOF_FRAUD_SCORE__RETRY__WITHIN="none",
        STORMPROOF_FRAUD_SCORE__RETRY__BACKOFF__BASE="50ms",
        STORMPROOF_FRAUD_SCORE__RETRY__BACKOFF__CAP="0.25",
        STORMPROOF_FRAUD_SCORE__RATE_LIMIT="20/s burst 3",
        STORMPROOF_FRAUD_SCORE__TIMEOUT__THREAD="true",
        STORMPROOF_LISTED__RETRY__ATTEMPTS="9",
        STORMPROOF_BUDGETS__BIG_PARTNER__RATIO="0.5",
    )
    retry, limit, timeout = registry["fraud-score"].strategies
    assert (retry.attempts, retry.on, retry.retry_exhausted, retry.within) == (
        2,
        (ConnectionError, KeyError),
        True,
        None,
    )
    assert (retry.backoff.base, retry.backoff.cap) == (0.05, 0.25)
    assert (limit.limiter.rate, limit.limiter.burst) == (20.0, 3)
    assert (timeout.seconds, timeout.thread) == (0.5, True)
    assert registry["listed"].strategies[1].attempts == 9
    assert registry.budgets["big-partner"].ratio == 0.5


def test_bare_number_is_seconds(tmp_path: Path) -> None:
    registry = overridden(tmp_path, STORMPROOF_FRAUD_SCORE__TIMEOUT="2")
    assert registry["fraud-score"].strategies[2].seconds == 2.0


def test_variable_may_hold_the_waits_of_a_schedule(tmp_path: Path) -> None:
    registry = overridden(
        tmp_path,
        STORMPROOF_FRAUD_SCORE__RETRY__BACKOFF__KIND="schedule",
        STORMPROOF_FRAUD_SCORE__RETRY__BACKOFF__VALUES="100ms, 2,1m",
    )
    assert registry["fraud-score"].strategies[0].backoff.values == (0.1, 2.0, 60.0)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "STORMPROOF_FRAUD_SCOR__RETRY__ATTEMPTS",
            "2",
            "unknown policy 'FRAUD_SCOR'; did you mean 'FRAUD_SCORE'?",
        ),
        (
            "STORMPROOF_FRAUD_SCORE__RETRIES__ATTEMPTS",
            "2",
            "unknown strategy 'retries'; did you mean 'retry'?",
        ),
        ("STORMPROOF_FRAUD_SCORE__BREAKER__PROBES", "2", "policy 'fraud-score' has no 'breaker'"),
        ("STORMPROOF_FRAUD_SCORE__RETRY__ATEMPTS", "2", "unknown option 'atempts'; did you mean 'attempts'?"),
        ("STORMPROOF_FRAUD_SCORE__RETRY__ATTEMPTS", "two", "must be a whole number, got 'two'"),
        ("STORMPROOF_FRAUD_SCORE__RETRY__ATTEMPTS", "0", "Retry: attempts must be >= 1, got 0"),
        ("STORMPROOF_FRAUD_SCORE__RETRY__RETRY_EXHAUSTED", "yes", "must be true or false, got 'yes'"),
        ("STORMPROOF_FRAUD_SCORE__RETRY", "3", "must be a table, got '3'"),
        ("STORMPROOF_LISTED__TIMEOUT__THREAD", "true", "policy 'listed' has no 'timeout'"),
        ("STORMPROOF_LISTED__BREAKER__PROBES", "2", "policy 'listed' has 2 strategies of the kind 'breaker'"),
        (
            "STORMPROOF_LISTED__RETRY__BUDGET__RATIO",
            "1",
            "is the shared 'big-partner': set BUDGETS__BIG_PARTNER",
        ),
        (
            "STORMPROOF_BUDGETS__BIG_PARTER__RATIO",
            "1",
            "unknown name in budgets 'BIG_PARTER'; did you mean 'BIG_PARTNER'?",
        ),
        ("STORMPROOF_BUDGETS__BIG_PARTNER", "1", "must name an option too"),
        ("STORMPROOF_BUDGETS__BIG_PARTNER__RATIOS", "1", "unknown option 'ratios'; did you mean 'ratio'?"),
    ],
)
def test_wrong_variable_is_named(tmp_path: Path, variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overridden(tmp_path, **{variable: value})
    assert f"{variable}: " in str(caught.value)
    assert says in str(caught.value)
    assert caught.value.file is None, "the file is not at fault"


def test_variable_that_fits_two_policies_is_refused() -> None:
    data = {"policies": {"a-b": {"retry": {}}, "a_b": {"retry": {}}}}
    with pytest.raises(ConfigError, match="fits more than one name: 'a-b', 'a_b'"):
        Registry.from_data(data, environ={"STORMPROOF_A_B__RETRY__ATTEMPTS": "2"})


def test_unrelated_variables_are_ignored(tmp_path: Path) -> None:
    registry = overridden(
        tmp_path, STORMPROOF_DEBUG="1", PATH="/bin", STORMPROOFER_X__RETRY__ATTEMPTS="1", STORMPROOF="1"
    )
    assert registry["fraud-score"].strategies[0].attempts == 4


def test_prefix_can_be_chosen(tmp_path: Path) -> None:
    environ = {"SHOP_FRAUD_SCORE__RETRY__ATTEMPTS": "2", "STORMPROOF_GONE__RETRY__ATTEMPTS": "3"}
    registry = read(tmp_path, SOURCE, environ=environ, prefix="SHOP")
    assert registry["fraud-score"].strategies[0].attempts == 2


def test_process_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "STORMPROOF_FRAUD_SCORE__RETRY__ATTEMPTS", "6")
    path = write(tmp_path, SOURCE)
    assert load(path)["fraud-score"].strategies[0].attempts == 6
    assert load(str(path), environ={})["fraud-score"].strategies[0].attempts == 4


def test_data_is_not_changed_by_overrides() -> None:
    data = {"policies": {"p": {"timeout": 1}}}
    Registry.from_data(data, environ={"STORMPROOF_P__TIMEOUT__THREAD": "true"})
    assert data == {"policies": {"p": {"timeout": 1}}}


# --- writing -----------------------------------------------------------------------------------------------


def test_options_equal_to_their_default_are_left_out() -> None:
    assert to_data(sp.Policy(sp.Deadline(5), sp.Retry(), sp.Breaker(), sp.Timeout(0.5))) == {
        "deadline": "5s",
        "retry": {},
        "breaker": {},
        "timeout": "500ms",
    }


def test_options_that_differ_are_written() -> None:
    policy = sp.Policy(
        sp.Retry(
            (OSError, sp.CircuitOpen),
            attempts=None,
            backoff=sp.Decorrelated(1, cap=3),
            within=90,
            budget=None,
            max_hint=math.inf,
        ),
        sp.Breaker(window=None, name="other", on=sp.transient),
        name="p",
    )
    assert to_data(policy) == {
        "retry": {
            "on": ["OSError", "stormproof.CircuitOpen"],
            "attempts": "none",
            "backoff": {"kind": "decorrelated", "base": "1s", "cap": "3s"},
            "within": "90s",
            "budget": "none",
            "max_hint": "inf",
        },
        "breaker": {"window": "none", "on": "transient", "name": "other"},
    }


def test_repeated_kind_is_written_as_a_list() -> None:
    policy = sp.Policy(sp.Breaker(), sp.Retry(), sp.Breaker(probes=2))
    assert to_data(policy) == {"strategies": [{"breaker": {}}, {"retry": {}}, {"breaker": {"probes": 2}}]}


def test_shared_objects_are_written_once() -> None:
    data = {
        "budgets": {"b": {"ratio": 0.3}},
        "limiters": {"l": {"rate": 5, "burst": 2}},
        "breakers": {"k": {"probes": 3}},
        "bulkheads": {"h": {"limit": 4}},
        "policies": {
            "one": {"retry": {"budget": "b"}, "breaker": "k", "rate_limit": "l", "bulkhead": "h"},
            "two": {"hedge": {"idempotent": True, "budget": "b"}, "rate_limit": "l"},
        },
    }
    assert Registry.from_data(data).dump() == data


def test_hedge_with_the_budget_of_the_retry_does_not_repeat_it() -> None:
    budget = sp.Budget(ratio=0.3)
    shared = sp.Policy(sp.Retry(budget=budget), sp.Hedge(budget=budget, idempotent=True))
    data = to_data(shared)
    assert data == {"retry": {"budget": {"ratio": 0.3}}, "hedge": {"idempotent": True}}
    again = policy(**data)
    assert again.hedge_budget is again.strategies[0].budget


def _without_timeouts() -> Any:
    return sp.transient.with_().register(TimeoutError, False)


@pytest.mark.parametrize(
    ("made", "key", "says"),
    [
        (lambda: sp.Policy(sp.Retry(on=lambda e: True)), "retry.on", "a callable"),
        (lambda: sp.Policy(sp.Retry(on=_without_timeouts())), "retry.on", "a callable"),
        (lambda: sp.Policy(sp.Retry(before_attempt=print)), "retry.before_attempt", "a function"),
        (lambda: sp.Policy(sp.Breaker(trip=lambda c: False)), "breaker.trip", "a function"),
        (lambda: sp.Policy(sp.Fallback(print)), "fallback.value", "not plain data"),
        (lambda: sp.Policy(sp.Fallback((1, 2))), "fallback.value", "not plain data"),
        (lambda: sp.Policy(sp.RateLimit("1/s", cost=len)), "rate_limit.cost", "a callable"),
        (
            lambda: sp.Policy(sp.Retry(backoff=sp.Exponential(jitter=min))),
            "retry.backoff.jitter",
            "a callable",
        ),
        (lambda: sp.Policy(sp.Retry(budget=sp.keyed(sp.Budget(), key=len))), "retry.budget", "a Keyed"),
        (lambda: sp.Policy(sp.keyed(sp.Breaker(), key=len)), "Keyed", "not a strategy that files know"),
    ],
)
def test_policy_that_a_file_cannot_hold_is_refused(made: Any, key: str, says: str) -> None:
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        to_data(made())
    assert caught.value.key == key
    assert says in caught.value.message


def test_local_exception_is_refused() -> None:
    class Local(Exception): ...

    with pytest.raises(ConfigError, match="no other program can import"):
        to_data(sp.Policy(sp.Retry(on=Local)))
