"""Signals that reach ``stormproof run`` while no command runs."""

from __future__ import annotations

import signal

import pytest

from stormproof.cli import run

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="other platform: signals")


class Child:
    """A command that only notes what it is sent."""

    def __init__(self) -> None:
        self.received: list[int] = []

    def signal(self, number: int) -> None:
        self.received.append(number)


def session() -> run.Session:
    options = {"attempts": "4", "base": "1s", "cap": "1s", "jitter": "none"}
    options |= {"deadline": None, "timeout": None, "seed": None}
    return run.Session(["true"], on_exit=[], on_output=None, grace="1s", quiet=True, as_json=False, **options)


def test_signal_without_a_command_is_held_back_once() -> None:
    waiting = session()
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        waiting._signalled(number, None)
    assert waiting.held_back == [signal.SIGUSR1, signal.SIGUSR2]


def test_signal_with_a_command_goes_to_it_at_once() -> None:
    running = session()
    running.child = child = Child()  # type: ignore[assignment]
    running._signalled(signal.SIGUSR1, None)
    assert child.received == [signal.SIGUSR1]
    assert running.held_back == []


def test_stop_while_the_command_starts_is_held_back_for_it() -> None:
    starting = session()
    starting.starting = True
    starting._signalled(signal.SIGTSTP, None)
    assert starting.held_back == [signal.SIGTSTP]
