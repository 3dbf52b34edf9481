"""Keeping the call's own error visible when a hook or a rule of the user's raises over it."""

from __future__ import annotations


def attach_context(fault: Exception, error: Exception | None) -> None:
    """Make ``error`` the context of ``fault``, unless it has one or is the same."""
    try:
        if fault is not error and fault.__context__ is None:
            fault.__context__ = error
    except Exception:
        # It refuses attributes.
        pass
