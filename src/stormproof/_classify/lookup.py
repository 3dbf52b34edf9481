"""Recognising failures without importing the libraries that raise them.

A type is recognised by the names in its method resolution order, once; then its row in
`known_faults.NAMES` is the answer, or names the function in `fault_readers` that reads one.
"""

from __future__ import annotations

from .known_faults import NAMES, KnownFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .known_faults import Row

_MAX_TYPES = 1024

_rows: dict[type, Row | None] = {}


def says_all(kind: type) -> bool:
    """Return True if the row of ``kind`` decides for every exception of it without attributes."""
    row = row_for(kind)
    return row is None or (isinstance(row, KnownFault) and row.look is None)


def row_for(kind: type) -> Row | None:
    """Return the row for ``kind`` or for the nearest of its bases that has one; kept per type."""
    try:
        return _rows[kind]
    except KeyError:
        pass
    row: Row | None = None
    for base in kind.__mro__:
        row = NAMES.get(str(base.__module__).partition(".")[0], {}).get(base.__qualname__)
        if row is not None:
            break
    if len(_rows) >= _MAX_TYPES:
        _rows.clear()
    _rows[kind] = row
    return row
