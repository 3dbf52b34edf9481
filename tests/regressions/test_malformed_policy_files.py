"""Policy files that hold what no policy has: each is a `ConfigError` that says so, and at once."""

from __future__ import annotations

import json

import pytest

from stormproof._config.key_lines import DEEPEST
from stormproof._config.registry import ConfigError, Registry
from stormproof._config.sources import parse
from stormproof.presets import from_service_config


def load(text: str, suffix: str = ".toml") -> Registry:
    return Registry(lambda: parse(text, suffix), environ={})


@pytest.mark.parametrize("text", ["100/s 5", "5/fortnight", "²/s", "1/s burst x"])
def test_invalid_rate_of_a_shared_limiter_is_refused_at_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match="must read like") as caught:
        load(f'[limiters]\npartner = "{text}"\n[policies.p]\nretry = {{}}\n')
    assert (caught.value.line, caught.value.key) == (2, "limiters.partner")


@pytest.mark.parametrize(
    "option", ["retry = { attempts = N }", "fallback = { value = [1, N] }", "timeout = N"]
)
@pytest.mark.parametrize(("suffix", "number"), [(".toml", "0x" + "f" * 5000), (".toml", "9" * 400)])
def test_number_too_large_to_print_is_refused_at_its_line(option: str, suffix: str, number: str) -> None:
    with pytest.raises(ConfigError, match="too large a number") as caught:
        load(f"[policies.p]\n{option.replace('N', number)}\n", suffix)
    assert caught.value.line == 2


def test_key_too_large_to_print_is_refused() -> None:
    pytest.importorskip("yaml")
    with pytest.raises(ConfigError, match="key that is too large"):
        load("policies: {p: {fallback: {value: {? 0x" + "f" * 5000 + " : 1}}}}", ".yaml")


@pytest.mark.parametrize(
    "value",
    ["!!bool perhaps", "!!timestamp later", "!!int ''", "!!float ''", "!!timestamp 0001-99-01", "!!int x"],
)
def test_yaml_value_that_does_not_fit_its_tag_is_refused(value: str) -> None:
    pytest.importorskip("yaml")
    with pytest.raises(ConfigError):
        load(f"policies:\n  p:\n    fallback:\n      value: {value}\n", ".yaml")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("a." * 12_000 + "a = 1\n", ".toml"),
        ("[" + "a." * 6_000 + "a]\n" + "".join(f"b{n} = 1\n" for n in range(6_000)), ".toml"),
        ("[" + "' ' . " * 3_000 + "a]\n", ".toml"),
        ('{"a":' * 300 + "[" + "1," * 20_000 + "1]" + "}" * 300, ".json"),
        ("[" * 200_000, ".json"),
    ],
)
def test_deeply_nested_file_is_refused_at_once(text: str, suffix: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse(text, suffix)


def test_deepest_allowed_file_is_read() -> None:
    deep = json.dumps({"x-a": _nested(DEEPEST - 2), "policies": {}})
    assert parse(deep, ".json").data == json.loads(deep)
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse(json.dumps({"x-a": _nested(DEEPEST)}), ".json")
    words = ", ".join("0.1" for _ in range(500))
    assert (
        len(parse(f"[policies.p]\nfallback = {{ value = [{words}] }}\n", ".toml").data["policies"]["p"]) == 1
    )


def _nested(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200 + "1" + "}" * 200])
def test_deeply_nested_service_config_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        from_service_config(text)
