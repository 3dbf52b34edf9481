"""What a circuit breaker counts, what it says, and which clock it reads."""

from __future__ import annotations

import time
from abc import ABCMeta

from .. import wall_clock
from ..model import Probe, yes_no
from ..setups.breakers import BREAKERS, FAILURES, OPEN_FOR, Circuit, Pybreaker, Stormproof
from .breakers import LONG, Make


def _tripping(circuit: Circuit) -> str:
    mine = ConnectionError("down")

    @circuit.guard
    def down() -> None:
        raise mine

    raised: Exception | None = None
    for _ in range(FAILURES):
        try:
            down()
        except Exception as error:
            raised = error
    return "its own error" if raised is mine else type(raised).__name__


tripping_error = Probe(
    "tripping-error",
    "breaker",
    "The call that opens the breaker fails: what does its caller see, by default?",
    "its own error.",
    lambda seen: (seen, seen == "its own error"),
)
tripping_error.on(BREAKERS, lambda make: _tripping(make()))


@tripping_error.by("pybreaker")
def _tripping_pybreaker() -> str:
    without_new_error = _tripping(Pybreaker(throw_new_error_on_trip=False))
    return f"{_tripping(Pybreaker())} ({without_new_error} with `throw_new_error_on_trip=False`)"


class _Abstract(Exception, metaclass=ABCMeta):
    pass


def _excluding(circuit: Circuit) -> bool:
    def wrong() -> None:
        raise ValueError

    guarded = circuit.guard(wrong)
    for _ in range(FAILURES):
        try:
            guarded()
        except Exception:
            pass
    return not circuit.lets_in()


abstract_exclude = Probe(
    "abstract-exclude",
    "breaker",
    "An exception class made with `ABCMeta` is excluded; other errors come.",
    "the other errors still open it.",
    yes_no("opens", "never opens"),
)
abstract_exclude.ways["stormproof"] = lambda: _excluding(Stormproof(LONG, exclude=_Abstract))
abstract_exclude.ways["pybreaker"] = lambda: _excluding(Pybreaker(LONG, exclude=[_Abstract]))
abstract_exclude.lacks("circuitbreaker", "nopanic", why="no `exclude`")


def _clock_back(make: Make) -> bool:
    wall_clock.take_over()
    circuit = make()
    circuit.trip()
    wall_clock.move(-3600)
    time.sleep(OPEN_FOR + 0.2)
    return circuit.lets_in()


breaker_clock_back = Probe(
    "breaker-clock-back",
    "breaker",
    "The wall clock is set back one hour while the breaker is open.",
    "it lets a call try after its 0.3 s.",
    yes_no("tries in time", "still refuses"),
)
breaker_clock_back.on(BREAKERS, _clock_back)


def _told(make: Make) -> tuple[bool, bool]:
    """Whether the refusal tells the last failure, and how long it will last."""
    circuit = make(open_for=LONG)
    circuit.trip()
    try:
        circuit.guard(lambda: None)()
    except circuit.refusal as refusal:
        text = f"{refusal} {vars(refusal)} {refusal.__cause__!r}"
        return "ConnectionError('down')" in text, "retry_after" in text or "remaining" in text
    return False, False


def _judge_told(seen: tuple[bool, bool]) -> tuple[str, bool]:
    parts = [what for what, there in zip(("the last failure", "the time left"), seen, strict=True) if there]
    return " and ".join(parts) or "neither", all(seen)


refusal_says = Probe(
    "refusal-says",
    "breaker",
    "What the error of an open breaker contains.",
    "the last failure and the time left, in its text or attributes.",
    _judge_told,
)
refusal_says.on(BREAKERS, _told)

PROBES = [tripping_error, abstract_exclude, breaker_clock_back, refusal_says]
