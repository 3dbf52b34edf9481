"""What users call things, as events, errors and notes show it."""

from __future__ import annotations

from .bus import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def label(owner: str, value: Any) -> str | None:
    """``value`` if it is a non-empty string (control characters escaped) or None, else an error."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{owner}: name must be a non-empty string or None, got {value!r}")
    return clean(value)
