"""Frames of the call stack, for what depends on where it is called from."""

from __future__ import annotations

# The interpreter's own function: one of ours around it would be a frame more.
from sys import _getframe as frame_at

__all__ = ["frame_at"]
