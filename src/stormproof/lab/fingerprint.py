"""Fingerprints that are equal in every process: without addresses, and of a function by its code."""

from __future__ import annotations

import re
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .._policy.policy import Policy
from .._primitives.options import Options

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


class Unknowable(Exception):
    """Raised for an object without a fingerprint; the message says which."""


def unaddressed(text: str) -> str:
    """``text``, a repr, without the addresses of objects: the same in every process."""
    return _ADDRESS.sub("", text)


def identity(value: object) -> str:
    """A text that is the same for the same thing in every process, and another one for another thing.

    A function is its name, its code, its defaults, and the values it takes from around it: closures, and
    globals, which are followed through functions of its own package. A class is its name. Other objects
    are what pickle would take of them, else their repr. Raises `Unknowable` where all of that fails.
    """
    try:
        return _Walk().describe(value)
    except RecursionError:
        raise Unknowable(f"a {type(value).__qualname__} that is nested too deeply") from None


class _Walk:
    """One walk through a thing. An object met again is its number, so sharing counts, and circles end."""

    def __init__(self) -> None:
        #: The number of each object met, by its address, and the object: else another could get that.
        self._met: dict[int, tuple[int, Any]] = {}

    def describe(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            # A subclass may print itself as it likes.
            return repr(value) if type(value) in _PLAIN else self._object(value)
        if type(value) in (tuple, list):
            return f"{type(value).__name__}({self._row(value)})"
        if type(value) in (set, frozenset):
            return f"{type(value).__name__}({','.join(sorted(_Walk().describe(item) for item in value))})"
        if type(value) is dict:
            return f"dict({self._row(part for item in value.items() for part in item)})"
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, type):
            return _name(value)
        if isinstance(value, CodeType):
            return self._code(value)
        if id(value) in self._met:
            return f"#{self._met[id(value)][0]}"
        self._met[id(value)] = (len(self._met), value)
        return self._object(value)

    def _row(self, values: Any) -> str:
        return ",".join(self.describe(value) for value in values)

    def _object(self, value: object) -> str:
        if isinstance(value, Policy):
            return f"Policy({self.describe(value.name)},{self._row(value.strategies)})"
        if isinstance(value, Options):
            return f"{_name(type(value))}({self.describe(value.fields())})"
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return f"method({self.describe(value.__func__)},{self.describe(value.__self__)})"
        if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, (ModuleType, type(None))):
            return _name(value)
        return self._reduced(value)

    def _function(self, function: FunctionType) -> str:
        name = _name(function)
        if _package(function) == "stormproof" and "<" not in name:
            # The version stands for it.
            return name
        around = {key: cell.cell_contents for key, cell in _cells(function) if _is_filled(cell)}
        given = (function.__defaults__, function.__kwdefaults__, around, self._globals(function))
        return f"{name}({self._code(function.__code__)},{self._row(given)})"

    def _globals(self, function: FunctionType) -> dict[str, Any]:
        known = function.__globals__
        values: dict[str, Any] = {}
        for name in sorted(_names(function.__code__) & known.keys()):
            value = known[name]
            foreign = isinstance(value, FunctionType) and _package(value) != _package(function)
            values[name] = (_name(value), value.__code__) if foreign else value
        return values

    def _code(self, code: CodeType) -> str:
        # Without names of files and lines: a function that moved is the same.
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return f"code({shape},{names},{code.co_code.hex()},{self._row(code.co_consts)})"

    def _reduced(self, value: object) -> str:
        """Return the fingerprint of what pickle would store of ``value``, and of its ``__call__``."""
        try:
            parts = value.__reduce_ex__(4)
        except Exception:
            return self._shown(value)
        called = getattr(type(value), "__call__", None)  # noqa: B004 - its code, not whether there is one
        extra = (called if isinstance(called, FunctionType) else None, getattr(value, "__wrapped__", None))
        if isinstance(parts, str):
            return f"{getattr(value, '__module__', None)}.{parts}({self._row(extra)})"
        make, given, *state = parts
        # Items of a list or dict come as iterators.
        items = [list(part) if hasattr(part, "__next__") else part for part in state]
        return f"{_name(make)}({self._row((given, items, *extra))})"

    def _shown(self, value: object) -> str:
        text = repr(value)
        if _ADDRESS.search(text) or text.startswith("<"):
            raise Unknowable(f"a {type(value).__qualname__}")
        return f"{_name(type(value))}({text})"


def _name(value: object) -> str:
    return f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _package(function: FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _cells(function: FunctionType) -> list[tuple[str, Any]]:
    return list(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True


def _names(code: CodeType) -> set[str]:
    """The names that the code and the functions within it look up outside themselves."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))
