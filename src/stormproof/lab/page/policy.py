"""Policies of the page's editor: read the text, turn the knobs, and describe the policy.

The text is read by the loader of policy files and by nothing else. Two things are stricter here than in
a file, since the text may come from anywhere: no name imports a module, and stores are refused.
"""

from __future__ import annotations

from typing import Any

from ..._config.catalog import FAMILIES, STRATEGIES, form_of
from ..._config.detached import detached
from ..._config.errors import ConfigError, Document, unknown
from ..._config.registry import Registry
from ..._config.sources import parse
from ..._policy.policy import Policy
from ..._primitives.durations import spell
from ..policy_text import python, toml

LONGEST = 64 * 1024
#: Names by module that a text may hold.
KNOWN_NAMES = (
    "stormproof.lab.BackendError",
    "stormproof.lab.model.backend.BackendError",
    "stormproof.AttemptTimeout",
)

BACKOFFS = ("exponential", "decorrelated", "linear", "fibonacci", "constant")
JITTERS = ("full", "equal", "none")
BUDGETS = ("success", "none", "window", "throttle", "rate", "quota")

#: Under which options of its class a knob is kept, for each kind of budget.
_BUDGET_KNOBS = {
    "success": {"ratio": "ratio", "burst": "burst"},
    "window": {"ratio": "ratio", "burst": "floor"},
    "throttle": {"ratio": "token_ratio", "burst": "max_tokens"},
    "rate": {"ratio": "rate", "burst": "burst"},
    "quota": {"ratio": "success_credit", "burst": "capacity"},
}
_KNOBS = ("attempts", "backoff", "base", "cap", "jitter", "budget", "ratio", "burst")


class Sheet:
    """One policy of a text: the file's data, the policy's name, and the policy itself."""

    def __init__(self, data: dict[str, Any], names: tuple[str, ...], name: str, policy: Policy) -> None:
        self.data = data
        self.names = names
        self.name = name
        self.policy = policy

    def describe(self) -> dict[str, Any]:
        """Return the policy as the page shows it."""
        shown = knobs(self.policy) if "strategies" not in self.data["policies"][self.name] else _NO_KNOBS
        common = ("Retry", "Breaker", "Timeout", "Deadline")
        others = [type(s).__name__ for s in self.policy.strategies if type(s).__name__ not in common]
        return {
            "name": self.name,
            "names": list(self.names),
            "toml": toml(self.data),
            "python": python(self.policy),
            "repr": repr(self.policy),
            "knobs": shown,
            "others": others,
        }


def read(text: str, name: str | None = None) -> Sheet:
    """The policy ``name`` (None: the first) of a policy file's TOML. `ConfigError` says what is wrong."""
    if len(text) > LONGEST:
        raise ConfigError(f"must be at most {LONGEST} characters, got {len(text)}")
    return _sheet(parse(text, ".toml"), name)


def edit(sheet: Sheet, knob: str, value: str) -> Sheet:
    """The same text with one knob turned. "none" or nothing takes a strategy out."""
    table = sheet.data["policies"][sheet.name]
    if "strategies" in table:
        raise ConfigError("is a list of strategies: edit its text", key=f"policies.{sheet.name}")
    table = dict(table)
    if knob in ("timeout", "deadline", "breaker"):
        _turn(table, knob, None if value in ("", "none") else {} if knob == "breaker" else _read(value))
    elif knob in _KNOBS:
        _turn(table, "retry", _turned(dict(table.get("retry", {})), knob, value))
    else:
        raise ConfigError(unknown("knob", knob, ["timeout", "deadline", "breaker", *_KNOBS]))
    data = {**sheet.data, "policies": {**sheet.data["policies"], sheet.name: _in_order(table)}}
    return _sheet(Document(data), sheet.name)


def _sheet(document: Document, name: str | None) -> Sheet:
    tables = detached(document, only=KNOWN_NAMES)
    registry = Registry(lambda: tables, environ={})
    names = tuple(registry)
    if not names:
        raise ConfigError("must have at least one policy", key="policies")
    if name is None or name not in registry:
        name = names[0]
    return Sheet(document.data, names, name, registry[name])


# Turning a knob.


def _turn(table: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    elif key != "breaker" or key not in table:
        table[key] = value


def _in_order(table: dict[str, Any]) -> dict[str, Any]:
    """Return ``table`` in its order, with an added strategy where most policies have it."""
    usual = list(STRATEGIES)
    order: list[str] = []
    for key in table:
        behind = [i for i, other in enumerate(order) if _rank(usual, other) > _rank(usual, key)]
        order.insert(behind[0] if behind else len(order), key)
    return {key: table[key] for key in order}


def _rank(usual: list[str], key: str) -> int:
    return usual.index(key) if key in usual else len(usual)


def _read(value: str) -> Any:
    """A number where the text is one, else the text: the loader knows what to do with it."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _turned(retry: dict[str, Any], knob: str, value: str) -> dict[str, Any]:
    if knob == "attempts":
        return {**retry, "attempts": _read(value)}
    if knob in ("budget", "ratio", "burst"):
        return _with_budget(retry, knob, value)
    backoff = dict(retry.get("backoff", {}))
    kind = backoff.get("kind", FAMILIES["backoff"].default)
    if knob == "backoff":
        return {**retry, "backoff": _of_kind("backoff", value, _renamed(backoff, kind, value))}
    name = "wait" if (kind, knob) == ("constant", "base") else knob
    return {**retry, "backoff": {**backoff, name: _read(value)}}


def _renamed(backoff: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """A constant wait is the base of the others."""
    if (old == "constant") == (new == "constant"):
        return backoff
    before, after = ("wait", "base") if old == "constant" else ("base", "wait")
    moved = {after: backoff[before]} if before in backoff else {"wait": 0.1} if after == "wait" else {}
    return {**backoff, **moved}


def _of_kind(family: str, kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """The table of another kind, with those of the former options that it has as well."""
    form = FAMILIES[family].forms.get(kind)
    if form is None:
        raise ConfigError(unknown("kind", kind, FAMILIES[family].forms), key=f"retry.{family}")
    options = {name: value for name, value in values.items() if name in form.options}
    return options if kind == FAMILIES[family].default else {"kind": kind, **options}


def _with_budget(retry: dict[str, Any], knob: str, value: str) -> dict[str, Any]:
    budget = retry.get("budget", {})
    if knob == "budget":
        if value == "none":
            return {**retry, "budget": "none"}
        return {**retry, "budget": _of_kind("budget", value, budget if isinstance(budget, dict) else {})}
    if not isinstance(budget, dict):
        raise ConfigError("is shared by name or none: edit its text", key="retry.budget")
    name = _BUDGET_KNOBS[budget.get("kind", "success")][knob]
    return {**retry, "budget": {**budget, name: _read(value)}}


# Reading the knobs off a policy.


def knobs(policy: Policy) -> dict[str, str | None]:
    """Return the values of the knobs; None where the policy has nothing to turn."""
    by_kind = {type(strategy).__name__: strategy for strategy in policy.strategies}
    retry, timeout, deadline = (by_kind.get(kind) for kind in ("Retry", "Timeout", "Deadline"))
    return {
        **_NO_KNOBS,
        **(_retry_knobs(retry) if retry is not None else {"attempts": "1"}),
        "timeout": "none" if timeout is None else spell(timeout.seconds),
        "deadline": "none" if deadline is None else spell(deadline.seconds),
        "breaker": "on" if "Breaker" in by_kind else "none",
    }


_NO_KNOBS: dict[str, str | None] = dict.fromkeys((*_KNOBS, "timeout", "deadline", "breaker"))


def _retry_knobs(retry: Any) -> dict[str, str | None]:
    form = form_of(FAMILIES["backoff"].forms, retry.backoff)
    base = getattr(retry.backoff, "base", getattr(retry.backoff, "wait", None))
    cap, jitter = getattr(retry.backoff, "cap", None), getattr(retry.backoff, "jitter", None)
    return {
        "attempts": "none" if retry.attempts is None else str(retry.attempts),
        "backoff": form[0] if form else type(retry.backoff).__name__,
        "base": None if base is None else spell(base),
        "cap": None if cap is None else spell(cap),
        "jitter": jitter if isinstance(jitter, str) else None,
        **_budget_knobs(retry.budget),
    }


def _budget_knobs(budget: object) -> dict[str, str | None]:
    if budget is None:
        return {"budget": "none", "ratio": None, "burst": None}
    form = form_of(FAMILIES["budget"].forms, budget)
    if form is None:
        return {"budget": type(budget).__name__, "ratio": None, "burst": None}
    options = _BUDGET_KNOBS[form[0]]
    values = {knob: f"{getattr(budget, name):g}" for knob, name in options.items()}
    return {"budget": form[0], **values}
