"""A policy file's data, detached from the application it is for.

Tools that only look at a file must not import the modules it names (they may not be installed here, and
importing runs them), and have no business with the fleet's store.
"""

from __future__ import annotations

from .problem import Document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def detached(document: Document) -> Document:
    """``document`` with built-in classes only, and everything kept here instead of in a store."""
    if not isinstance(document.data, dict):
        return document
    data = {key: value for key, value in document.data.items() if key != "store"}
    return Document(_plain(data, None), document.file, document.lines)


def _plain(value: Any, key: object) -> Any:
    if isinstance(value, dict):
        kept = {inner: held for inner, held in value.items() if not (inner == "store" and held is True)}
        return {inner: _plain(held, inner) for inner, held in kept.items()}
    if isinstance(value, list):
        return [_plain(held, key) for held in value]
    if key in ("on", "exclude", "fault") and isinstance(value, str) and "." in value:
        # One that is no name at all stays, and is refused with its line.
        named = all(part.isidentifier() for part in value.split("."))
        return "ConnectionError" if named else value
    return value
