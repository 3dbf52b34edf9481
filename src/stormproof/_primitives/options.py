"""Frozen option objects, and the checks that every numeric option passes through.

An option object is made once, validated at once, and never changes. Durations are
normalised here, at the edge: an int, a float or a ``timedelta`` goes in, seconds as a
float come out.
"""

from __future__ import annotations

import math

from .guesses import with_guesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Self

    Seconds = int | float | timedelta


class Options:
    """A frozen, slotted value: equal by its fields, rebuilt by its repr and by pickle.

    A subclass lists its constructor's keywords in ``_fields``; each is stored under the
    same name. Live state, if any, sits in further slots and takes no part in equality,
    repr or pickling.
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    #: Keywords that are no options but go along into copies, such as a clock.
    _extras: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        if "__init__" in cls.__dict__:
            cls.__init__ = with_guesses(cls.__name__, cls.__init__)  # type: ignore[method-assign]

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be assigned: options are frozen; "
            f"make a new object, or use .replace({name}=...)"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: options are frozen")

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the constructor's keywords, in order."""
        return cls._fields

    def fields(self) -> dict[str, Any]:
        """Return the constructor's keywords and their values, in order."""
        return {name: getattr(self, name) for name in self._fields}

    def settings(self) -> dict[str, Any]:
        """Return the arguments of a copy: the fields, and the extras that were given."""
        extras = {name: getattr(self, name) for name in self._extras}
        return {**self.fields(), **{name: value for name, value in extras.items() if value is not None}}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated anew."""
        unknown = changes.keys() - set(self._fields)
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no option {sorted(unknown)[0]!r}; "
                f"it has {', '.join(self._fields)}"
            )
        return type(self)(**{**self.settings(), **changes})

    def retune(self, wanted: Any) -> bool:
        """Take over the options of ``wanted`` and keep the live state; return False where there is none.

        ``wanted`` is of the same class, made and so validated for the purpose. The object in use changes
        rather than being replaced: calls in flight settle where they began, and references stay right.
        """
        return False

    def _take_options(self, wanted: Any, *derived: str) -> None:
        self._set(**{name: getattr(wanted, name) for name in (*wanted._fields, *derived)})

    def describe(self) -> dict[str, Any]:
        """The options as plain data, ready for JSON."""
        data: dict[str, Any] = {"kind": type(self).__name__}
        for name, value in self.fields().items():
            data[name] = plain(value)
        return data

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={source(value)}" for name, value in self.fields().items())
        return f"{type(self).__name__}({inner})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.fields().values())))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.settings())


def _rebuild(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**fields)


def source(value: Any) -> str:
    """``value`` as it would be written in code: a type or a function is its own name."""
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(source, value))}]"
    name = getattr(value, "__qualname__", None)
    if name is None or not name.replace(".", "").isidentifier():
        return repr(value)
    home = value.__module__ or ""
    return name if home == "builtins" or home.startswith("stormproof") else f"{home}.{name}"


def plain(value: Any) -> Any:
    """``value`` as JSON-able data: options become dicts, callables their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    describe = getattr(value, "describe", None)
    if describe is not None and not isinstance(value, type):
        return describe()
    name = getattr(value, "__qualname__", None)
    return name if name is not None else type(value).__qualname__


def seconds(
    owner: str,
    field: str,
    value: Seconds,
    *,
    above: float | None = None,
    least: float | None = 0.0,
    infinite: bool = False,
) -> float:
    """``value`` in seconds as a float. ``above`` excludes the bound, ``least`` admits it."""
    total = getattr(value, "total_seconds", None)
    if total is not None:
        value = total()
    return number(owner, field, value, above=above, least=least, infinite=infinite, unit=" seconds")


def number(
    owner: str,
    field: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    infinite: bool = False,
    unit: str = "",
) -> float:
    """``value`` as a finite float within the given bounds, else an error naming all three."""
    if type(value).__name__ in _BOOLS or not hasattr(value, "__float__"):
        raise TypeError(f"{owner}: {field} must be a number{unit and ' of' + unit}, got {shown(value)}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf if value > 0 else -math.inf
    rule = None
    if math.isnan(result):
        rule = "a number, not NaN"
    elif math.isinf(result) and not (infinite and result > 0):
        rule = "finite"
    elif above is not None and not result > above:
        rule = f"> {above:g}{unit}"
    elif above is None and least is not None and not result >= least:
        rule = f">= {least:g}{unit}"
    elif below is not None and not result < below:
        rule = f"< {below:g}{unit}"
    elif most is not None and not result <= most:
        rule = f"<= {most:g}{unit}"
    if rule is not None:
        raise ValueError(f"{owner}: {field} must be {rule}, got {shown(value)}")
    return result


def count(owner: str, field: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """``value`` as a whole number >= ``least``. 0 is an error where ``least`` is 1, never a default."""
    if type(value).__name__ in _BOOLS or not hasattr(value, "__index__"):
        raise TypeError(f"{owner}: {field} must be a whole number, got {shown(value)}")
    result = int(value.__index__())
    if result < least:
        raise ValueError(f"{owner}: {field} must be >= {least}, got {shown(value)}")
    if most is not None and result > most:
        raise ValueError(f"{owner}: {field} must be <= {most}, got {shown(value)}")
    return result


#: Python's own, and NumPy's two names for it: True is not a number.
_BOOLS = ("bool", "bool_")


def shown(value: object) -> str:
    """``value`` for an error message. Python refuses to print a whole number of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} too long to print"


def flag(owner: str, field: str, value: Any) -> bool:
    """``value`` if it is a bool, else an error."""
    if not isinstance(value, bool):
        raise TypeError(f"{owner}: {field} must be True or False, got {value!r}")
    return value


def choice(owner: str, field: str, value: Any, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of ``allowed``, else an error that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{owner}: {field} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def validate_clock(owner: str, value: Any) -> Any:
    """``value`` if it is a clock (``now()`` and ``sleep(seconds)``) or None, else an error."""
    if value is not None and (
        isinstance(value, type)
        or not callable(getattr(value, "now", None))
        or not callable(getattr(value, "sleep", None))
    ):
        raise TypeError(f"{owner}: clock must have now() and sleep(seconds), or be None, got {value!r}")
    return value


def hook(owner: str, field: str, value: Any) -> Any:
    """``value`` if it is callable or None, else an error."""
    if value is not None and not callable(value):
        raise TypeError(f"{owner}: {field} must be callable or None, got {value!r}")
    return value


def shared_store(owner: str, value: Any) -> Any:
    """``value`` if it is a store that processes can share, or None, else an error."""
    if value is not None and (
        isinstance(value, type) or not all(callable(getattr(value, way, None)) for way in ("join", "key"))
    ):
        raise TypeError(f"{owner}: store must be a RedisStore or None, got {value!r}")
    return value


def label(owner: str, value: Any) -> str | None:
    """``value`` if it is a string with something in it, or None, else an error."""
    if value is not None and (not isinstance(value, str) or not value):
        raise (ValueError if value == "" else TypeError)(
            f"{owner}: name must be a non-empty string or None, got {value!r}"
        )
    return value


def shared_name(owner: str, name: object) -> str:
    """Return ``name`` if it is one: processes that give the same name share the resource."""
    if not isinstance(name, str):
        raise TypeError(f"{owner}: name must be a string when there is a store, got {name!r}")
    return name
