"""Frames of the call stack, for code that depends on its caller."""

from __future__ import annotations

# The interpreter's own function: one of ours around it would be a frame more.
from sys import _getframe as frame_at

__all__ = ["frame_at"]
