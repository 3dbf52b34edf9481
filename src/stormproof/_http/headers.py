"""Header fields: a small case-insensitive list of pairs, and what is read from a response's."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


#: The characters of a header name.
TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def header_name(owner: str, field: str, value: object) -> str:
    """``value`` if it is a header name, else an error."""
    if not isinstance(value, str) or not value or not TOKEN.issuperset(value):
        raise ValueError(f"{owner}: {field} must be a header name, got {value!r}")
    return value


def header_set(owner: str, field: str, values: object) -> frozenset[str]:
    """``values``, a collection of header names, in lower case."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{owner}: {field} must be a collection of header names, got {values!r}")
    return frozenset(header_name(owner, field, name).lower() for name in values)


class Fields(MutableMapping[str, str]):
    """Header fields in order, names in any case. Setting one replaces every field of that name."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = list(pairs)

    def __getitem__(self, name: str) -> str:
        wanted = name.lower()
        values = [value for key, value in self.pairs if key.lower() == wanted]
        if not values:
            raise KeyError(name)
        return ", ".join(values)

    def __setitem__(self, name: str, value: str) -> None:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(
                f"headers: name and value must be strings, got {name!r} and a {type(value).__name__}"
            )
        if "\r" in value or "\n" in value or "\0" in value:
            raise ValueError(f"headers: the value of {name!r} must be one line")
        wanted = name.lower()
        places = [i for i, (key, _) in enumerate(self.pairs) if key.lower() == wanted]
        if not places:
            self.pairs.append((name, value))
            return
        self.pairs[places[0]] = (self.pairs[places[0]][0], value)
        for place in reversed(places[1:]):
            del self.pairs[place]

    def __delitem__(self, name: str) -> None:
        wanted = name.lower()
        rest = [pair for pair in self.pairs if pair[0].lower() != wanted]
        if len(rest) == len(self.pairs):
            raise KeyError(name)
        self.pairs = rest

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(key.lower() == name.lower() for key, _ in self.pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for key, _ in self.pairs))

    def __len__(self) -> int:
        return len({key.lower() for key, _ in self.pairs})

    def __repr__(self) -> str:
        # Values may be secrets.
        return f"<headers {', '.join(self)}>"


def both_kinds(names: Iterable[str]) -> frozenset[str | bytes]:
    """``names`` as text and as bytes, since libraries have header names of either kind."""
    return frozenset(kind for name in names for kind in (name, name.encode()))


def has_field(pairs: Iterable[tuple[str | bytes, str | bytes]], names: frozenset[str | bytes]) -> bool:
    """Return True if one of ``pairs`` has a name among ``names``, which are in lower case, and a value."""
    return any(value and name.lower() in names for name, value in pairs)


_LENGTH = both_kinds(["content-length"])


def announced(pairs: Iterable[tuple[str | bytes, str | bytes]]) -> int | None:
    """The Content-Length among raw pairs (str or bytes), ``None`` without one that can be believed."""
    for name, value in pairs:
        if len(name) == 14 and name.lower() in _LENGTH:
            return length_of(value)
    return None


def length_of(value: str | bytes) -> int | None:
    """A Content-Length's value; ``None`` for what cannot be believed."""
    # ASCII only: a header may hold a superscript two, which is a digit to Python and not a number.
    return int(value) if len(value) < 19 and value.isascii() and value.isdigit() else None


def text(value: object) -> str:
    """A header's name or value, which some libraries take as bytes too."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
