"""The documented types: ``Details``, the dict every handler is given, and ``ContextDetails`` of a block."""

from ._typing import ContextDetails, Details

__all__ = ["ContextDetails", "Details"]
