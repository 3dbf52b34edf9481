"""The tables of a classifier that its user may choose, validated."""

from __future__ import annotations

from .._primitives.options import Options
from . import known_faults as known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class ClassifierSettings(Options):
    """The tables of a `Classifier` that may be chosen; an empty one lists nothing."""

    def __init__(
        self,
        *,
        statuses: Iterable[int] = known.STATUSES,
        never: Iterable[int] = known.NEVER,
        methods: Iterable[str] = known.METHODS,
        key_headers: Iterable[str] = known.KEY_HEADERS,
        grpc_codes: Iterable[str] | str = known.GRPC_CODES,
        errnos: Iterable[int] = frozenset(known.ERRNOS),
        sqlstates: Iterable[str] = frozenset(known.SQLSTATES),
        mysql_errors: Iterable[int] = frozenset(known.MYSQL_ERRORS),
    ) -> None:
        self.statuses: frozenset[int] = _numbers("statuses", statuses, 100, 999)
        self.never: frozenset[int] = _numbers("never", never, 100, 999)
        self.methods: frozenset[str] = frozenset(word.upper() for word in _words("methods", methods))
        self.key_headers: frozenset[str] = frozenset(
            word.lower() for word in _words("key_headers", key_headers)
        )
        self.grpc_codes: frozenset[str] = _grpc_codes(grpc_codes)
        self.errnos: frozenset[int] = _numbers("errnos", errnos, 1, 2**31)
        self.sqlstates: frozenset[str] = frozenset(_words("sqlstates", sqlstates))
        self.mysql_errors: frozenset[int] = _numbers("mysql_errors", mysql_errors, 1, 2**31)


def _items(field: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"Classifier: {field} must be a collection, got {values!r}")
    return list(values)


def _numbers(field: str, values: Iterable[int], least: int, most: int) -> frozenset[int]:
    numbers = _items(field, values)
    for value in numbers:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            rule = f"must hold whole numbers from {least} to {most}"
            raise ValueError(f"Classifier: {field} {rule}, got {value!r}")
    return frozenset(map(int, numbers))


def _words(field: str, values: Iterable[str]) -> list[str]:
    words = _items(field, values)
    for value in words:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"Classifier: {field} must hold non-empty strings, got {value!r}")
    return words


def _grpc_codes(values: Iterable[Any] | str) -> frozenset[str]:
    """Names in any case, numbers, or members of ``grpc.StatusCode``; ``"wide"`` is the wider list."""
    if isinstance(values, str) and values == "wide":
        return known.GRPC_WIDE
    names = set()
    for value in _items("grpc_codes", values):
        name = getattr(value, "name", value)
        if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < len(known.GRPC_NAMES):
            name = known.GRPC_NAMES[name]
        if not isinstance(name, str) or name.upper() not in known.GRPC_NAMES[1:]:
            raise ValueError(f"Classifier: grpc_codes must hold names of gRPC error codes, got {value!r}")
        names.add(name.upper())
    return frozenset(names)
