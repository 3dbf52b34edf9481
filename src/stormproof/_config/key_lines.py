"""Which line of a TOML or JSON text each key stands on.

The parsers of the standard library do not report it. This scanner walks a text that its parser has
accepted already, so it only has to find its way: strings, comments and brackets.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .errors import Path

_SPACE = " \t\r\n"
_BARE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"


#: Levels of tables and lists. Every key has its whole path noted: depth costs room and time by its square.
DEEPEST = 64


def in_toml(text: str) -> dict[Path, int]:
    """The line of every key and list item of valid TOML. RecursionError beyond `DEEPEST` levels."""
    scanner = _Toml(text)
    scanner.document()
    return scanner.lines


def in_json(text: str) -> tuple[dict[Path, int], tuple[Path, int] | None]:
    """The line of every key and list item of a valid JSON document, and the first key given twice.

    RecursionError beyond `DEEPEST` levels.
    """
    scanner = _Json(text)
    scanner.value(())
    return scanner.lines, scanner.twice


class _Scanner:
    """Base of both scanners: values in brackets, and the count of lines."""

    comment = ""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.twice: tuple[Path, int] | None = None
        self._counted = 0
        self._line = 1

    def line(self) -> int:
        """The line of the present place. Places only ever go forward, so each newline is counted once."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, letters: str = _SPACE) -> None:
        """Go past white space and comments."""
        while self.at < len(self.text):
            if self.text[self.at] in letters:
                self.at += 1
            elif self.comment and self.text[self.at] == self.comment:
                self.to_line_end()
            else:
                return

    def to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def note(self, path: Path, *, again: bool = False) -> None:
        """Remember where ``path`` stands; the first place counts, and a second one is noticed."""
        if len(path) > DEEPEST:
            raise RecursionError
        if path not in self.lines:
            self.lines[path] = self.line()
        elif not again and self.twice is None:
            self.twice = path, self.line()

    def value(self, path: Path) -> None:
        """Go past one value, remembering the keys inside it."""
        self.skip()
        first = self.peek()
        if first == "{":
            self.table(path)
        elif first == "[":
            self.items(path)
        elif first and first in "\"'":
            self.string()
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
                self.at += 1

    def table(self, path: Path) -> None:
        self.at += 1
        self.skip()
        while self.peek() != "}":
            start = self.at
            keys = self.keys()
            inner = (*path, *keys)
            self.mark(path, keys, start)
            self.value(inner)
            self.comma()
        self.at += 1

    def mark(self, path: Path, keys: list[str], start: int) -> None:
        """Remember each part of a dotted key."""
        end, self.at = self.at, start
        for length in range(1, len(keys) + 1):
            self.note((*path, *keys[:length]), again=length < len(keys))
        self.at = end

    def items(self, path: Path) -> None:
        self.at += 1
        self.skip()
        place = 0
        while self.peek() != "]":
            self.note((*path, place))
            self.value((*path, place))
            self.comma()
            place += 1
        self.at += 1

    def comma(self) -> None:
        self.skip()
        if self.peek() == ",":
            self.at += 1
            self.skip()

    def keys(self) -> list[str]:
        """A key with its dots, up to and including what separates it from the value."""
        parts: list[str] = []
        while True:
            self.skip()
            parts.append(self.key())
            self.skip()
            after = self.peek()
            self.at += 1
            if after != ".":
                return parts

    def key(self) -> str:
        if self.peek() in ('"', "'"):
            return self.string()
        start = self.at
        while self.peek() and self.peek() in _BARE:
            self.at += 1
        return self.text[start : self.at]

    def string(self) -> str:
        raise NotImplementedError


class _Json(_Scanner):
    def string(self) -> str:
        from json import JSONDecoder

        value, self.at = JSONDecoder().raw_decode(self.text, self.at)
        return str(value)


class _Toml(_Scanner):
    comment = "#"

    def document(self) -> None:
        base: Path = ()
        counts: dict[Path, int] = {}
        self.skip()
        while self.at < len(self.text):
            start = self.at
            if self.peek() == "[":
                base = self.header(counts)
            else:
                keys = self.keys()
                self.mark(base, keys, start)
                self.value((*base, *keys))
            self.skip()

    def header(self, counts: dict[Path, int]) -> Path:
        """``[a.b]`` or ``[[a.b]]``: the path that the keys below it belong to."""
        start = self.at
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        keys = self.keys()
        if double:
            self.at += 1
        path: Path = ()
        for place, key in enumerate(keys):
            path = (*path, key)
            self._note_at(path, start)
            last = place == len(keys) - 1
            if last and double:
                counts[path] = counts.get(path, -1) + 1
            if path in counts:
                path = (*path, counts[path])
                self._note_at(path, start)
        return path

    def _note_at(self, path: Path, start: int) -> None:
        end, self.at = self.at, start
        self.note(path, again=True)
        self.at = end

    def string(self) -> str:
        quote = self.text[self.at]
        triple = self.text.startswith(quote * 3, self.at)
        start = self.at
        self.at += 3 if triple else 1
        close = quote * 3 if triple else quote
        while not self.text.startswith(close, self.at):
            # Only double quotes know escapes.
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(close)
        # Up to two more quotes may stand right before the closing three.
        while triple and self.text.startswith(quote, self.at):
            self.at += 1
        return _read_string(self.text[start : self.at])


def _read_string(source: str) -> str:
    import tomllib

    value: object = tomllib.loads(f"k = {source}")["k"]
    return str(value)
