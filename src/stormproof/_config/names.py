"""Failures by name: exception classes, and the options that hold them.

Only classes that are exceptions are ever returned; nothing is called, nothing is evaluated.
"""

from __future__ import annotations

from .errors import Spot, Text, shown, unknown
from .values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .values import Builder, Writer


def exception(name: str, spot: Spot) -> Any:
    """The exception class called ``name``: a built-in one, or "package.module.Class".

    Its module is imported now, so that a name that does not exist is an error at load and not in
    the middle of an outage.
    """
    parts = name.split(".")
    if not all(part.isidentifier() and not part.startswith("__") for part in parts):
        raise spot.error(
            f'must be "transient" or a name like "ConnectionError" or "httpx.TransportError", got {name!r}'
        )
    kind: object = _look_up(parts if len(parts) > 1 else ["builtins", *parts], spot)
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        raise spot.error(f"{name!r} is not an exception class")
    return kind


def _look_up(parts: list[str], spot: Spot) -> Any:
    """The longest importable front of the name, then attributes of it."""
    from importlib import import_module

    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        try:
            target: object = import_module(module)
        except ModuleNotFoundError as error:
            # Only if this very module is missing, not one that it needs in turn.
            if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
                continue
            raise spot.error(f"importing {module!r} failed: {error}") from error
        except Exception as error:
            raise spot.error(f"importing {module!r} failed: {type(error).__qualname__}: {error}") from error
        for part in parts[length:]:
            target = getattr(target, part, None)
        if target is None:
            raise spot.error(_missing(".".join(parts[length:]), module))
        return target
    raise spot.error(f"no module {parts[0]!r} here; is it installed?")


def _missing(name: str, module: str) -> str:
    if module != "builtins":
        return f"module {module!r} has no {name!r}"
    import builtins

    known = [
        key for key, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    return unknown("exception", name, ["transient", *known])


def name_of(kind: Any, writer: Writer) -> str:
    """The name under which `exception` finds ``kind`` again."""
    module, name = kind.__module__, kind.__qualname__
    spelt = name if module == "builtins" else f"{module}.{name}"
    if "<" in spelt or module == "__main__":
        return writer.refuse(f"{spelt}, which no other program can import")
    return spelt


class On(Value):
    """Which failures: "transient", the name of an exception class, or a list of these."""

    def __init__(self, *, empty: bool = False) -> None:
        super().__init__()
        self.empty = empty

    def parse(self, spot: Spot, builder: Builder) -> Any:
        value = spot.value
        if isinstance(value, Text) and "," in value:
            return self._several([(part.strip(), spot) for part in value.split(",")], spot)
        if isinstance(value, str):
            return self._one(str(value), spot)
        if not isinstance(value, list) or not (value or self.empty):
            raise spot.error(f'must be "transient", the name of an exception or a list, got {shown(value)}')
        return self._several([(item, spot.at(place)) for place, item in enumerate(value)], spot)

    def _one(self, name: object, spot: Spot) -> Any:
        from .._classify.classifier import transient

        if not isinstance(name, str):
            raise spot.error(f'must be "transient" or the name of an exception, got {shown(name)}')
        return transient if name == "transient" else exception(name, spot)

    def _several(self, names: list[tuple[Any, Spot]], spot: Spot) -> Any:
        from .._classify.classifier import transient

        judges = [self._one(name, place) for name, place in names]
        kinds = tuple(kind for kind in judges if kind is not transient)
        if len(kinds) == len(judges):
            return kinds
        judge = transient.with_() if kinds else transient
        for kind in kinds:
            judge.register(kind, True)
        return judge

    def render(self, value: object, writer: Writer) -> Any:
        from .._classify.classifier import Classifier, transient

        if value is transient:
            return "transient"
        if isinstance(value, type):
            return name_of(value, writer)
        if isinstance(value, tuple):
            return [name_of(kind, writer) for kind in value]
        if isinstance(value, Classifier) and value.settings == transient.settings:
            rules = value.rules
            if all(isinstance(kind, type) and getattr(rule, "retry", False) for kind, rule in rules.items()):
                return ["transient", *(name_of(kind, writer) for kind in rules)]
        return writer.refuse("a callable")

    def own_schema(self) -> dict[str, Any]:
        name = {"$ref": "#/$defs/exception"}
        return {"anyOf": [name, {"type": "array", "items": name, **({} if self.empty else {"minItems": 1})}]}


class ExceptionName(Value):
    """The name of an exception class, which is raised without arguments."""

    def parse(self, spot: Spot, builder: Builder) -> Any:
        if not isinstance(spot.value, str):
            raise spot.error(f"must be the name of an exception, got {shown(spot.value)}")
        return exception(str(spot.value), spot)

    def render(self, value: object, writer: Writer) -> Any:
        return name_of(value, writer) if isinstance(value, type) else writer.refuse("an object or a callable")

    def own_schema(self) -> dict[str, Any]:
        return {"$ref": "#/$defs/exception"}
