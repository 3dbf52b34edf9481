"""KeyboardInterrupt wherever the interpreter may deliver it inside a limiter or a limit: no lock stays held.

A signal is handled when a call has returned and when a function is entered. So the operation is run
once for each such place, is struck there, and then another thread must be able to take the lock.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp

pytestmark = pytest.mark.proves("fault interrupts")


@functools.cache
def places(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions before which an interrupt may be made up for a signal.

    A signal that is handled as a call returns is raised by the call itself. Raising it at the next
    instruction comes to the same only where the same handler applies; elsewhere it would be a lie.
    """
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]

    def handler(offset: int) -> int | None:
        return next((entry.target for entry in table if entry.start <= offset < entry.end), None)

    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    return frozenset(
        after.offset
        for step, after in itertools.pairwise(steps)
        if step.opname.startswith(("CALL", "RESUME", "JUMP_BACKWARD"))
        and handler(step.offset) == handler(after.offset)
    )


class Strike:
    """Raises KeyboardInterrupt at the ``number``-th place of Stormproof's code that comes by."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if "/stormproof/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def is_free(owner: Any) -> bool:
    """Return True if another thread can take the lock."""
    taken: list[bool] = []

    def take() -> None:
        if owner._lock.acquire(blocking=False):
            owner._lock.release()
            taken.append(True)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(taken)


def failing() -> None:
    raise Boom


def under(owner: Any, fn: Callable[[], Any]) -> None:
    with contextlib.suppress(Boom, sp.StormproofError):
        sp.Policy(owner).call(fn)


def throttle() -> sp.Throttle:
    made = sp.Throttle(on=Boom)
    under(made, failing)
    return made


CASES: list[tuple[str, Callable[[], Any], Callable[[Any], Any]]] = [
    *[
        (f"{make.__name__} {what}", lambda make=make: make(1, 2), op)
        for make in (sp.Limiter, sp.Pacer)
        for what, op in [
            ("allows", lambda o: o.allow()),
            ("allows two", lambda o: o.allow(2)),
            ("refuses", lambda o: o.allow(3)),
            ("reserves", lambda o: o.reserve(2)),
            ("cancels", lambda o: o.reserve(2).cancel()),
            ("charges", lambda o: o.charge(2)),
            ("tokens", lambda o: o.tokens()),
            ("changes", lambda o: (o.set_rate(5), o.set_burst(5))),
        ]
    ],
    ("Throttle admits", throttle, lambda o: under(o, int)),
    ("Throttle fails", throttle, lambda o: under(o, failing)),
    ("AdaptiveLimit", lambda: sp.AdaptiveLimit(on=Boom), lambda o: under(o, failing)),
    ("AdaptiveRate", lambda: sp.AdaptiveRate(on=Boom), lambda o: under(o, failing)),
]


@pytest.mark.usefixtures("watchdog")
@pytest.mark.parametrize(("make", "op"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_interrupt_leaves_no_lock_held(make: Callable[[], Any], op: Callable[[Any], Any]) -> None:
    held: list[str] = []
    number = 0
    while True:
        number += 1
        owner, strike = make(), Strike(number)
        before = sys.gettrace()
        sys.settrace(strike)
        try:
            op(owner)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if strike.left > 0:
            break
        if not is_free(owner):
            held.append(strike.where)
    assert number > 1, "nothing was struck: this test looks at the wrong files"
    assert not held, f"still locked after an interrupt in {sorted(set(held))}"
