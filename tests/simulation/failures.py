"""Errors that callees and hooks raise."""

from __future__ import annotations


class Boom(ConnectionError):
    """The failure that passes."""


class Slow(TimeoutError):
    """A timeout of the callee's own."""


class Bang(Exception):
    """The failure that nothing recognises."""


class Hooked(Exception):
    """A hook of the user's failed."""
