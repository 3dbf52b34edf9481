"""What users call things, as events, errors and notes show it."""

from __future__ import annotations

from . import options
from .bus import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def label(owner: str, value: Any) -> str | None:
    """`options.label` with control characters escaped.

    Not for what processes share by its name: that stays as it was given, or it would be another's.
    """
    name = options.label(owner, value)
    return None if name is None else clean(name)
