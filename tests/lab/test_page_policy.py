"""The page's editor: text in, knobs turned, text out; and the text it hands to take away is right."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

import stormproof as sp
from stormproof._config.errors import ConfigError
from stormproof.lab import policy_text
from stormproof.lab.page import examples
from stormproof.lab.page import policy as page_policy
from stormproof.lab.page import scenario as page_scenario
from stormproof.lab.page.policy import edit, knobs, read

PLAIN = "[policies.p]\nretry = { attempts = 4 }\n"


def turned(knob: str, value: str, text: str = PLAIN) -> dict[str, Any]:
    """The policy's table after one knob was turned, read back from the text that comes out."""
    sheet = edit(read(text), knob, value)
    written = sheet.describe()["toml"]
    assert repr(read(written).policy) == repr(sheet.policy)
    table: dict[str, Any] = tomllib.loads(written)["policies"]["p"]
    return table


@pytest.mark.parametrize(
    ("knob", "value", "table"),
    [
        ("attempts", "7", {"retry": {"attempts": 7}}),
        ("attempts", "none", {"retry": {"attempts": "none"}}),
        ("timeout", "500ms", {"retry": {"attempts": 4}, "timeout": "500ms"}),
        ("timeout", "2", {"retry": {"attempts": 4}, "timeout": 2}),
        ("deadline", "5s", {"deadline": "5s", "retry": {"attempts": 4}}),
        ("breaker", "on", {"retry": {"attempts": 4}, "breaker": {}}),
        ("base", "20ms", {"retry": {"attempts": 4, "backoff": {"base": "20ms"}}}),
        ("cap", "9s", {"retry": {"attempts": 4, "backoff": {"cap": "9s"}}}),
        ("jitter", "none", {"retry": {"attempts": 4, "backoff": {"jitter": "none"}}}),
        ("backoff", "fibonacci", {"retry": {"attempts": 4, "backoff": {"kind": "fibonacci"}}}),
        ("backoff", "constant", {"retry": {"attempts": 4, "backoff": {"kind": "constant", "wait": 0.1}}}),
        ("budget", "none", {"retry": {"attempts": 4, "budget": "none"}}),
        ("budget", "window", {"retry": {"attempts": 4, "budget": {"kind": "window"}}}),
        ("ratio", "0.5", {"retry": {"attempts": 4, "budget": {"ratio": 0.5}}}),
        ("burst", "3", {"retry": {"attempts": 4, "budget": {"burst": 3}}}),
    ],
)
def test_knob_changes_its_option_and_nothing_else(knob: str, value: str, table: dict[str, Any]) -> None:
    result = turned(knob, value)
    assert result == table
    assert list(result) == list(table), "the order of the keys is the order of the strategies"


def test_added_strategy_is_inserted_in_its_recommended_place() -> None:
    text = "[policies.p]\nretry = {}\nbulkhead = 5\n"
    assert list(turned("breaker", "on", text)) == ["retry", "breaker", "bulkhead"]
    assert list(turned("timeout", "1s", text)) == ["retry", "bulkhead", "timeout"]
    assert list(turned("deadline", "1s", text)) == ["deadline", "retry", "bulkhead"]


@pytest.mark.parametrize("value", ["none", ""])
def test_strategy_is_taken_out(value: str) -> None:
    text = "[policies.p]\ndeadline = 5\nretry = {}\nbreaker = { consecutive = 3 }\ntimeout = 1\n"
    for knob in ("deadline", "breaker", "timeout"):
        assert knob not in turned(knob, value, text)


def test_switching_a_breaker_on_that_is_on_keeps_its_options() -> None:
    text = "[policies.p]\nretry = {}\nbreaker = { consecutive = 3 }\n"
    assert turned("breaker", "on", text)["breaker"] == {"consecutive": 3}


def test_another_kind_of_backoff_keeps_common_options() -> None:
    text = '[policies.p]\nretry = { backoff = { base = "20ms", cap = "1s", factor = 3 } }\n'
    linear = turned("backoff", "linear", text)
    assert linear["retry"]["backoff"] == {"kind": "linear", "base": "20ms", "cap": "1s"}
    constant = turned("backoff", "constant", text)
    assert constant["retry"]["backoff"] == {"kind": "constant", "wait": "20ms"}
    back = turned("backoff", "exponential", policy_text.toml({"policies": {"p": constant}}))
    assert back["retry"]["backoff"] == {"base": "20ms"}
    assert (
        turned("base", "1s", policy_text.toml({"policies": {"p": constant}}))["retry"]["backoff"]["wait"]
        == "1s"
    )


def test_every_choice_the_page_offers_can_be_made() -> None:
    for kind in page_policy.BACKOFFS:
        assert knobs(edit(read(PLAIN), "backoff", kind).policy)["backoff"] == kind
    for jitter in page_policy.JITTERS:
        assert knobs(edit(read(PLAIN), "jitter", jitter).policy)["jitter"] == jitter
    for kind in page_policy.BUDGETS:
        sheet = edit(read(PLAIN), "budget", kind)
        assert knobs(sheet.policy)["budget"] == kind
        if kind != "none":
            for knob in ("ratio", "burst"):
                assert knobs(edit(sheet, knob, "1").policy)[knob] == "1"


def test_other_policies_and_shared_parts_of_the_text_stay() -> None:
    text = '[budgets.b]\nratio = 0.2\n\n[policies.p]\nretry = { budget = "b" }\n\n[policies.q]\ntimeout = 1\n'
    written = edit(read(text, "p"), "attempts", "2").describe()["toml"]
    assert tomllib.loads(written) == {
        "budgets": {"b": {"ratio": 0.2}},
        "policies": {"p": {"retry": {"budget": "b", "attempts": 2}}, "q": {"timeout": 1}},
    }
    assert read(text, "q").describe()["names"] == ["p", "q"]
    assert read(text, "q").name == "q"
    assert read(text, "gone").name == "p"


@pytest.mark.parametrize(
    ("knob", "value", "key"),
    [
        ("attempts", "0", "policies.p.retry.attempts"),
        ("attempts", "many", "policies.p.retry.attempts"),
        ("base", "soon", "policies.p.retry.backoff.base"),
        ("ratio", "-1", "policies.p.retry.budget.ratio"),
        ("timeout", "0", "policies.p.timeout"),
    ],
)
def test_invalid_value_is_refused_at_its_place(knob: str, value: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        edit(read(PLAIN), knob, value)
    assert caught.value.key == key


def test_knob_that_cannot_be_turned_raises() -> None:
    with pytest.raises(ConfigError, match="edit its text"):
        edit(read("[[policies.p.strategies]]\nretry = {}\n"), "attempts", "2")
    with pytest.raises(ConfigError, match="edit its text"):
        edit(read('[budgets.b]\n\n[policies.p]\nretry = { budget = "b" }\n'), "ratio", "0.5")
    with pytest.raises(ConfigError, match="unknown knob 'volume'"):
        edit(read(PLAIN), "volume", "11")
    assert set(read("[[policies.p.strategies]]\nretry = {}\n").describe()["knobs"].values()) == {None}


def test_text_without_policies_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one policy"):
        read("[policies]\n")


def made(code: str) -> sp.Policy:
    """The policy that the Python for taking away makes. Only tests ever run it."""
    names: dict[str, Any] = {}
    exec(code, names)
    policy: sp.Policy = names["policy"]
    return policy


POLICIES = [
    sp.Policy(sp.Retry(sp.transient), name="x"),
    sp.Policy(sp.Timeout(0.5)),
    sp.Policy(
        sp.Deadline(5),
        sp.Retry(
            (ConnectionError, sp.AttemptTimeout),
            attempts=None,
            backoff=sp.Exponential(base=0.2, jitter=sp.Symmetric(0.3)),
            budget=sp.WindowBudget(ratio=0.5),
        ),
        sp.Hedge(after=0.02, idempotent=True),
        sp.Breaker(consecutive=5),
        sp.RateLimit(sp.Limiter(10, 20)),
        sp.Bulkhead(5),
        sp.Timeout(0.5),
        name='quoted "name"\n',
    ),
    sp.Policy(sp.Retry(sp.transient, budget=None, max_hint=float("inf"))),
    sp.Policy(sp.Retry(sp.transient, backoff=sp.Schedule([0.1, 0.5]))),
    sp.presets.aws_standard(),
    sp.presets.aws_v2_1(),
    sp.presets.google(),
    sp.presets.stripe(),
    sp.presets.finagle(),
]


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_python_to_take_away_makes_the_policy_again(policy: sp.Policy) -> None:
    assert repr(made(policy_text.python(policy))) == repr(policy)


def test_python_text_leaves_out_defaults() -> None:
    policy = sp.Policy(sp.Deadline(5), sp.Retry(sp.transient, attempts=6), sp.Timeout(0.5), name="x")
    assert policy_text.python(policy) == (
        "from stormproof import Deadline, Policy, Retry, Timeout\n\n"
        "policy = Policy(\n    Deadline(5),\n    Retry(attempts=6),\n    Timeout(0.5),\n"
        '    name="x",\n)\n'
    )
    assert policy_text.python(None) == "from stormproof import Policy\n\npolicy = Policy()\n"


@pytest.mark.parametrize("name", ["p", "a b", 'quote"', "new\nline", "tab\t\x7f", "ünï", "a.b", "", "\\"])
def test_toml_of_the_page_round_trips(name: str) -> None:
    data = {
        "x-note": 1.5,
        "budgets": {name or "b": {"ratio": 0.25}},
        "policies": {
            name: {"timeout": "1s", "retry": {"on": ["transient"], "retry_exhausted": True, "backoff": {}}},
            "list": {"strategies": [{"retry": {}}, {"breaker": {"name": name}}]},
        },
    }
    written = policy_text.toml(data)
    assert tomllib.loads(written) == data
    assert list(tomllib.loads(written)["policies"][name]) == ["timeout", "retry"]


def test_every_example_of_the_page_runs() -> None:
    texts = [example["toml"] for example in examples.EXAMPLES]
    texts += [policy["toml"] for story in page_scenario.describe_all() for policy in story["policies"]]
    assert len(texts) > 20
    for text in texts:
        assert read(text).policy.strategies


def test_every_story_fits_the_sliders() -> None:
    stories = page_scenario.describe_all()
    assert {story["id"] for story in stories} == set(page_scenario.scenarios)
    for story in stories:
        scenario = page_scenario.make(story["id"], story["values"])
        offered = page_scenario.shipped_stories()[story["id"]][0].scenario
        assert scenario == offered, story["id"]


def test_page_changes_only_options_of_its_sliders() -> None:
    values = next(story["values"] for story in page_scenario.describe_all() if story["id"] == "cold-cache")
    scenario = page_scenario.make("cold-cache", {**values, "clients": 7, "outage_lasts": 3, "timeout": 60})
    offered = page_scenario.shipped_stories()["cold-cache"][0].scenario
    assert (scenario.clients, scenario.outages[0].lasts, scenario.timeout) == (7, 3.0, None)
    assert scenario.faults == offered.faults and scenario.arrival_rps == offered.arrival_rps
