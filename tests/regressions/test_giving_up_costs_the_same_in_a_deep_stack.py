"""A call that gave up looked at every frame around it for other layers: under a web framework, with its
hundred frames, giving up cost several times what it costs in a small program.

Stormproof: the mark on the error knows when and in which task it was made, and looks at no frame.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.support.scripted import Boom, retry

import stormproof as sp


def _at_depth(depth: int, call: Callable[[], Any]) -> Any:
    return call() if depth == 0 else _at_depth(depth - 1, call)


def _instructions(call: Callable[[], Any]) -> int:
    """Return the number of Python instructions that ``call`` executes in functions of its own."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("options", [{"attempts": 1}, {"attempts": 3}], ids=["first", "third"])
def test_giving_up_takes_as_many_steps_at_any_depth(options: dict[str, Any]) -> None:
    policy = retry(backoff=sp.Constant(0), **options)

    @policy
    def fails() -> None:
        raise Boom

    def caught() -> None:
        with pytest.raises(Boom):
            fails()

    def measured() -> int:
        return _instructions(caught)

    for _ in range(3):
        measured()
    assert _at_depth(200, measured) == _at_depth(0, measured)
