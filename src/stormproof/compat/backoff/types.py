"""The documented types: ``Details``, the dict every handler is given."""

from ._typing import Details

__all__ = ["Details"]
