"""No test meets what another one left in the process: signals, operations, subscribers, budgets by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from weakref import WeakValueDictionary

import pytest

from stormproof._events import bus
from stormproof._events.operations import census
from stormproof._policy import policy


def pytest_configure() -> None:
    # A shell starts background jobs (`make test &`) with these two ignored. Children inherit that: one that
    # a test interrupts would never end. This runs in each xdist worker too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.name == "posix" and signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def own_process_state() -> Iterator[None]:
    """Give the test a census and named budgets of its own; fail it if it leaves a subscriber behind."""
    operations, policies = census._operations, census._policies
    named, blocks = policy._named_budgets._items, policy._block_budgets._items
    subscribers = bus.watchers[:], bus.first_try_subscribers[:]
    census._operations, census._policies = {}, []
    policy._named_budgets._items, policy._block_budgets._items = WeakValueDictionary(), {}
    yield
    census._operations, census._policies = operations, policies
    policy._named_budgets._items, policy._block_budgets._items = named, blocks
    left = [callback for callback in bus.watchers if callback not in subscribers[0]]
    bus.watchers[:], bus.first_try_subscribers[:] = subscribers
    assert not left, f"the test left subscribers behind: {left}"
