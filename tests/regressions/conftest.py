"""Bugs that other libraries had, and what their users asked for: one file each."""

from tests.support.loops import watchdog

__all__ = ["watchdog"]
