"""Code of the limiter without its lock cannot be interrupted.

With a GIL, a thread is switched only where the interpreter looks for it: at a call, at a function's
entry, and at a jump backwards. So the stretch from the first look at the bucket to the last change of
it must hold none of these. Read off the bytecode, because no stress test would find it for certain.
"""

from __future__ import annotations

import dis
import sys
from typing import Any

import pytest

from stormproof._strategies.limiter.limiter import Limiter

STATE = {"last", "last_event", "level"}
SWITCHES = ("CALL", "PRECALL", "JUMP_BACKWARD", "FOR_ITER", "SEND", "YIELD", "RESUME")

pytestmark = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="other interpreter: has a GIL"
)


def interruptions(function: Any) -> list[str]:
    """The instructions between the first look at the state and its last change that let others run."""
    steps = [step for step in dis.get_instructions(function) if step.opname != "CACHE"]
    reads = [n for n, step in enumerate(steps) if step.opname == "LOAD_ATTR" and step.argval in STATE]
    writes = [n for n, step in enumerate(steps) if step.opname == "STORE_ATTR" and step.argval in STATE]
    assert reads and writes, "no state here"
    return [step.opname for step in steps[reads[0] : writes[-1] + 1] if step.opname.startswith(SWITCHES)]


def test_allow_has_no_call_between_reading_and_writing() -> None:
    assert interruptions(Limiter.allow) == []


def test_interruptions_reports_a_planted_call() -> None:
    def bad(bucket: Any, now: Any) -> None:
        level = bucket.level
        bucket.last = now()
        bucket.level = level - 1

    assert "CALL" in interruptions(bad)
