"""The first lines of a policy's outermost wrapper: are policies off here, has the enclosing scope ended?"""

from __future__ import annotations

from .._context.deadlines import bypass

#: Names that these lines use in a template. ``_sp_ambient`` is a shared one: see `switch_off`.
GATE_NAMES = {"bypass": bypass}

GATE = """\
    if (_sp_around := _sp_ambient()) is not None and _sp_bypass():
        return {await_}_sp_bare({args})
"""
