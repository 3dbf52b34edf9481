"""A policy file's data without its effects: no module is imported, no store is connected to.

Tools that only look at a file must not import the modules it names (they may not be installed here, and
importing runs them), and have no business with the fleet's store. Code that takes a text from elsewhere must
not let it do either.
"""

from __future__ import annotations

from .errors import Document, Spot, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def detached(document: Document, only: tuple[str, ...] | None = None) -> Document:
    """``document`` with nothing in it that imports a module or connects to a store.

    ``only=None`` puts a built-in class in the place of each that is named by its module, and leaves out
    what says that state is in a store. With ``only``, names by module that are allowed, nothing is
    replaced: any other such name, and any store, is a `ConfigError` at its place.
    """
    if not isinstance(document.data, dict):
        return document
    result = Document(_inside(document.root(), None, only), document.file, document.lines)
    result.variables = document.variables
    return result


def _inside(spot: Spot, key: object, only: tuple[str, ...] | None) -> Any:
    """The value at ``spot``, which stands under ``key``, or in a list that does."""
    value = spot.value
    if isinstance(value, dict):
        return {
            name: _inside(spot.at(name), name, only)
            for name in value
            if not _is_store(spot, name, refuse=only is not None)
        }
    if isinstance(value, list):
        return [_inside(spot.at(place), key, only) for place in range(len(value))]
    if key in ("on", "exclude", "fault") and isinstance(value, str) and "." in value:
        return _class(spot, value, only)
    return value


def _is_store(spot: Spot, key: Any, refuse: bool) -> bool:
    """Return True if ``key`` is the file's ``[store]``, or refers to it."""
    is_store = key == "store" and (not spot.path or str(spot.value[key]).lower() == "true")
    if is_store and refuse:
        raise spot.named(key).error("must not be given here, where nothing connects to a store")
    return is_store


def _class(spot: Spot, name: str, only: tuple[str, ...] | None) -> str:
    if only is None:
        # One that is not a name stays, and is refused with its line. A variable may hold several.
        words = [word.strip() for word in name.split(",")] if isinstance(name, Text) else [name]
        known = all(part.isidentifier() for word in words for part in word.split("."))
        return "ConnectionError" if known else name
    if name not in only:
        raise spot.error(
            f"must be a built-in exception here, or one of {', '.join(only)}: "
            f"nothing is imported, got {name!r}"
        )
    return name
