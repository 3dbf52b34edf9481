"""Frozen option objects, and the checks that every numeric option passes through.

An option object is made once, validated at once, and never changes. Durations are
normalised here, at the edge: an int, a float or a ``timedelta`` goes in, seconds as a
float come out.
"""

from __future__ import annotations

import math

from .guesses import keywords, with_guesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, Self, TypeAlias, TypeVar

    V = TypeVar("V")
    Text = TypeVar("Text", bound=str)

Seconds: TypeAlias = "int | float | timedelta"


class Options:
    """A frozen value: equal by its options, rebuilt by its repr and by pickle.

    The options are the keywords of the subclass's constructor, which assigns each to the attribute of the
    same name. Once an object is made, they cannot be assigned any more. Attributes with an underscore are
    derived or live state; they take no part in equality, repr or pickling.
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    #: Keywords that are not options, such as a clock: they put an object into its surroundings.
    _surroundings: tuple[str, ...] = ()
    _is_made = False

    def __init_subclass__(cls) -> None:
        if "__init__" in cls.__dict__:
            names = keywords(cls.__init__)
            if names is not None:
                cls._fields = tuple(name for name in names if name not in cls._surroundings)
            init = with_guesses(cls.__init__, cls.__name__)
            cls.__init__ = init if cls._is_made else _freezing(init)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: object) -> None:
        if self._is_made and name[0] != "_":
            raise AttributeError(
                f"{type(self).__name__}.{name} cannot be assigned: options are frozen; "
                f"make a new object, or use .replace({name}=...)"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: options are frozen")

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the options, in order."""
        return cls._fields

    def fields(self) -> dict[str, Any]:
        """Return the options and their values, in order, without ``observe`` if it is False."""
        fields = {name: getattr(self, name) for name in self._fields}
        if fields.get("observe") is False:
            del fields["observe"]
        return fields

    def settings(self) -> dict[str, Any]:
        """Return the arguments of a copy."""
        return self.fields()

    def replace(self, **changes: object) -> Self:
        """Return a copy with some options changed, validated again."""
        unknown = changes.keys() - set(self._fields)
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no option {sorted(unknown)[0]!r}; "
                f"it has {', '.join(self._fields)}"
            )
        return type(self)(**{**self.settings(), **changes})

    def describe(self) -> dict[str, Any]:
        """The options as plain data, ready for JSON."""
        return {"kind": type(self).__name__, **{name: plain(value) for name, value in self.fields().items()}}

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


def _freezing(init: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor ``init``, with the new object frozen at its end."""
    from functools import wraps

    @wraps(init)
    def construct(self: Options, *args: object, **kwargs: object) -> None:
        init(self, *args, **kwargs)
        if type(self).__init__ is construct:
            object.__setattr__(self, "_is_made", True)

    return construct


def _rebuild(kind: type[V], fields: dict[str, Any]) -> V:
    return kind(**fields)


def source(value: object) -> str:
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


def plain(value: object) -> Any:
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
    # Other libraries have durations like a timedelta, and a caller may give anything.
    total = getattr(value, "total_seconds", None)
    plain: Any = value if total is None else total()
    return number(owner, field, plain, above=above, least=least, infinite=infinite, unit=" seconds")


def number(
    owner: str,
    field: str,
    value: float,
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


def count(owner: str, field: str, value: int, *, least: int = 1, most: int | None = None) -> int:
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


def flag(owner: str, field: str, value: bool) -> bool:
    """``value`` if it is a bool, else an error."""
    if not isinstance(value, bool):
        raise TypeError(f"{owner}: {field} must be True or False, got {value!r}")
    return value


def choice(owner: str, field: str, value: Text, allowed: tuple[str, ...]) -> Text:
    """``value`` if it is one of ``allowed``, else an error that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{owner}: {field} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def validate_clock(owner: str, value: V) -> V:
    """``value`` if it is a clock (``now()`` and ``sleep(seconds)``) or None, else an error."""
    if value is not None and (
        isinstance(value, type)
        or not callable(getattr(value, "now", None))
        or not callable(getattr(value, "sleep", None))
    ):
        raise TypeError(f"{owner}: clock must have now() and sleep(seconds), or be None, got {value!r}")
    return value


def hook(owner: str, field: str, value: V) -> V:
    """``value`` if it is callable or None, else an error."""
    if value is not None and not callable(value):
        raise TypeError(f"{owner}: {field} must be callable or None, got {value!r}")
    return value


#: The flags of a coroutine function and of an async generator function.
_ASYNC = 0x80 | 0x200


def sync_hook(owner: str, field: str, value: V) -> V:
    """``value`` as `hook` accepts it, unless it is an async function: nothing awaits this one."""
    if getattr(getattr(value, "__code__", None), "co_flags", 0) & _ASYNC:
        raise TypeError(f"{owner}: {field} must not be async, got {value!r}")
    return hook(owner, field, value)


def shared_store(owner: str, value: V) -> V:
    """``value`` if it is a store that processes can share, or None, else an error."""
    if value is not None and (
        isinstance(value, type) or not all(callable(getattr(value, way, None)) for way in ("join", "key"))
    ):
        raise TypeError(f"{owner}: store must be a RedisStore or None, got {value!r}")
    return value


def label(owner: str, value: str | None) -> str | None:
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
