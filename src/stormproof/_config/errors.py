"""Errors in a policy file, with their place: file, line and key."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Where a value stands: keys of tables, and places in lists.
Path = tuple[str | int, ...]


class ConfigError(ValueError):
    """A policy file, a dict or an environment variable that does not describe policies.

    ``file``, ``line`` and ``key`` say where; each is ``None`` where it does not apply.
    """

    def __init__(
        self, message: str, file: str | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(message, file, line, key)
        self.message = message
        self.file = file
        self.line = line
        self.key = key

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f":{self.line}"
        return ": ".join(part for part in (where, self.key, self.message) if part)


class Text(str):
    """A value from the environment: text that may stand for a number or a list. ``variable`` is its name."""

    __slots__ = ("variable",)

    variable: str

    def __new__(cls, value: str, variable: str) -> Text:
        text = super().__new__(cls, value)
        text.variable = variable
        return text


class Document:
    """The data of one source, the line of every key in it, and which values the environment gave."""

    def __init__(self, data: Any, file: str | None = None, lines: dict[Path, int] | None = None) -> None:
        self.data = data
        self.file = file
        self.lines = lines or {}
        self.variables: dict[Path, str] = {}

    def root(self) -> Spot:
        return Spot(self, (), self.data)


class Spot:
    """A value in a document, and where it stands."""

    __slots__ = ("document", "path", "value")

    def __init__(self, document: Document, path: Path, value: Any) -> None:
        self.document = document
        self.path = path
        self.value = value

    def at(self, key: str | int) -> Spot:
        """The value at ``key`` of this table or list."""
        return Spot(self.document, (*self.path, key), self.value[key])

    def named(self, key: str | int) -> Spot:
        """Return the place where ``key`` stands, or would stand, for an error about it."""
        return Spot(self.document, (*self.path, key), None)

    def entries(self) -> list[tuple[str, Spot]]:
        """Return the entries of a table in order; an error unless it is a table whose keys are names."""
        if not isinstance(self.value, dict):
            raise self.error(f"must be a table, got {shown(self.value)}")
        for key in self.value:
            if not isinstance(key, str):
                raise self.error(f"keys must be strings, got {shown(key)}")
        return [(key, self.at(key)) for key in self.value]

    def error(self, message: str) -> ConfigError:
        """The error that says ``message`` about this place."""
        key = spelt(self.path) or None
        for length in range(len(self.path), 0, -1):
            variable = self.document.variables.get(self.path[:length])
            if variable is not None:
                return ConfigError(f"{variable}: {message}", key=key)
        return ConfigError(message, self.document.file, self.line, key)

    def unknown(self, key: str, what: str, known: Iterable[str]) -> ConfigError:
        """The error for a ``key`` of this table that does not exist."""
        return self.named(key).error(unknown(what, key, known))

    @property
    def line(self) -> int | None:
        """The line of this value's key, or of the nearest table around it that has one."""
        for length in range(len(self.path), 0, -1):
            if (line := self.document.lines.get(self.path[:length])) is not None:
                return line
        return None


def spelt(path: Path) -> str:
    """``path`` as it would be written: ``policies.search.strategies[0].retry``."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
            continue
        plain = key.replace("-", "").replace("_", "").replace("$", "")
        word = key if plain.isascii() and plain.isalnum() else '"' + key.replace('"', '\\"') + '"'
        text += f".{word}" if text else word
    return text


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that does not exist: the nearest that does, else all of them."""
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"unknown {what} {name!r}; did you mean {near[0]!r}?"
    listed = ", ".join(map(repr, names)) if names else "none"
    return f"unknown {what} {name!r}; known: {listed}"


def shown(value: object) -> str:
    """``value`` for an error message: short, and with the words of a file rather than Python's."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
