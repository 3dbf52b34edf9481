"""The kinds of value that an option in a policy file can have: each reads, writes and describes itself.

Types are checked here, ranges by the constructors, whose words the error repeats. The bounds that a
kind is given only serve the schema; a test holds them against the constructors.
"""

from __future__ import annotations

import math

from .._primitives import durations
from .errors import ConfigError, Spot, Text, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Protocol

    class Builder(Protocol):
        """Services for a value that is read: another part of the file, or the store."""

        def part(self, family: str, spot: Spot) -> Any: ...

        def store(self, spot: Spot) -> Any: ...

    class Writer(Protocol):
        """Services for a value that is written: another part written, or an error."""

        def part(self, family: str, instance: object) -> Any: ...

        def refuse(self, what: str) -> NoReturn: ...


#: TOML has no null, so "nothing" is spelt out; JSON's and YAML's null will do as well.
NONE = "none"


class Value:
    """One kind of value. ``none=True`` also takes "none" (or null) for ``None``."""

    def __init__(self, *, none: bool = False) -> None:
        self.none = none

    def read(self, spot: Spot, builder: Builder) -> Any:
        """The Python value at ``spot``."""
        if self.none and (spot.value is None or spot.value == NONE):
            return None
        try:
            return self.parse(spot, builder)
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise spot.error(str(error)) from None

    def write(self, value: object, writer: Writer) -> Any:
        """Return ``value`` as plain data; raises `ConfigError` if a file cannot hold it."""
        return NONE if value is None else self.render(value, writer)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the value."""
        own = self.own_schema()
        return {"anyOf": [own, {"enum": [NONE, None]}]} if self.none else own

    def parse(self, spot: Spot, builder: Builder) -> Any:
        raise NotImplementedError

    def render(self, value: object, writer: Writer) -> Any:
        return value

    def own_schema(self) -> dict[str, Any]:
        raise NotImplementedError


def _number(spot: Spot, rule: str) -> float:
    value = spot.value
    if isinstance(value, Text):
        try:
            return int(value)
        except ValueError:
            try:
                return float(value)
            except ValueError:
                raise spot.error(f"must be {rule}, got {shown(value)}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise spot.error(f"must be {rule}, got {shown(value)}")
    return value


class Number(Value):
    """A number. ``bounds`` are JSON Schema's: minimum, exclusiveMinimum, maximum, exclusiveMaximum."""

    def __init__(self, *, none: bool = False, infinite: bool = False, **bounds: float) -> None:
        super().__init__(none=none)
        self.infinite = infinite
        self.bounds = bounds

    def parse(self, spot: Spot, builder: Builder) -> float:
        return math.inf if self.infinite and spot.value == "inf" else _number(spot, "a number")

    def render(self, value: Any, writer: Writer) -> Any:
        return "inf" if math.isinf(value) else int(value) if value == int(value) and value < 2**53 else value

    def own_schema(self) -> dict[str, Any]:
        own = {"type": "number", **self.bounds}
        return {"anyOf": [own, {"const": "inf"}]} if self.infinite else own


class Count(Number):
    """A whole number."""

    def parse(self, spot: Spot, builder: Builder) -> int:
        value = _number(spot, "a whole number")
        if not isinstance(value, int):
            raise spot.error(f"must be a whole number, got {shown(spot.value)}")
        return value

    def render(self, value: object, writer: Writer) -> Any:
        return value if isinstance(value, int) else writer.refuse("a callable")

    def own_schema(self) -> dict[str, Any]:
        return {"type": "integer", **self.bounds}


class Seconds(Number):
    """A duration: a number of seconds, or text such as "100ms"."""

    def parse(self, spot: Spot, builder: Builder) -> float:
        if isinstance(spot.value, str):
            return durations.parse(str(spot.value), bare=isinstance(spot.value, Text))
        return _number(spot, 'a duration such as "500ms" or a number of seconds')

    def render(self, value: Any, writer: Writer) -> Any:
        return writer.refuse("a callable") if callable(value) else durations.spell(value)

    def own_schema(self) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "number", **self.bounds}, {"type": "string", "pattern": durations.PATTERN}]
        }


class After(Seconds):
    """A duration, or a percentile such as "p95"."""

    def parse(self, spot: Spot, builder: Builder) -> Any:
        text = spot.value
        return str(text) if isinstance(text, str) and text.startswith("p") else super().parse(spot, builder)

    def render(self, value: object, writer: Writer) -> Any:
        return value if isinstance(value, str) else super().render(value, writer)

    def own_schema(self) -> dict[str, Any]:
        return {
            "anyOf": [*super().own_schema()["anyOf"], {"type": "string", "pattern": r"^p[0-9]+(\.[0-9]+)?$"}]
        }


class Waits(Value):
    """A list of durations."""

    def parse(self, spot: Spot, builder: Builder) -> list[float]:
        value = spot.value
        if isinstance(value, Text):
            return [durations.parse(item.strip(), bare=True) for item in value.split(",")]
        if not isinstance(value, list):
            raise spot.error(f"must be a list of durations, got {shown(value)}")
        return [_SECONDS.read(spot.at(place), builder) for place in range(len(value))]

    def render(self, value: Any, writer: Writer) -> Any:
        return [durations.spell(wait) for wait in value]

    def own_schema(self) -> dict[str, Any]:
        return {"type": "array", "items": _SECONDS.schema(), "minItems": 1}


_SECONDS = Seconds(minimum=0)


class Flag(Value):
    """true or false."""

    def parse(self, spot: Spot, builder: Builder) -> bool:
        value = spot.value
        if isinstance(value, Text) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise spot.error(f"must be true or false, got {shown(value)}")
        return value

    def own_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Stored(Flag):
    """true: shared by the fleet, through the file's ``[store]``."""

    def parse(self, spot: Spot, builder: Builder) -> Any:
        return builder.store(spot) if super().parse(spot, builder) else None

    def render(self, value: Any, writer: Writer) -> Any:
        return True


class Word(Value):
    """A string; with ``choices``, one of them."""

    def __init__(self, *choices: str, none: bool = False) -> None:
        super().__init__(none=none)
        self.choices = choices

    def parse(self, spot: Spot, builder: Builder) -> str:
        value = spot.value
        if not isinstance(value, str) or not value:
            raise spot.error(f"must be a string, got {shown(value)}")
        if self.choices and value not in self.choices:
            from .errors import unknown

            raise spot.error(unknown("value", value, self.choices))
        return str(value)

    def own_schema(self) -> dict[str, Any]:
        return {"enum": list(self.choices)} if self.choices else {"type": "string", "minLength": 1}


class Jitter(Value):
    """ "none", "full", "equal", or a table ``{ symmetric = 0.5 }``."""

    def parse(self, spot: Spot, builder: Builder) -> Any:
        from .._strategies.retry.jitter import Symmetric

        if not isinstance(spot.value, dict):
            return _JITTERS.read(spot, builder)
        entries = dict(spot.entries())
        for key in entries:
            if key != "symmetric":
                raise spot.unknown(key, "jitter", ["symmetric"])
        if not entries:
            raise spot.error("must have 'symmetric'")
        return Symmetric(_number(entries["symmetric"], "a number"))

    def render(self, value: object, writer: Writer) -> Any:
        from .._strategies.retry.jitter import Symmetric

        if type(value) is Symmetric:
            return {"symmetric": value.r}
        return value if isinstance(value, str) else writer.refuse("a callable")

    def own_schema(self) -> dict[str, Any]:
        share = {"type": "number", "minimum": 0, "maximum": 1}
        table = {"type": "object", "properties": {"symmetric": share}}
        return {
            "anyOf": [_JITTERS.schema(), {**table, "required": ["symmetric"], "additionalProperties": False}]
        }


_JITTERS = Word("none", "full", "equal")


class Anything(Value):
    """Plain data, as it stands."""

    def parse(self, spot: Spot, builder: Builder) -> Any:
        return str(spot.value) if isinstance(spot.value, str) else spot.value

    def write(self, value: object, writer: Writer) -> Any:
        import json

        try:
            plain = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            plain = writer
        # A tuple or an int key would come back as something else.
        same = plain == value and not isinstance(value, tuple)
        return plain if same else writer.refuse("not plain data")

    def own_schema(self) -> dict[str, Any]:
        return {}


class PartTable(Value):
    """A table of its own kind, from ``family``; or the name of a shared one, where these can be shared."""

    def __init__(self, family: str, *, none: bool = False) -> None:
        super().__init__(none=none)
        self.family = family

    def parse(self, spot: Spot, builder: Builder) -> Any:
        return builder.part(self.family, spot)

    def render(self, value: object, writer: Writer) -> Any:
        return writer.part(self.family, value)

    def own_schema(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.family}"}


class Rate(Number):
    """Per second as a number, or text such as "100/s"; a burst in the text belongs to the whole limiter."""

    def parse(self, spot: Spot, builder: Builder) -> Any:
        if isinstance(spot.value, str) and "/" in spot.value:
            from .._primitives.rates import parse

            rate, burst = parse(str(spot.value), "rate")
            if burst != 1:
                raise spot.error("must not have a burst here; give it as the option burst")
            return rate
        return super().parse(spot, builder)

    def own_schema(self) -> dict[str, Any]:
        own = super().own_schema()
        text = {"type": "string", "pattern": "/"}
        return {"anyOf": [*own.get("anyOf", [own]), text]}
