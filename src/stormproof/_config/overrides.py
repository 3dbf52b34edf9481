"""The environment laid over a file: ``STORMPROOF_FRAUD_SCORE__RETRY__ATTEMPTS=2``.

``<PREFIX>_<POLICY>__<STRATEGY>__<OPTION>``, names in capitals with every run of other characters as
one underscore; further ``__`` go deeper (``..._RETRY__BACKOFF__BASE``), and shared objects are addressed by
their section (``STORMPROOF_BUDGETS__PARTNER__RATIO``), the store by its own (``STORMPROOF_STORE__URL``). A
variable that fits nothing is an error.
"""

from __future__ import annotations

import copy

from .catalog import SECTION_OF, SECTIONS, STRATEGIES
from .errors import ConfigError, Document, Path, Text, spelt, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def overridden(document: Document, environ: Mapping[str, str], prefix: str) -> Document:
    """A copy of ``document`` with the variables of ``environ`` that begin with ``prefix`` laid over it."""
    start = f"{prefix}_"
    variables = sorted(name for name in environ if name.startswith(start) and "__" in name[len(start) :])
    if not variables or not isinstance(document.data, dict):
        # A value that is not a table is reported when the policy is built.
        return document
    result = Document(copy.deepcopy(document.data), document.file, document.lines)
    for variable in variables:
        parts = variable[len(start) :].split("__")
        try:
            _apply(result, parts, Text(environ[variable], variable))
        except LookupError as error:
            raise ConfigError(f"{variable}: {error.args[0]}") from None
    return result


def normal(name: str) -> str:
    """``name`` as it is spelt in a variable."""
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in name).split()
    return "_".join(words).upper()


def _apply(document: Document, parts: list[str], value: Text) -> None:
    """Put ``value`` where the ``parts`` of a variable's name say; `LookupError` if that is nowhere."""
    data = document.data
    section = parts[0].lower()
    policies = _named(data.get("policies"), parts[0])
    shared = _named(data.get(section), parts[1]) if section in SECTIONS else []
    if section == "store" and not policies:
        _set(document, ("store",), parts[1:], value)
        return
    if len(policies) + len(shared) > 1:
        raise LookupError(f"fits more than one name: {', '.join(map(repr, [*policies, *shared]))}")
    if shared:
        if len(parts) < 3:
            raise LookupError("must name an option too")
        _set(document, (section, shared[0]), parts[2:], value)
        return
    if section in SECTIONS and not policies:
        raise LookupError(unknown(f"name in {section}", parts[1], _spelt(data.get(section))))
    if not policies:
        raise LookupError(unknown("policy", parts[0], _spelt(data.get("policies"))))
    path, kind = _strategy(data["policies"][policies[0]], policies[0], parts[1])
    _set(document, path, parts[2:], value, kind)


def _named(table: object, token: str) -> list[str]:
    """The keys of ``table`` that ``token`` may mean."""
    names = table if isinstance(table, dict) else {}
    return [name for name in names if isinstance(name, str) and normal(name) == token]


def _spelt(table: object) -> list[str]:
    """The keys of ``table`` as variables spell them."""
    return [normal(name) for name in table if isinstance(name, str)] if isinstance(table, dict) else []


def _strategy(policy: object, name: str, token: str) -> tuple[Path, str]:
    """Return the place of the strategy ``token`` in a policy, and its kind."""
    kind = token.lower()
    if kind not in STRATEGIES:
        raise LookupError(unknown("strategy", kind, STRATEGIES))
    base: Path = ("policies", name)
    listed = policy.get("strategies") if isinstance(policy, dict) else None
    if isinstance(listed, list):
        places = [place for place, item in enumerate(listed) if isinstance(item, dict) and kind in item]
        if len(places) > 1:
            raise LookupError(f"policy {name!r} has {len(places)} strategies of the kind {kind!r}")
        if places:
            return (*base, "strategies", places[0], kind), kind
    elif isinstance(policy, dict) and kind in policy:
        return (*base, kind), kind
    # Its position in the pipeline would be a guess.
    raise LookupError(f"policy {name!r} has no {kind!r}; a variable can change a strategy, not add one")


def _set(document: Document, path: Path, options: list[str], value: Text, kind: str | None = None) -> None:
    """Put ``value`` at ``options`` below ``path``, making the tables on the way."""
    keys: Path = (*path, *(option.lower() for option in options))
    holder: Any = document.data
    for place, key in enumerate(keys[:-1]):
        short = STRATEGIES[kind].short if kind is not None and place == len(path) - 1 else None
        if not isinstance(key, int) and key not in holder:
            holder[key] = {}
        if short is not None and not isinstance(holder[key], (dict, list)):
            holder[key] = {short: holder[key]}
        if not isinstance(holder[key], (dict, list)):
            raise LookupError(_not_a_table(keys[: place + 1], holder[key]))
        within: object = holder[key]
        holder = within
        if isinstance(within, list) and not isinstance(keys[place + 1], int):
            raise LookupError(f"{spelt(keys[: place + 1])} is a list: set all of it")
    holder[keys[-1]] = value
    document.variables[keys] = value.variable


def _not_a_table(path: Path, value: object) -> str:
    section = SECTION_OF.get(str(path[-1]))
    if section is not None and isinstance(value, str):
        return f"{spelt(path)} is the shared {value!r}: set {section.upper()}__{normal(value)} instead"
    return f"{spelt(path)} is {value!r}, which has no options"
