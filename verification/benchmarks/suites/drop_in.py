"""The drop-in for tenacity beside tenacity itself, in the same run."""

from __future__ import annotations

from functools import partial

from .. import contenders as c
from ..call_timing import Calls
from ..model import Bar, Case, Group


def _group(name: str, title: str, fn: c.Function, meter: Calls) -> Group:
    ours = partial(c.tenacity, fn, module="stormproof.compat.tenacity")
    return Group(
        name=name,
        title=title,
        baseline="tenacity",
        meter=meter,
        cases=(
            Case("tenacity", partial(c.tenacity, fn), needs="tenacity"),
            Case("stormproof.compat.tenacity", ours),
        ),
        bars=(Bar(f"{name}, against tenacity", "stormproof.compat.tenacity", 0.05),),
    )


GROUPS = [
    _group("drop-in, sync", "A call that succeeds, with the drop-in for tenacity", c.work, Calls()),
    _group(
        "drop-in, async",
        "An awaited call that succeeds, with the drop-in",
        c.work_async,
        Calls(is_async=True),
    ),
]
