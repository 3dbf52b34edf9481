"""The schema of policy files: valid itself, one with the loader, and complete."""

from __future__ import annotations

import inspect
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.config.test_registry import EXAMPLE, SOURCE

from stormproof._config.catalog import AMBIENT, FAMILIES, REQUIRED, SECTIONS, STRATEGIES, Form
from stormproof._config.registry import ConfigError, Registry
from stormproof._config.schema import document
from stormproof._config.values import Count, Number, Seconds

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = document()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
FORMS = {
    **{f"strategy {kind}": form for kind, form in STRATEGIES.items()},
    **{f"{name} {kind}": form for name, family in FAMILIES.items() for kind, form in family.forms.items()},
}


def valid(data: Any) -> bool:
    return bool(VALIDATOR.is_valid(data))


def loads(data: Any) -> bool:
    try:
        Registry.from_data(data)
    except ConfigError:
        return False
    return True


def policy(**strategies: Any) -> dict[str, Any]:
    return {"policies": {"p": strategies}}


def test_schema_is_valid_and_plain_json() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA


@pytest.mark.parametrize("text", [EXAMPLE, SOURCE])
def test_example_files_are_valid(text: str) -> None:
    VALIDATOR.validate(tomllib.loads(text))


def test_documented_files_are_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "policy-files.md").read_text(encoding="utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```toml\n")[1:]]
    assert blocks
    for block in blocks:
        VALIDATOR.validate(tomllib.loads(block))


#: Shapes that both the schema and the loader take.
GOOD = [
    {"policies": {}},
    {"$schema": "stormproof.schema.json", "x-note": [1], "policies": {}},
    policy(),
    policy(retry={}),
    policy(retry={"attempts": None}),
    policy(retry={"attempts": "none", "within": 0, "budget": "none"}),
    policy(retry={"budget": None, "max_hint": "inf"}),
    policy(retry={"on": ["transient", "OSError"]}),
    policy(retry={"backoff": {"kind": "schedule", "values": ["1s", 2]}}),
    policy(retry={"backoff": {"jitter": {"symmetric": 0.5}}}),
    policy(retry={"budget": {"kind": "rate", "rate": "5/s", "burst": 3, "wait": True}}),
    policy(strategies=[{"deadline": "5s"}, {"breaker": {}}, {"retry": {}}, {"breaker": {}}]),
    policy(deadline=0),
    policy(deadline="1m30s"),
    policy(bulkhead=3),
    policy(bulkhead={"limit": 3, "queue": 2, "max_wait": "none"}),
    policy(rate_limit="100/s burst 200"),
    policy(rate_limit={"limiter": {"kind": "pacer", "rate": "inf"}, "cost": 2}),
    policy(hedge={"after": "p99.9", "idempotent": True}),
    policy(fallback=[1, 2]),
    policy(fallback={"value": None}),
    policy(chaos={"latency": "1s"}),
    policy(adaptive_limit={"kind": "aimd", "decrease": 0.5}),
    {
        "limiters": {"l": "5/s"},
        "budgets": {"b": {}},
        "breakers": {"k": {}},
        "bulkheads": {"h": 3},
        **policy(breaker="k"),
    },
]
#: Shapes that neither takes.
BAD = [
    {},
    {"policies": []},
    {"policies": {}, "polices": {}},
    policy(retri={}),
    policy(retry=3),
    policy(retry={"atempts": 3}),
    policy(retry={"attempts": 0}),
    policy(retry={"attempts": 2.5}),
    policy(retry={"attempts": "3"}),
    policy(retry={"within": "5"}),
    policy(retry={"within": -1}),
    policy(retry={"on": []}),
    policy(retry={"on": "lambda: 1"}),
    policy(retry={"on": 3}),
    policy(retry={"late": "never"}),
    policy(retry={"retry_exhausted": 1}),
    policy(retry={"before_attempt": "x.y"}),
    policy(retry={"backoff": "fast"}),
    policy(retry={"backoff": {"kind": "exponental"}}),
    policy(retry={"backoff": {"kind": "constant"}}),
    policy(retry={"backoff": {"kind": "constant", "wait": 1, "cap": 3}}),
    policy(retry={"backoff": {"jitter": "some"}}),
    policy(retry={"backoff": {"jitter": {"symmetric": 2}}}),
    policy(retry={"backoff": {"jitter": {"symmetric": 0.5, "max": 3}}}),
    policy(retry={"backoff": {"jitter": {}}}),
    policy(retry={"budget": {"kind": "throttle", "max_tokens": 1001}}),
    policy(breaker={"failure_ratio": 0}),
    policy(breaker={"failure_ratio": 1.1}),
    policy(bulkhead={}),
    policy(bulkhead=0),
    policy(timeout="0x"),
    policy(timeout=0),
    policy(rate_limit={"limiter": {"rate": -1}}),
    policy(rate_limit={}),
    policy(hedge={"after": "q95"}),
    policy(strategies=[{"retry": {}, "timeout": 1}]),
    policy(strategies=[{}]),
    policy(strategies=["retry"]),
    policy(strategies=[], timeout=1),
    {"budgets": {"b": "c"}, "policies": {}},
    {"breakers": {"b": "c"}, "policies": {}},
]


@pytest.mark.parametrize("data", GOOD, ids=repr)
def test_schema_and_loader_accept_the_same_data(data: Any) -> None:
    VALIDATOR.validate(data)
    Registry.from_data(data)


@pytest.mark.parametrize("data", BAD, ids=repr)
def test_schema_and_loader_refuse_the_same_data(data: Any) -> None:
    assert not valid(data)
    assert not loads(data)


# --- the table behind both ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FORMS))
def test_table_has_every_option_of_the_constructor(name: str) -> None:
    form = FORMS[name]
    parameters = set(inspect.signature(form.type).parameters) - AMBIENT
    assert parameters == set(form.options) | set(form.code_only)
    assert not set(form.options) & set(form.code_only)


def test_every_strategy_and_budget_is_in_the_table() -> None:
    import stormproof as sp

    made = {form.home.rpartition(".")[2] for form in FORMS.values()}
    public = {name for name in sp.__all__ if inspect.isclass(getattr(sp, name))}
    strategies = {name for name in public if hasattr(getattr(sp, name), "sync")}
    backoffs = {name for name in public if issubclass(getattr(sp, name), sp.Backoff)} - {"Backoff"}
    budgets = {name for name in public if hasattr(getattr(sp, name), "withdraw")}
    assert (strategies | backoffs | budgets) - made == set()


def bounds() -> list[tuple[str, str, float, bool]]:
    """(form, option, value, whether the constructor takes it), on and just beyond every bound stated."""
    cases = []
    for name, form in FORMS.items():
        for option, value in form.options.items():
            if not isinstance(value, Number):
                continue
            step = 1 if isinstance(value, Count) else 1e-9
            stated = value.bounds
            if "minimum" in stated:
                cases += [
                    (name, option, stated["minimum"], True),
                    (name, option, stated["minimum"] - step, False),
                ]
            if "exclusiveMinimum" in stated:
                low = stated["exclusiveMinimum"]
                cases += [(name, option, low, False), (name, option, low + step, True)]
            if "maximum" in stated:
                cases += [
                    (name, option, stated["maximum"], True),
                    (name, option, stated["maximum"] + step, False),
                ]
            if "exclusiveMaximum" in stated:
                high = stated["exclusiveMaximum"]
                cases += [(name, option, high, False), (name, option, high - step, True)]
            assert stated or value.none, f"{name}.{option} states no bound"
            if not isinstance(value, Count):
                cases.append((name, option, math.inf, value.infinite))
    return cases


#: What else an option needs, so that its own bound is what decides.
BESIDES: dict[tuple[str, str], dict[str, Any]] = {
    ("strategy adaptive_limit", "max"): {"min": 1, "initial": 1},
    ("strategy adaptive_limit", "min"): {"initial": 20},
    ("strategy adaptive_limit", "decrease"): {"kind": "aimd"},
    ("strategy adaptive_limit", "timeout"): {"kind": "aimd"},
    ("strategy adaptive_limit", "probe"): {"kind": "vegas"},
    ("strategy bulkhead", "max_wait"): {"queue": 1},
    ("strategy breaker", "window"): {},
}
NEEDED = {"limit": 1, "seconds": 1, "value": 0, "limiter": "1/s", "wait": 1, "values": [1], "rate": 1}
NEEDED |= {"initial": 1, "maximum": 1, "multiplier": 2}


@pytest.mark.parametrize(("name", "option", "value", "taken"), bounds())
def test_bounds_stated_are_the_constructors(name: str, option: str, value: float, taken: bool) -> None:
    form = FORMS[name]
    given = {key: NEEDED[key] for key, default in form.defaults().items() if default is REQUIRED}
    given |= {"latency": 1} if form.home == "Chaos" else {}
    given |= BESIDES.get((name, option), {})
    if option in ("base", "throttle_base", "min") and "cap" in form.options:
        given["cap"] = 10
    if option == "cap" and "base" in form.options:
        given |= {"base": 1e-9} | ({"throttle_base": 1e-9} if "throttle_base" in form.options else {})
    assert accepts(form, {**given, option: value}) is taken


def accepts(form: Form, given: dict[str, Any]) -> bool:
    try:
        form.type(**given)
    except (TypeError, ValueError):
        return False
    return True


def test_defaults_in_the_schema_are_the_constructors() -> None:
    breaker = SCHEMA["$defs"]["shared_breaker"]["properties"]
    assert (breaker["failure_ratio"]["default"], breaker["min_calls"]["default"]) == (0.5, 20)
    for section, held in SECTIONS.items():
        assert SCHEMA["properties"][section]["additionalProperties"] == {"$ref": f"#/$defs/shared_{held}"}


def test_schema_has_durations_where_the_constructor_has() -> None:
    # Every option of the constructors that is a time takes "100ms"; a forgotten one would be a Number.
    for name, form in FORMS.items():
        for option, value in form.options.items():
            text = str(inspect.signature(form.type).parameters[option].annotation)
            assert isinstance(value, Seconds) == text.startswith("Seconds"), f"{name}.{option}: {text}"


def test_schema_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    from stormproof import cli

    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    assert cli.main(["schema", "--indent", "0"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
