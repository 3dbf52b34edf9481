"""Faults put in on purpose: nothing may hang, leak or lie because of them."""

from tests.integration.fleet.conftest import server
from tests.support.loops import watchdog

__all__ = ["server", "watchdog"]
