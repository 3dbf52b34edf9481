"""A policy as text to take away: Python to paste, TOML for a policy file. Nothing here is ever executed."""

from __future__ import annotations

import json
import sys
from datetime import date, time
from inspect import signature
from typing import Any

from .._classify.classifier import Classifier
from .._config.catalog import FAMILIES, STRATEGIES, Form, form_of
from .._config.errors import ConfigError
from .._primitives.options import Options
from .fingerprint import unaddressed

_LONG = 88


# TOML.


def toml(document: dict[str, Any]) -> str:
    """A policy file's data as TOML: one table per policy or shared object, everything in it inline.

    Inline, because the order of a policy's keys is the order of its strategies, and TOML puts plain keys
    before sub-tables.
    """
    blocks: list[str] = []
    for section, entries in document.items():
        if not isinstance(entries, dict):
            blocks.insert(0, f"{_key(section)} = {_value(entries)}")
            continue
        plain = {name: value for name, value in entries.items() if not isinstance(value, dict)}
        if plain or not entries:
            lines = [
                f"[{_key(section)}]",
                *(f"{_key(key)} = {_value(value)}" for key, value in plain.items()),
            ]
            blocks.append("\n".join(lines))
        tables = [(name, value) for name, value in entries.items() if isinstance(value, dict)]
        for name, table in tables:
            lines = [f"[{_key(section)}.{_key(name)}]"]
            lines += [f"{_key(key)} = {_value(value, 0)}" for key, value in table.items()]
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _key(name: str) -> str:
    plain = name.replace("-", "").replace("_", "")
    return name if plain.isascii() and plain.isalnum() else _string(name)


def _string(text: str) -> str:
    # JSON escapes what TOML forbids in a basic string, except for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object, depth: int = 1) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        items = [_value(item) for item in value]
        if depth == 0 and any(isinstance(item, dict) for item in value):
            return "[\n" + "".join(f"  {item},\n" for item in items) + "]"
        return f"[{', '.join(items)}]"
    if isinstance(value, (date, time)):
        return value.isoformat()
    raise ConfigError(f"cannot be written to a file: {value!r}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


# Python.


def python(policy: Any) -> str:
    """The policy as a statement to paste; options at their default are left out. None: a plain call."""
    imports: dict[str, None] = {}
    strategies = () if policy is None else policy.strategies
    parts = [_made(strategy, imports, _given(strategy, strategies)) for strategy in strategies]
    if policy is not None and policy.name is not None:
        parts.append(f"name={_python(policy.name, imports)}")
    inner = "".join(f"    {part},\n" for part in parts)
    public = sorted({"Policy", *(name for name in imports if name.isidentifier())})
    lines = [f"from stormproof import {', '.join(public)}", *(line for line in imports if line not in public)]
    return "\n".join(lines) + "\n\npolicy = Policy(" + (f"\n{inner})\n" if inner else ")\n")


def _given(strategy: Any, strategies: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of fields that the policy itself supplies: the default budget."""
    if strategy.fields().get("budget") is not getattr(strategy, "budget", None):
        return ("budget",)
    budgets = [getattr(other, "budget", None) for other in strategies if other is not strategy]
    adopted = type(strategy).__name__ == "Hedge" and any(strategy.budget is budget for budget in budgets)
    return ("budget",) if adopted else ()


def _made(made: object, imports: dict[str, None], skipped: tuple[str, ...] = ()) -> str:
    """The call that makes an option object again."""
    form = _form(made)
    normal = _defaults(type(made))
    given = {
        name: _python(value, imports)
        for name, value in _fields(made, form).items()
        if name not in skipped and not (name in normal and normal[name] == value)
    }
    if form is not None and list(given) == [form.short]:
        words = [given[form.short]] if form.short else []
    else:
        words = [f"{name}={text}" for name, text in given.items()]
    return _call(_home(type(made), imports), words)


def _call(name: str, words: list[str]) -> str:
    """On one line if that is short, else one line per argument, indented below a strategy of a policy."""
    flat = f"{name}({', '.join(words)})"
    if len(flat) <= _LONG or len(words) < 2:
        return flat
    return f"{name}(\n" + "".join(f"        {word},\n" for word in words) + "    )"


def _fields(made: object, form: Form | None) -> dict[str, Any]:
    if isinstance(made, Options):
        return made.fields()
    return {} if form is None else {name: getattr(made, name) for name in form.options}


def _form(made: object) -> Form | None:
    for table in (STRATEGIES, *(family.forms for family in FAMILIES.values())):
        form = form_of(table, made)
        if form is not None:
            return form[1]
    return None


def _defaults(kind: type) -> dict[str, Any]:
    """The options of an object made without any, as it holds them; else what its signature says."""
    try:
        default = kind()
    except TypeError:
        return {name: parameter.default for name, parameter in signature(kind).parameters.items()}
    return default.fields() if isinstance(default, Options) else {}


def _python(value: object, imports: dict[str, None]) -> str:
    if isinstance(value, float):
        return _number(value) if value == value and abs(value) != float("inf") else f'float("{value}")'
    if isinstance(value, str) and value.isprintable() and not set(value) & set('"\\'):
        return f'"{value}"'
    if isinstance(value, (tuple, list)):
        items = [_python(item, imports) for item in value]
        text = ", ".join(items)
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(items) == 1 else ''})"
    if isinstance(value, Classifier):
        return _classifier(value, imports)
    if isinstance(value, type):
        return _home(value, imports)
    if isinstance(value, Options) or _form(value) is not None:
        return _made(value, imports)
    name = getattr(value, "__qualname__", None)
    return unaddressed(repr(value)) if name is None else name


def _classifier(value: Classifier, imports: dict[str, None]) -> str:
    if "<" not in repr(value):
        imports["transient"] = None
        return repr(value)
    # Kinds that were registered on a copy take statements, which no expression can hold.
    imports[f"# classifier: {value!r}"] = None
    return "classifier"


def _home(kind: type, imports: dict[str, None]) -> str:
    """The name by which code reaches a class; notes the import it needs."""
    name, module = kind.__qualname__, kind.__module__
    if module == "builtins":
        return name
    if module.partition(".")[0] == "stormproof":
        if getattr(sys.modules["stormproof"], name, None) is kind:
            imports[name] = None
            return name
        module = "stormproof.lab" if module.startswith("stormproof.lab.") else module
    imports[f"import {module}"] = None
    return f"{module}.{name}"
