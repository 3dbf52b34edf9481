"""The JSON Schema of policy files, made from the same table that the loader reads.

Editors use it to complete and check; the loader stays the judge. The schema cannot say that the order
of strategies matters, that a name must exist in its section, or that an exception can be imported.
"""

from __future__ import annotations

from .._primitives.durations import PATTERN
from .catalog import FAMILIES, REQUIRED, SECTION_OF, SECTIONS, STORE, STRATEGIES, Family, Form
from .values import Anything

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NAME = {"type": "string", "minLength": 1}
_TEXTS = {
    "duration": {
        "description": "A duration such as '100ms', '2s', '1m30s' or '1h'.",
        "type": "string",
        "pattern": PATTERN,
    },
    "exception": {
        "description": "'transient', or the name of an exception class such as 'httpx.TransportError'.",
        "type": "string",
        "pattern": r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
    },
}


def document() -> dict[str, Any]:
    """The schema, as plain data ready for JSON."""
    sections = {section: _by_name({"$ref": f"#/$defs/{_shared(kind)}"}) for section, kind in SECTIONS.items()}
    return {
        "$schema": _DRAFT,
        "title": "Stormproof policy file",
        "description": "Policies by name, and the budgets, limiters, breakers and bulkheads they share.",
        "type": "object",
        "required": ["policies"],
        "properties": {
            "$schema": {"type": "string"},
            "policies": _by_name({"$ref": "#/$defs/policy"}),
            "store": {"$ref": "#/$defs/store"},
            # The lab reads these, and checks them; see docs/lab.md.
            "scenarios": _by_name({"type": "object"}),
            **sections,
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "$defs": {"policy": _policy(), "store": _table(STORE), **_strategies(), **_families(), **_TEXTS},
    }


def _by_name(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


def _shared(kind: str) -> str:
    return f"shared_{kind}"


def _policy() -> dict[str, Any]:
    keys = {kind: {"$ref": f"#/$defs/{kind}_strategy"} for kind in STRATEGIES}
    one = {
        "type": "object",
        "properties": keys,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    listed = {"type": "array", "items": one}
    return {
        "description": "Strategies, outermost first: in the order of the keys, or of the list 'strategies'.",
        "type": "object",
        "properties": {**keys, "strategies": listed},
        "additionalProperties": False,
        "if": {"required": ["strategies"]},
        "then": {"maxProperties": 1},
    }


def _strategies() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    for kind, form in STRATEGIES.items():
        table = _table(form)
        ways = [table]
        if form.short is not None:
            ways.append(_bare(form))
        if kind in SECTION_OF:
            definitions[_shared(kind)] = ways[0] if len(ways) == 1 else {"anyOf": list(ways)}
            ways.append(_NAME)
        definitions[f"{kind}_strategy"] = ways[0] if len(ways) == 1 else {"anyOf": ways}
    return definitions


def _bare(form: Form) -> dict[str, Any]:
    """The value that stands for the whole table."""
    assert form.short is not None
    value = form.options[form.short]
    return {"not": {"type": "object"}} if isinstance(value, Anything) else value.schema()


def _families() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        tables = [_table(form, kind, family) for kind, form in family.forms.items()]
        if name not in SECTION_OF:
            definitions[name] = {"anyOf": tables}
            continue
        # A limiter may be written as a rate wherever it stands.
        text = [{"type": "string", "pattern": "/"}] if name == "limiter" else []
        definitions[_shared(name)] = {"anyOf": [*tables, *text]}
        definitions[name] = {"anyOf": [*tables, _NAME]}
    return definitions


def _table(form: Form, kind: str | None = None, family: Family | None = None) -> dict[str, Any]:
    """The schema of one class: its options with their defaults, as its constructor has them."""
    defaults = form.defaults()
    properties: dict[str, Any] = {}
    required = [] if kind is None or (family is not None and kind == family.default) else ["kind"]
    if kind is not None:
        properties["kind"] = {"const": kind}
    for name, value in form.options.items():
        default = defaults[name]
        properties[name] = value.schema()
        if default is REQUIRED:
            required.append(name)
        elif isinstance(default, (bool, int, float, str)):
            properties[name] = {**properties[name], "default": default}
    table = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"description": _summary(form), **table}


def _summary(form: Form) -> str:
    """The first sentence of the class's docstring, without its markup."""
    text = " ".join(form.about().split()).replace("`", "")
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]
