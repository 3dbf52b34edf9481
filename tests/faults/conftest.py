"""Faults put in on purpose: nothing may hang, leak or lie because of them."""

from tests.fleet.conftest import server
from tests.loops import watchdog

__all__ = ["server", "watchdog"]
