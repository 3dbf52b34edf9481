"""The documented types: ``Details``, the dict every handler is given."""

from holdfast.compat.backoff._typing import Details

__all__ = ["Details"]
